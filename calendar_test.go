package scheduler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
)

// Times have a zone for their calendars, and to be shown in.
func TestTimes_in_a_zone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithTasks("echo"))
		tokyo := scheduler.Zone("Asia/Tokyo") // nine hours ahead
		times := scheduler.Times(epoch.Add(14*time.Hour), epoch.Add(16*time.Hour), epoch.Add(40*time.Hour))
		mustSchedule(t, s, "s", times.With(tokyo, scheduler.Except(scheduler.Days("2000-01-01"))))
		if got := schedule(t, s, "s").Next.Format(time.DateTime); got != "2000-01-02 01:00:00" {
			t.Errorf("next %s", got)
		}
		_, err := times.With(scheduler.Zone("Mars")).Next(epoch, 1)
		wantErr(t, "a zone that is not known", err, scheduler.ErrInvalid)
	})
}

// A schedule that is declared with a named calendar starts on an empty folder, and what
// was set later stays.
func TestWithCalendar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		newYear := scheduler.NamedCalendar("holidays")
		opts := []scheduler.Option{
			scheduler.WithDataDir(dir), scheduler.WithTasks("echo"),
			scheduler.WithCalendar("holidays", scheduler.Days("2000-01-02")),
			scheduler.WithSchedule("s", scheduler.Cron("0 9 * * *", scheduler.Except(newYear)), echo.With("")),
		}
		s := start(t, opts...)
		if got := schedule(t, s, "s").Next.Format(time.DateTime); got != "2000-01-01 09:00:00" {
			t.Errorf("next %s", got)
		}
		if err := s.SetCalendar(t.Context(), "holidays", scheduler.Days("2000-01-01")); err != nil {
			t.Fatal(err)
		}
		shutdown(t, s)
		s = start(t, opts...)
		if got := schedule(t, s, "s").Next.Format(time.DateTime); got != "2000-01-02 09:00:00" {
			t.Errorf("next after a restart: %s", got)
		}
		_, err := scheduler.New(scheduler.WithCalendar("a", newYear), scheduler.WithCalendar("a", scheduler.Days("2000-01-01")))
		wantErr(t, "a named one in a named one", err, scheduler.ErrInvalid)
		wantErr(t, "one name twice", err, scheduler.ErrDuplicate)
	})
}

// A schedule that has made all its runs makes no more, though a calendar that it
// excludes is changed, or the node starts again.
func TestSetCalendar_revives_no_schedule_that_is_over(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, runs := t.TempDir(), make(chan struct{}, 10)
		up := func() *scheduler.Scheduler {
			return start(t, scheduler.WithDataDir(dir), scheduler.WithCalendar("h", scheduler.Days("2031-01-01")),
				scheduler.WithHandler(echo, func(_ context.Context, in string) (string, error) { runs <- struct{}{}; return in, nil }),
				scheduler.WithSchedule("s", scheduler.Cron("@hourly", scheduler.Except(scheduler.NamedCalendar("h"))), echo.With(""), scheduler.MaxRuns(1)))
		}
		s := up()
		time.Sleep(2 * time.Hour)
		if err := s.SetCalendar(t.Context(), "h", scheduler.Days("2032-01-01")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		shutdown(t, s)
		s = up()
		time.Sleep(2 * time.Hour)
		if got := schedule(t, s, "s").Next; !got.IsZero() || len(runs) != 1 {
			t.Errorf("%d runs, next %v, want one, and none to come", len(runs), got)
		}
	})
}
