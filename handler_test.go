package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler"
)

// exact is a backoff without jitter, so that tests can name the instants.
func exact(initial time.Duration, attempts uint32) scheduler.RunOption {
	return scheduler.Retry(scheduler.Backoff{Initial: initial, Jitter: scheduler.NoJitter, Attempts: attempts})
}

// attempts runs one run of echo whose handler is f and returns the run after its
// end, and when its attempts started, from the first.
func attempts(t *testing.T, f func(ctx context.Context, attempt int) error, opts ...scheduler.RunOption) (run scheduler.Run, starts []time.Duration, err error) {
	t.Helper()
	s := start(t, scheduler.WithHandler(echo, func(ctx context.Context, _ string) (string, error) {
		starts = append(starts, time.Since(epoch))
		return "done", f(ctx, scheduler.Current(ctx).Attempt())
	}))
	future := enqueue(t, s, echo, "", opts...)
	_, err = future.Wait(t.Context())
	return get(t, s, future.ID()), starts, err
}

func TestHandler_Error(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, starts, err := attempts(t, func(_ context.Context, n int) error { return fmt.Errorf("failure %d", n) },
			scheduler.Retry(scheduler.Backoff{Initial: time.Second, Max: 3 * time.Second, Factor: 2, Jitter: scheduler.NoJitter, Attempts: 4}))
		if diff := cmp.Diff([]time.Duration{0, time.Second, 3 * time.Second, 6 * time.Second}, starts); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
		if run.State != scheduler.Failed || run.Failures != 4 || run.Attempt != 4 || run.Error != "failure 4" || run.Panicked {
			t.Errorf("run: %+v", run)
		}
		var got []string
		for _, a := range run.Attempts {
			got = append(got, fmt.Sprintf("%d %s %q %v", a.Number, a.Outcome, a.Error, a.Started.Sub(epoch)))
		}
		wantLines(t, "attempts", got, `1 failed "failure 1" 0s`, `2 failed "failure 2" 1s`, `3 failed "failure 3" 3s`, `4 failed "failure 4" 6s`)
		var re *scheduler.RunError
		if !errors.As(err, &re) || re.Attempt != 4 || re.Err.Error() != "failure 4" {
			t.Errorf("Wait: got %v", err)
		}
	})
}

func TestHandler_ErrorThenSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, _, err := attempts(t, func(_ context.Context, n int) error {
			if n < 3 {
				return errors.New("not yet")
			}
			return nil
		})
		if err != nil || run.State != scheduler.Succeeded || run.Failures != 2 || run.Error != "" || string(run.Result) != `"done"` {
			t.Errorf("got %+v, %v", run, err)
		}
	})
}

func TestHandler_BackoffJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, starts, _ := attempts(t, func(context.Context, int) error { return errors.New("no") },
			scheduler.Retry(scheduler.Backoff{Initial: time.Second, Max: time.Minute, Jitter: 0.5, Attempts: 100}))
		distinct := make(map[time.Duration]bool)
		for i := 1; i < len(starts); i++ {
			full := min(time.Second<<min(i-1, 10), time.Minute)
			wait := starts[i] - starts[i-1]
			if wait < full/2 || wait > full {
				t.Errorf("retry %d waited %v, want %v … %v", i, wait, full/2, full)
			}
			distinct[wait] = true
		}
		if len(starts) != 100 || len(distinct) < 90 {
			t.Errorf("%d attempts with %d different delays", len(starts), len(distinct))
		}
	})
}

func TestHandler_Permanent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, starts, _ := attempts(t, func(context.Context, int) error {
			return fmt.Errorf("wrapped: %w", scheduler.Permanent(errors.New("bad address")))
		})
		if len(starts) != 1 || run.State != scheduler.Failed || run.Error != "wrapped: bad address" {
			t.Errorf("%d attempts, run %+v", len(starts), run)
		}
	})
}

func TestHandler_RetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, starts, _ := attempts(t, func(context.Context, int) error {
			return scheduler.RetryAfter(errors.New("busy"), 42*time.Minute)
		}, scheduler.Retry(scheduler.Backoff{Attempts: 2}))
		if diff := cmp.Diff([]time.Duration{0, 42 * time.Minute}, starts); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
		if run.State != scheduler.Failed || run.Error != "busy" || run.Attempts[0].Outcome != "retry_after" {
			t.Errorf("run: %+v", run)
		}
	})
}

func TestHandler_Snooze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, starts, err := attempts(t, func(_ context.Context, n int) error {
			if n <= 50 {
				return scheduler.Snooze(time.Minute)
			}
			return nil
		}, scheduler.Retry(scheduler.Backoff{Attempts: 1}))
		if err != nil || run.Snoozes != 50 || run.Failures != 0 || starts[50] != 50*time.Minute {
			t.Errorf("run %+v, last start %v, %v", run, starts[len(starts)-1], err)
		}
	})
}

func TestHandler_Panic(t *testing.T) {
	type custom struct{ a int }
	var m map[string]int
	for name, c := range map[string]struct {
		panics func()
		text   string
	}{
		"an error":        {func() { panic(errors.New("kaput")) }, "kaput"},
		"a string":        {func() { panic("text") }, "text"},
		"nil":             {func() { panic(nil) }, "nil"}, //nolint:govet // that is the case
		"a value":         {func() { panic(custom{7}) }, "{7}"},
		"a runtime error": {func() { m["x"] = 1 }, "nil map"},
		"Goexit":          {runtime.Goexit, "left its goroutine"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				run, starts, _ := attempts(t, func(_ context.Context, n int) error {
					if n == 1 {
						c.panics()
					}
					return errors.New("an ordinary error")
				}, exact(time.Minute, 2))
				if diff := cmp.Diff([]time.Duration{0, time.Minute}, starts); diff != "" {
					t.Errorf("attempts (-want +got):\n%s", diff)
				}
				got := run.Attempts[0]
				if got.Outcome != "failed" || !strings.Contains(got.Error, c.text) {
					t.Errorf("first attempt: %+v", got)
				}
				if name != "Goexit" && !strings.Contains(got.Error, "handler_test.go") {
					t.Errorf("no stack in %q", got.Error)
				}
				if run.State != scheduler.Failed || run.Panicked || run.Error != "an ordinary error" {
					t.Errorf("run: %+v", run)
				}
			})
		})
	}
}

func TestHandler_PanicIsOnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, _, err := attempts(t, func(context.Context, int) error { panic("kaput") }, exact(time.Minute, 1))
		if run.State != scheduler.Failed || !run.Panicked || !strings.Contains(run.Error, "kaput") {
			t.Errorf("run: %+v", run)
		}
		var re *scheduler.RunError
		if !errors.As(err, &re) || !strings.Contains(re.Error(), "kaput") {
			t.Errorf("Wait: %v", err)
		}
	})
}

func TestHandler_Input(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		s := start(t, scheduler.WithHandler(echo, func(context.Context, string) (string, error) {
			calls++
			return "", nil
		}))
		id, err := s.Enqueue(t.Context(), scheduler.NewTask[int, int]("echo").With(7)) // not a string
		if err != nil {
			t.Fatal(err)
		}
		run, err := s.Await(t.Context(), id)
		if err != nil || run.State != scheduler.Failed || run.Failures != 1 || !strings.Contains(run.Error, "decode input") || calls != 0 {
			t.Errorf("got %+v, %v after %d calls", run, err, calls)
		}
	})
}

func TestHandler_Result(t *testing.T) {
	t.Run("at the limit it is kept, above it the run fails for good", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			sized := scheduler.NewTask[int, string]("sized")
			calls := 0
			s := start(t, scheduler.WithMaxPayload(1000), scheduler.WithHandler(sized, func(_ context.Context, n int) (string, error) {
				calls++
				return strings.Repeat("x", n-2), nil // and two quotes
			}))
			if got, err := enqueue(t, s, sized, 1000).Wait(t.Context()); err != nil || len(got) != 998 {
				t.Errorf("at the limit: %d bytes, %v", len(got), err)
			}
			_, err := enqueue(t, s, sized, 1001).Wait(t.Context())
			if err == nil || !strings.Contains(err.Error(), "result of 1001 bytes") || calls != 2 {
				t.Errorf("above the limit: %v after %d calls", err, calls)
			}
		})
	})
	t.Run("one that cannot be encoded fails the run for good", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			bad := scheduler.NewTask[int, chan int]("bad")
			calls := 0
			s := start(t, scheduler.WithHandler(bad, func(context.Context, int) (chan int, error) {
				calls++
				return make(chan int), nil
			}))
			run, err := s.Await(t.Context(), enqueue(t, s, bad, 1).ID())
			if err != nil || run.State != scheduler.Failed || calls != 1 || !strings.Contains(run.Error, "encode result") {
				t.Errorf("got %+v, %v", run, err)
			}
		})
	})
}

func TestHandler_Timeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var causes []error
		run, starts, _ := attempts(t, func(ctx context.Context, _ int) error {
			<-ctx.Done()
			causes = append(causes, context.Cause(ctx))
			return ctx.Err()
		}, scheduler.Timeout(time.Minute), exact(time.Second, 2))
		if diff := cmp.Diff([]time.Duration{0, 61 * time.Second}, starts); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
		for _, cause := range causes {
			wantErr(t, "cause", cause, scheduler.ErrTimeout)
		}
		if run.State != scheduler.Failed || !strings.Contains(run.Error, "timed out") {
			t.Errorf("run: %+v", run)
		}
	})
}

func TestHandler_TimeoutIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, starts, err := attempts(t, func(context.Context, int) error {
			time.Sleep(time.Hour) // deaf
			return nil
		}, scheduler.Timeout(time.Minute))
		if err != nil || len(starts) != 1 || run.State != scheduler.Succeeded {
			t.Errorf("what it did in the end counts: got %+v, %v", run, err)
		}
	})
}

func TestCurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if x := scheduler.Current(t.Context()); x != nil {
			t.Errorf("outside of a handler: got %v", x)
		}
		var notes journal
		var fences []uint64
		s := start(t, scheduler.WithHandler(echo, func(ctx context.Context, _ string) (string, error) {
			x := scheduler.Current(ctx)
			var done int
			resumed := x.Resume(&done)
			notes.add("attempt %d of %s at %v: resumed %v from %d", x.Attempt(), x.Task(), x.ScheduledAt().Sub(epoch), resumed, done)
			fences = append(fences, x.Fence())
			x.Progress(0.5, "half")
			x.Logger().Info("working")
			if err := x.Checkpoint(done + 10); err != nil {
				return "", err
			}
			if x.Attempt() < 3 {
				return "", errors.New("again")
			}
			return x.ID().String(), nil
		}))
		f := enqueue(t, s, echo, "", exact(time.Minute, 3))
		if got, err := f.Wait(t.Context()); err != nil || got != f.ID().String() {
			t.Errorf("got %q, %v", got, err)
		}
		wantLines(t, "attempts", notes.take(), "attempt 1 of echo at 0s: resumed false from 0",
			"attempt 2 of echo at 1m0s: resumed true from 10", "attempt 3 of echo at 3m0s: resumed true from 20")
		if !(fences[0] < fences[1] && fences[1] < fences[2]) || get(t, s, f.ID()).Fence != fences[2] {
			t.Errorf("fences do not grow: %v, and %d on the run", fences, get(t, s, f.ID()).Fence)
		}
	})
}

func TestCurrent_CheckpointTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused error
		_, _, err := attempts(t, func(ctx context.Context, _ int) error {
			refused = scheduler.Current(ctx).Checkpoint(strings.Repeat("x", 1<<20))
			return nil
		})
		if err != nil || refused == nil {
			t.Errorf("checkpoint of 1 MiB: got %v; run %v", refused, err)
		}
	})
}

func TestHandler_WaitsForItsChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fib := scheduler.NewTask[int, int]("fib")
		var s *scheduler.Scheduler
		s = start(t, scheduler.WithConcurrency(1), scheduler.WithHandler(fib, func(ctx context.Context, n int) (int, error) {
			if n < 2 {
				return n, nil
			}
			a, err := fib.Enqueue(ctx, s, n-1)
			if err != nil {
				return 0, err
			}
			b, err := fib.Enqueue(ctx, s, n-2)
			if err != nil {
				return 0, err
			}
			x, err := a.Wait(ctx)
			if err != nil {
				return 0, err
			}
			y, err := b.Wait(ctx)
			return x + y, err
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		got, err := enqueue(t, s, fib, 10).Wait(ctx)
		if err != nil || got != 55 {
			t.Errorf("got %d, %v; want 55", got, err)
		}
	})
}

func TestHandler_Concurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handle, release := blocker()
		s := start(t, scheduler.WithConcurrency(3), scheduler.WithHandler(block, handle))
		for i := range 10 {
			enqueue(t, s, block, i)
		}
		synctest.Wait()
		running := collect(t, s.Runs(t.Context(), scheduler.RunFilter{States: []scheduler.RunState{scheduler.Running}}))
		if len(running) < 3 {
			t.Errorf("%d run, want at least 3", len(running))
		}
		started := 0
		for range 10 {
			select {
			case release <- struct{}{}:
				started++
			default:
			}
		}
		if started != 3 {
			t.Errorf("%d handlers at once, want 3", started)
		}
		close(release)
	})
}
