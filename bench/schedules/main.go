// Command schedules measures how long one durable node takes until every one of many schedules that are due at the same
// second has the outcome of its tick, and until their handlers have started.
//
//	go run ./schedules [-n schedules] [-callers n]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/bench/internal/conditions"
	"github.com/escapement-go/scheduler/bench/internal/program"
	"github.com/escapement-go/scheduler/bench/internal/spread"
)

var (
	number  = flag.Int("n", 0, "schedules (default 10,000)")
	callers = flag.Int("callers", 64, "goroutines that make them")
	noRows  = flag.Bool("no-rows", false, "of a build whose ledger keeps no rows: they are not looked at, see ../ledger")
	lead    = flag.Duration("lead", 0, "from the first call until the tick (default 5s and 2 ms a schedule)")
)

var task = scheduler.NewJob[int]("tick")

// starts are how late handlers have started.
type starts struct {
	mu   sync.Mutex // guards late
	late []time.Duration
}

func (s *starts) handler(ctx context.Context, _ int) error {
	now := time.Now().Round(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, now.Sub(scheduler.Current(ctx).ScheduledAt()))
	return nil
}

func main() { program.Main(run) }

func run(ctx context.Context, p *program.Program) error {
	if *number == 0 {
		*number = program.Pick(p, 10_000, 200)
	}
	if *lead == 0 {
		*lead = program.Pick(p, 5*time.Second, 2*time.Second) + time.Duration(*number)*2*time.Millisecond
	}
	var handlers starts
	return p.Node(ctx, func(s *scheduler.Scheduler) error {
		due := time.Now().Add(*lead).Truncate(time.Second).UTC()
		expr := due.Format("5 4 15 2 1 *") // second, minute, hour, day and month of due, in layout's words
		making, err := create(ctx, s, expr)
		if err != nil {
			return err
		}
		fmt.Printf("\n%d schedules with Cron(%q), made in %.2fs by %d goroutines (%.0f a second)\n",
			*number, expr, making.Seconds(), *callers, float64(*number)/making.Seconds())
		if time.Until(due) < time.Second {
			return fmt.Errorf("making them took too long, set -lead: the tick is due in %v", time.Until(due))
		}
		if err := program.Pause(ctx, time.Until(due)); err != nil {
			return err
		}
		watch := conditions.Begin()
		if err := ended(ctx, s, int64(*number)); err != nil {
			return err
		}
		all := time.Since(due)
		fmt.Printf("  %v from the tick to the last result\n", watch)
		if err := flushed(ctx, s); err != nil {
			return err
		}
		took, n := time.Since(due), float64(*number)
		fmt.Printf("  until all is in the database: %.0f ticks a second, %.2f µs of processors each\n",
			n/took.Seconds(), float64(watch.CPU().Microseconds())/n)
		handlers.mu.Lock()
		late := spread.Of(handlers.late)
		handlers.mu.Unlock()
		fmt.Printf("  handler starts:        %v, early %d\n", late, late.Below(0))
		if *noRows {
			return nil
		}
		return outcomes(ctx, s, due, all)
	}, scheduler.WithFunc(task, handlers.handler))
}

func create(ctx context.Context, s *scheduler.Scheduler, expr string) (time.Duration, error) {
	began := time.Now()
	faults := make([]error, *callers)
	var wg sync.WaitGroup
	for c := range *callers {
		wg.Go(func() {
			for i := c; i < *number && faults[c] == nil; i += *callers {
				faults[c] = s.Schedule(ctx, id(i), scheduler.Cron(expr), task.With(i))
			}
		})
	}
	wg.Wait()
	return time.Since(began), errors.Join(faults...)
}

func id(i int) string { return fmt.Sprintf("schedule-%06d", i) }

// ended waits until as many runs are in the history. It fails after a minute.
func ended(ctx context.Context, s *scheduler.Scheduler, n int64) error {
	for began := time.Now(); ; {
		st, err := s.Stats(ctx)
		if err != nil || st.History == n && st.Live == 0 {
			return err
		}
		if time.Since(began) > time.Minute {
			return fmt.Errorf("a minute after the tick %d of %d runs have ended, and %d are live", st.History, n, st.Live)
		}
		if err := program.Pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// flushed waits until all rows are in the database.
func flushed(ctx context.Context, s *scheduler.Scheduler) error {
	for {
		st, err := s.Stats(ctx)
		if err != nil || st.Unflushed == 0 {
			return err
		}
		if err := program.Pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// outcomes reads the ledgers, which must hold one outcome of the tick each.
func outcomes(ctx context.Context, s *scheduler.Scheduler, due time.Time, all time.Duration) error {
	decided := make([]time.Duration, 0, *number)
	kinds := make(map[string]int)
	for i := range *number {
		n := 0
		for tick, err := range s.Ticks(ctx, id(i), due, due.Add(time.Second)) {
			if err != nil {
				return err
			}
			n++
			kinds[tick.Outcome.String()]++
			decided = append(decided, tick.Decided.Sub(due))
		}
		if n != 1 {
			return fmt.Errorf("schedule %s has %d outcomes of its tick, want 1", id(i), n)
		}
	}
	d := spread.Of(decided)
	fmt.Printf("  outcomes after:        %v, %d ahead of the time\n  outcomes: %v; all runs committed %s ms after it\n",
		d, d.Below(0), kinds, spread.Ms(all))
	return nil
}
