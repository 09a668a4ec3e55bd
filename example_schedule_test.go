package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/engine/cron"
)

// show prints the next ticks of a trigger after the last evening of 2025.
func show(t scheduler.Trigger, n int) {
	ticks, err := t.Next(time.Date(2025, 12, 31, 18, 0, 0, 0, time.UTC), n)
	if err != nil {
		fmt.Println(err)
	}
	for _, tick := range ticks {
		fmt.Println(tick.Format("Mon Jan _2 15:04:05 MST 2006"))
	}
}

func ExampleCron() {
	show(scheduler.Cron("0 9 * * MON-FRI"), 3)
	show(scheduler.Cron("*/20 * * * * *"), 2) // six fields: seconds first
	show(scheduler.Cron("@monthly"), 1)
	show(scheduler.Cron("0 0 L * *"), 2) // the last day of the month
	// Output:
	// Thu Jan  1 09:00:00 UTC 2026
	// Fri Jan  2 09:00:00 UTC 2026
	// Mon Jan  5 09:00:00 UTC 2026
	// Wed Dec 31 18:00:20 UTC 2025
	// Wed Dec 31 18:00:40 UTC 2025
	// Thu Jan  1 00:00:00 UTC 2026
	// Sat Jan 31 00:00:00 UTC 2026
	// Sat Feb 28 00:00:00 UTC 2026
}

func ExampleDialect() {
	show(scheduler.Cron("0 15 10 ? * 6L 2026-2027", scheduler.Dialect(cron.Quartz)), 2)                       // the last Friday of the month
	show(scheduler.Cron("0 0 13 * FRI 2026", scheduler.Dialect(cron.Standard|cron.OptionalYear|cron.And)), 2) // Fridays that are a 13th
	// Output:
	// Fri Jan 30 10:15:00 UTC 2026
	// Fri Feb 27 10:15:00 UTC 2026
	// Fri Feb 13 00:00:00 UTC 2026
	// Fri Mar 13 00:00:00 UTC 2026
}

// tides come each twelve hours and 25 minutes.
type tides struct{ first time.Time }

func (t tides) Next(after time.Time) time.Time {
	const apart = 12*time.Hour + 25*time.Minute
	if after.Before(t.first) {
		return t.first
	}
	return t.first.Add((after.Sub(t.first)/apart + 1) * apart)
}

// A trigger of one's own is a Go function. One node that has it is enough.
func ExampleCustom() {
	ctx := context.Background()
	s := begin(
		scheduler.WithHandler(SendEmail, send),
		scheduler.WithTrigger("tides", func(params json.RawMessage) (cron.Schedule, error) {
			var t tides
			err := json.Unmarshal(params, &t.first)
			return t, err
		}),
	)
	defer s.Shutdown(ctx)
	tide := scheduler.Custom("tides", time.Date(2100, 1, 1, 10, 35, 0, 0, time.UTC))
	if err := s.Schedule(ctx, "tide", tide, SendEmail.With(Email{To: "harbour@example.com", Subject: "high tide"})); err != nil {
		log.Fatal(err)
	}
	for sc, err := range s.Schedules(ctx) {
		fmt.Println(sc.ID, sc.Trigger.Describe(), "at", sc.Next.Format("15:04"), err)
	}
	// Output: tide as the trigger tides says at 10:35 <nil>
}

func ExampleTrigger_DescribeIn() {
	t := scheduler.Cron("0 9 * * MON-FRI", scheduler.Zone("Asia/Shanghai"))
	fmt.Println(t.Describe())
	fmt.Println(t.DescribeIn(cron.Chinese))
	// Output:
	// at 09:00 on weekdays (Asia/Shanghai)
	// 工作日 09:00（Asia/Shanghai）
}

func ExampleSyntaxError() {
	_, err := scheduler.Cron("0 25 * * *").Next(time.Now(), 1)
	if syntax, ok := errors.AsType[*scheduler.SyntaxError](err); ok {
		fmt.Println(syntax.Expr, syntax.Pos, syntax.Field)
	}
	// Output: 0 25 * * * 2 hour
}

func ExampleZone() {
	show(scheduler.Cron("0 9 * * *", scheduler.Zone("Asia/Shanghai")), 1)
	show(scheduler.Cron("0 9 * * *", scheduler.Zone("America/New_York")), 1)
	// Output:
	// Thu Jan  1 09:00:00 CST 2026
	// Thu Jan  1 09:00:00 EST 2026
}

func ExampleDST() {
	night := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC) // 02:30 is missing in Paris
	for _, policy := range []scheduler.DSTPolicy{scheduler.DSTRunOnce, scheduler.DSTSkip, scheduler.DSTShift} {
		ticks, err := scheduler.Cron("30 2 * * *", scheduler.Zone("Europe/Paris"), scheduler.DST(policy)).Next(night, 1)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(ticks[0].Format(time.DateTime))
	}
	// Output:
	// 2026-03-29 03:00:00
	// 2026-03-30 02:30:00
	// 2026-03-29 03:30:00
}

func ExampleEvery() {
	show(scheduler.Every(90*time.Minute), 2)
	// Output:
	// Wed Dec 31 19:30:00 UTC 2025
	// Wed Dec 31 21:00:00 UTC 2025
}

func ExampleTimes() {
	show(scheduler.Times(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)), 5)
	// Output:
	// Thu Jan  1 00:00:00 UTC 2026
	// Mon Jun  1 00:00:00 UTC 2026
}

func ExampleBetween() {
	from := time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)
	show(scheduler.Cron("@daily", scheduler.Between(from, from.AddDate(0, 0, 2))), 5)
	// Output:
	// Sat Jan 10 00:00:00 UTC 2026
	// Sun Jan 11 00:00:00 UTC 2026
}

func ExampleHashKey() {
	// H is a minute of the schedule's own, so that not all start at once.
	a, err := scheduler.Cron("H * * * *", scheduler.HashKey("report/a")).Next(time.Now(), 1)
	if err != nil {
		log.Fatal(err)
	}
	again, err := scheduler.Cron("H * * * *", scheduler.HashKey("report/a")).Next(time.Now(), 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(a[0].Minute() == again[0].Minute())
	// Output: true
}

func ExampleScheduler_Schedule() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send))
	defer s.Shutdown(ctx)
	set := func(expr string) {
		err := s.Schedule(ctx, "digest", scheduler.Cron(expr), SendEmail.With(Email{To: "team@example.com"}))
		if err != nil {
			log.Fatal(err)
		}
		for sc, err := range s.Schedules(ctx) {
			fmt.Println(sc.ID, "version", sc.Version, sc.Next.Format("15:04"), err)
		}
	}
	set("0 9 * * *")
	set("0 9 * * *") // unchanged: nothing happens
	set("0 8 * * *")
	// Output:
	// digest version 1 09:00 <nil>
	// digest version 1 09:00 <nil>
	// digest version 2 08:00 <nil>
}

func ExampleWithSchedule() {
	ctx := context.Background()
	ran := make(chan time.Time, 100)
	s := begin(
		scheduler.WithHandler(SendEmail, func(ctx context.Context, e Email) (string, error) {
			ran <- scheduler.Current(ctx).ScheduledAt()
			return "", nil
		}),
		scheduler.WithApp("mailer", 12), // its 12th release
		scheduler.WithSchedule("digest", scheduler.Every(10*time.Millisecond), SendEmail.With(Email{To: "team@example.com"})),
	)
	defer s.Shutdown(ctx)
	first, second := <-ran, <-ran // those that a busy machine comes too late for are merged into the next
	fmt.Println(second.After(first), second.Sub(first)%(10*time.Millisecond))
	// Output: true 0s
}

func ExampleOverlap() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send))
	defer s.Shutdown(ctx)
	err := s.Schedule(ctx, "digest", scheduler.Cron("@hourly"), SendEmail.With(Email{}),
		scheduler.Overlap(scheduler.OverlapAllow), // start beside an earlier run that has not ended
		scheduler.Misfire(scheduler.CatchUp{Policy: scheduler.CatchUpLatest, MaxAge: 15 * time.Minute}),
		scheduler.Paused(), // until ResumeSchedule
	)
	fmt.Println(err)
	// Output: <nil>
}

func ExampleScheduler_PauseSchedule() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send))
	defer s.Shutdown(ctx)
	if err := s.Schedule(ctx, "digest", scheduler.Every(time.Hour), SendEmail.With(Email{})); err != nil {
		log.Fatal(err)
	}
	show := func(err error) {
		for sc, fault := range s.Schedules(ctx) {
			fmt.Println(sc.Paused, sc.Next.IsZero(), err, fault)
		}
	}
	show(s.PauseSchedule(ctx, "digest"))
	show(s.ResumeSchedule(ctx, "digest"))
	fmt.Println(s.DeleteSchedule(ctx, "digest"))
	fmt.Println(errors.Is(s.PauseSchedule(ctx, "digest"), scheduler.ErrNotFound))
	// Output:
	// true true <nil> <nil>
	// false false <nil> <nil>
	// <nil>
	// true
}

func ExampleScheduler_Ticks() {
	ctx := context.Background()
	started := make(chan scheduler.RunID, 100)
	s := begin(scheduler.WithHandler(SendEmail, func(ctx context.Context, _ Email) (string, error) {
		started <- scheduler.Current(ctx).ID()
		return "", nil
	}))
	defer s.Shutdown(ctx)
	began := time.Now()
	if err := s.Schedule(ctx, "digest", scheduler.Every(20*time.Millisecond), SendEmail.With(Email{})); err != nil {
		log.Fatal(err)
	}
	run := <-started
	for tick, err := range s.Ticks(ctx, "digest", began, began.Add(time.Hour)) {
		if err != nil {
			log.Fatal(err)
		}
		if tick.Run == run {
			fmt.Println(tick.Outcome) // of others also skipped, merged, missed, paused, with a Reason
			break
		}
	}
	// Output: ran
}
