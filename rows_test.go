package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
)

// The tests named TestFieldBugN are after faults that people have reported of
// job schedulers; what is in their comments is the right behaviour. Those about
// time are in rows_clock_test.go, those about killed processes in rows_kill_test.go,
// those about what is handed in in rows_input_test.go.

// Canceled is final, whatever the handler says; what was stored before stands.
func TestFieldBug13_CancelAgainstTheHandler(t *testing.T) {
	for name, answer := range map[string]func(ctx context.Context) error{
		"the context's error":     func(ctx context.Context) error { return ctx.Err() },
		"the context's cause":     func(ctx context.Context) error { return context.Cause(ctx) },
		"a permanent error":       func(context.Context) error { return scheduler.Permanent(errors.New("no")) },
		"an error to be retried":  func(context.Context) error { return errors.New("no") },
		"retry after":             func(context.Context) error { return scheduler.RetryAfter(errors.New("no"), time.Second) },
		"a snooze":                func(context.Context) error { return scheduler.Snooze(time.Second) },
		"success":                 func(context.Context) error { return nil },
		"a panic":                 func(context.Context) error { panic("no") },
		"success, a moment later": func(context.Context) error { time.Sleep(time.Minute); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				starts := 0
				s := start(t, scheduler.WithHandler(echo, func(ctx context.Context, in string) (string, error) {
					starts++
					<-ctx.Done()
					wantErr(t, "cause", context.Cause(ctx), scheduler.ErrCanceled)
					return in, answer(ctx)
				}))
				f := enqueue(t, s, echo, "x", exact(time.Second, 5))
				synctest.Wait()
				if err := f.Cancel(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				r := get(t, s, f.ID())
				if r.State != scheduler.Canceled || starts != 1 || r.Result != nil || r.Error != "canceled" {
					t.Errorf("%d starts, run %+v", starts, r)
				}
			})
		})
	}
}

// A unique key is free the moment its holder has ended, however that was, and no
// key is without a holder after a restart.
func TestFieldBug14_UniqueKeyWithoutHolder(t *testing.T) {
	endings := map[string]func(t *testing.T, s *scheduler.Scheduler) []scheduler.RunOption{
		"canceled while delayed": func(*testing.T, *scheduler.Scheduler) []scheduler.RunOption {
			return []scheduler.RunOption{scheduler.In(time.Hour)}
		},
		"canceled while it runs": func(*testing.T, *scheduler.Scheduler) []scheduler.RunOption { return nil },
		"succeeded":              func(*testing.T, *scheduler.Scheduler) []scheduler.RunOption { return nil },
		"failed":                 func(*testing.T, *scheduler.Scheduler) []scheduler.RunOption { return nil },
		"expired": func(*testing.T, *scheduler.Scheduler) []scheduler.RunOption {
			return []scheduler.RunOption{scheduler.In(time.Hour), scheduler.ExpireAfter(time.Minute)}
		},
	}
	for name, options := range endings {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				work := scheduler.NewTask[string, string]("work", exact(time.Second, 1), scheduler.Unique("K"))
				opts := []scheduler.Option{scheduler.WithDataDir(dir), scheduler.WithHandler(work, func(ctx context.Context, in string) (string, error) {
					switch in {
					case "failed":
						return "", errors.New("no")
					case "canceled while it runs":
						<-ctx.Done()
					}
					return "", nil
				})}
				s := start(t, opts...)
				first := enqueue(t, s, work, name, options(t, s)...)
				synctest.Wait()
				if strings.HasPrefix(name, "canceled") {
					_, err := work.Enqueue(t.Context(), s, "too early")
					wantErr(t, "while it is held", err, scheduler.ErrConflict)
					if err := first.Cancel(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if name == "expired" {
					time.Sleep(2 * time.Minute)
				}
				if r := get(t, s, first.ID()); !r.State.Final() {
					t.Fatalf("set up: %+v", r)
				}
				second := enqueue(t, s, work, "second", scheduler.In(24*time.Hour))
				shutdown(t, s)
				s = start(t, opts...)
				_, err := work.Enqueue(t.Context(), s, "third")
				wantErr(t, "held by the second, after a restart", err, scheduler.ErrConflict)
				if err := s.Cancel(t.Context(), second.ID()); err != nil {
					t.Fatal(err)
				}
				shutdown(t, s)
				s = start(t, opts...)
				enqueue(t, s, work, "fourth")
			})
		})
	}
	t.Run("held for a window, over a restart", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			work := scheduler.NewTask[string, string]("work", scheduler.Unique("K"), scheduler.UniqueFor(time.Hour))
			opts := []scheduler.Option{scheduler.WithDataDir(dir), scheduler.WithHandler(work, echoes)}
			s := start(t, opts...)
			if _, err := enqueue(t, s, work, "").Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			shutdown(t, s)
			time.Sleep(59 * time.Minute)
			s = start(t, opts...)
			_, err := work.Enqueue(t.Context(), s, "")
			wantErr(t, "within the window", err, scheduler.ErrConflict)
			time.Sleep(time.Minute)
			enqueue(t, s, work, "")
		})
	})
	t.Run("killed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			work := scheduler.NewTask[string, string]("work", scheduler.Unique("K"))
			s := start(t, scheduler.WithDataDir(dir), scheduler.WithTasks("work"))
			f := enqueue(t, s, work, "")
			left := killed(t, dir)
			s = start(t, scheduler.WithDataDir(left), scheduler.WithTasks("work"))
			_, err := work.Enqueue(t.Context(), s, "")
			wantErr(t, "after the kill", err, scheduler.ErrConflict)
			if err := s.Cancel(t.Context(), f.ID()); err != nil {
				t.Fatal(err)
			}
			left = killed(t, left)
			s = start(t, scheduler.WithDataDir(left), scheduler.WithTasks("work"))
			enqueue(t, s, work, "")
		})
	})
}

// However many attempts there were, the next is not before the smallest delay and
// not after the cap.
func TestFieldBug15_BackoffThatOverflows(t *testing.T) {
	const count = 1000
	for _, b := range []scheduler.Backoff{
		{Initial: time.Second, Max: 10 * time.Second, Factor: 2, Jitter: scheduler.NoJitter},
		{Initial: time.Second, Max: 10 * time.Second, Factor: 16, Jitter: scheduler.NoJitter},
		{Initial: time.Second, Max: 10 * time.Second, Factor: 2, Jitter: 0.25},
		{Initial: time.Second, Max: 10 * time.Second, Factor: math.MaxFloat64, Jitter: 1},
	} {
		b.Attempts = scheduler.Unlimited
		t.Run(fmt.Sprintf("factor %v, jitter %v", b.Factor, b.Jitter), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var starts []time.Duration
				s := start(t, scheduler.WithHandler(echo, func(context.Context, string) (string, error) {
					starts = append(starts, time.Since(epoch))
					if len(starts) == count {
						return "", nil
					}
					return "", errors.New("no")
				}))
				f := enqueue(t, s, echo, "", scheduler.Retry(b))
				if _, err := f.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				for i := 1; i < len(starts); i++ {
					least := max(time.Duration(float64(b.Initial)*(1-b.Jitter)), time.Millisecond)
					if wait := starts[i] - starts[i-1]; wait < least || wait > b.Max {
						t.Fatalf("attempt %d came %v after the one before", i+1, wait)
					}
				}
			})
		})
	}
	t.Run("without a cap", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, scheduler.WithHandler(echo, func(context.Context, string) (string, error) { return "", errors.New("no") }))
			f := enqueue(t, s, echo, "", scheduler.Retry(scheduler.Backoff{
				Initial: time.Second, Max: math.MaxInt64, Jitter: scheduler.NoJitter, Attempts: scheduler.Unlimited,
			}))
			for i := range count {
				synctest.Wait()
				r := get(t, s, f.ID())
				if r.State != scheduler.Scheduled || r.Failures != i+1 || r.Due.Before(time.Now().Add(time.Second)) {
					t.Fatalf("after %d failures: %v, due %v", r.Failures, r.State, r.Due)
				}
				if err := s.RetryNow(t.Context(), f.ID()); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
}

// Critical runs start though every slot is taken by long ones that wait for them,
// and a low one gets its turn in a stream of critical ones.
func TestFieldBug17_Starvation(t *testing.T) {
	t.Run("parents in the low queue", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			parent := scheduler.NewTask[int, int]("parent", scheduler.InQueue("low"), scheduler.Priority(scheduler.Low))
			child := scheduler.NewTask[int, int]("child", scheduler.InQueue("critical"), scheduler.Priority(scheduler.Critical))
			var s *scheduler.Scheduler
			s = start(t, scheduler.WithConcurrency(10),
				scheduler.WithHandler(child, func(_ context.Context, n int) (int, error) { time.Sleep(time.Second); return n, nil }),
				scheduler.WithHandler(parent, func(ctx context.Context, n int) (int, error) {
					futures, err := child.EnqueueMany(ctx, s, make([]int, 50))
					if err != nil {
						return 0, err
					}
					time.Sleep(time.Hour)
					for _, f := range futures {
						if _, err := f.Wait(ctx); err != nil {
							return 0, err
						}
					}
					return n, nil
				}))
			parents, err := parent.EnqueueMany(t.Context(), s, make([]int, 10))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Minute)
			critical := enqueue(t, s, child, 1)
			began := time.Now()
			if _, err := critical.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			t.Logf("a critical run was done after %v", time.Since(began))
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
			defer cancel()
			for _, f := range parents {
				if _, err := f.Wait(ctx); err != nil {
					t.Fatalf("deadlock: %v", err)
				}
			}
		})
	})
	t.Run("a low run in a stream of critical ones", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, scheduler.WithConcurrency(2), scheduler.WithHandler(block, func(_ context.Context, n int) (int, error) {
				time.Sleep(4 * time.Second) // twice as much work as there is room for
				return n, nil
			}))
			var low scheduler.Future[int]
			for i := range 300 {
				enqueue(t, s, block, i, scheduler.Priority(scheduler.Critical))
				if i == 10 {
					low = enqueue(t, s, block, i, scheduler.Priority(scheduler.Low))
				}
				time.Sleep(time.Second)
			}
			if r := get(t, s, low.ID()); r.State != scheduler.Succeeded {
				t.Errorf("the low run is %v after five minutes", r.State)
			}
			for _, r := range collect(t, s.Runs(t.Context(), scheduler.RunFilter{States: []scheduler.RunState{scheduler.Ready}})) {
				if err := s.Cancel(t.Context(), r.ID); err != nil {
					t.Error(err)
				}
			}
		})
	})
}

// A handler that panics or leaves its goroutine gives back all it holds, and the
// next tick runs.
func TestFieldBug18_PanicUnderOverlapGuard(t *testing.T) {
	var none map[string]int
	for name, fault := range map[string]func(){
		"an error":        func() { panic(errors.New("kaput")) },
		"a string":        func() { panic("kaput") },
		"nil":             func() { panic(nil) }, //nolint:govet // that is the case
		"a runtime error": func() { none["x"]++ },
		"Goexit":          runtime.Goexit,
		"in a goroutine that hands it on": func() {
			failed := make(chan any)
			go func() {
				defer func() { failed <- recover() }()
				panic("kaput")
			}()
			panic(<-failed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runs := 0
				s := start(t, scheduler.WithConcurrency(1), scheduler.WithQueue("q", scheduler.QueueLimit(1)),
					scheduler.WithHandler(echo, func(context.Context, string) (string, error) {
						if runs++; runs == 3 {
							fault()
						}
						return "", nil
					}))
				call := echo.With("", exact(time.Second, 1), scheduler.InQueue("q"))
				if err := s.Schedule(t.Context(), "s", scheduler.Cron("* * * * * *"), call); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if runs != 5 {
					t.Errorf("%d runs in 5 s", runs)
				}
				failed := collect(t, s.Runs(t.Context(), scheduler.RunFilter{States: []scheduler.RunState{scheduler.Failed}}))
				if len(failed) != 1 || !failed[0].Nominal.Equal(epoch.Add(3*time.Second)) || failed[0].Error == "" {
					t.Errorf("failed runs: %+v", failed)
				}
				if q := queueStats(t, s, "q"); q.Leased != 0 {
					t.Errorf("%d leases are left", q.Leased)
				}
			})
		})
	}
}
