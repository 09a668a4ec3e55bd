package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/worker"
)

// BenchmarkPool measures the pool alone: assignments in batches of the size given, within its capacity, of a handler
// that does nothing, until their reports are acked.
func BenchmarkPool(b *testing.B) {
	handlers := handlers{
		"none":  ok,
		"waits": func(ctx context.Context, _ *worker.Execution) ([]byte, error) { return nil, waitNot(ctx) },
	}
	for _, batch := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("noop/batch=%d", batch), func(b *testing.B) { benchmark(b, handlers, "none", batch, 0) })
	}
	b.Run("timeout/batch=64", func(b *testing.B) { benchmark(b, handlers, "none", 64, time.Minute) })
	b.Run("timeout,done/batch=64", func(b *testing.B) { benchmark(b, handlers, "waits", 64, time.Minute) })
}

// waitNot looks at its context as a handler would that waits for something.
func waitNot(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	default:
		return nil
	}
}

func benchmark(b *testing.B, hs handlers, task string, batch int, timeout time.Duration) {
	const window = 4096 // assignments held at a time
	acked := make(chan int, window)
	p, err := worker.New(worker.Config{
		Slots: 8, Handlers: hs,
		Report:     func(_ context.Context, r []store.Report) error { acked <- len(r); return nil },
		Checkpoint: func(context.Context, store.Checkpoint) error { return nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	stopped := make(chan error)
	go func() { stopped <- p.Run(b.Context()) }() // awaited below
	run := &store.Run{ID: store.NewRunID(time.Now(), [10]byte{}), Spec: &store.Spec{Task: task, Timeout: int64(timeout)}}
	as := make([]worker.Assignment, batch)
	b.ReportAllocs()
	held, fence := 0, uint64(0)
	for n := 0; b.Loop(); n++ {
		if n%batch != 0 {
			continue
		}
		for i := range as {
			fence++
			as[i] = worker.Assignment{Run: run, Fence: fence}
		}
		for held+batch > window {
			held -= <-acked
		}
		p.Assign(as)
		held += batch
	}
	for held > 0 {
		held -= <-acked
	}
	b.StopTimer()
	if err := p.Drain(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := <-stopped; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
}

// BenchmarkPool_lateness measures how long after its due time a handler is called, on a pool that is otherwise idle: one
// run at a time, and sixteen that are due at the same moment.
func BenchmarkPool_lateness(b *testing.B) {
	for _, n := range []int{1, 16} {
		b.Run(fmt.Sprintf("at once=%d", n), func(b *testing.B) {
			late := make(chan time.Duration, n) // all that are out
			p, err := worker.New(worker.Config{
				Slots: 16, Handlers: handlers{"ok": ok},
				Report:     func(context.Context, []store.Report) error { return nil },
				Checkpoint: func(context.Context, store.Checkpoint) error { return nil },
				Observer:   worker.Observer{Started: func(_ *store.Run, d time.Duration) { late <- d }},
			})
			if err != nil {
				b.Fatal(err)
			}
			stopped := make(chan error)
			go func() { stopped <- p.Run(b.Context()) }() // awaited below
			run := &store.Run{ID: store.NewRunID(time.Now(), [10]byte{}), Spec: &store.Spec{Task: "ok", Priority: store.Critical}}
			as := make([]worker.Assignment, n)
			var all []time.Duration
			fence := uint64(0)
			for b.Loop() {
				in := 2*time.Millisecond + rand.N(2*time.Millisecond)
				for i := range as {
					fence++
					as[i] = worker.Assignment{Run: run, Fence: fence, In: in}
				}
				p.Assign(as)
				for range as {
					all = append(all, <-late)
				}
			}
			b.StopTimer()
			if err := errors.Join(p.Drain(b.Context()), <-stopped); err != nil {
				b.Fatal(err)
			}
			slices.Sort(all)
			at := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))].Nanoseconds()) / 1000 }
			b.ReportMetric(at(0.50), "p50-µs-late")
			b.ReportMetric(at(0.99), "p99-µs-late")
			b.ReportMetric(0, "ns/op")
		})
	}
}
