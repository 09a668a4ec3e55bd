package scheduler_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
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

func ExampleScheduler_ExplainTick() {
	ctx := context.Background()
	s := begin(
		scheduler.WithHandler(SendEmail, send),
		scheduler.WithSchedule("report", scheduler.Cron("0 2 * * *", scheduler.Except(scheduler.Days("2099-12-25"))),
			SendEmail.With(Email{To: "team@example.com"})),
	)
	defer s.Shutdown(ctx)
	e, err := s.ExplainTick(ctx, "report", time.Date(2099, 12, 25, 2, 0, 0, 0, time.UTC))
	fmt.Println(e.Reason, err)
	// Output: a calendar of the trigger excludes it, up to 2099-12-26 00:00:00 UTC <nil>
}

func ExampleExcept() {
	show(scheduler.Cron("0 9 * * *", scheduler.Except(
		scheduler.Days("2026-01-02"), scheduler.BlackoutWindow("0 0 * * SAT", 48*time.Hour))), 3)
	// Output:
	// Thu Jan  1 09:00:00 UTC 2026
	// Mon Jan  5 09:00:00 UTC 2026
	// Tue Jan  6 09:00:00 UTC 2026
}

func ExampleScheduler_SetCalendar() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send))
	defer s.Shutdown(ctx)
	if err := s.SetCalendar(ctx, "holidays", scheduler.Days("2099-12-25", "2099-12-26")); err != nil {
		log.Fatal(err)
	}
	err := s.Schedule(ctx, "report", scheduler.Cron("0 9 25 12 *", scheduler.Except(scheduler.NamedCalendar("holidays"))),
		SendEmail.With(Email{To: "team@example.com"}))
	names, _ := s.Calendars(ctx)
	fmt.Println(names, err)
	// Output: [holidays] <nil>
}

func ExampleAfter() {
	fmt.Println(scheduler.After(10 * time.Minute).Describe())
	// Output: 10m after the run before has ended
}

func ExampleScheduler_RollbackSchedule() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send))
	defer s.Shutdown(ctx)
	for _, expr := range []string{"0 9 * * *", "* 9 * * *"} {
		err := s.Schedule(ctx, "digest", scheduler.Cron(expr), SendEmail.With(Email{To: "team@example.com"}), scheduler.By("ann"))
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := s.RollbackSchedule(ctx, "digest", 1, scheduler.By("bob")); err != nil {
		log.Fatal(err)
	}
	for v, err := range s.ScheduleVersions(ctx, "digest") {
		fmt.Println(v.Version, v.Author, v.Trigger.Describe(), v.Note, err)
	}
	// Output:
	// 1 ann at 09:00 every day  <nil>
	// 2 ann every minute from 09:00 to 09:59  <nil>
	// 3 bob at 09:00 every day back to version 1 <nil>
}

func ExampleCanary() {
	ctx := context.Background()
	daily := scheduler.Cron("@daily")
	s := begin(
		scheduler.WithHandler(SendEmail, send),
		scheduler.WithSchedule("digest", daily, SendEmail.With(Email{To: "team@example.com"})),
	)
	defer s.Shutdown(ctx)
	// Every tenth tick runs the new version, until 20 of its runs have ended; the second
	// one that fails reverts it.
	err := s.Schedule(ctx, "digest", daily, SendEmail.With(Email{To: "all@example.com"}),
		scheduler.Canary(scheduler.Trial{Share: 0.1, Failures: 1, Runs: 20}))
	if err != nil {
		log.Fatal(err)
	}
	for sc, err := range s.Schedules(ctx) {
		fmt.Println("version", sc.Version, "is in force, on trial is", sc.Trial, err)
	}
	// Output: version 1 is in force, on trial is 2 <nil>
}

func ExampleWithScheduleFile() {
	dir, err := os.MkdirTemp("", "schedules")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "schedules.yaml")
	const text = `
owner: mailer
prune: true # delete what is no longer here
schedules:
  - id: digest
    cron: "0 9 * * MON-FRI"
    zone: Asia/Shanghai
    task: email.send
    input: {To: team@example.com, Subject: digest}
    overlap: queue(1)
    except: [{from: 2026-12-24T00:00:00Z, to: 2027-01-02T00:00:00Z}] # or days, window, calendar, ics: holidays.ics
    canary: {share: 0.1, runs: 20} # a change of what runs is tried first
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send), scheduler.WithScheduleFile(file))
	defer s.Shutdown(ctx)
	for sc, err := range s.Schedules(ctx) {
		fmt.Println(sc.ID, sc.Trigger.Describe(), err)
	}
	// Output: digest at 09:00 on weekdays (Asia/Shanghai), with 1 exclusions <nil>
}

func ExampleScheduler_Forecast() {
	ctx := context.Background()
	s := begin(
		scheduler.WithHandler(SendEmail, send),
		scheduler.WithSchedule("a", scheduler.Cron("0 0 1 1 *"), SendEmail.With(Email{To: "a@example.com"})),
		scheduler.WithSchedule("b", scheduler.Cron("*/30 0 1 1 *"), SendEmail.With(Email{To: "b@example.com"})),
	)
	defer s.Shutdown(ctx)
	year := time.Date(time.Now().Year()+2, 1, 1, 0, 0, 0, 0, time.UTC)
	loads, err := s.Forecast(ctx, year, year.AddDate(0, 0, 1))
	for _, l := range loads {
		fmt.Println(l.Minute.Format("15:04"), l.Ticks, l.Schedules)
	}
	fmt.Println(err)
	// Output:
	// 00:00 2 2
	// 00:30 1 1
	// <nil>
}

func ExampleScheduler_Lint_file() {
	// A test of the application says so before the file is deployed: nothing is started.
	s, err := scheduler.New(scheduler.WithHandler(SendEmail, send))
	if err != nil {
		log.Fatal(err)
	}
	found, err := s.Lint(context.Background(), scheduler.WithScheduleFile("testdata/schedules.yaml"))
	if err != nil {
		log.Fatal(err) // by line and column
	}
	for _, f := range found {
		fmt.Println(f)
	}
	// Output:
	// testdata/schedules.yaml:7:9: report: fault: never: never fires: there is no such date
	// testdata/schedules.yaml:2:9: digest: warning: either-day: fires on the 1st of the month and also on Mondays, since either day field is enough; for both at once write +MON
}

func ExampleScheduler_Lint() {
	ctx := context.Background()
	s := begin(
		scheduler.WithHandler(SendEmail, send),
		scheduler.WithSchedule("unlucky", scheduler.Cron("0 0 13 * FRI"), SendEmail.With(Email{To: "a@example.com"})),
	)
	defer s.Shutdown(ctx)
	found, err := s.Lint(ctx)
	for _, f := range found {
		fmt.Println(f.Schedule, f.Rule)
	}
	fmt.Println(err)
	// Output:
	// unlucky either-day
	// <nil>
}
