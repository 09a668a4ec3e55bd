package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/worker"
)

// within executes one run of a pool of its own with the handler, and returns the report.
func within(t *testing.T, h worker.Handler, change ...func(*store.Run)) (rep store.Report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := start(t, 1, handlers{"job": h})
		a := r.assign("job", change...)
		time.Sleep(24 * time.Hour)
		rep = r.outcome(t, a)
	})
	return rep
}

func TestHandlerContext(t *testing.T) {
	t.Run("has not ended while the handler runs", func(t *testing.T) {
		within(t, func(ctx context.Context, x *worker.Execution) ([]byte, error) {
			if err, cause := ctx.Err(), context.Cause(ctx); err != nil || cause != nil {
				t.Errorf("got %v, %v", err, cause)
			}
			if _, ok := ctx.Deadline(); ok {
				t.Error("it has a deadline though the run has no timeout")
			}
			if got := worker.Current(ctx); got != x {
				t.Errorf("Current: got %p, want %p", got, x)
			}
			child, cancel := context.WithCancel(context.WithValue(ctx, ctxKey{}, 1))
			defer cancel()
			if got := worker.Current(child); got != x {
				t.Errorf("Current of a derived context: got %p, want %p", got, x)
			}
			return nil, nil
		})
		if got := worker.Current(t.Context()); got != nil {
			t.Errorf("outside of a handler: got %v", got)
		}
	})

	t.Run("times out", func(t *testing.T) {
		for name, look := range map[string]func(context.Context) (context.Context, context.CancelFunc){
			"itself":  func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} },
			"derived": context.WithCancel,
			"valued": func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithCancel(context.WithValue(ctx, ctxKey{}, 1))
			},
		} {
			t.Run(name, func(t *testing.T) {
				rep := within(t, func(ctx context.Context, _ *worker.Execution) ([]byte, error) {
					begin := time.Now()
					at, ok := ctx.Deadline()
					if got := at.Sub(begin); !ok || got != time.Minute {
						t.Errorf("deadline in %v", got)
					}
					ctx, cancel := look(ctx)
					defer cancel()
					<-ctx.Done()
					if got := time.Since(begin); got != time.Minute {
						t.Errorf("ended after %v", got)
					}
					if got := context.Cause(ctx); !errors.Is(got, worker.ErrTimeout) {
						t.Errorf("cause: got %v", got)
					}
					return nil, ctx.Err()
				}, timeout(time.Minute))
				if want := "worker: run timed out: context deadline exceeded"; rep.Outcome != store.OutcomeFailed || rep.Error != want {
					t.Errorf("got %v %q, want %q", rep.Outcome, rep.Error, want)
				}
			})
		}
	})

	t.Run("is asked for the first time after its end", func(t *testing.T) {
		within(t, func(ctx context.Context, _ *worker.Execution) ([]byte, error) {
			time.Sleep(time.Minute)
			if got := context.Cause(ctx); !errors.Is(got, worker.ErrTimeout) {
				t.Errorf("cause: got %v", got)
			}
			if got := ctx.Err(); !errors.Is(got, context.DeadlineExceeded) {
				t.Errorf("error: got %v", got)
			}
			return nil, nil
		}, timeout(time.Minute))
		synctest.Test(t, func(t *testing.T) {
			r := start(t, 1, handlers{"job": func(ctx context.Context, _ *worker.Execution) ([]byte, error) {
				time.Sleep(time.Minute)
				if got := context.Cause(ctx); !errors.Is(got, worker.ErrPreempted) {
					t.Errorf("cause: got %v", got)
				}
				return nil, context.Cause(ctx)
			}})
			a := r.assign("job")
			synctest.Wait()
			r.Cancel(a.Run.ID, a.Fence, worker.ErrPreempted)
			time.Sleep(time.Hour)
			if got := r.outcome(t, a).Outcome; got != store.OutcomeInterrupted {
				t.Errorf("got %v", got)
			}
		})
	})

	t.Run("ends when the handler has returned, and knows it is over", func(t *testing.T) {
		for _, early := range []bool{true, false} { // asked for its channel before, or not
			synctest.Test(t, func(t *testing.T) {
				var left context.Context
				r := start(t, 1, handlers{"job": func(ctx context.Context, _ *worker.Execution) ([]byte, error) {
					if left = ctx; early {
						ctx.Done()
					}
					return nil, nil
				}})
				r.outcome(t, r.assign("job", timeout(time.Hour)))
				if r.outcome(t, r.assign("job")); left.Err() == nil {
					t.Error("it has not ended")
				}
				if got := context.Cause(left); !errors.Is(got, context.Canceled) {
					t.Errorf("cause: got %v", got)
				}
				<-left.Done()
			})
		}
	})

	t.Run("has the values of Run's context, and not its end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := new(leader)
			var ctxErr error
			p, err := worker.New(worker.Config{
				Slots: 1, Report: l.report, Checkpoint: l.checkpoint, NewAlarm: plain,
				Handlers: handlers{"job": func(ctx context.Context, _ *worker.Execution) ([]byte, error) {
					before := ctx.Value(ctxKey{})
					<-ctx.Done()
					ctxErr = context.Cause(ctx)
					return []byte(before.(string) + ctx.Value(ctxKey{}).(string)), nil
				}},
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), ctxKey{}, "v"), time.Second)
			defer cancel()
			a := l.grant("job", 0)
			p.Assign([]worker.Assignment{a})
			if err := p.Run(ctx); err != nil {
				t.Error(err)
			}
			if !errors.Is(ctxErr, worker.ErrShutdown) {
				t.Errorf("cause: got %v, want %v", ctxErr, worker.ErrShutdown)
			}
			if got := l.of(a); len(got) != 1 || string(got[0].Result) != "vv" || got[0].Outcome != store.OutcomeSucceeded {
				t.Errorf("got %+v", got)
			}
		})
	})
}

type ctxKey struct{}

func TestOutcomes(t *testing.T) {
	boom := errors.New("boom")
	late := func(err error) worker.Handler {
		return func(ctx context.Context, _ *worker.Execution) ([]byte, error) {
			<-ctx.Done()
			return []byte("r"), err
		}
	}
	now := func(err error) worker.Handler {
		return func(context.Context, *worker.Execution) ([]byte, error) { return []byte("r"), err }
	}
	for name, c := range map[string]struct {
		handler worker.Handler
		want    store.Report // as far as it is about the outcome
	}{
		"nil":                      {now(nil), store.Report{Outcome: store.OutcomeSucceeded, Result: []byte("r")}},
		"error":                    {now(boom), store.Report{Outcome: store.OutcomeFailed, Error: "boom"}},
		"permanent":                {now(worker.Permanent(boom)), store.Report{Outcome: store.OutcomePermanent, Error: "boom"}},
		"permanent, joined":        {now(errors.Join(worker.RetryAfter(boom, 1), worker.Permanent(boom))), store.Report{Outcome: store.OutcomePermanent, Error: "boom\nboom"}},
		"permanent of nil":         {now(worker.Permanent(nil)), store.Report{Outcome: store.OutcomeSucceeded, Result: []byte("r")}},
		"retry after":              {now(worker.RetryAfter(boom, time.Minute)), store.Report{Outcome: store.OutcomeRetryAfter, Error: "boom", Delay: int64(time.Minute)}},
		"retry after nothing":      {now(worker.RetryAfter(boom, -1)), store.Report{Outcome: store.OutcomeRetryAfter, Error: "boom"}},
		"snooze":                   {now(worker.Snooze(time.Minute)), store.Report{Outcome: store.OutcomeSnoozed, Delay: int64(time.Minute)}},
		"snooze for nothing":       {now(worker.Snooze(-1)), store.Report{Outcome: store.OutcomeSnoozed, Delay: int64(time.Millisecond)}},
		"bad error":                {now((*badError)(nil)), store.Report{Outcome: store.OutcomeFailed, Error: "<nil>"}},
		"invalid text":             {now(errors.New("a\xffb")), store.Report{Outcome: store.OutcomeFailed, Error: "a?b"}},
		"nil after the timeout":    {late(nil), store.Report{Outcome: store.OutcomeSucceeded, Result: []byte("r")}},
		"error after timeout":      {late(boom), store.Report{Outcome: store.OutcomeFailed, Error: "worker: run timed out: boom"}},
		"permanent after timeout":  {late(worker.Permanent(boom)), store.Report{Outcome: store.OutcomeFailed, Error: "worker: run timed out: boom"}},
		"ErrTimeout after timeout": {late(worker.ErrTimeout), store.Report{Outcome: store.OutcomeFailed, Error: "worker: run timed out"}},
		"snooze after timeout":     {late(worker.Snooze(time.Minute)), store.Report{Outcome: store.OutcomeSnoozed, Delay: int64(time.Minute)}},
	} {
		t.Run(name, func(t *testing.T) {
			got := within(t, c.handler, timeout(time.Minute))
			if got.Outcome != c.want.Outcome || got.Error != c.want.Error || got.Delay != c.want.Delay || string(got.Result) != string(c.want.Result) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

type badError struct{ text string }

func (e *badError) Error() string { return e.text }

// A logSink keeps the lines of a logger.
type logSink struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *logSink) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *logSink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *logSink) into(c *worker.Config) {
	c.Logger = slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func TestPool_stuck_handler_is_told_with_its_stack(t *testing.T) {
	for name, end := range map[string]func(*rig, worker.Assignment){
		"after its timeout": func(*rig, worker.Assignment) { time.Sleep(time.Minute) },
		"after Cancel": func(r *rig, a worker.Assignment) {
			time.Sleep(time.Second)
			r.Cancel(a.Run.ID, a.Fence, worker.ErrCanceled)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var told []time.Duration
				var stack string
				sink := new(logSink)
				r := start(t, 2, handlers{"deaf": deaf, "ok": ok, "slow": sleep(5 * time.Second)}, sink.into, func(c *worker.Config) {
					c.Observer.Stuck = func(_ *store.Run, ignored time.Duration, s []byte) {
						mu.Lock()
						defer mu.Unlock()
						told, stack = append(told, ignored), string(s)
					}
				})
				r.assign("ok", timeout(time.Second)) // has its patrol pass by in vain
				a := r.assign("deaf", timeout(time.Minute))
				synctest.Wait()
				end(r, a)
				synctest.Wait()
				time.Sleep(10*time.Second - 1)
				mu.Lock()
				if len(told) != 0 {
					t.Error("told early")
				}
				mu.Unlock()
				time.Sleep(time.Minute)
				r.Cancel(a.Run.ID, a.Fence, worker.ErrCanceled) // does not make it more stuck
				r.assign("slow", timeout(time.Second))          // nor does a patrol for another's sake
				time.Sleep(time.Hour)
				synctest.Wait()
				mu.Lock()
				defer mu.Unlock()
				if len(told) != 1 || told[0] != 10*time.Second {
					t.Errorf("told: got %v, want once after 10s", told)
				}
				if !strings.Contains(stack, "worker_test.deaf") {
					t.Errorf("stack: got %q", stack)
				}
				if got := sink.String(); !strings.Contains(got, "level=WARN") || !strings.Contains(got, a.Run.ID.String()) {
					t.Errorf("log: got %s", got)
				}
			})
		})
	}
}

// deaf is a handler that ignores its context for two hours.
func deaf(context.Context, *worker.Execution) ([]byte, error) {
	time.Sleep(2 * time.Hour)
	return nil, nil
}
