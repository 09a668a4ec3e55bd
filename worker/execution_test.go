package worker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/worker"
)

type place struct{ Page int }

func TestExecution(t *testing.T) {
	t.Run("tells who it is", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			sink := new(logSink)
			nominal := time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC)
			r := start(t, 1, handlers{"job": func(_ context.Context, x *worker.Execution) ([]byte, error) {
				x.Logger().Info("here")
				return []byte(x.ID().String() + x.Task()), errors.Join(
					equal("attempt", x.Attempt(), 3), equal("fence", x.Fence(), uint64(1)),
					equal("scheduled at", x.ScheduledAt().UTC(), nominal))
			}}, sink.into)
			a := r.assign("job", func(run *store.Run) {
				run.Attempt, run.More = 3, &store.RunMore{Schedule: "s", Nominal: nominal.UnixNano()}
			})
			if got := r.outcome(t, a); got.Error != "" || string(got.Result) != a.Run.ID.String()+"job" {
				t.Errorf("got %s %q", got.Error, got.Result)
			}
			if want := "msg=here run_id=" + a.Run.ID.String() + " task=job attempt=3 fence=1"; !strings.Contains(sink.String(), want) {
				t.Errorf("log: want %q in\n%s", want, sink)
			}
		})
	})

	t.Run("without a schedule it is scheduled for its due time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, 1, handlers{"job": func(_ context.Context, x *worker.Execution) ([]byte, error) {
				return nil, equal("scheduled at", x.ScheduledAt(), time.Unix(0, x.Run().Due).UTC())
			}})
			if got := r.outcome(t, r.assign("job")); got.Error != "" {
				t.Error(got.Error)
			}
		})
	})
}

func equal[T comparable](what string, got, want T) error {
	if got != want {
		return errors.New(what)
	}
	return nil
}

func TestExecution_Checkpoint(t *testing.T) {
	t.Run("is committed, and resumed from", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var pages []int
			r := start(t, 1, handlers{"job": func(_ context.Context, x *worker.Execution) ([]byte, error) {
				at := place{-1}
				if !x.Resume(&at) && at.Page != -1 {
					t.Error("Resume without a checkpoint has changed its argument")
				}
				if err := x.Checkpoint(place{at.Page + 10}); err != nil {
					return nil, err
				}
				if !x.Resume(&at) {
					t.Error("no checkpoint after Checkpoint")
				}
				pages = append(pages, at.Page)
				return nil, nil
			}})
			first := r.assign("job")
			r.outcome(t, first)
			if got := r.checkpoints; len(got) != 1 || string(got[0].Data) != `{"Page":9}` || got[0].Fence != first.Fence || got[0].Run != first.Run.ID {
				t.Errorf("got %+v", got)
			}
			r.outcome(t, r.assign("job", func(run *store.Run) { run.More = &store.RunMore{Checkpoint: []byte(`{"Page":9}`)} }))
			if want := []int{9, 19}; !slices.Equal(pages, want) {
				t.Errorf("got %v, want %v", pages, want)
			}
		})
	})

	t.Run("one that does not fit is none", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			sink := new(logSink)
			r := start(t, 1, handlers{"job": func(_ context.Context, x *worker.Execution) ([]byte, error) {
				var at place
				if x.Resume(&at) {
					t.Error("it fits")
				}
				return x.Saved(), nil
			}}, sink.into)
			a := r.assign("job", func(run *store.Run) { run.More = &store.RunMore{Checkpoint: []byte(`[1]`)} })
			if got := r.outcome(t, a); string(got.Result) != `[1]` {
				t.Errorf("Saved: got %q", got.Result)
			}
			if !strings.Contains(sink.String(), "level=WARN") {
				t.Errorf("log: got %s", sink)
			}
		})
	})

	t.Run("cannot be encoded", func(t *testing.T) {
		got := within(t, func(_ context.Context, x *worker.Execution) ([]byte, error) { return nil, x.Checkpoint(func() {}) })
		if !strings.HasPrefix(got.Error, "worker: checkpoint: json: unsupported type") {
			t.Errorf("got %q", got.Error)
		}
	})

	t.Run("of a lost lease ends the attempt", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var cause error
			r := start(t, 1, handlers{"job": func(ctx context.Context, x *worker.Execution) ([]byte, error) {
				if err := x.Checkpoint(1); !errors.Is(err, worker.ErrLeaseLost) {
					t.Errorf("first: got %v", err)
				}
				cause = context.Cause(ctx)
				if err := x.Checkpoint(2); !errors.Is(err, worker.ErrLeaseLost) {
					t.Errorf("second: got %v", err)
				}
				return nil, nil
			}}, func(c *worker.Config) {
				c.Checkpoint = func(context.Context, store.Checkpoint) error { return worker.ErrLeaseLost }
			})
			a := r.assign("job")
			synctest.Wait()
			if got := len(r.of(a)); got != 0 {
				t.Errorf("reports: got %d, want none", got)
			}
			if !errors.Is(cause, worker.ErrLeaseLost) {
				t.Errorf("cause: got %v", cause)
			}
		})
	})

	// endings are the ends of a handler's context in the middle of a commit that hangs.
	for cause, want := range map[error]time.Duration{
		worker.ErrLeaseLost: 0, worker.ErrCanceled: 0,
		worker.ErrPreempted: 5 * time.Second, worker.ErrShutdown: 5 * time.Second,
	} {
		t.Run("while the context ends: "+cause.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var took atomic.Int64
				r := start(t, 1, handlers{"job": func(ctx context.Context, x *worker.Execution) ([]byte, error) {
					begin := time.Now()
					err := x.Checkpoint(1)
					took.Store(int64(time.Since(begin)))
					if !errors.Is(err, cause) || !errors.Is(context.Cause(ctx), cause) {
						t.Errorf("got %v, want %v", err, cause)
					}
					return nil, err
				}}, func(c *worker.Config) {
					c.Checkpoint = func(ctx context.Context, _ store.Checkpoint) error {
						<-ctx.Done()
						return ctx.Err()
					}
				})
				a := r.assign("job")
				time.Sleep(time.Second)
				r.Cancel(a.Run.ID, a.Fence, cause)
				time.Sleep(time.Hour)
				if got := time.Duration(took.Load()) - time.Second; got != want {
					t.Errorf("returned %v after the end, want %v", got, want)
				}
			})
		})
	}

	t.Run("after the end, as a last deed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, 1, handlers{"job": func(ctx context.Context, x *worker.Execution) ([]byte, error) {
				<-ctx.Done()
				return nil, errors.Join(ctx.Err(), x.Checkpoint(7))
			}})
			r.assign("job")
			synctest.Wait()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := r.Drain(ctx); err != nil {
				t.Error(err)
			}
			if len(r.checkpoints) != 1 {
				t.Errorf("got %+v", r.checkpoints)
			}
		})
	})
}

func TestExecution_Yield(t *testing.T) {
	t.Run("lets another run have the slot and waits for one", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			var back time.Duration
			r := start(t, 1, handlers{"other": sleep(3 * time.Second), "job": func(ctx context.Context, x *worker.Execution) ([]byte, error) {
				resume := x.Yield()
				time.Sleep(time.Second)
				err := resume(ctx)
				back = time.Since(begin)
				return nil, errors.Join(err, resume(ctx))
			}})
			job := r.assign("job")
			synctest.Wait()
			if got := r.Capacity(); got != 2 {
				t.Errorf("capacity while away: got %d, want 2", got)
			}
			r.assign("other")
			r.assign("other") // is ready when the slot is free, but later in line
			time.Sleep(2 * time.Second)
			if s := r.Snapshot(); s.Used != 1 || len(s.Running) != 2 || !s.Running[0].Yielded || s.Running[1].Yielded {
				t.Errorf("got %+v", s)
			}
			time.Sleep(time.Hour)
			if got := r.outcome(t, job); got.Outcome != store.OutcomeSucceeded || back != 3*time.Second {
				t.Errorf("got %v %q, back after %v, want 3s", got.Outcome, got.Error, back)
			}
			if s := r.Snapshot(); s.Used != 0 || r.Capacity() != 1 {
				t.Errorf("left over: %+v", s)
			}
		})
	})

	t.Run("gives up with the cause", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, 1, handlers{"other": sleep(time.Hour), "job": func(ctx context.Context, x *worker.Execution) ([]byte, error) {
				resume := x.Yield()
				time.Sleep(time.Second)
				return nil, resume(ctx)
			}})
			job := r.assign("job", timeout(time.Minute))
			synctest.Wait()
			r.assign("other")
			time.Sleep(2 * time.Minute)
			if got := r.outcome(t, job); got.Outcome != store.OutcomeFailed || got.Error != worker.ErrTimeout.Error() {
				t.Errorf("got %v %q", got.Outcome, got.Error)
			}
			if s := r.Snapshot(); s.Used != 1 || len(s.Running) != 1 {
				t.Errorf("got %+v", s)
			}
		})
	})

	t.Run("by several goroutines, the last takes the slot back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, 1, handlers{"job": func(ctx context.Context, x *worker.Execution) ([]byte, error) {
				short, long := x.Yield(), x.Yield()
				if err := short(ctx); err != nil {
					return nil, err
				}
				time.Sleep(time.Minute)
				return nil, long(ctx)
			}})
			r.assign("job")
			time.Sleep(time.Second)
			if got := r.Snapshot().Used; got != 0 {
				t.Errorf("slots in use while one waits: got %d, want 0", got)
			}
			time.Sleep(time.Hour)
		})
	})

	t.Run("again, while another goroutine is in line", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var released time.Time
			r := start(t, 1, handlers{"other": sleep(time.Hour), "job": func(ctx context.Context, x *worker.Execution) ([]byte, error) {
				resume := x.Yield()
				time.Sleep(time.Second) // other has the slot now
				in := make(chan error)
				go func() { in <- resume(ctx) }()
				time.Sleep(time.Second)
				again := x.Yield()
				err := <-in
				released = time.Now()
				return nil, errors.Join(err, again(ctx))
			}})
			begin := time.Now()
			job := r.assign("job")
			synctest.Wait()
			r.assign("other")
			time.Sleep(2 * time.Hour)
			if got := r.outcome(t, job); got.Outcome != store.OutcomeSucceeded {
				t.Errorf("got %v %q", got.Outcome, got.Error)
			}
			if got := released.Sub(begin); got != 2*time.Second {
				t.Errorf("the other goroutine waited until %v, want 2s", got)
			}
		})
	})

	t.Run("with a goroutine left in line when the handler returns", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			in := make(chan error, 1) // the one result
			r := start(t, 1, handlers{"other": sleep(time.Hour), "job": func(ctx context.Context, x *worker.Execution) ([]byte, error) {
				resume := x.Yield()
				time.Sleep(time.Second)
				go func() { in <- resume(context.WithoutCancel(ctx)) }()
				time.Sleep(time.Second)
				return nil, nil
			}})
			r.assign("job")
			synctest.Wait()
			r.assign("other")
			time.Sleep(time.Minute)
			if err := <-in; err != nil {
				t.Error(err)
			}
			time.Sleep(time.Hour)
			if s := r.Snapshot(); s.Used != 0 || len(s.Running) != 0 {
				t.Errorf("left over: %+v", s)
			}
		})
	})

	t.Run("is told as capacity, however many slots there are", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, 100, handlers{"job": func(ctx context.Context, x *worker.Execution) ([]byte, error) {
				resume := x.Yield()
				time.Sleep(time.Second)
				err := resume(ctx)
				time.Sleep(time.Second)
				return nil, err
			}})
			r.assign("job")
			time.Sleep(1500 * time.Millisecond)
			synctest.Wait()
			r.mu.Lock()
			defer r.mu.Unlock()
			if want := []int{89, 88}; !slices.Equal(r.capacity, want) {
				t.Errorf("got %v, want %v", r.capacity, want)
			}
		})
	})

	t.Run("without coming back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, 1, handlers{"ok": ok, "job": func(_ context.Context, x *worker.Execution) ([]byte, error) {
				x.Yield()
				return nil, nil
			}})
			for range 3 {
				r.outcome(t, r.assign("job"))
			}
			r.outcome(t, r.assign("ok"))
			if s := r.Snapshot(); s.Used != 0 || s.Capacity > 1+8192 {
				t.Errorf("got %+v", s)
			}
		})
	})
}
