package scheduler_test

import (
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
