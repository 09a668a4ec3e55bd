package scheduler_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
)

// Times and durations at the ends of what can be named, and beyond.
func TestRangeOfTime(t *testing.T) {
	t.Run("a run due long ago is due at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, scheduler.WithHandler(echo, echoes))
			for _, year := range []int{1678, 1700, 1969} {
				f := enqueue(t, s, echo, "", scheduler.At(time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC)))
				time.Sleep(time.Second)
				wantState(t, s, f.ID(), scheduler.Succeeded)
			}
		})
	})
	t.Run("a delay without end does not end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, scheduler.WithHandler(echo, echoes))
			f := enqueue(t, s, echo, "", scheduler.In(math.MaxInt64), scheduler.ExpireAfter(math.MaxInt64))
			time.Sleep(time.Hour)
			if r := get(t, s, f.ID()); r.State != scheduler.Scheduled || r.Due.Year() != 2262 {
				t.Errorf("got %v, due %v, want it scheduled for 2262", r.State, r.Due)
			}
		})
	})
	t.Run("a range until the year 9999", func(t *testing.T) {
		far := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
		ticks, err := scheduler.Cron("@daily", scheduler.Between(time.Date(1, 2, 3, 0, 0, 0, 0, time.UTC), far)).Next(epoch, 3)
		if err != nil || len(ticks) != 3 {
			t.Errorf("Next: got %v, %v, want three", ticks, err)
		}
		if ticks, err := scheduler.Cron("@daily").Next(far, 3); err != nil || len(ticks) != 0 {
			t.Errorf("Next after the end: got %v, %v, want none", ticks, err)
		}
		synctest.Test(t, func(t *testing.T) {
			s := start(t, scheduler.WithHandler(echo, echoes))
			mustSchedule(t, s, "s", scheduler.Cron("* * * * *"))
			time.Sleep(150 * time.Second)
			if got := len(collect(t, s.Ticks(t.Context(), "s", epoch, far))); got != 2 {
				t.Errorf("ledger: got %d ticks, want 2", got)
			}
		})
	})
}

func TestEvery_BetweenEndsWhileNobodyIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := start(t, scheduler.WithDataDir(dir), scheduler.WithHandler(echo, echoes))
		from, until := epoch.Add(5*time.Minute), epoch.Add(10*time.Minute)
		mustSchedule(t, s, "s", scheduler.Every(time.Minute, scheduler.Between(from, until)))
		time.Sleep(7*time.Minute + 30*time.Second)
		shutdown(t, s)
		time.Sleep(30 * time.Minute)
		s = start(t, scheduler.WithDataDir(dir), scheduler.WithHandler(echo, echoes))
		time.Sleep(time.Minute)
		var got []string
		for _, tick := range collect(t, s.Ticks(t.Context(), "s", time.Time{}, time.Time{})) {
			got = append(got, tick.Nominal.Sub(epoch).String()+" "+tick.Outcome.String())
		}
		wantLines(t, "ledger", got, "6m0s ran", "7m0s ran", "8m0s merged", "9m0s ran")
	})
}

func TestResumeSchedule_ClockSetBackDuringThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := at(epoch.Add(12*time.Hour + 10*time.Second))
		s := start(t, scheduler.WithClock(c), scheduler.WithHandler(echo, echoes))
		mustSchedule(t, s, "s", scheduler.Cron("* * * * *"))
		time.Sleep(150 * time.Second) // 12:02:40
		if err := s.PauseSchedule(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		c.Step(-2 * time.Hour) // 10:02:40
		time.Sleep(time.Minute)
		if err := s.ResumeSchedule(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		ticks := collect(t, s.Ticks(t.Context(), "s", epoch, epoch.Add(11*time.Hour)))
		if len(ticks) != 5 || !ticks[0].Nominal.Equal(epoch.Add(10*time.Hour+4*time.Minute)) {
			t.Errorf("ticks after the pause: got %+v, want five from 10:04 on", ticks)
		}
	})
}
