package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/worker"
)

// The tests of this file are named after faults that other job schedulers have had in the field, as far as a pool alone
// can have them.

// A worker was lost with a run in hand, and the run was neither waiting nor finished: what a handler has done must
// reach the leader however long that takes, and nothing may be said about a lease that is gone.
func TestRow10_killed_worker(t *testing.T) {
	t.Run("a result is kept until it is stored", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, 2, handlers{"work": func(context.Context, *worker.Execution) ([]byte, error) { return []byte("done"), nil }})
			r.setCut(true)
			a := r.assign("work")
			time.Sleep(time.Hour)
			if got := r.Snapshot().Unreported; got != 1 {
				t.Errorf("unreported: got %d, want 1", got)
			}
			r.setCut(false)
			time.Sleep(time.Second)
			if got := r.outcome(t, a); got.Outcome != store.OutcomeSucceeded || string(got.Result) != "done" {
				t.Errorf("got %v %q", got.Outcome, got.Result)
			}
		})
	})
	t.Run("a lost lease is not reported on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var cause error
			r := start(t, 1, handlers{"work": func(ctx context.Context, _ *worker.Execution) ([]byte, error) {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return []byte("done"), nil
			}})
			running, queued, early := r.assign("work"), r.assign("work"), r.grant("work", time.Hour)
			r.Assign([]worker.Assignment{early})
			synctest.Wait()
			for _, a := range []worker.Assignment{early, queued, running} {
				r.Cancel(a.Run.ID, a.Fence, worker.ErrLeaseLost)
			}
			time.Sleep(2 * time.Hour)
			if got := r.all(); len(got) != 0 {
				t.Errorf("got reports %+v", got)
			}
			if !errors.Is(cause, worker.ErrLeaseLost) {
				t.Errorf("cause: got %v, want %v", cause, worker.ErrLeaseLost)
			}
			r.Assign([]worker.Assignment{queued}) // late duplicates change nothing
			synctest.Wait()
			if got := r.Running(); got != 0 {
				t.Errorf("running: got %d, want 0", got)
			}
		})
	})
}

// On a polite stop the leases went first and the handlers last, and others ran them too.
func TestRow12_drain(t *testing.T) {
	job := handlers{"job": func(ctx context.Context, _ *worker.Execution) ([]byte, error) {
		select {
		case <-time.After(time.Minute):
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}}
	t.Run("handlers finish and are reported before it returns", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, 1, job)
			running, queued, early := r.assign("job"), r.assign("job"), r.grant("job", time.Hour)
			r.Assign([]worker.Assignment{early})
			time.Sleep(5 * time.Second)
			begin := time.Now()
			done := make(chan error)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			go func() { done <- r.Drain(ctx) }()
			for _, a := range []worker.Assignment{queued, early} {
				if got := r.outcome(t, a).Outcome; got != store.OutcomeReleased {
					t.Errorf("not started: got %v, want %v at once", got, store.OutcomeReleased)
				}
			}
			late := r.assign("job")
			if got := r.outcome(t, late).Outcome; got != store.OutcomeReleased {
				t.Errorf("assigned while draining: got %v, want %v", got, store.OutcomeReleased)
			}
			r.setCut(true) // not even a scheduler that cannot be reached makes it lose the result
			time.Sleep(90 * time.Second)
			r.setCut(false)
			if err := <-done; err != nil {
				t.Error(err)
			}
			if got := r.outcome(t, running).Outcome; got != store.OutcomeSucceeded {
				t.Errorf("running: got %v, want %v", got, store.OutcomeSucceeded)
			}
			if took := time.Since(begin); took < 90*time.Second || took > 92*time.Second {
				t.Errorf("took %v", took)
			}
		})
	})
	t.Run("when the time is over an attempt is handed back once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, 4, job)
			a := r.assign("job")
			time.Sleep(5 * time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := r.Drain(ctx); err != nil {
				t.Error(err)
			}
			if got := r.outcome(t, a); got.Outcome != store.OutcomeInterrupted || got.Error != worker.ErrShutdown.Error() {
				t.Errorf("got %v %q, want %v", got.Outcome, got.Error, store.OutcomeInterrupted)
			}
		})
	})
}

// A canceled run whose handler obeyed was put down for a retry.
func TestRow13_cancel(t *testing.T) {
	boom := errors.New("boom")
	results := map[string]func(ctx context.Context) error{
		"nil":             func(context.Context) error { return nil },
		"context's error": func(ctx context.Context) error { return ctx.Err() },
		"context's cause": context.Cause,
		"error":           func(context.Context) error { return boom },
		"permanent":       func(context.Context) error { return worker.Permanent(boom) },
		"retry after":     func(context.Context) error { return worker.RetryAfter(boom, time.Second) },
		"snooze":          func(context.Context) error { return worker.Snooze(time.Second) },
		"panic":           func(context.Context) error { panic(boom) },
	}
	for name, result := range results {
		t.Run("running, handler returns "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, 1, handlers{"job": func(ctx context.Context, _ *worker.Execution) ([]byte, error) {
					<-ctx.Done()
					time.Sleep(time.Second) // "a moment later"
					return nil, result(ctx)
				}})
				a := r.assign("job")
				synctest.Wait()
				r.Cancel(a.Run.ID, a.Fence, worker.ErrPreempted)
				r.Cancel(a.Run.ID, a.Fence, worker.ErrCanceled) // has more to say, though it comes later
				r.Cancel(a.Run.ID, a.Fence, worker.ErrShutdown)
				time.Sleep(time.Minute)
				if got := r.outcome(t, a).Outcome; got != store.OutcomeCanceled {
					t.Errorf("got %v, want %v", got, store.OutcomeCanceled)
				}
			})
		})
	}
	t.Run("not started, already ended, unknown", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, 1, handlers{"job": sleep(10 * time.Millisecond)})
			first, queued, early := r.assign("job"), r.assign("job"), r.grant("job", time.Minute)
			preempted := r.assign("job")
			r.Assign([]worker.Assignment{early})
			synctest.Wait()
			r.Cancel(queued.Run.ID, queued.Fence, worker.ErrCanceled)
			r.Cancel(queued.Run.ID, queued.Fence, worker.ErrCanceled)
			r.Cancel(early.Run.ID, early.Fence, worker.ErrCanceled)
			r.Cancel(preempted.Run.ID, preempted.Fence, worker.ErrPreempted)
			r.Cancel(first.Run.ID, first.Fence+1, worker.ErrCanceled) // another attempt's fence
			time.Sleep(time.Hour)
			r.Cancel(first.Run.ID, first.Fence, worker.ErrCanceled)
			for a, want := range map[*worker.Assignment]store.Outcome{
				&first: store.OutcomeSucceeded, &queued: store.OutcomeCanceled, &early: store.OutcomeCanceled,
				&preempted: store.OutcomeReleased,
			} {
				if got := r.outcome(t, *a).Outcome; got != want {
					t.Errorf("got %v, want %v", got, want)
				}
			}
		})
	})
}

// A run that takes its process down was tried for ever. The leader counts lost leases; the pool's part is to say nothing
// about an attempt of which it does not know the end, and to name it, and to let the healthy runs go on.
func TestRow16_poison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		r := start(t, 4, handlers{"ok": ok, "poison": func(context.Context, *worker.Execution) ([]byte, error) {
			<-free
			return nil, nil
		}})
		poison := r.assign("poison")
		var healthy []worker.Assignment
		for range 10 {
			healthy = append(healthy, r.assign("ok"))
		}
		for _, a := range healthy {
			if got := r.outcome(t, a).Outcome; got != store.OutcomeSucceeded {
				t.Errorf("healthy: got %v, want %v", got, store.OutcomeSucceeded)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := r.Drain(ctx)
		var lost *worker.DrainError
		if !errors.As(err, &lost) || !errors.Is(err, worker.ErrNotDrained) {
			t.Fatalf("Drain: got %v, want a *DrainError", err)
		}
		if len(lost.Running) != 1 || lost.Running[0].Fence != poison.Fence || len(lost.Unreported) != 0 {
			t.Errorf("lost: got %+v, want the poison run", lost)
		}
		<-r.stopped
		if !errors.Is(r.runErr, worker.ErrNotDrained) {
			t.Errorf("Run: got %v", r.runErr)
		}
		close(free)
		synctest.Wait()
		if got := len(r.of(poison)); got != 0 {
			t.Errorf("reports of the poison run: got %d, want none", got)
		}
	})
}

// Long runs of an ordinary class held all workers while they waited for runs of the critical one.
func TestRow17_starvation(t *testing.T) {
	t.Run("parents that wait for their children", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var d *desk
			var mu sync.Mutex
			var worst time.Duration
			d = open(t, 10, handlers{
				"parent": func(ctx context.Context, x *worker.Execution) ([]byte, error) {
					for range 50 {
						asked := time.Now()
						child := d.enqueue("child", store.Critical)
						resume := x.Yield()
						<-child
						mu.Lock()
						worst = max(worst, time.Since(asked))
						mu.Unlock()
						if err := resume(ctx); err != nil {
							return nil, err
						}
						time.Sleep(time.Hour / 50)
					}
					return nil, nil
				},
				"child": sleep(time.Second),
			})
			begin := time.Now()
			var parents []<-chan struct{}
			for range 30 {
				parents = append(parents, d.enqueue("parent", store.Low))
			}
			for _, done := range parents {
				<-done
			}
			if took := time.Since(begin); took > 5*time.Hour { // thirty hours of work for nine slots, and their children's
				t.Errorf("took %v", took)
			}
			mu.Lock()
			defer mu.Unlock()
			// Thirty parents, of which nine may work at a time, keep one slot free: at worst their children use it in turn.
			if worst > 30*time.Second {
				t.Errorf("a critical child of a second took %v", worst)
			}
		})
	})
	t.Run("critical runs start while long ones hold all they can get", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := open(t, 10, handlers{"long": sleep(time.Hour), "child": sleep(time.Second)})
			for range 20 {
				d.enqueue("long", store.High)
			}
			time.Sleep(time.Minute)
			begin := time.Now()
			<-d.enqueue("child", store.Critical)
			if got := time.Since(begin); got != time.Second {
				t.Errorf("took %v, want 1s", got)
			}
		})
	})
	t.Run("a low run gets its turn in a stream of critical ones", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, 1, handlers{"stream": sleep(5 * time.Millisecond), "low": ok})
			var low worker.Assignment
			for i := range 100 {
				r.assign("stream", class(store.Critical)) // twice as many as one slot can do
				r.assign("stream", class(store.Critical))
				if i == 10 {
					low = r.assign("low", class(store.Low))
				}
				time.Sleep(5 * time.Millisecond)
			}
			got := r.outcome(t, low) // it was started, or given to somebody else
			if waited := time.Duration(got.Finished - low.Run.Due); waited > 300*time.Millisecond {
				t.Errorf("waited %v", waited)
			}
		})
	})
}

// A handler panicked, and what it held was not given back.
func TestRow18_panic(t *testing.T) {
	var nilMap map[string]int
	bad := map[string]struct {
		do   func()
		want string
	}{
		"with an error":         {func() { panic(errors.New("bad error")) }, "bad error"},
		"with a string":         {func() { panic("bad string") }, "bad string"},
		"with nil":              {func() { panic(nil) }, "panic called with nil argument"}, //nolint:govet // what it is about
		"with a runtime error":  {func() { nilMap["x"] = 1 }, "assignment to entry in nil map"},
		"with a bad Stringer":   {func() { panic((*badStringer)(nil)) }, "nil"},
		"with 1 MiB of text":    {func() { panic(strings.Repeat("x", 1<<20)) }, "[cut: 1048576 bytes in all]"},
		"by leaving":            {runtime.Goexit, "left its goroutine"},
		"in a deferred call":    {func() { defer panic("second"); panic("first") }, "second"},
		"with its own recovery": {func() { defer func() { panic(recover()) }(); panic("again") }, "again"},
	}
	for name, c := range bad {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, 1, handlers{"ok": ok, "bad": func(context.Context, *worker.Execution) ([]byte, error) {
					c.do()
					return nil, nil
				}})
				for range 3 { // more often than there are slots
					got := r.outcome(t, r.assign("bad"))
					if got.Outcome != store.OutcomeFailed || !strings.Contains(got.Error, c.want) {
						t.Errorf("got %v %.200q, want it to say %q", got.Outcome, got.Error, c.want)
					}
					left := name == "by leaving"
					if got.Panicked == left {
						t.Errorf("panicked: got %v", got.Panicked)
					}
					if !left && !strings.Contains(got.Error, "rows_test.go") {
						t.Errorf("no stack in %q", got.Error)
					}
				}
				a, b := r.grant("bad", 0), r.grant("ok", 0)
				r.Assign([]worker.Assignment{a, b}) // in line behind it
				if got := r.outcome(t, b).Outcome; got != store.OutcomeSucceeded {
					t.Errorf("the next run: got %v", got)
				}
				if s := r.Snapshot(); s.Used != 0 || len(s.Running) != 0 {
					t.Errorf("left over: %+v", s)
				}
			})
		})
	}
}

type badStringer struct{ text string }

func (b *badStringer) String() string { return b.text }

// A long text went out with the report, over a limit of the transport, and took both sides down.
func TestRow20_huge_payload(t *testing.T) {
	for _, size := range []int{2 << 10, 8 << 10, 8<<10 + 1, 1 << 20, 64 << 20} {
		t.Run(fmt.Sprint("error of ", size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				text := strings.Repeat("ä", size/2) + strings.Repeat("x", size%2)
				r := start(t, 1, handlers{"job": func(context.Context, *worker.Execution) ([]byte, error) {
					return nil, errors.New(text)
				}})
				got := r.outcome(t, r.assign("job")).Error
				if size <= 8<<10 {
					if got != text {
						t.Errorf("a text within the limit was changed: %d bytes of %d", len(got), size)
					}
					return
				}
				if len(got) > 8<<10 || !strings.HasSuffix(got, fmt.Sprintf("[cut: %d bytes in all]", size)) || !utf8.ValidString(got) {
					t.Errorf("got %d bytes, ending in %q", len(got), got[max(0, len(got)-60):])
				}
			})
		})
	}
	const limit = 256 << 10
	for _, size := range []int{limit, limit + 1, 100 * limit} {
		t.Run(fmt.Sprint("result and checkpoint of ", size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var saved error
				result := bytes.Repeat([]byte("x"), size)
				r := start(t, 1, handlers{"job": func(_ context.Context, x *worker.Execution) ([]byte, error) {
					saved = x.Checkpoint(string(result[2:min(size, limit+1)])) // two bytes for the quotes
					return result, nil
				}})
				got := r.outcome(t, r.assign("job"))
				if size <= limit {
					if got.Outcome != store.OutcomeSucceeded || len(got.Result) != size || saved != nil {
						t.Errorf("got %v with %d bytes, checkpoint %v", got.Outcome, len(got.Result), saved)
					}
					return
				}
				want := fmt.Sprintf("worker: result of %d bytes is over the limit of %d", size, limit)
				if got.Outcome != store.OutcomePermanent || got.Error != want || got.Result != nil {
					t.Errorf("got %v %q with %d bytes", got.Outcome, got.Error, len(got.Result))
				}
				var large *worker.SizeError
				if !errors.As(saved, &large) || large.Size != limit+1 || !errors.Is(saved, worker.ErrTooLarge) {
					t.Errorf("checkpoint: got %v", saved)
				}
			})
		})
	}
}
