package cluster_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/store"
)

// command is a repeatable command of about the given size that leaves the state
// as it is, so that the node is measured and not the growth of its state.
func command(bytes int) store.Command {
	return store.Command{Kind: store.KindCheckpoint, Checkpoint: &store.Checkpoint{
		Run: runID(1), Fence: 1, Data: make([]byte, bytes),
	}}
}

// percentile returns the p-th percentile in µs.
func percentile(took []time.Duration, p float64) float64 {
	slices.Sort(took)
	return float64(took[int(float64(len(took)-1)*p)]) / 1e3
}

func report(b *testing.B, took []time.Duration) {
	b.Helper()
	b.ReportMetric(percentile(took, 0.5), "p50-µs")
	b.ReportMetric(percentile(took, 0.99), "p99-µs")
}

// BenchmarkPropose_idle is one caller alone, beside raft itself with the same
// log: what is above raft's own time is what this package adds.
func BenchmarkPropose_idle(b *testing.B) {
	for _, dir := range []string{"memory", "folder"} {
		b.Run(dir+"/raft", func(b *testing.B) {
			r, closeAll := rawRaft(b, folder(b, dir))
			defer closeAll()
			data := make([]byte, 300)
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if err := r.Apply(data, 0).Error(); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			report(b, took)
		})
		b.Run(dir+"/node", func(b *testing.B) {
			n := open(b, cluster.Setup{Dir: folder(b, dir)})
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if _, err := n.Propose(b.Context(), command(256)); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			report(b, took)
			shutdown(b, n)
		})
	}
}

// BenchmarkPropose_callers is many callers at once; an op is a command.
func BenchmarkPropose_callers(b *testing.B) {
	for _, log := range []string{"memory", "segments", "bolt"} {
		for _, depth := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("%s/depth=%d", log, depth), func(b *testing.B) { benchmarkCallers(b, log, depth, 256) })
		}
	}
}

func benchmarkCallers(b *testing.B, log string, depth, callers int) {
	var entries atomic.Int64
	n := open(b, cluster.Setup{Dir: folder(b, log), Log: logKind(log), Depth: depth, Observe: cluster.Observe{
		Batch: func(int, int, time.Duration) { entries.Add(1) },
	}})
	took := make([][]time.Duration, callers)
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for c := range callers {
		wg.Go(func() {
			cmd := command(256)
			for left.Add(-1) >= 0 {
				began := time.Now()
				if _, err := n.Propose(b.Context(), cmd); err != nil {
					b.Error(err)
					return
				}
				took[c] = append(took[c], time.Since(began))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
	b.ReportMetric(float64(entries.Load())/b.Elapsed().Seconds(), "commits/s")
	report(b, slices.Concat(took...))
	shutdown(b, n)
}

// BenchmarkPropose_full is entries of 64 KiB, four callers of 200 commands each;
// an op is a command.
func BenchmarkPropose_full(b *testing.B) {
	for _, log := range []string{"memory", "segments", "bolt"} {
		for _, kind := range []string{"checkpoint", "enqueue"} {
			b.Run(log+"/"+kind, func(b *testing.B) { benchmarkFull(b, log, kind) })
		}
	}
}

func benchmarkFull(b *testing.B, log, kind string) {
	const callers, each = 4, 200
	var entries, bytes atomic.Int64
	n := open(b, cluster.Setup{Dir: folder(b, log), Log: logKind(log), MaxUnflushed: 1 << 30, Observe: cluster.Observe{
		Batch: func(_, size int, _ time.Duration) { entries.Add(1); bytes.Add(int64(size)) },
	}})
	session(b, n)
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for {
				to := int(left.Add(-each)) + each
				if to <= 0 {
					return
				}
				cmds := make([]store.Command, min(to, each))
				for i := range cmds {
					cmds[i] = command(256)
					if kind == "enqueue" {
						cmds[i] = enqueue(to-i, 256)
					}
				}
				if _, err := n.ProposeMany(b.Context(), cmds); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
	b.ReportMetric(float64(entries.Load())/b.Elapsed().Seconds(), "commits/s")
	b.ReportMetric(float64(bytes.Load())/float64(max(entries.Load(), 1)), "B/commit")
	shutdown(b, n)
	runtime.GC()
}

// BenchmarkStart is from Open to a leader that takes calls.
func BenchmarkStart(b *testing.B) {
	b.Run("empty", func(b *testing.B) {
		for b.Loop() {
			n := open(b, cluster.Setup{Dir: b.TempDir()})
			b.StopTimer()
			shutdown(b, n)
			b.StartTimer()
		}
	})
	b.Run("restart", func(b *testing.B) {
		cfg := cluster.Setup{Dir: b.TempDir()}
		n := open(b, cfg)
		session(b, n)
		for i := range 10_000 / 100 {
			cmds := make([]store.Command, 100)
			for j := range cmds {
				cmds[j] = enqueue(i*100+j, 256)
			}
			if _, err := n.ProposeMany(b.Context(), cmds); err != nil {
				b.Fatal(err)
			}
		}
		shutdown(b, n)
		for b.Loop() {
			n := open(b, cfg)
			b.StopTimer()
			shutdown(b, n)
			b.StartTimer()
		}
	})
}

func folder(b *testing.B, kind string) string {
	b.Helper()
	if kind == "memory" {
		return ""
	}
	return b.TempDir()
}

func logKind(log string) cluster.LogKind {
	if log == "bolt" {
		return cluster.LogBolt
	}
	return cluster.LogSegments
}

// nothing is a state machine that does nothing.
type nothing struct{ raft.FSM }

func (nothing) Apply(*raft.Log) any { return nil }

// rawRaft is raft as a node uses it, without the node.
func rawRaft(b *testing.B, dir string) (*raft.Raft, func()) {
	b.Helper()
	log := cluster.NewMemLog()
	if dir != "" {
		var err error
		if log, err = cluster.OpenLog(dir, cluster.LogSegments); err != nil {
			b.Fatal(err)
		}
	}
	conf := raft.DefaultConfig()
	conf.LocalID, conf.Logger, conf.NoLegacyTelemetry = "one", hclog.NewNullLogger(), true
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	_, trans := raft.NewInmemTransport("one")
	snaps := raft.NewInmemSnapshotStore()
	servers := raft.Configuration{Servers: []raft.Server{{ID: "one", Address: "one"}}}
	if err := raft.BootstrapCluster(conf, log, log, snaps, trans, servers); err != nil {
		b.Fatal(err)
	}
	r, err := raft.NewRaft(conf, nothing{}, log, log, snaps, trans)
	if err != nil {
		b.Fatal(err)
	}
	for leads := range r.LeaderCh() {
		if leads {
			break
		}
	}
	return r, func() {
		if err := r.Shutdown().Error(); err != nil {
			b.Error(err)
		}
		log.Close()
	}
}
