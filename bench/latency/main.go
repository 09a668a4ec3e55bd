// Command latency measures how long a single call takes on an idle durable node, beside one append to the raw Raft log of
// equal bytes, and how long it is from a call until its handler starts.
//
//	go run ./latency [-n calls] [-rate runs/s] [-d time]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/bench/internal/conditions"
	"github.com/escapement-go/scheduler/bench/internal/meter"
	"github.com/escapement-go/scheduler/bench/internal/program"
	"github.com/escapement-go/scheduler/bench/internal/rawlog"
	"github.com/escapement-go/scheduler/bench/internal/spread"
)

var (
	number = flag.Int("n", 0, "single calls on an idle node (default 500)")
	gap    = flag.Duration("gap", 5*time.Millisecond, "pause before each of them, in which the last run ends")
	rate   = flag.Int("rate", 100, "runs a second while starts are measured")
	length = flag.Duration("d", 0, "for how long (default 10s)")
)

// A ping is 256 bytes as JSON.
type ping struct {
	N   int    `json:"n"`
	Pad string `json:"p"`
}

var (
	task = scheduler.NewJob[ping]("ping")
	pad  = strings.Repeat("x", 240)
)

// starts are when handlers started, by number.
type starts struct {
	mu sync.Mutex // guards at
	at []time.Time
}

func (s *starts) reset(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = make([]time.Time, n)
}

func (s *starts) started(_ context.Context, in ping) error {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.N < len(s.at) {
		s.at[in.N] = now
	}
	return nil
}

func main() { program.Main(run) }

func run(ctx context.Context, p *program.Program) error {
	dir, err := p.Folder("raw")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	raw, err := rawlog.Open(dir, program.Nodes())
	if err != nil {
		return err
	}
	defer raw.Close()
	m, began := meter.New(meter.EntryBytes), new(starts)
	return p.Node(ctx, func(s *scheduler.Scheduler) error {
		if err := idle(ctx, p, s, raw, m); err != nil {
			return err
		}
		return paced(ctx, p, s, began)
	}, scheduler.WithFunc(task, began.started), scheduler.WithMeterProvider(m))
}

// idle makes calls one at a time, each followed by an append to the raw log: both meet the same moods of the disk.
func idle(ctx context.Context, p *program.Program, s *scheduler.Scheduler, raw *rawlog.Log, m *meter.Meter) error {
	n := *number
	if n == 0 {
		n = program.Pick(p, 500, 50)
	}
	const warm = 20
	var bytes int
	watch := conditions.Begin()
	called, appended := make([]time.Duration, 0, n), make([]time.Duration, 0, n)
	for i := range warm + n {
		if err := program.Pause(ctx, *gap); err != nil {
			return err
		}
		began := time.Now()
		if _, err := task.Enqueue(ctx, s, ping{1 << 20, pad}); err != nil {
			return err
		}
		call := time.Since(began)
		if i == warm-1 { // the largest entry is the one with the input
			bytes = int(slices.Max(m.Take(meter.EntryBytes)))
		}
		if err := program.Pause(ctx, *gap); err != nil {
			return err
		}
		data := make([]byte, max(bytes, 1))
		began = time.Now()
		if err := raw.Append(data); err != nil {
			return err
		}
		if i >= warm {
			called, appended = append(called, call), append(appended, time.Since(began))
		}
	}
	a, b := spread.Of(called), spread.Of(appended)
	fmt.Printf("\nsingle calls on an idle node\n  Enqueue:        %v\n  raw log append: %v, %d B\n  ratio at p50 %.2f, at p99 %.2f; %v\n",
		a, b, bytes, float64(a.At(50))/float64(b.At(50)), float64(a.At(99))/float64(b.At(99)), watch)
	return nil
}

// paced makes calls at a steady rate, from goroutines of their own so that a slow one does not hold up the next.
func paced(ctx context.Context, p *program.Program, s *scheduler.Scheduler, handlers *starts) error {
	d := *length
	if d == 0 {
		d = program.Pick(p, 10*time.Second, time.Second)
	}
	n := int(d.Seconds() * float64(*rate))
	handlers.reset(n)
	called, returned := make([]time.Time, n), make([]time.Time, n)
	faults := make([]error, n)
	var wg sync.WaitGroup
	watch := conditions.Begin()
	first := time.Now()
	for i := range n {
		if err := program.Pause(ctx, time.Until(first.Add(time.Duration(i)*time.Second/time.Duration(*rate)))); err != nil {
			return err
		}
		wg.Go(func() {
			called[i] = time.Now()
			_, faults[i] = task.Enqueue(ctx, s, ping{i, pad})
			returned[i] = time.Now()
		})
	}
	wg.Wait()
	if _, err := program.Finished(ctx, s); err != nil {
		return err
	}
	handlers.mu.Lock()
	defer handlers.mu.Unlock()
	var toStart, toReturn []time.Duration
	for i, at := range handlers.at {
		if faults[i] != nil {
			return faults[i]
		}
		if at.IsZero() {
			return fmt.Errorf("run %d of %d has ended without a start", i, n)
		}
		toStart, toReturn = append(toStart, at.Sub(called[i])), append(toReturn, returned[i].Sub(called[i]))
	}
	fmt.Printf("\n%d runs/s for %v, %v\n  Enqueue → handler start: %v\n  Enqueue → return:        %v\n",
		*rate, d, watch, spread.Of(toStart), spread.Of(toReturn))
	return nil
}
