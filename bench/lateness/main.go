// Command lateness measures how late runs start that have a time: by their handler's own clock, on a durable node, beside
// time.AfterFunc in the same process.
//
//	go run ./lateness [-modes afterfunc,at,stream,every,burst] [-d time] [-rate runs/s] [-burst runs]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/bench/internal/conditions"
	"github.com/escapement-go/scheduler/bench/internal/program"
	"github.com/escapement-go/scheduler/bench/internal/spread"
)

var (
	modes  = flag.String("modes", "afterfunc,at,stream,every,burst", "what to measure, and in which order")
	length = flag.Duration("d", 0, "how long a steady mode lasts (default 30s)")
	rate   = flag.Int("rate", 1000, "runs a second of the steady modes")
	burst  = flag.Int("burst", 0, "runs that are due at one instant (default 10,000)")
	slots  = flag.Int("slots", 0, "handlers at a time (default: the scheduler's)")
)

var task = scheduler.NewJob[int]("timed")

func main() { program.Main(run) }

func run(ctx context.Context, p *program.Program) error {
	if *length == 0 {
		*length = program.Pick(p, 30*time.Second, 2*time.Second)
	}
	if *burst == 0 {
		*burst = program.Pick(p, 10_000, 1000)
	}
	for mode := range strings.SplitSeq(*modes, ",") {
		do, known := map[string]func(context.Context, *program.Program) error{
			"afterfunc": afterFunc, "at": at, "stream": stream, "every": every, "burst": together,
		}[mode]
		if !known {
			return fmt.Errorf("no mode %q", mode)
		}
		watch := conditions.Begin()
		if err := do(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", mode, err)
		}
		fmt.Printf("  %v\n", watch)
	}
	return nil
}

// record is the lateness of each start.
type record struct {
	total atomic.Int64

	mu   sync.Mutex // guards all below
	late []time.Duration
	ran  []nominal
}

// A nominal is a start that is judged later.
type nominal struct {
	id      scheduler.RunID
	at, due time.Time
}

func (r *record) add(late time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = append(r.late, late)
	r.total.Add(1)
}

// handler notes the lateness by the wall clock: no monotonic reading, since due times have none.
func (r *record) handler(ctx context.Context, _ int) error {
	now := time.Now().Round(0)
	r.add(now.Sub(scheduler.Current(ctx).ScheduledAt()))
	return nil
}

func (r *record) print(title string, want int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := spread.Of(r.late)
	fmt.Printf("\n%s\n  lateness: %v, early %d\n    first %s, p1 %s, p10 %s, p25 %s, p75 %s ms\n", title, s, s.Below(0),
		spread.Ms(s.At(0)), spread.Ms(s.At(1)), spread.Ms(s.At(10)), spread.Ms(s.At(25)), spread.Ms(s.At(75)))
	if len(s) != want {
		return fmt.Errorf("%d starts, want %d", len(s), want)
	}
	return nil
}

// dueTimes are a steady rate with a random place within each step, for timers differ in how they round.
func dueTimes(first time.Time) []time.Time {
	random := rand.New(rand.NewPCG(1, 2))
	step := time.Second / time.Duration(*rate)
	times := make([]time.Time, int(length.Seconds()*float64(*rate)))
	for i := range times {
		times[i] = first.Add(time.Duration(i)*step + time.Duration(random.Int64N(int64(step))))
	}
	return times
}

// lead is how far ahead of the first due time the enqueueing begins.
func lead(n int) time.Duration { return 3*time.Second + time.Duration(n)*100*time.Microsecond }

func afterFunc(ctx context.Context, _ *program.Program) error {
	var r record
	times := dueTimes(time.Now().Add(time.Second).Round(0))
	for _, due := range times {
		time.AfterFunc(time.Until(due), func() { r.add(time.Now().Round(0).Sub(due)) })
	}
	if err := program.Pause(ctx, time.Until(times[len(times)-1].Add(time.Second))); err != nil {
		return err
	}
	return r.print(fmt.Sprintf("time.AfterFunc: %d a second for %v", *rate, *length), len(times))
}

func node(ctx context.Context, p *program.Program, r *record, do func(*scheduler.Scheduler) error) error {
	opts := []scheduler.Option{scheduler.WithFunc(task, r.handler)}
	if *slots > 0 {
		opts = append(opts, scheduler.WithConcurrency(*slots))
	}
	return p.Node(ctx, do, opts...)
}

// enqueue asks for a run at each of the times, in bulk.
func enqueue(ctx context.Context, s *scheduler.Scheduler, times []time.Time) error {
	for len(times) > 0 {
		batch := times[:min(1000, len(times))]
		times = times[len(batch):]
		calls := make([]scheduler.Call, len(batch))
		for i, due := range batch {
			calls[i] = task.With(i, scheduler.At(due))
		}
		if _, _, err := program.EnqueueMany(ctx, s, calls); err != nil {
			return err
		}
	}
	return nil
}

// at enqueues all runs before the first is due.
func at(ctx context.Context, p *program.Program) error {
	var r record
	return node(ctx, p, &r, func(s *scheduler.Scheduler) error {
		times := dueTimes(time.Now().Add(lead(int(length.Seconds()) * *rate)).Round(0))
		if err := enqueue(ctx, s, times); err != nil {
			return err
		}
		ahead := time.Until(times[0])
		if ahead < time.Second {
			return fmt.Errorf("enqueueing took so long that the first run is due in %v", ahead)
		}
		if err := program.Pause(ctx, time.Until(times[len(times)-1])); err != nil {
			return err
		}
		if _, err := program.Finished(ctx, s); err != nil {
			return err
		}
		return r.print(fmt.Sprintf("runs with At: %d a second for %v, enqueued before", *rate, *length), len(times))
	})
}

// stream enqueues each run by a call of its own, a second before it is due.
func stream(ctx context.Context, p *program.Program) error {
	var r record
	return node(ctx, p, &r, func(s *scheduler.Scheduler) error {
		times := dueTimes(time.Now().Add(1100 * time.Millisecond).Round(0))
		var next atomic.Int64
		faults := make(chan error, 16) // one of each goroutine
		for range cap(faults) {
			go func() { // ends when the times are used up or a call fails, awaited below
				for {
					i := int(next.Add(1)) - 1
					if i >= len(times) {
						faults <- nil
						return
					}
					err := program.Pause(ctx, time.Until(times[i].Add(-time.Second)))
					if err == nil {
						_, err = task.Enqueue(ctx, s, i, scheduler.At(times[i]))
					}
					if err != nil {
						faults <- err
						return
					}
				}
			}()
		}
		for range cap(faults) {
			if err := <-faults; err != nil {
				return err
			}
		}
		if err := program.Pause(ctx, time.Until(times[len(times)-1])); err != nil {
			return err
		}
		if _, err := program.Finished(ctx, s); err != nil {
			return err
		}
		return r.print(fmt.Sprintf("runs with At: %d a second for %v, each enqueued a second before", *rate, *length), len(times))
	})
}

// every has as many schedules as there are runs a second, each with a tick a second.
func every(ctx context.Context, p *program.Program) error {
	var r record
	judge := func(ctx context.Context, _ int) error {
		now, x := time.Now().Round(0), scheduler.Current(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ran = append(r.ran, nominal{x.ID(), now, x.ScheduledAt()})
		return nil
	}
	return p.Node(ctx, func(s *scheduler.Scheduler) error {
		if err := spreadOut(ctx, s); err != nil {
			return err
		}
		r.mu.Lock()
		r.ran = nil // those while schedules were being made
		r.mu.Unlock()
		if err := program.Pause(ctx, *length); err != nil {
			return err
		}
		r.mu.Lock()
		ran := r.ran
		r.mu.Unlock()
		if len(ran) == 0 {
			return fmt.Errorf("no tick has run")
		}
		// Nominal times are on the elapsed clock; Due is told by the wall clock.
		run, err := s.Get(ctx, ran[len(ran)-1].id)
		if err != nil {
			return err
		}
		offset := run.Due.Sub(ran[len(ran)-1].due)
		for i := range ran {
			r.add(ran[i].at.Sub(ran[i].due.Add(offset)))
		}
		return r.print(fmt.Sprintf("%d schedules with Every(1s) for %v (clocks %v apart)", *rate, *length, offset), len(ran))
	}, scheduler.WithFunc(task, judge))
}

// spreadOut makes the schedules spread over a second: an interval counts from when its schedule was made.
func spreadOut(ctx context.Context, s *scheduler.Scheduler) error {
	faults := make([]error, *rate)
	var wg sync.WaitGroup
	first := time.Now()
	for i := range *rate {
		if err := program.Pause(ctx, time.Until(first.Add(time.Duration(i)*time.Second/time.Duration(*rate)))); err != nil {
			return err
		}
		wg.Go(func() {
			faults[i] = s.Schedule(ctx, fmt.Sprintf("s%05d", i), scheduler.Every(time.Second), task.With(i))
		})
	}
	wg.Wait()
	return errors.Join(faults...)
}

// together has many runs due at one instant.
func together(ctx context.Context, p *program.Program) error {
	var r record
	return node(ctx, p, &r, func(s *scheduler.Scheduler) error {
		due := time.Now().Add(lead(*burst)).Round(0)
		times := make([]time.Time, *burst)
		for i := range times {
			times[i] = due
		}
		if err := enqueue(ctx, s, times); err != nil {
			return err
		}
		if ahead := time.Until(due); ahead < time.Second {
			return fmt.Errorf("enqueueing took so long that the runs are due in %v", ahead)
		}
		if err := program.Pause(ctx, time.Until(due)); err != nil {
			return err
		}
		if _, err := program.Finished(ctx, s); err != nil {
			return err
		}
		ended := time.Since(due)
		return r.print(fmt.Sprintf("%d runs due at one instant (all committed after %s ms)", *burst, spread.Ms(ended)), *burst)
	})
}
