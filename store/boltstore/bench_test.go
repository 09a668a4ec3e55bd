package boltstore_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/store/boltstore"
)

var benchSpec = &store.Spec{
	Task: "email.send", Queue: "default", Tenant: "acme", Priority: store.Normal,
	Retry: store.Retry{Initial: 1e9, Max: 3600e9, Factor: 2, Jitter: 0.2, Attempts: 25},
}

func benchID(n uint64) store.RunID {
	var entropy [10]byte
	binary.BigEndian.PutUint64(entropy[2:], n)
	return store.NewRunID(time.UnixMilli(1_780_000_000_000+int64(n/100)), entropy)
}

// benchRun makes a run whose row has about 400 bytes if input has 100.
func benchRun(n uint64, spec *store.Spec, input []byte, final bool) *store.Run {
	now := int64(1_780_000_000_000_000_000)
	r := &store.Run{ID: benchID(n), Spec: spec, Input: input, Due: now, Created: now}
	if final {
		r.State, r.Started, r.Finished, r.Fence, r.Session, r.Attempt = store.Succeeded, now, now, n, 1, 1
		r.More = &store.RunMore{Result: make([]byte, 100)}
	}
	return r
}

func sharedSpec(tb testing.TB) *store.Spec {
	tb.Helper()
	spec, err := new(store.Specs).Intern(benchSpec.Encode())
	if err != nil {
		tb.Fatal(err)
	}
	return spec
}

func emptyFlush(index uint64) *store.Flush {
	return &store.Flush{Meta: store.Meta{Format: 1, Level: 1, Index: index}}
}

func addLive(f *store.Flush, r *store.Run) {
	f.Runs = append(f.Runs, store.ChangedRun{ID: r.ID, Run: r})
}

func addFinal(f *store.Flush, r *store.Run, wasLive bool) {
	at := store.SegmentKey{Time: uint32(r.ID.Time().UnixMilli() / 3_600_000)}
	f.Runs = append(f.Runs, store.ChangedRun{ID: r.ID, Run: r, Final: true, Segment: at, Gone: wasLive})
}

// BenchmarkStore_Commit writes flushes of 10,000 runs, each in one transaction
// with its fsyncs. CPU time counts the whole process: the garbage collector too.
func BenchmarkStore_Commit(b *testing.B) {
	const rows = 10_000
	for _, c := range []struct {
		name         string
		final, alive bool
	}{{"final", true, false}, {"live", false, false}, {"live_then_final", true, true}} {
		b.Run(c.name, func(b *testing.B) {
			s := openBench(b, b.TempDir())
			spec, input := sharedSpec(b), make([]byte, 100)
			index, n := uint64(0), uint64(0)
			var bytes int64
			var cpu time.Duration
			for b.Loop() {
				b.StopTimer()
				live, f := emptyFlush(index+1), emptyFlush(index+2)
				index += 2
				for range rows {
					n++
					if c.alive {
						addLive(live, benchRun(n, spec, input, false))
					}
					r := benchRun(n, spec, input, c.final)
					if c.final {
						addFinal(f, r, c.alive)
					} else {
						addLive(f, r)
					}
				}
				if bytes == 0 {
					row, _ := benchRun(n, spec, input, c.final).MarshalMsg(nil)
					bytes = int64(len(row))
				}
				if c.alive {
					mustCommit(b, s, live)
				}
				runtime.GC()
				b.StartTimer()
				before := cpuTime()
				mustCommit(b, s, f)
				cpu += cpuTime() - before
			}
			perOp := b.Elapsed() / time.Duration(b.N)
			b.ReportMetric(rows/perOp.Seconds(), "rows/s")
			b.ReportMetric(float64(cpu)/float64(b.N)/rows, "cpu-ns/row")
			b.ReportMetric(float64(bytes), "B/row")
		})
	}
}

// BenchmarkStore_Image loads a state of live runs with inputs of 100 bytes.
func BenchmarkStore_Image(b *testing.B) {
	for _, runs := range []uint64{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(runs), func(b *testing.B) {
			if testing.Short() && runs > 1000 {
				b.Skip("it takes a while")
			}
			dir := b.TempDir()
			fillLive(b, dir, runs)
			var opened, cpu time.Duration
			var heap uint64
			for b.Loop() {
				began, before := time.Now(), cpuTime()
				s := openBench(b, dir)
				opened += time.Since(began)
				img, err := s.Image()
				if err != nil {
					b.Fatal(err)
				}
				state := store.NewState()
				if err := state.Load(img); err != nil {
					b.Fatal(err)
				}
				cpu += cpuTime() - before
				b.StopTimer()
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				heap = m.HeapAlloc
				if state.Live() != int(runs) {
					b.Fatalf("%d runs, want %d", state.Live(), runs)
				}
				_ = s.Close()
				b.StartTimer()
			}
			b.ReportMetric(float64(opened.Milliseconds())/float64(b.N), "open-ms")
			b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N)/float64(runs), "cpu-ns/run")
			b.ReportMetric(float64(heap)/float64(runs), "heap-B/run")
		})
	}
}

// BenchmarkOpen opens a state with a long history: it reads the whole file.
func BenchmarkOpen(b *testing.B) {
	for _, rows := range []uint64{10_000, 1_000_000} {
		b.Run(fmt.Sprint("history=", rows), func(b *testing.B) {
			if testing.Short() && rows > 10_000 {
				b.Skip("it takes a while")
			}
			dir := b.TempDir()
			s := openBench(b, dir)
			spec := sharedSpec(b)
			for n := uint64(0); n < rows; {
				f := emptyFlush(n + 1)
				for range 10_000 {
					n++
					r := benchRun(n, spec, make([]byte, 100), true)
					addFinal(f, r, false)
				}
				mustCommit(b, s, f)
			}
			size := s.Stats().Bytes
			_ = s.Close()
			var cpu time.Duration
			for b.Loop() {
				before := cpuTime()
				_ = openBench(b, dir).Close()
				cpu += cpuTime() - before
			}
			b.ReportMetric(float64(size)/(1<<20), "MiB")
			b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}

func fillLive(b *testing.B, dir string, runs uint64) {
	b.Helper()
	s := openBench(b, dir)
	spec := sharedSpec(b)
	for n := uint64(0); n < runs; {
		f := emptyFlush(n + 1)
		for range min(runs-n, 50_000) {
			n++
			addLive(f, benchRun(n, spec, make([]byte, 100), false))
		}
		mustCommit(b, s, f)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

func openBench(b *testing.B, dir string) *boltstore.Store {
	b.Helper()
	s, err := boltstore.Open(dir, boltstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func mustCommit(b *testing.B, s *boltstore.Store, f *store.Flush) {
	b.Helper()
	if err := s.Commit(f, nil); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkStore_Commit_scattered writes flushes of 1,000 final runs whose IDs lie
// anywhere among those of 200,000 older ones, as those of delayed runs do.
func BenchmarkStore_Commit_scattered(b *testing.B) {
	const old, rows = 200_000, 1_000
	s := openBench(b, b.TempDir())
	spec, input := sharedSpec(b), make([]byte, 100)
	for n := uint64(0); n < old; {
		f := emptyFlush(n + 1)
		for range 20_000 {
			n++
			addFinal(f, benchRun(n<<20, spec, input, true), false)
		}
		mustCommit(b, s, f)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	index := uint64(old)
	var cpu time.Duration
	for b.Loop() {
		b.StopTimer()
		index++
		f := emptyFlush(index)
		for range rows {
			addFinal(f, benchRun(rng.Uint64N(old<<20), spec, input, true), false)
		}
		b.StartTimer()
		before := cpuTime()
		mustCommit(b, s, f)
		cpu += cpuTime() - before
	}
	b.ReportMetric(float64(cpu)/float64(b.N)/rows, "cpu-ns/row")
	b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
