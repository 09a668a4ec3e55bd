package session_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/internal/session"
	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/worker"
)

// pair is a pool that is attached to a dispatcher that does nothing by itself, over TCP of this machine.
type pair struct {
	attached chan dispatch.Worker
}

func (p *pair) Attach(_ uint64, w dispatch.Worker, _ []string, _ int) { p.attached <- w }
func (p *pair) Detach(uint64)                                         {}
func (p *pair) Retire(uint64)                                         {}
func (p *pair) SetCapacity(uint64, int, int)                          {}

// newPair returns the worker as the dispatcher sees it. started is called for each attempt.
func newPair(b *testing.B, started func(run *store.Run), reported func(n int)) (dispatch.Worker, *worker.Pool) {
	b.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	st := store.NewState()
	st.Apply(1, 1, &store.Batch{Level: store.FormatLevel, Wall: 1, Elapsed: 1, Commands: []store.Command{
		{Kind: store.KindOpenSession, Open: &store.OpenSession{Node: "n"}},
	}})
	p := &pair{attached: make(chan dispatch.Worker, 1)}
	server := session.NewServer(session.ServerConfig{
		Dispatcher: p, Term: func() uint64 { return 1 }, View: func(look func(*store.State)) { look(st) },
		Settle: func(context.Context) error { return nil },
	})
	lis, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	pool, err := worker.New(worker.Config{
		Slots:    64,
		Handlers: map[string]worker.Handler{"work": func(context.Context, *worker.Execution) ([]byte, error) { return nil, nil }},
		Report: func(_ context.Context, reports []store.Report) error {
			reported(len(reports))
			return nil
		},
		Checkpoint: func(context.Context, store.Checkpoint) error { return nil },
		Observer:   worker.Observer{Started: func(run *store.Run, _ time.Duration) { started(run) }},
	})
	if err != nil {
		b.Fatal(err)
	}
	client := session.NewClient(session.ClientConfig{
		Pool: pool, Session: func() uint64 { return 1 }, Slots: 64,
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", lis.Addr().String())
		},
	})
	var own sync.WaitGroup
	own.Go(func() { _ = pool.Run(ctx) })
	own.Go(func() { client.Keep(ctx) })
	own.Go(func() {
		conn, err := lis.Accept()
		if err == nil {
			_ = server.Serve(ctx, conn)
		}
	})
	b.Cleanup(func() {
		stop()
		_ = lis.Close()
		own.Wait()
	})
	return <-p.attached, pool
}

func benchRun(n int, spec *store.Spec, in time.Duration) *store.Run {
	id := store.NewRunID(time.Unix(0, int64(n)), [10]byte{9: byte(n), 8: byte(n >> 8), 7: byte(n >> 16)})
	return &store.Run{
		ID: id, Spec: spec, Input: make([]byte, 100), State: store.Running, Due: time.Now().Add(in).UnixNano(),
		Fence: uint64(n + 1), Session: 1, Attempt: 1,
	}
}

// Runs a second from Assign of the leader to the report of the worker.
func BenchmarkAssign(b *testing.B) {
	const batch = 256
	done := make(chan int, 1<<16) // batches of reports; a report each at worst
	w, _ := newPair(b, func(*store.Run) {}, func(n int) { done <- n })
	spec := &store.Spec{Task: "work", Queue: "default", Priority: store.Normal}
	n, out := 0, 0
	b.ReportAllocs()
	for b.Loop() {
		grants := make([]dispatch.Grant, batch)
		for i := range grants {
			grants[i].Run = benchRun(n, spec, 0)
			n++
		}
		w.Assign(grants)
		out += batch
		for out > 8*batch {
			out -= <-done
		}
	}
	for out > 0 {
		out -= <-done
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "runs/s")
}

// How late attempts start that are assigned 50 ms ahead, one every millisecond or so, by the clock that both ends share
// here: through a session, and to the same pool directly, for comparison.
func BenchmarkLateness(b *testing.B) {
	b.Run("session", func(b *testing.B) {
		benchLateness(b, func(w dispatch.Worker, _ *worker.Pool) dispatch.Worker { return w })
	})
	b.Run("direct", func(b *testing.B) {
		benchLateness(b, func(_ dispatch.Worker, p *worker.Pool) dispatch.Worker { return direct{p} })
	})
}

// direct is a pool as its own node's dispatcher sees it.
type direct struct{ *worker.Pool }

func (d direct) Assign(grants []dispatch.Grant) {
	for _, g := range grants {
		d.Pool.Assign([]worker.Assignment{{Run: g.Run, Fence: g.Run.Fence, In: g.In}})
	}
}
func (d direct) Cancel(*store.Run, uint64) {}

func benchLateness(b *testing.B, choose func(dispatch.Worker, *worker.Pool) dispatch.Worker) {
	const ahead = 50 * time.Millisecond
	var late []time.Duration
	var mu sync.Mutex // guards late
	var out sync.WaitGroup
	w := choose(newPair(b, func(run *store.Run) {
		d := time.Duration(time.Now().UnixNano() - run.Due)
		mu.Lock()
		defer mu.Unlock()
		late = append(late, d)
		out.Done()
	}, func(int) {}))
	spec := &store.Spec{Task: "work", Queue: "default", Priority: store.Normal}
	n := 0
	for b.Loop() {
		out.Add(1)
		w.Assign([]dispatch.Grant{{Run: benchRun(n, spec, ahead), In: ahead}})
		n++
		time.Sleep(time.Millisecond)
	}
	out.Wait()
	slices.Sort(late)
	b.ReportMetric(float64(late[0].Microseconds()), "min-µs")
	b.ReportMetric(float64(late[len(late)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(late[len(late)*99/100].Microseconds()), "p99-µs")
}
