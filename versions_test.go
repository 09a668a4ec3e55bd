package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
)

// versions returns the versions of a schedule as lines.
func versions(t *testing.T, s *scheduler.Scheduler, id string) (lines []string) {
	t.Helper()
	for _, v := range collect(t, s.ScheduleVersions(t.Context(), id)) {
		line := fmt.Sprintf("%d at %v by %s: %s", v.Version, v.At.Sub(epoch), v.Author, v.Note)
		if v.Trial != "" {
			line += " (" + v.Trial + ")"
		}
		for _, c := range v.Changes {
			line += "; " + c.String()
		}
		lines = append(lines, line)
	}
	return lines
}

func TestScheduleVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := []scheduler.Option{scheduler.WithDataDir(t.TempDir()), scheduler.WithHandler(echo, echoes), scheduler.WithApp("mailer", 3)}
		s := start(t, opts...)
		set := func(expr, input string, opts ...scheduler.ScheduleOption) {
			t.Helper()
			time.Sleep(time.Second)
			if err := s.Schedule(t.Context(), "s", scheduler.Cron(expr), echo.With(input), opts...); err != nil {
				t.Fatal(err)
			}
		}
		set("@daily", "a")
		set("@daily", "b", scheduler.By("ann"), scheduler.Note("other words"))
		set("@hourly", "b", scheduler.By("bob"))
		wantLines(t, "versions", versions(t, s, "s"), "1 at 1s by mailer/3: ", `2 at 2s by ann: other words; input: "a" → "b"`,
			"3 at 3s by bob: ; expression: @daily → @hourly; trigger: at 00:00 every day → every hour")
		time.Sleep(time.Minute) // flushed
		if err := s.RollbackSchedule(t.Context(), "s", 1, scheduler.By("eve")); err != nil {
			t.Fatal(err)
		}
		sc := schedule(t, s, "s")
		if sc.Version != 4 || !sc.Next.Equal(epoch.Add(24*time.Hour)) {
			t.Errorf("rolled back: %+v", sc)
		}
		if got := versions(t, s, "s"); len(got) != 4 || !strings.HasPrefix(got[3], "4 at 1m3s by eve: back to version 1; expression: @hourly → @daily; input: \"b\" → \"a\"") {
			t.Errorf("got %q", got)
		}
		wantErr(t, "a version that never was", s.RollbackSchedule(t.Context(), "s", 9), scheduler.ErrNotFound)
		wantErr(t, "a schedule that never was", s.RollbackSchedule(t.Context(), "none", 1), scheduler.ErrNotFound)
		for i := range 60 {
			set("@daily", fmt.Sprint(i))
		}
		shutdown(t, s)
		s = start(t, opts...)
		if got := versions(t, s, "s"); len(got) != 50 || !strings.HasPrefix(got[49], "64 ") {
			t.Errorf("%d versions are kept, the last is %s", len(got), got[len(got)-1])
		}
	})
}

func TestCanary(t *testing.T) {
	const ticks = 200
	for name, c := range map[string]struct {
		trial   scheduler.Trial
		handler func(in string) error // of "new"
		version int                   // in force at the end
		trialed int                   // runs of the new version
		about   int                   // or about so many
		note    string
	}{
		"a fifth of the ticks": {trial: scheduler.Trial{Share: 0.2}, version: 1, about: ticks / 5},
		"promoted":             {trial: scheduler.Trial{Share: 0.5, Runs: 10}, version: 2, about: ticks - 10, note: "promoted after 10 runs"},
		"reverted on errors": {
			trial: scheduler.Trial{Share: 0.5, Failures: 2}, handler: func(string) error { return scheduler.Permanent(errors.New("no")) },
			version: 1, trialed: 3, note: "reverted: 3 of 3 runs failed or took too long",
		},
		"reverted on latency": {
			trial: scheduler.Trial{Share: 1, MaxLatency: time.Second}, handler: func(string) error { time.Sleep(2 * time.Second); return nil },
			version: 1, trialed: 1, note: "reverted: 1 of 1 runs failed or took too long",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runs := make(map[string]int)
				s := start(t, scheduler.WithConcurrency(1), scheduler.WithHandler(echo, func(_ context.Context, in string) (string, error) {
					runs[in]++
					if in == "new" && c.handler != nil {
						return in, c.handler(in)
					}
					return in, nil
				}))
				minutely := scheduler.Cron("* * * * *")
				if err := s.Schedule(t.Context(), "s", minutely, echo.With("old")); err != nil {
					t.Fatal(err)
				}
				if err := s.Schedule(t.Context(), "s", minutely, echo.With("new"), scheduler.Canary(c.trial)); err != nil {
					t.Fatal(err)
				}
				if sc := schedule(t, s, "s"); sc.Version != 1 || sc.Trial != 2 {
					t.Errorf("on trial: %+v", sc)
				}
				time.Sleep(ticks*time.Minute + 10*time.Second)
				sc := schedule(t, s, "s")
				n := runs["new"]
				if sc.Version != c.version || runs["old"]+n != ticks ||
					c.about == 0 && n != c.trialed || c.about != 0 && (n < c.about*3/4 || n > c.about*5/4) {
					t.Errorf("version %d, runs %v; want version %d and %d (about %d) runs of the new one", sc.Version, runs, c.version, c.trialed, c.about)
				}
				v := collect(t, s.ScheduleVersions(t.Context(), "s"))
				if len(v) != 2 || v[1].Trial != c.note || (sc.Trial == 0) != (c.note != "") {
					t.Errorf("versions %+v, on trial %d", v, sc.Trial)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithTasks("echo"))
		mustSchedule(t, s, "s", scheduler.Cron("@daily"))
		change := func(expr, in string, share float64) error {
			return s.Schedule(t.Context(), "s", scheduler.Cron(expr), echo.With(in), scheduler.Canary(scheduler.Trial{Share: share}))
		}
		wantErr(t, "another trigger", change("@hourly", "x", 0.5), scheduler.ErrInvalid)
		wantErr(t, "no share", change("@daily", "x", 0), scheduler.ErrInvalid)
		wantErr(t, "more than all", change("@daily", "x", 1.1), scheduler.ErrInvalid)
		wantErr(t, "no trial", s.PromoteSchedule(t.Context(), "s"), scheduler.ErrConflict)
		for i, end := range []func(context.Context, string) error{s.RevertSchedule, s.PromoteSchedule} {
			if err := change("@daily", fmt.Sprint("x", i), 0.5); err != nil {
				t.Fatal(err)
			}
			if err := end(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
		}
		if sc := schedule(t, s, "s"); sc.Trial != 0 || sc.Version != 3 {
			t.Errorf("%+v", sc)
		}
	})
}
