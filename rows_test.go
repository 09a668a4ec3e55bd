package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler"
)

// The tests named TestFieldBugN are after faults that people have reported of
// job schedulers; what is in their comments is the right behaviour. Those about
// time are in rows_clock_test.go.

// killed copies the folder of a scheduler at rest, which is what is left of it
// when its process is killed now.
func killed(t *testing.T, dir string) string {
	t.Helper()
	synctest.Wait()
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return copied
}

// The attempt of a killed node is declared lost, the retry policy applies, and
// later ticks run. Nobody resets anything by hand.
func TestFieldBug05_KilledInTheMiddleOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var notes journal
		opts := func(dir string) []scheduler.Option {
			return []scheduler.Option{scheduler.WithDataDir(dir), scheduler.WithHandler(echo, func(ctx context.Context, _ string) (string, error) {
				x := scheduler.Current(ctx)
				notes.add("%v: attempt %d of %v", time.Since(epoch), x.Attempt(), x.ScheduledAt().Sub(epoch))
				time.Sleep(50 * time.Second)
				return "", nil
			})}
		}
		s := start(t, opts(dir)...)
		mustSchedule(t, s, "s", scheduler.Cron("*/10 * * * * *"))
		time.Sleep(15 * time.Second)
		left := killed(t, dir)
		shutdown(t, s) // takes until 60 s
		notes.take()
		time.Sleep(5 * time.Second)
		s = start(t, opts(left)...)
		time.Sleep(100 * time.Second)
		got := notes.take()
		if len(got) != 2 || got[0] != "1m5s: attempt 2 of 10s" && !strings.Contains(got[0], "attempt 2 of 10s") || !strings.Contains(got[1], "attempt 1") {
			t.Errorf("attempts: %q, want the second of the lost run, then a new run", got)
		}
		for _, r := range collect(t, s.Runs(t.Context(), scheduler.RunFilter{States: []scheduler.RunState{scheduler.Succeeded}})) {
			if r.Nominal.Equal(epoch.Add(10*time.Second)) && (r.Crashes != 1 || r.Attempts[0].Outcome != "crashed" || r.Attempts[0].Error != "worker lost") {
				t.Errorf("the lost attempt is not on record: %+v", r)
			}
		}
	})
}

// A queued job whose worker is killed is taken over; if it was killed after the
// handler's return the handler may run twice, but one result is kept.
func TestFieldBug10_KilledWithATaskInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		handle, release := blocker()
		s := start(t, scheduler.WithDataDir(dir), scheduler.WithHandler(block, handle))
		f := enqueue(t, s, block, 7)
		left := killed(t, dir)
		close(release)
		if _, err := f.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		shutdown(t, s)
		s = start(t, scheduler.WithDataDir(left), scheduler.WithHandler(block, handle))
		got, err := block.Future(s, f.ID()).Wait(t.Context())
		r := get(t, s, f.ID())
		if got != 7 || err != nil || r.Attempt != 2 || r.Crashes != 1 || r.Failures != 0 {
			t.Errorf("got %d, %v: %+v", got, err, r)
		}
	})
}

// A run that kills its process is stopped by the number of its attempts, with the
// reason; the healthy ones beside it run.
func TestFieldBug16_PoisonRun(t *testing.T) {
	for attempts, starts := range map[uint32]int{1: 1, 2: 2, 3: 3, 25: 3} {
		t.Run(fmt.Sprintf("%d attempts", attempts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				started := 0
				work := scheduler.NewTask[string, string]("work")
				opts := func(dir string) []scheduler.Option {
					return []scheduler.Option{
						scheduler.WithDataDir(dir), scheduler.WithConcurrency(2),
						scheduler.WithHandler(work, func(ctx context.Context, in string) (string, error) {
							if in == "poison" {
								started++
								<-ctx.Done() // the copy of the folder is as if it had ended the process
								return "", ctx.Err()
							}
							return "", nil
						}),
					}
				}
				s := start(t, opts(dir)...)
				poison := enqueue(t, s, work, "poison", exact(time.Second, attempts))
				var healthy []scheduler.Future[string]
				for range 10 {
					healthy = append(healthy, enqueue(t, s, work, ""))
				}
				for range 5 {
					synctest.Wait()
					time.Sleep(time.Minute)
					left := killed(t, dir)
					ctx, cancel := context.WithCancel(t.Context())
					cancel()
					s.Shutdown(ctx) // the old process is of no interest any more
					time.Sleep(time.Minute)
					dir = left
					s = start(t, opts(dir)...)
				}
				time.Sleep(time.Minute)
				_, err := work.Future(s, poison.ID()).Wait(t.Context())
				wantErr(t, "Wait for the poison", err, scheduler.ErrWorkerLost)
				r := get(t, s, poison.ID())
				if r.State != scheduler.Failed || r.Error != "worker lost" || started != starts {
					t.Errorf("%d starts, want %d: %+v", started, starts, r)
				}
				for _, f := range healthy {
					wantState(t, s, f.ID(), scheduler.Succeeded)
				}
			})
		})
	}
}

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

// lines is a log that keeps what it is told.
type lines struct {
	mu sync.Mutex // guards b
	b  strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var _ io.Writer = (*lines)(nil)

// Zones come with the library, one that is unknown is refused, and a schedule
// whose zone this build does not know stands still, is reported, and stops nobody.
func TestFieldBug19_UnknownZone(t *testing.T) {
	if _, err := scheduler.Cron("0 9 * * *", scheduler.Zone("Europe/Isle_of_Man")).Next(epoch, 1); err != nil {
		t.Errorf("Europe/Isle_of_Man: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := start(t, scheduler.WithDataDir(dir), scheduler.WithTasks("echo"))
		for i := range 99 {
			mustSchedule(t, s, fmt.Sprintf("good %d", i), scheduler.Cron("0 * * * *", scheduler.Zone("Europe/Paris")))
		}
		if err := scheduler.ScheduleUnchecked(t.Context(), s, "odd", "0 * * * *", "Mars/Olympus_Mons", epoch.Add(time.Hour), echo.With("odd")); err != nil {
			t.Fatal(err)
		}
		shutdown(t, s)

		var log lines
		done := make(map[string]int)
		s = start(t, scheduler.WithDataDir(dir), scheduler.WithConcurrency(1), scheduler.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
			scheduler.WithHandler(echo, func(_ context.Context, in string) (string, error) {
				done[in]++
				return "", nil
			}))
		time.Sleep(2*time.Hour + time.Minute)
		synctest.Wait()
		if len(done) != 99 || done["good 0"] != 2 || done["odd"] != 0 {
			t.Errorf("%d schedules ran, good 0 %d times, odd %d times", len(done), done["good 0"], done["odd"])
		}
		if got := log.String(); !strings.Contains(got, "schedule_id=odd") || !strings.Contains(got, "Mars/Olympus_Mons") {
			t.Errorf("it is not reported:\n%s", got)
		}
		if n := strings.Count(log.String(), "schedule_id=odd"); n > 5 {
			t.Errorf("it is reported %d times", n)
		}
		if n := len(collect(t, s.Schedules(t.Context()))); n != 100 {
			t.Errorf("%d schedules are listed", n)
		}
		mustSchedule(t, s, "odd", scheduler.Cron("0 * * * *")) // mended
		time.Sleep(time.Hour)
		synctest.Wait()
		if done["odd"] != 1 {
			t.Errorf("after it was mended: %d runs", done["odd"])
		}
	})
}

// Texts of errors are cut, with a mark; inputs over the limit are refused.
func TestFieldBug20_HugePayloads(t *testing.T) {
	for _, size := range []int{2 << 10, 1 << 20, 64 << 20} {
		t.Run(fmt.Sprintf("error of %d KiB", size>>10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				run, starts, err := attempts(t, func(_ context.Context, n int) error {
					if n == 1 {
						return errors.New(strings.Repeat("ü", size/2))
					}
					return nil
				}, exact(time.Second, 2))
				if err != nil || len(starts) != 2 {
					t.Fatalf("%d attempts, %v", len(starts), err)
				}
				text := run.Attempts[0].Error
				const limit = 8 << 10
				if len(text) > limit || size > limit != strings.HasSuffix(text, fmt.Sprintf("[cut: %d bytes in all]", size)) {
					t.Errorf("text of %d bytes, ends in %q", len(text), text[max(0, len(text)-40):])
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithHandler(echo, echoes))
		const limit = scheduler.DefaultMaxPayload
		got, err := enqueue(t, s, echo, strings.Repeat("x", limit-2)).Wait(t.Context())
		if err != nil || len(got) != limit-2 {
			t.Errorf("at the limit: %d bytes, %v", len(got), err)
		}
		for _, n := range []int{limit - 1, 100 * limit} {
			_, err := echo.Enqueue(t.Context(), s, strings.Repeat("x", n))
			wantErr(t, fmt.Sprintf("%d bytes", n), err, scheduler.ErrPayloadTooLarge)
		}
		if got, err := enqueue(t, s, echo, "after").Wait(t.Context()); got != "after" || err != nil {
			t.Errorf("after the refusals: %q, %v", got, err)
		}
	})
}

// A name is taken as it is and found again under exactly that name, or refused.
func TestFieldBug21_SpecialNames(t *testing.T) {
	names := []string{
		".", "..", "a/b", "a b", " ", "#x", "%00", "🗓", "שלום", "jobs", "all", "1am", "Case", "case", "é", "e\u0301",
		"\u202eright to left", strings.Repeat("x", 255),
	}
	refused := []string{"", "a\nb", "\x00", "\x7f", "\xff\xfe", strings.Repeat("x", 256), strings.Repeat("x", 10<<10)}
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		opts := []scheduler.Option{scheduler.WithDataDir(dir)}
		done := make(map[string]int)
		var mu sync.Mutex
		for _, name := range names {
			opts = append(opts, scheduler.WithHandler(scheduler.NewTask[string, string](name), func(_ context.Context, in string) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				done[name+"|"+in]++
				return name, nil
			}))
		}
		s := start(t, opts...)
		for _, name := range names {
			task := scheduler.NewTask[string, string](name)
			f := enqueue(t, s, task, "call", scheduler.InQueue(name), scheduler.Unique(name), scheduler.Meta(name, name), scheduler.ForTenant(name))
			if got, err := f.Wait(t.Context()); got != name || err != nil {
				t.Errorf("task %q: got %q, %v", name, got, err)
			}
			r := get(t, s, f.ID())
			if r.Task != name || r.Queue != name || r.UniqueKey != name || r.Meta[name] != name || r.Tenant != name {
				t.Errorf("names of %q: %+v", name, r)
			}
			if err := s.Schedule(t.Context(), name, scheduler.Times(epoch.Add(time.Hour)), task.With("tick")); err != nil {
				t.Errorf("schedule %q: %v", name, err)
			}
		}
		shutdown(t, s)
		s = start(t, opts...)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		for _, name := range names {
			if done[name+"|call"] != 1 || done[name+"|tick"] != 1 {
				t.Errorf("%q: %d calls and %d ticks", name, done[name+"|call"], done[name+"|tick"])
			}
			if n := len(collect(t, s.Runs(t.Context(), scheduler.RunFilter{Tasks: []string{name}, Queues: []string{name}}))); n != 1 {
				t.Errorf("%q: %d runs are found", name, n)
			}
			if n := len(collect(t, s.Runs(t.Context(), scheduler.RunFilter{Schedule: name}))); n != 1 {
				t.Errorf("%q: %d runs of the schedule are found", name, n)
			}
			if n := len(collect(t, s.Ticks(t.Context(), name, epoch, epoch.Add(24*time.Hour)))); n != 1 {
				t.Errorf("%q: %d ticks", name, n)
			}
			before := len(collect(t, s.Schedules(t.Context())))
			if err := s.DeleteSchedule(t.Context(), name); err != nil {
				t.Errorf("delete %q: %v", name, err)
			}
			if n := len(collect(t, s.Schedules(t.Context()))); n != before-1 {
				t.Errorf("deleting %q: %d schedules of %d are left", name, n, before)
			}
		}
		task := scheduler.NewTask[string, string]("all")
		for _, name := range refused {
			for what, err := range map[string]error{
				"schedule": s.Schedule(t.Context(), name, scheduler.Every(time.Hour), task.With("")),
				"pause":    s.PauseQueue(t.Context(), name),
				"queue":    second(task.Enqueue(t.Context(), s, "", scheduler.InQueue(name))),
				"unique":   second(task.Enqueue(t.Context(), s, "", scheduler.Unique(name))),
				"meta":     second(task.Enqueue(t.Context(), s, "", scheduler.Meta(name, ""))),
				"task":     second(scheduler.NewTask[string, string](name).Enqueue(t.Context(), s, "")),
			} {
				wantErr(t, fmt.Sprintf("%s %.20q", what, name), err, scheduler.ErrInvalid)
			}
		}
		if diff := cmp.Diff(0, live(t, s)); diff != "" {
			t.Errorf("live runs (-want +got):\n%s", diff)
		}
	})
}

func second[T any](_ T, err error) error { return err }
