package scheduler_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
)

func TestAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		opts := []scheduler.Option{scheduler.WithDataDir(t.TempDir()), scheduler.WithHandler(echo, func(ctx context.Context, _ string) (string, error) {
			notes.add("%v", time.Since(epoch))
			time.Sleep(10 * time.Second)
			return "", errors.New("failed")
		})}
		s := start(t, opts...)
		if err := s.Schedule(t.Context(), "s", scheduler.After(30*time.Second), echo.With("", exact(5*time.Second, 2))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		wantLines(t, "starts", notes.take(), "30s", "45s", "1m25s", "1m40s") // each run has two attempts
		wantLines(t, "ledger", ledger(t, s, "s", 0, time.Hour), "30s ran", "1m25s ran")
		if sc := schedule(t, s, "s"); !sc.Next.Equal(epoch.Add(140 * time.Second)) {
			t.Errorf("next %v", sc.Next)
		}
		shutdown(t, s) // an outage over the tick
		time.Sleep(10 * time.Minute)
		s = start(t, opts...)
		time.Sleep(time.Minute + 5*time.Second)
		wantLines(t, "starts", notes.take(), "12m0s", "12m15s", "12m55s")
		if _, err := s.Trigger(t.Context(), "s"); !errors.Is(err, scheduler.ErrConflict) {
			t.Errorf("Trigger beside a run: %v", err)
		}
	})
}

func TestMaxRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		s := start(t, beat(&notes))
		minutely := scheduler.Cron("* * * * *")
		mustSchedule(t, s, "s", minutely, scheduler.MaxRuns(2))
		time.Sleep(5*time.Minute + time.Second)
		wantLines(t, "starts", notes.take(), "1m0s", "2m0s")
		if sc := schedule(t, s, "s"); !sc.Next.IsZero() {
			t.Errorf("it goes on at %v", sc.Next)
		}
		mustSchedule(t, s, "s", minutely, scheduler.MaxRuns(3))
		time.Sleep(5 * time.Minute)
		wantLines(t, "starts", notes.take(), "6m0s")
		wantLines(t, "ledger", ledger(t, s, "s", 0, time.Hour), "1m0s ran", "2m0s ran", "6m0s ran")
	})
	synctest.Test(t, func(t *testing.T) { // what is made up counts
		var notes journal
		s := start(t, beat(&notes))
		mustSchedule(t, s, "s", scheduler.Cron("* * * * *"), scheduler.MaxRuns(2), scheduler.Paused(),
			scheduler.Misfire(scheduler.CatchUp{Policy: scheduler.CatchUpAll}))
		time.Sleep(4*time.Minute + time.Second)
		if err := s.ResumeSchedule(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		wantStarts(t, notes.take(), "4m1s for 1m0s", "4m1s for 2m0s")
		const last = " missed: the schedule had made its last run before its turn came"
		wantLines(t, "ledger", ledger(t, s, "s", 0, time.Hour), "1m0s ran late 3m1s: it was made up", "2m0s ran late 2m1s: it was made up",
			"3m0s"+last, "4m0s"+last)
	})
}

func TestStartAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		s := start(t, beat(&notes))
		mustSchedule(t, s, "s", scheduler.Cron("* * * * *"), scheduler.StartAt(epoch.Add(3*time.Minute)), scheduler.EndAt(epoch.Add(5*time.Minute)))
		time.Sleep(10 * time.Minute)
		wantLines(t, "starts", notes.take(), "3m0s", "4m0s")
		err := s.Schedule(t.Context(), "s", scheduler.Cron("* * * * *"), echo.With(""), scheduler.StartAt(epoch.Add(1)), scheduler.EndAt(epoch.Add(1)))
		wantErr(t, "an end before the start", err, scheduler.ErrInvalid)
	})
}

// The share of a tick depends on the schedule and the tick alone.
func TestJitter(t *testing.T) {
	starts := func(t *testing.T, ids ...string) (starts []string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			var notes journal
			s := start(t, scheduler.WithHandler(echo, func(ctx context.Context, id string) (string, error) {
				late := time.Since(epoch) - scheduler.Current(ctx).ScheduledAt().Sub(epoch)
				if late < 0 || late >= 30*time.Second {
					t.Errorf("a start %v after its tick", late)
				}
				notes.add("%v %s", late, id)
				return "", nil
			}))
			for _, id := range ids {
				mustSchedule(t, s, id, scheduler.Cron("* * * * *", scheduler.Jitter(30*time.Second)))
			}
			time.Sleep(3*time.Minute + 31*time.Second)
			starts = notes.take()
			if got := len(ledger(t, s, ids[0], 0, 3*time.Minute+time.Second)); got != 3 {
				t.Errorf("%d ticks, want 3", got)
			}
		})
		return starts
	}
	all, again := starts(t, "a"), starts(t, "a", "b")
	if len(all) != 3 || len(again) != 6 {
		t.Fatalf("starts: %v, %v", all, again)
	}
	seen := make(map[string]bool)
	for _, line := range again {
		seen[line] = true
	}
	for _, line := range all {
		if !seen[line] {
			t.Errorf("%s differs beside another schedule: %v", line, again)
		}
	}
	if len(seen) != 6 {
		t.Errorf("starts come together: %v", again)
	}
}

func TestExcept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		s := start(t, scheduler.WithHandler(echo, func(ctx context.Context, id string) (string, error) {
			notes.add("%s %s", id, scheduler.Current(ctx).ScheduledAt().Format("02 15"))
			return "", nil
		}))
		mustSchedule(t, s, "days", scheduler.Cron("0 12 * * *", scheduler.Except(scheduler.Days("2000-01-02", "2000-01-03"))))
		mustSchedule(t, s, "window", scheduler.Cron("0 */12 * * *", scheduler.Except(
			scheduler.BlackoutWindow("0 22 * * *", 4*time.Hour), scheduler.Blackout(epoch.Add(12*time.Hour), epoch.Add(13*time.Hour)))))
		time.Sleep(4*24*time.Hour - time.Hour)
		got := notes.take()
		slices.SortStableFunc(got, func(a, b string) int { // those of one time start in any order
			return cmp.Or(strings.Compare(a[len(a)-len("02 15"):], b[len(b)-len("02 15"):]), strings.Compare(a, b))
		})
		wantLines(t, "starts", got, "days 01 12", "window 02 12", "window 03 12", "days 04 12", "window 04 12")
	})
	for what, c := range map[string]scheduler.Calendar{
		"zero": {}, "no days": scheduler.Days(), "no day": scheduler.Days("2000-13-01"), "no length": scheduler.BlackoutWindow("0 0 * * *", 0),
		"no expression": scheduler.BlackoutWindow("x", time.Hour), "no file": scheduler.ICS(nil), "no calendar": scheduler.ICS([]byte("x")),
		"no time": scheduler.Blackout(epoch, epoch), "no name": scheduler.NamedCalendar(""),
	} {
		_, err := scheduler.Cron("@daily", scheduler.Except(c)).Next(epoch, 1)
		wantErr(t, what, err, scheduler.ErrInvalid)
	}
	_, err := scheduler.Every(time.Hour, scheduler.Except(scheduler.Days("2000-01-01"))).Next(epoch, 1)
	wantErr(t, "an interval", err, scheduler.ErrInvalid)
}

// A named calendar is edited without touching the schedules that exclude it.
func TestSetCalendar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var notes journal
		opts := []scheduler.Option{scheduler.WithDataDir(dir), beat(&notes)}
		s := start(t, opts...)
		daily := scheduler.Cron("0 12 * * *", scheduler.Except(scheduler.NamedCalendar("holidays")))
		wantErr(t, "a calendar that nobody knows", s.Schedule(t.Context(), "s", daily, echo.With("")), scheduler.ErrInvalid)
		set := func(days ...string) {
			t.Helper()
			if err := s.SetCalendar(t.Context(), "holidays", scheduler.Days(days...)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		next := func(want string) {
			t.Helper()
			if got := schedule(t, s, "s").Next.Format("01-02"); got != want {
				t.Errorf("next %s, want %s", got, want)
			}
		}
		set("2000-01-01")
		mustSchedule(t, s, "s", daily)
		next("01-02")
		set("2000-01-02", "2000-01-03")
		next("01-01") // sooner
		set("2000-01-01", "2000-01-02")
		next("01-03") // later
		shutdown(t, s)
		s = start(t, opts...)
		next("01-03")
		set("2000-01-01")
		next("01-02")
		time.Sleep(3 * 24 * time.Hour)
		wantLines(t, "starts", notes.take(), "36h0m0s", "60h0m0s")
		if sc := schedule(t, s, "s"); sc.Version != 1 {
			t.Errorf("version %d", sc.Version)
		}
		wantErr(t, "DeleteCalendar of one in use", s.DeleteCalendar(t.Context(), "holidays"), scheduler.ErrConflict)
		wantErr(t, "DeleteCalendar of none", s.DeleteCalendar(t.Context(), "none"), scheduler.ErrNotFound)
		wantErr(t, "a calendar of calendars", s.SetCalendar(t.Context(), "x", scheduler.NamedCalendar("holidays")), scheduler.ErrInvalid)
		mustSchedule(t, s, "s", scheduler.Cron("0 12 * * *"))
		if err := s.DeleteCalendar(t.Context(), "holidays"); err != nil {
			t.Error(err)
		}
		if names, err := s.Calendars(t.Context()); err != nil || len(names) != 0 {
			t.Errorf("calendars %v, %v", names, err)
		}
	})
}

// Each clock has its own ticks: what was decided on one of them stays so while the
// trigger is on the other, though the wall clock is set meanwhile, and two alike are two.
func TestSchedule_changes_its_clock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		wall := at(epoch)
		opts := []scheduler.Option{scheduler.WithDataDir(t.TempDir()), beat(&notes), scheduler.WithClock(wall)}
		s := start(t, opts...)
		minutely, every := scheduler.Cron("* * * * *"), scheduler.Every(time.Minute)
		mustSchedule(t, s, "s", minutely)
		time.Sleep(3*time.Minute + time.Second)
		mustSchedule(t, s, "s", every)
		time.Sleep(2 * time.Minute) // 4m1s and 5m1s
		wall.Step(-4 * time.Minute) // to 1m1s
		time.Sleep(time.Second)
		mustSchedule(t, s, "s", minutely)
		time.Sleep(90 * time.Second) // to 2m32s of the wall clock: 2m was decided
		mustSchedule(t, s, "s", scheduler.Cron("1 * * * * *"))
		shutdown(t, s)
		s = start(t, opts...)
		time.Sleep(3 * time.Minute) // to 5m32s: all seconds of 3m, 4m and 5m are new
		want := []string{"1m0s", "2m0s", "3m0s", "4m1s", "5m1s", "3m1s", "4m1s", "5m1s"}
		got := notes.take()
		for i, line := range got {
			got[i] = line[strings.LastIndex(line, " ")+1:] // nominal
		}
		wantLines(t, "starts", got, want...)
		wantLines(t, "ledger", ledger(t, s, "s", 0, time.Hour),
			"1m0s ran", "2m0s ran", "3m0s ran", "3m1s ran", "4m1s ran", "4m1s ran", "5m1s ran", "5m1s ran")
		if n, err := s.Backfill(t.Context(), "s", epoch.Add(2*time.Minute), epoch.Add(3*time.Minute), 0); n != 1 || err != nil {
			t.Errorf("Backfill of 2m1s: %d, %v", n, err) // the elapsed clock had no part in it
		}
		time.Sleep(time.Second)
		mustSchedule(t, s, "s", every)
		if err := s.DeleteSchedule(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		mustSchedule(t, s, "s", minutely) // goes on with both ledgers
		if got := len(ledger(t, s, "s", 0, 6*time.Minute)); got != 9 {
			t.Errorf("%d ticks, want 9", got)
		}
	})
}
