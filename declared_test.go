package scheduler_test

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
)

func TestWithSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var notes journal
		release := func(generation uint64, opts ...scheduler.Option) *scheduler.Scheduler {
			return start(t, append(opts, scheduler.WithDataDir(dir), beat(&notes), scheduler.WithApp("app", generation))...)
		}
		declared := func(every time.Duration) scheduler.Option {
			return scheduler.WithSchedule("s", scheduler.Every(every), echo.With(""))
		}
		s := release(1, declared(time.Hour))
		time.Sleep(90 * time.Minute)
		shutdown(t, s)

		s = release(1, declared(time.Hour))
		if sc := schedule(t, s, "s"); sc.Version != 1 || !sc.Next.Equal(epoch.Add(2*time.Hour)) {
			t.Errorf("unchanged: version %d, next %v", sc.Version, sc.Next)
		}
		shutdown(t, s)

		s = release(2, declared(10*time.Minute))
		if sc := schedule(t, s, "s"); sc.Version != 2 || !sc.Next.Equal(epoch.Add(100*time.Minute)) {
			t.Errorf("a newer generation: version %d, next %v", sc.Version, sc.Next)
		}
		shutdown(t, s)

		s = release(1, declared(time.Hour))
		if sc := schedule(t, s, "s"); sc.Version != 2 || !sc.Next.Equal(epoch.Add(100*time.Minute)) {
			t.Errorf("an older generation has taken it back: version %d, next %v", sc.Version, sc.Next)
		}
		shutdown(t, s)

		s = release(3)
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		wantLines(t, "starts, of a schedule that is not declared any more too", notes.take(), "1h0m0s", "1h40m0s", "1h50m0s")
		shutdown(t, s)
	})
}

func TestStart_DeclaredScheduleOfAnUnknownTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := newScheduler(t, scheduler.WithDataDir(dir), scheduler.WithSchedule("s", scheduler.Every(time.Hour), echo.With("")))
		wantErr(t, "Start", s.Start(t.Context()), scheduler.ErrUnknownTask)
		s = start(t, scheduler.WithDataDir(dir), scheduler.WithTasks("echo"))
		if n := len(collect(t, s.Schedules(t.Context()))); n != 0 {
			t.Errorf("%d schedules are there", n)
		}
	})
}

func TestWithApp_NewGenerationOfTheSameSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for generation := range uint64(3) {
			s := start(t, scheduler.WithDataDir(dir), scheduler.WithTasks("echo"), scheduler.WithApp("app", generation),
				scheduler.WithSchedule("s", scheduler.Every(time.Hour), echo.With("")))
			if sc := schedule(t, s, "s"); sc.Version != 1 {
				t.Errorf("generation %d: version %d of an unchanged schedule", generation, sc.Version)
			}
			shutdown(t, s)
		}
	})
}

func TestSchedule_SetByHandOverADeclaredOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithTasks("echo"), scheduler.WithApp("app", 1),
			scheduler.WithSchedule("s", scheduler.Every(time.Hour), echo.With("s")))
		mustSchedule(t, s, "s", scheduler.Every(time.Hour)) // the same
		if sc := schedule(t, s, "s"); sc.Version != 1 {
			t.Errorf("version %d of an unchanged schedule", sc.Version)
		}
	})
}

// What somebody has changed by hand, in an emergency perhaps, is not undone because a
// process starts again; only another declaration does that.
func TestWithSchedule_ADeclarationCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for _, life := range []struct {
			what    string
			every   time.Duration
			change  func(s *scheduler.Scheduler) error
			version int
			want    time.Duration // of the trigger, before the change
		}{
			{"new", time.Hour, nil, 1, time.Hour},
			{"declared otherwise, rolled back", 2 * time.Hour, func(s *scheduler.Scheduler) error {
				return s.RollbackSchedule(t.Context(), "s", 1)
			}, 2, 2 * time.Hour},
			{"a restart", 2 * time.Hour, nil, 3, time.Hour},
			{"declared as it is", time.Hour, nil, 3, time.Hour},
			{"declared otherwise again, changed by hand", 2 * time.Hour, func(s *scheduler.Scheduler) error {
				return s.Schedule(t.Context(), "s", scheduler.Every(5*time.Hour), echo.With(""))
			}, 4, 2 * time.Hour},
			{"another restart, deleted", 2 * time.Hour, func(s *scheduler.Scheduler) error {
				return s.DeleteSchedule(t.Context(), "s")
			}, 5, 5 * time.Hour},
			{"made again", 2 * time.Hour, nil, 6, 2 * time.Hour},
		} {
			s := start(t, scheduler.WithDataDir(dir), scheduler.WithTasks("echo"),
				scheduler.WithSchedule("s", scheduler.Every(life.every), echo.With("")))
			sc := schedule(t, s, "s")
			if want := scheduler.Every(life.want).Describe(); sc.Version != life.version || sc.Trigger.Describe() != want {
				t.Errorf("%s: version %d, %v; want version %d, %s", life.what, sc.Version, sc.Trigger.Describe(), life.version, want)
			}
			if life.change != nil {
				if err := life.change(s); err != nil {
					t.Errorf("%s: %v", life.what, err)
				}
			}
			shutdown(t, s)
		}
	})
}

// The same for files: a change elsewhere in them touches nothing else.
func TestWithScheduleFile_ADeclarationCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "schedules.yaml")
		write(t, path, dailyA)
		s := start(t, scheduler.WithTasks("echo"), scheduler.WithScheduleFile(path))
		if err := s.Schedule(t.Context(), "a", scheduler.Every(time.Hour), echo.With("")); err != nil {
			t.Fatal(err)
		}
		write(t, path, dailyA+hourlyB)
		time.Sleep(3 * time.Second)
		if a, b := schedule(t, s, "a"), schedule(t, s, "b"); a.Version != 2 || b.Version != 1 {
			t.Errorf("versions %d and %d, want 2 and 1", a.Version, b.Version)
		}
		findings, err := s.Lint(t.Context(), scheduler.WithScheduleFile(path))
		if err != nil || !slices.ContainsFunc(findings, func(f scheduler.ScheduleFinding) bool {
			return f.Schedule == "a" && f.Rule == scheduler.RuleRefused && strings.Contains(f.Text, "version 2 stays in force")
		}) {
			t.Errorf("lint: %v, %v", findings, err)
		}
	})
}

// A trial that a declaration asks for goes with it; one that was begun by hand goes with
// the next declaration that is another one.
func TestWithSchedule_ATrialEndsWithItsDeclaration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		trial := scheduler.Canary(scheduler.Trial{Share: 0.5})
		var s *scheduler.Scheduler
		life := func(what, input string, version, trialed int, opts ...scheduler.ScheduleOption) {
			t.Helper()
			if s != nil {
				shutdown(t, s)
			}
			s = start(t, scheduler.WithDataDir(dir), scheduler.WithTasks("echo"),
				scheduler.WithSchedule("s", scheduler.Cron("@daily"), echo.With(input), opts...))
			if sc := schedule(t, s, "s"); sc.Version != version || sc.Trial != trialed {
				t.Errorf("%s: version %d, trial %d; want %d and %d", what, sc.Version, sc.Trial, version, trialed)
			}
		}
		byHand := func(input string) {
			t.Helper()
			if err := s.Schedule(t.Context(), "s", scheduler.Cron("@daily"), echo.With(input), trial); err != nil {
				t.Fatal(err)
			}
		}
		life("new", "a", 1, 0)
		life("on trial", "b", 1, 2, trial)
		life("taken back", "a", 1, 0)
		life("taken back, a restart", "a", 1, 0)
		byHand("c")
		life("on trial by hand", "a", 1, 3)
		life("nothing to try", "a", 1, 0, trial)
		life("on trial again", "b", 1, 4, trial)
		life("with another share", "b", 1, 5, scheduler.Canary(scheduler.Trial{Share: 0.1}))
		life("without a trial", "b", 6, 0)
		life("with a trial that is over", "b", 6, 0, trial)
		byHand("d")
		if err := s.PromoteSchedule(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		life("promoted by hand", "b", 7, 0, trial)
		if err := s.DeleteSchedule(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		life("deleted", "b", 8, 0, trial)
	})
}

// What was changed by hand may be so by deleting it first.
func TestWithSchedule_MadeAgainByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		opts := []scheduler.Option{
			scheduler.WithDataDir(t.TempDir()), scheduler.WithTasks("echo"), scheduler.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
			scheduler.WithSchedule("s", scheduler.Every(time.Hour), echo.With("")),
		}
		s := start(t, opts...)
		if err := s.DeleteSchedule(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		mustSchedule(t, s, "s", scheduler.Every(2*time.Hour))
		shutdown(t, s)
		s = start(t, opts...)
		if sc := schedule(t, s, "s"); sc.Version != 2 {
			t.Errorf("version %d, want 2", sc.Version)
		}
		shutdown(t, s)
		if n := strings.Count(log.String(), "not what it is declared as"); n != 1 {
			t.Errorf("the log tells %d times of it, want once:\n%s", n, log.String())
		}
	})
}

// A file whose trials are long over is no obstacle to a change of when its schedule runs
// that was made by hand, nor the other way around.
func TestWithScheduleFile_ATriggerChangedByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "schedules.yaml")
		const tried = "schedules:\n  - {id: s, cron: '@daily', task: echo, input: new, canary: {share: 1, runs: 3}}\n"
		write(t, path, tried)
		opts := []scheduler.Option{scheduler.WithDataDir(t.TempDir()), scheduler.WithTasks("echo"), scheduler.WithScheduleFile(path)}
		s := start(t, opts...)
		mustSchedule(t, s, "s", scheduler.Cron("@hourly"))
		write(t, path, tried+hourlyB)
		time.Sleep(3 * time.Second)
		wantReason(t, s, "")
		if sc := schedule(t, s, "s"); sc.Version != 2 || len(listed(t, s)) != 2 {
			t.Errorf("version %d, %v", sc.Version, listed(t, s))
		}
		shutdown(t, s)
		s = start(t, opts...)
		wantReason(t, s, "")
		if sc := schedule(t, s, "s"); sc.Version != 2 {
			t.Errorf("after a restart: version %d", sc.Version)
		}
	})
}

// The Go trigger of a declaration that changes nothing is not asked.
func TestCustom_IsNotAskedForADeclarationThatCountsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m moody
		path := filepath.Join(t.TempDir(), "schedules.yaml")
		const custom = "schedules:\n  - {id: f, custom: {name: moody}, task: echo}\n"
		write(t, path, custom)
		opts := []scheduler.Option{
			scheduler.WithDataDir(t.TempDir()), scheduler.WithTasks("echo"), m.trigger("moody"),
			scheduler.WithScheduleFile(path), scheduler.WithSchedule("s", scheduler.Custom("moody", nil), echo.With("")),
		}
		s := start(t, opts...)
		for _, id := range []string{"s", "f"} {
			mustSchedule(t, s, id, scheduler.Cron("@daily"))
		}
		shutdown(t, s)
		m.set(func() { t.Error("it was asked") })
		s = start(t, opts...)
		write(t, path, custom+hourlyB)
		time.Sleep(3 * time.Second)
		wantReason(t, s, "")
		if a, b := schedule(t, s, "s"), schedule(t, s, "f"); a.Version != 2 || b.Version != 2 || len(listed(t, s)) != 3 {
			t.Errorf("versions %d and %d, %v", a.Version, b.Version, listed(t, s))
		}
	})
}

func TestMaxRuns_Changed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		s := start(t, beat(&notes))
		for _, c := range []struct {
			what  string
			every time.Duration
			most  int
			want  []string
		}{
			{"five", time.Minute, 5, []string{"1m0s", "2m0s", "3m0s"}},
			{"fewer than there were", time.Minute, 2, nil},
			{"of another trigger", 2 * time.Minute, 3, nil},
			{"one more", 2 * time.Minute, 4, []string{"12m0s"}},
		} {
			mustSchedule(t, s, "s", scheduler.Every(c.every), scheduler.MaxRuns(c.most))
			time.Sleep(200 * time.Second)
			synctest.Wait()
			wantLines(t, c.what, notes.take(), c.want...)
		}
	})
}

func TestMaxRuns_DeclaredWithMore(t *testing.T) {
	for name, trigger := range map[string]scheduler.Trigger{
		"cron": scheduler.Cron("* * * * *"), "every": scheduler.Every(time.Minute), "after": scheduler.After(time.Minute),
		"custom": scheduler.Custom("each", map[string]any{"Every": time.Minute}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var notes journal
				dir := t.TempDir()
				for life, most := range []int{1, 1, 2, 2} {
					s := start(t, beat(&notes), scheduler.WithDataDir(dir), scheduler.WithTrigger("each", each),
						scheduler.WithSchedule("s", trigger, echo.With(""), scheduler.MaxRuns(most)))
					time.Sleep(3 * time.Minute)
					synctest.Wait()
					if n, want := len(notes.take()), []int{1, 0, 1, 0}[life]; n != want {
						t.Errorf("life %d, at most %d runs: %d, want %d", life, most, n, want)
					}
					shutdown(t, s)
				}
			})
		})
	}
}
