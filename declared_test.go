package scheduler_test

import (
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
			return f.Schedule == "a" && f.Rule == scheduler.RuleRefused && strings.Contains(f.Text, "version 2, made since, stays")
		}) {
			t.Errorf("lint: %v, %v", findings, err)
		}
	})
}
