package scheduler_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/escapement-go/scheduler"
)

func ExampleOverlapQueue() {
	_, err := scheduler.New(
		scheduler.WithHandler(SendEmail, send),
		// A tick waits while an earlier run goes on; a second one waits behind it, a third
		// is skipped.
		scheduler.WithSchedule("digest", scheduler.Cron("*/5 * * * *"), SendEmail.With(Email{To: "team@example.com"}),
			scheduler.Overlap(scheduler.OverlapQueue(2))),
	)
	fmt.Println(scheduler.OverlapQueue(2), err)
	// Output: queue(2) <nil>
}

func ExampleCatchUp() {
	_, err := scheduler.New(
		scheduler.WithHandler(SendEmail, send),
		// After an outage the reports of at most the last 24 hours are sent, one each minute.
		scheduler.WithSchedule("report", scheduler.Cron("@hourly"), SendEmail.With(Email{To: "team@example.com"}),
			scheduler.Misfire(scheduler.CatchUp{Policy: scheduler.CatchUpAll, MaxAge: 24 * time.Hour, Pace: time.Minute})),
	)
	fmt.Println(err)
	// Output: <nil>
}

func ExampleScheduler_Trigger() {
	ctx := context.Background()
	s := begin(
		scheduler.WithHandler(SendEmail, send),
		scheduler.WithSchedule("digest", scheduler.Cron("@yearly"), SendEmail.With(Email{To: "team@example.com"})),
	)
	defer s.Shutdown(ctx)
	id, err := s.Trigger(ctx, "digest")
	if err != nil {
		log.Fatal(err)
	}
	run, err := s.Await(ctx, id)
	fmt.Println(run.State, run.Schedule, err)
	// Output: succeeded digest <nil>
}

func ExampleScheduler_Backfill() {
	ctx := context.Background()
	s := begin(
		scheduler.WithHandler(SendEmail, send),
		scheduler.WithSchedule("report", scheduler.Cron("0 0 1 1 *"), SendEmail.With(Email{To: "team@example.com"})),
	)
	defer s.Shutdown(ctx)
	n, err := s.Backfill(ctx, "report", time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC), 0)
	fmt.Println(n, "ticks,", err)
	// Output: 3 ticks, <nil>
}
