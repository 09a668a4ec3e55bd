// Command cron shows schedules: what a trigger will do before anything runs, a
// schedule that is paused and resumed, one whose ticks overlap, one whose past is
// backfilled, and the ledger that says what became of each tick.
//
//	go run ./examples/cron
//
// It ends by itself after a few seconds.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/escapement-go/scheduler"
)

// Report is a task without a result.
var Report = scheduler.NewJob[string]("report")

func main() {
	flag.Bool("once", false, "accepted for uniformity: this program always ends by itself")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	payroll := scheduler.Cron("0 2 L * *", scheduler.Zone("America/New_York"))
	next, err := payroll.Next(time.Now(), 3)
	if err != nil {
		return err
	}
	fmt.Println("payroll, at 2 on the last day of each month in New York:")
	for _, t := range next {
		fmt.Println("  ", t.Format("Mon 2 Jan 2006 15:04 MST"))
	}

	s, err := scheduler.New(
		scheduler.WithFunc(Report, func(ctx context.Context, name string) error {
			x := scheduler.Current(ctx)
			fmt.Printf("%s  %s for %s\n", time.Now().Format("15:04:05.000"), name, x.ScheduledAt().Local().Format("15:04:05"))
			if name == "slow" {
				select {
				case <-time.After(1500 * time.Millisecond):
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			return nil
		}),
		scheduler.WithSchedule("payroll", payroll, Report.With("payroll")),
		scheduler.WithSchedule("fast", scheduler.Every(time.Second), Report.With("fast")),
		scheduler.WithSchedule("slow", scheduler.Cron("* * * * * *"), Report.With("slow"),
			scheduler.Overlap(scheduler.OverlapSkip)),
	)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := s.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = s.Shutdown(context.WithoutCancel(ctx)) }()

	pause(ctx, 3*time.Second)
	if err := s.PauseSchedule(ctx, "fast"); err != nil {
		return err
	}
	fmt.Println("fast is paused")
	pause(ctx, 2*time.Second)
	if err := s.ResumeSchedule(ctx, "fast"); err != nil {
		return err
	}
	fmt.Println("fast is resumed")
	pause(ctx, 2*time.Second)

	n, err := s.Backfill(ctx, "payroll", time.Now().AddDate(0, -6, 0), time.Now(), 0)
	if err != nil {
		return err
	}
	fmt.Printf("payroll is backfilled for %d months\n", n)
	pause(ctx, time.Second)

	var skipped time.Time
	for _, id := range []string{"fast", "slow"} {
		fmt.Printf("ledger of %s:\n", id)
		for tick, err := range s.Ticks(ctx, id, began, time.Now()) {
			if err != nil {
				return err
			}
			fmt.Printf("   %s  %-8v %s\n", tick.Nominal.Local().Format("15:04:05"), tick.Outcome, tick.Reason)
			if tick.Outcome == scheduler.TickSkipped {
				skipped = tick.Nominal
			}
		}
	}
	e, err := s.ExplainTick(ctx, "slow", skipped)
	if err != nil {
		return err
	}
	fmt.Printf("why did slow not run at %s? %s\n", skipped.Local().Format("15:04:05"), e.Reason)
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
