package scheduler_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
)

// Why did it not run at 02:00?
func TestExplainTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := []scheduler.Option{scheduler.WithDataDir(t.TempDir())}
		handle, release := blocker()
		opts = append(opts, scheduler.WithHandler(block, handle))
		s := start(t, opts...)
		set := func(id string, trigger scheduler.Trigger, more ...scheduler.ScheduleOption) {
			t.Helper()
			if err := s.Schedule(t.Context(), id, trigger, block.With(1), more...); err != nil {
				t.Fatal(err)
			}
		}
		explain := func(id string, at time.Duration, want string) {
			t.Helper()
			e, err := s.ExplainTick(t.Context(), id, epoch.Add(at))
			if err != nil || !strings.HasPrefix(e.Reason, want) {
				t.Errorf("%s at %v: %q, %v; want %q", id, at, e.Reason, err, want)
			}
		}
		two := 2 * time.Hour
		set("skips", scheduler.Cron("0 * * * *"))
		set("queues", scheduler.Cron("0 * * * *"), scheduler.Overlap(scheduler.OverlapQueue(2)))
		set("paused", scheduler.Cron("0 * * * *"), scheduler.Paused())
		set("days off", scheduler.Cron("0 * * * *", scheduler.Except(scheduler.Days("2000-01-01"))))
		set("few", scheduler.Cron("0 * * * *"), scheduler.MaxRuns(1))
		set("interval", scheduler.Every(90*time.Minute))
		time.Sleep(90 * time.Minute)
		set("late", scheduler.Cron("0 * * * *"))
		set("gone", scheduler.Cron("0 * * * *"))
		if err := s.DeleteSchedule(t.Context(), "gone"); err != nil {
			t.Fatal(err)
		}
		explain("skips", two, "it is to come in 30m0s")
		time.Sleep(two + time.Minute - time.Since(epoch))
		explain("skips", time.Hour, "it ran, as run ")
		explain("skips", two, "it did not run, it was skipped: an earlier run has not ended (run ")
		explain("skips", two+time.Second, "it is no tick of the schedule: the next one is at 2000-01-01 03:00:00 UTC")
		explain("queues", two, "it waits for its turn: run ")
		explain("paused", two, "it did not run, it was paused: the schedule is paused")
		explain("paused", 3*time.Hour, "it is to come in 59m0s, but the schedule is paused")
		explain("days off", two, "a calendar of the trigger excludes it, up to 2000-01-02 00:00:00 UTC")
		explain("few", two, "the schedule has made all the runs that it may: 1")
		explain("late", time.Hour, "the schedule was made later, at 2000-01-01 01:30:00 UTC")
		explain("gone", two, "the schedule was deleted at 2000-01-01 01:30:00 UTC")
		explain("interval", two, "it is no tick of the schedule, whose ticks are counted")
		close(release)
		time.Sleep(time.Minute)
		explain("queues", two, "it ran, 1m0s late, as run ")
		shutdown(t, s)
		time.Sleep(two)
		s = start(t, opts...)
		time.Sleep(time.Second)
		explain("skips", 3*time.Hour, "it did not run, it was merged: the scheduler was not running")
		_, err := s.ExplainTick(t.Context(), "none", epoch.Add(two))
		wantErr(t, "ExplainTick of none", err, scheduler.ErrNotFound)
		_, err = s.ExplainTick(t.Context(), "skips", time.Time{})
		wantErr(t, "ExplainTick of no time", err, scheduler.ErrInvalid)
	})
}

func TestExplainTick_InTheNightOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := at(time.Date(2024, 3, 9, 12, 0, 0, 0, time.UTC))
		s := start(t, scheduler.WithClock(c), scheduler.WithHandler(echo, echoes))
		mustSchedule(t, s, "s", scheduler.Cron("0 2 * * *", scheduler.Zone("America/New_York")))
		time.Sleep(24 * time.Hour)
		e, err := s.ExplainTick(t.Context(), "s", time.Date(2024, 3, 10, 6, 0, 0, 0, time.UTC)) // 01:00 there
		want := "it is no tick of the schedule: the next one is at 2024-03-10 03:00:00 EDT, and the clock of America/New_York is put forward by 1h0m0s at 2024-03-10 03:00:00 EDT"
		if err != nil || e.Reason != want {
			t.Errorf("got %q, %v; want %q", e.Reason, err, want)
		}
	})
}
