package scheduler_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
)

// What waited when a scheduler was stopped is started the moment it is back, and
// may call it.
func TestStart_HandlersMayCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		child := scheduler.NewJob[string]("child")
		s := start(t, scheduler.WithDataDir(dir), scheduler.WithTasks("echo", "child"))
		f := enqueue(t, s, echo, "a")
		shutdown(t, s)
		opts := []scheduler.Option{scheduler.WithDataDir(dir), scheduler.WithTasks("child")}
		for _, id := range []string{"a", "b", "c"} {
			opts = append(opts, scheduler.WithSchedule(id, scheduler.Every(time.Hour), child.With("")))
		}
		s = start(t, append(opts, scheduler.WithHandler(echo, func(ctx context.Context, in string) (string, error) {
			_, err := child.Enqueue(ctx, s, in)
			return in, err
		}))...)
		if _, err := echo.Future(s, f.ID()).Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if r := get(t, s, f.ID()); r.Failures != 0 {
			t.Errorf("failures: got %d (%+v), want none", r.Failures, r.Attempts)
		}
	})
}

// A run that is being leased when an idle pool drains is handed back: its lease
// is not lost, which would be a crash.
func TestShutdown_LosesNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for range 20 {
			s := start(t, scheduler.WithDataDir(dir), scheduler.WithHandler(echo, echoes))
			var caller sync.WaitGroup
			caller.Go(func() { _, _ = echo.Enqueue(t.Context(), s, "") }) // before the shutdown, or after
			runtime.Gosched()
			shutdown(t, s)
			caller.Wait()
		}
		s := start(t, scheduler.WithDataDir(dir), scheduler.WithTasks("echo"))
		for _, r := range collect(t, s.Runs(t.Context(), scheduler.RunFilter{})) {
			if r.Crashes > 0 {
				t.Errorf("run %v has %d crashes", r.ID, r.Crashes)
			}
		}
	})
}

func TestRun_EndsWithShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(t)
		done := make(chan error)
		go func() { done <- s.Run(t.Context()) }()
		<-s.Ready()
		shutdown(t, s)
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}
