package scheduler_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
)

// While a scheduler shuts down nothing begins, so a handler that waits for
// another run would wait for ever.
func TestShutdown_EndsHandlersThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		child := scheduler.NewJob[int]("child")
		parent := scheduler.NewJob[int]("parent")
		var s *scheduler.Scheduler
		causes := make(chan error, 1)
		s = start(t,
			scheduler.WithConcurrency(1),
			scheduler.WithFunc(child, func(context.Context, int) error { return nil }),
			scheduler.WithFunc(parent, func(ctx context.Context, _ int) error {
				f, err := child.Enqueue(ctx, s, 1, scheduler.In(time.Hour))
				if err != nil {
					return err
				}
				_, err = f.Wait(ctx)
				causes <- context.Cause(ctx)
				return err
			}))
		if _, err := parent.Enqueue(t.Context(), s, 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		began := time.Now()
		if err := s.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("Shutdown took %v, want no waiting for the child", took)
		}
		if got, want := <-causes, scheduler.ErrShutdown; !errors.Is(got, want) {
			t.Errorf("cause: got %v, want %v", got, want)
		}
		time.Sleep(time.Minute)
	})
}
