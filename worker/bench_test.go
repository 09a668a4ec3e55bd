package worker_test

import (
	"context"
	"fmt"
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
