package scheduler_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
)

func TestForecast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithTasks("echo"))
		time.Sleep(30 * time.Second)
		mustSchedule(t, s, "seconds", scheduler.Cron("*/20 * * * * *", scheduler.Between(epoch, epoch.Add(2*time.Minute))))
		mustSchedule(t, s, "hourly", scheduler.Cron("@hourly"), scheduler.MaxRuns(2))
		mustSchedule(t, s, "interval", scheduler.Every(90*time.Minute))
		mustSchedule(t, s, "paused", scheduler.Cron("* * * * *"), scheduler.Paused())
		loads, err := s.Forecast(t.Context(), epoch, epoch.Add(4*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range loads {
			got = append(got, fmt.Sprintf("%v: %d of %d", l.Minute.Sub(epoch), l.Ticks, l.Schedules))
		}
		wantLines(t, "loads", got, "0s: 1 of 1", "1m0s: 3 of 1", "1h0m0s: 1 of 1", "1h30m0s: 1 of 1", "2h0m0s: 1 of 1", "3h0m0s: 1 of 1")
		if loads, err := s.Forecast(t.Context(), epoch.Add(61*time.Minute), epoch.Add(119*time.Minute)); err != nil || len(loads) != 1 {
			t.Errorf("a window in between: %v, %v", loads, err)
		}
		off := epoch.Add(39 * time.Second)
		if _, err := s.Forecast(t.Context(), off, off.Add(35*24*time.Hour)); err != nil {
			t.Errorf("35 days from within a minute on: %v", err)
		}
		for _, to := range []time.Time{epoch, epoch.Add(-time.Hour), epoch.AddDate(1, 0, 0), {}} {
			_, err := s.Forecast(t.Context(), epoch, to)
			wantErr(t, fmt.Sprint("up to ", to), err, scheduler.ErrInvalid)
		}
	})
}

func TestForecast_of_a_window_to_come(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithTasks("echo"))
		mustSchedule(t, s, "delay", scheduler.After(20*time.Minute))
		mustSchedule(t, s, "twice", scheduler.Cron("* * * * *"), scheduler.MaxRuns(2))
		loads, err := s.Forecast(t.Context(), epoch.Add(time.Hour), epoch.Add(2*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		ticks := 0
		for _, l := range loads {
			ticks += l.Ticks
		}
		if ticks != 3 {
			t.Errorf("%d ticks (%+v), want three of the delay: the other has had its two by then", ticks, loads)
		}
	})
}

func TestLint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithHandler(echo, func(_ context.Context, in string) (string, error) {
			if in == "slow" {
				time.Sleep(90 * time.Second)
			}
			return in, nil
		}))
		mustSchedule(t, s, "slow", scheduler.Cron("* * * * *"))
		mustSchedule(t, s, "storm", scheduler.Cron("* * * * *"), scheduler.Misfire(scheduler.CatchUp{Policy: scheduler.CatchUpAll}))
		mustSchedule(t, s, "trap", scheduler.Cron("0 0 13 * FRI"))
		mustSchedule(t, s, "night", scheduler.Cron("30 2 * * *", scheduler.Zone("America/New_York")))
		mustSchedule(t, s, "over", scheduler.Cron("@daily", scheduler.Except(scheduler.BlackoutWindow("0 0 * * *", time.Hour))))
		mustSchedule(t, s, "fine", scheduler.Cron("0 3 * * *"))
		for i := range 20 {
			mustSchedule(t, s, fmt.Sprint("hot", i), scheduler.Cron("7 4 * * *"))
		}
		time.Sleep(10 * time.Minute)
		found, err := s.Lint(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]string)
		for _, f := range found {
			got[f.Schedule] += f.String() + "; "
		}
		for id, want := range map[string]string{
			"slow":  "predicted-overlap: a run took 1m30s lately, and ticks are only 1m0s apart: ticks will be skipped",
			"storm": "catch-up-storm: after an outage of a day 1439 ticks", "trap": "either-day", "night": "gap", "over": "it has no tick any more",
			"": "hot-minute: 22 schedules start in the minute of 2000-01-01 04:07 UTC",
		} {
			if !strings.Contains(got[id], want) {
				t.Errorf("%q: got %q, want %q", id, got[id], want)
			}
		}
		if got["fine"] != "" {
			t.Errorf("fine: got %q", got["fine"])
		}
	})
}
