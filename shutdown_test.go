package scheduler_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
)

// untilStopped is a handler that goes on until its context ends, and tells why.
func untilStopped(causes chan<- error) func(context.Context, string) (string, error) {
	return func(ctx context.Context, _ string) (string, error) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return "", ctx.Err()
	}
}

// Calls of Shutdown share one, and the context that ends first counts for all.
func TestShutdown_TheEarliestDeadlineCounts(t *testing.T) {
	for name, first := range map[string]time.Duration{"after one without": 0, "after a later one": time.Hour, "after an earlier one": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				causes := make(chan error, 1)
				s := start(t, scheduler.WithHandler(echo, untilStopped(causes)))
				enqueue(t, s, echo, "")
				synctest.Wait()
				began := time.Now()
				var calls sync.WaitGroup
				for _, d := range []time.Duration{first, 5 * time.Second, time.Minute} {
					ctx := context.WithoutCancel(t.Context())
					if d > 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, d)
						defer cancel()
					}
					calls.Go(func() {
						if err := s.Shutdown(ctx); err != nil {
							t.Errorf("Shutdown within %v: %v", d, err)
						}
					})
					synctest.Wait()
				}
				wantErr(t, "cause", <-causes, scheduler.ErrShutdown)
				want := 5 * time.Second
				if first > 0 {
					want = min(want, first)
				}
				if got := time.Since(began); got != want {
					t.Errorf("the handler was stopped after %v, want %v", got, want)
				}
				calls.Wait()
			})
		})
	}
}

func TestShutdown_InHandler(t *testing.T) {
	call := func(t *testing.T, shutdown func(context.Context, *scheduler.Scheduler) error) (*scheduler.Scheduler, error) {
		t.Helper()
		var s *scheduler.Scheduler
		errs := make(chan error, 1)
		s = start(t, scheduler.WithHandler(echo, func(ctx context.Context, in string) (string, error) {
			errs <- shutdown(ctx, s)
			return in, nil
		}))
		enqueue(t, s, echo, "")
		return s, <-errs
	}
	t.Run("without a deadline it does nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, err := call(t, func(ctx context.Context, s *scheduler.Scheduler) error { return s.Shutdown(context.WithoutCancel(ctx)) })
			wantErr(t, "Shutdown", err, scheduler.ErrInHandler)
			if h := s.Health(t.Context()); !h.OK {
				t.Errorf("Health: got %+v, want that it goes on", h)
			}
		})
	})
	t.Run("with the handler's own context it does nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, err := call(t, func(ctx context.Context, s *scheduler.Scheduler) error { return s.Shutdown(ctx) })
			wantErr(t, "Shutdown", err, scheduler.ErrInHandler)
		})
	})
	t.Run("it returns at its deadline, and loses nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			s, err := call(t, func(ctx context.Context, s *scheduler.Scheduler) error {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
				defer cancel()
				return s.Shutdown(ctx)
			})
			wantErr(t, "Shutdown", err, context.DeadlineExceeded)
			if took := time.Since(began); took != 5*time.Second {
				t.Errorf("it took %v, want 5 s", took)
			}
			shutdown(t, s)
		})
	})
	t.Run("in a goroutine of its own it does not wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			result := make(chan error, 1)
			_, err := call(t, func(ctx context.Context, s *scheduler.Scheduler) error {
				go func() { result <- s.Shutdown(context.WithoutCancel(ctx)) }() // ends with the scheduler
				return nil
			})
			if err := errors.Join(err, <-result); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
		})
	})
}
