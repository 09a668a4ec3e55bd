package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler"
)

// block is a task whose handler waits until its context ends, or a channel says
// go on.
var block = scheduler.NewTask[int, int]("block")

// blocker is a handler of block and the channel that lets one of its calls go.
func blocker() (handle func(context.Context, int) (int, error), release chan struct{}) {
	release = make(chan struct{})
	return func(ctx context.Context, n int) (int, error) {
		select {
		case <-release:
			return n, nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}, release
}

func TestEnqueue(t *testing.T) {
	t.Run("a run succeeds and its Future gives the result", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, scheduler.WithHandler(echo, echoes))
			got, err := enqueue(t, s, echo, "hello").Wait(t.Context())
			if err != nil || got != "hello" {
				t.Errorf("Wait: got %q, %v; want %q", got, err, "hello")
			}
			if !time.Now().Equal(epoch) {
				t.Errorf("an idle scheduler took %v to run it", time.Since(epoch))
			}
		})
	})
	t.Run("In starts exactly when it is due", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var started time.Time
			s := start(t, scheduler.WithHandler(echo, func(context.Context, string) (string, error) {
				started = time.Now()
				return "", nil
			}))
			const delay = 90*time.Minute + 3*time.Nanosecond
			f := enqueue(t, s, echo, "", scheduler.In(delay))
			wantState(t, s, f.ID(), scheduler.Scheduled)
			if got := get(t, s, f.ID()).Due; !got.Equal(epoch.Add(delay)) {
				t.Errorf("Due: got %v, want %v", got, epoch.Add(delay))
			}
			if _, err := f.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			if !started.Equal(epoch.Add(delay)) {
				t.Errorf("started %v after it was due", started.Sub(epoch.Add(delay)))
			}
		})
	})
	t.Run("At starts exactly at its time, at once if that has passed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, scheduler.WithHandler(echo, echoes))
			due := epoch.Add(time.Hour)
			if _, err := enqueue(t, s, echo, "", scheduler.At(due)).Wait(t.Context()); err != nil {
				t.Error(err)
			}
			if !time.Now().Equal(due) {
				t.Errorf("done at %v, want %v", time.Now(), due)
			}
			if _, err := enqueue(t, s, echo, "", scheduler.At(epoch)).Wait(t.Context()); err != nil {
				t.Error(err)
			}
			if !time.Now().Equal(due) {
				t.Errorf("a time that has passed was waited for until %v", time.Now())
			}
		})
	})
	t.Run("all its options are found again on the run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, scheduler.WithTasks("echo"))
			id := get(t, s, enqueue(t, s, echo, "").ID()).ID // any valid ID
			id[15] ^= 1
			f := enqueue(t, s, echo, "in", scheduler.WithID(id), scheduler.InQueue("mail"), scheduler.Priority(scheduler.High),
				scheduler.ForTenant("acme"), scheduler.Unique("k"), scheduler.Meta("b", "2"), scheduler.Meta("a", "1"),
				scheduler.Meta("b", "3"), scheduler.In(time.Minute))
			got := get(t, s, f.ID())
			want := scheduler.Run{
				ID: id, Task: "echo", Queue: "mail", Tenant: "acme", Priority: scheduler.High, State: scheduler.Scheduled,
				Due: epoch.Add(time.Minute), Created: epoch, UniqueKey: "k", Meta: map[string]string{"a": "1", "b": "3"},
				Input: []byte(`"in"`),
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(scheduler.Run{})); diff != "" {
				t.Errorf("run (-want +got):\n%s", diff)
			}
		})
	})
	t.Run("options of a call come on top of its task's", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			task := scheduler.NewTask[string, string]("echo", scheduler.InQueue("slow"), scheduler.Meta("from", "task"))
			s := start(t, scheduler.WithTasks("echo"))
			first := enqueue(t, s, task, "", scheduler.Meta("from", "call"), scheduler.Priority(scheduler.Low))
			second := enqueue(t, s, task, "")
			if r := get(t, s, first.ID()); r.Queue != "slow" || r.Meta["from"] != "call" || r.Priority != scheduler.Low {
				t.Errorf("with options: got %q, %v, %v", r.Queue, r.Meta, r.Priority)
			}
			if r := get(t, s, second.ID()); r.Queue != "slow" || r.Meta["from"] != "task" || r.Priority != scheduler.Normal {
				t.Errorf("options of one call have changed the task: got %q, %v, %v", r.Queue, r.Meta, r.Priority)
			}
		})
	})
	t.Run("tasks without a result", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			job := scheduler.NewJob[int]("job")
			var got int
			s := start(t, scheduler.WithFunc(job, func(_ context.Context, n int) error {
				got = n
				return nil
			}))
			f := enqueue(t, s, job, 7)
			if _, err := f.Wait(t.Context()); err != nil || got != 7 {
				t.Errorf("got %d, %v; want 7", got, err)
			}
			if r := get(t, s, f.ID()); r.Result != nil {
				t.Errorf("Result: got %q, want none", r.Result)
			}
		})
	})
}

func TestEnqueue_WithID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithHandler(echo, echoes))
		first := enqueue(t, s, echo, "a")
		if _, err := first.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, age := range []time.Duration{0, time.Hour} { // in memory, and in the history
			time.Sleep(age)
			_, err := echo.Enqueue(t.Context(), s, "b", scheduler.WithID(first.ID()))
			wantErr(t, "an ID in use", err, scheduler.ErrConflict)
		}
		if r := get(t, s, first.ID()); string(r.Input) != `"a"` || r.State != scheduler.Succeeded {
			t.Errorf("the first run has changed: %+v", r)
		}
		id := first.ID()
		id[15] ^= 1
		calls := []scheduler.Call{echo.With("c", scheduler.WithID(id)), echo.With("d", scheduler.WithID(id))}
		_, err := s.EnqueueMany(t.Context(), calls)
		wantErr(t, "one ID twice in a call", err, scheduler.ErrConflict)
		_, err = s.Get(t.Context(), id)
		wantErr(t, "a run of a refused call", err, scheduler.ErrNotFound)
	})
}

// Of many calls for one ID at a time one is accepted, however soon its run ends.
func TestEnqueue_WithIDByManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		s := start(t, scheduler.WithHandler(echo, func(context.Context, string) (string, error) {
			runs.Add(1)
			return "", nil
		}))
		const rounds = 300
		for range rounds {
			id := scheduler.NewRunID()
			var callers sync.WaitGroup
			for range 32 {
				callers.Go(func() {
					if _, err := echo.Enqueue(t.Context(), s, "", scheduler.WithID(id)); err != nil {
						wantErr(t, "Enqueue", err, scheduler.ErrConflict)
					}
				})
			}
			callers.Wait()
		}
		time.Sleep(time.Second)
		if got := runs.Load(); got != rounds {
			t.Errorf("runs of %d IDs: got %d", rounds, got)
		}
	})
}

func TestEnqueue_WithIDThatAnotherCallAsksFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n scheduler.Named
		a, b := scheduler.NewRunID(), scheduler.NewRunID()
		end, err := n.Ask(t.Context(), []scheduler.RunID{a, b, a})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = n.Ask(ctx, []scheduler.RunID{b})
		wantErr(t, "an ID that is asked for", err, context.DeadlineExceeded)
		time.AfterFunc(time.Minute, end)
		began := time.Now()
		end, err = n.Ask(t.Context(), []scheduler.RunID{b})
		if took := time.Since(began); err != nil || took != time.Minute {
			t.Errorf("waited %v for the other call, %v; want a minute", took, err)
		}
		end()
	})
}

func TestEnqueueMany(t *testing.T) {
	t.Run("the IDs are in the order of the inputs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, scheduler.WithHandler(echo, echoes))
			var in []string
			for i := range 1000 {
				in = append(in, fmt.Sprint(i))
			}
			futures, err := echo.EnqueueMany(t.Context(), s, in, scheduler.Meta("bulk", "yes"))
			if err != nil || len(futures) != len(in) {
				t.Fatalf("got %d futures, %v", len(futures), err)
			}
			for i, f := range futures {
				got, err := f.Wait(t.Context())
				if err != nil || got != in[i] {
					t.Fatalf("run %d: got %q, %v", i, got, err)
				}
			}
			if r := get(t, s, futures[17].ID()); r.Meta["bulk"] != "yes" {
				t.Errorf("Meta: got %v", r.Meta)
			}
		})
	})
	t.Run("IDs ascend, within a millisecond too", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := at(epoch)
			s := start(t, scheduler.WithTasks("echo"), scheduler.WithClock(c))
			var last scheduler.RunID
			mint := func(what string) {
				t.Helper()
				for range 10 { // without a moment between them
					futures, err := echo.EnqueueMany(t.Context(), s, make([]string, 1000))
					if err != nil {
						t.Fatal(err)
					}
					for _, f := range futures {
						if f.ID().Compare(last) <= 0 {
							t.Fatalf("%s: %v comes after %v", what, f.ID(), last)
						}
						last = f.ID()
					}
				}
			}
			mint("at one instant")
			c.Step(-500 * time.Millisecond)
			mint("the clock a little back")
			c.Step(-time.Hour)
			last = scheduler.RunID{}
			mint("the clock an hour back")
			if at := last.Time(); at.After(epoch.Add(-50 * time.Minute)) {
				t.Errorf("IDs stay at %v", at)
			}
		})
	})
	t.Run("none of them is there when one is refused", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			other := scheduler.NewTask[string, string]("unknown")
			s := start(t, scheduler.WithHandler(echo, echoes))
			held := enqueue(t, s, echo, "x", scheduler.Unique("held"), scheduler.In(time.Hour))
			for _, c := range []struct {
				name string
				bad  scheduler.Call
				want error
			}{
				{"unknown task", other.With("x"), scheduler.ErrUnknownTask},
				{"unique key held", echo.With("x", scheduler.Unique("held")), scheduler.ErrConflict},
				{"too large", echo.With(strings.Repeat("x", scheduler.DefaultMaxPayload)), scheduler.ErrPayloadTooLarge},
				{"zero call", scheduler.Call{}, scheduler.ErrInvalid},
				{"ID in use", echo.With("x", scheduler.WithID(held.ID())), scheduler.ErrConflict},
			} {
				ids, err := s.EnqueueMany(t.Context(), []scheduler.Call{echo.With("a", scheduler.In(time.Hour)), c.bad})
				wantErr(t, c.name, err, c.want)
				if ids != nil || live(t, s) != 1 {
					t.Errorf("%s: got IDs %v and %d runs, want none and 1", c.name, ids, live(t, s))
				}
			}
		})
	})
	t.Run("of tasks of several kinds and options", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, scheduler.WithTasks("echo", "block"))
			ids, err := s.EnqueueMany(t.Context(), []scheduler.Call{
				echo.With("a"), block.With(1, scheduler.InQueue("q")), echo.With("b", scheduler.Priority(scheduler.Low)), echo.With("c"),
			})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, id := range ids {
				r := get(t, s, id)
				got = append(got, fmt.Sprintf("%s %s %d %s", r.Task, r.Queue, r.Priority, r.Input))
			}
			wantLines(t, "runs", got, `echo default 1 "a"`, `block q 1 1`, `echo default 0 "b"`, `echo default 1 "c"`)
		})
	})
	t.Run("none is no fault", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t)
			if ids, err := s.EnqueueMany(t.Context(), nil); err != nil || ids != nil {
				t.Errorf("got %v, %v", ids, err)
			}
		})
	})
	t.Run("small calls count as what they take", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			nothing := scheduler.NewJob[scheduler.None]("nothing")
			s := start(t, scheduler.WithTasks("nothing"))
			const n = 120_000
			if _, err := nothing.EnqueueMany(t.Context(), s, make([]scheduler.None, n)); err != nil {
				t.Fatal(err)
			}
			if got := live(t, s); got != n {
				t.Errorf("live: got %d, want %d", got, n)
			}
		})
	})
	t.Run("over the bound of an entry it is refused", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, scheduler.WithTasks("echo"))
			in := make([]string, 25)
			for i := range in {
				in[i] = strings.Repeat("x", 200<<10)
			}
			_, err := echo.EnqueueMany(t.Context(), s, in)
			wantErr(t, "5 MB in one call", err, scheduler.ErrPayloadTooLarge)
			large, ok := errors.AsType[*scheduler.TooLargeError](err)
			if !ok || large.Bytes < 5_000_000 || large.Bytes > 5_300_000 || large.Limit != 4<<20 {
				t.Errorf("the error: got %+v, want the size and the limit", err)
			}
			if n := live(t, s); n != 0 {
				t.Errorf("%d runs are there", n)
			}
			enqueue(t, s, echo, "x")
		})
	})
}

func TestTask_Future(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithHandler(echo, echoes))
		id := enqueue(t, s, echo, "x", scheduler.In(time.Minute)).ID()
		parsed, err := scheduler.ParseRunID(id.String())
		if err != nil || parsed != id {
			t.Fatalf("ParseRunID: got %v, %v", parsed, err)
		}
		f := echo.Future(s, parsed)
		for _, when := range []string{"before it ended", "after"} {
			if got, err := f.Wait(t.Context()); got != "x" || err != nil {
				t.Errorf("%s: got %q, %v", when, got, err)
			}
		}
		id[15] ^= 1
		_, err = echo.Future(s, id).Wait(t.Context())
		wantErr(t, "of no run", err, scheduler.ErrNotFound)
		_, err = scheduler.Future[string]{}.Wait(t.Context())
		wantErr(t, "zero Future", err, scheduler.ErrInvalid)
		wantErr(t, "zero Future", scheduler.Future[string]{}.Cancel(t.Context()), scheduler.ErrInvalid)
		if _, err := scheduler.ParseRunID("nonsense"); err == nil {
			t.Error("ParseRunID took nonsense")
		}
	})
}

func TestFuture_WaitByThousandsThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithTasks("echo"))
		f := enqueue(t, s, echo, "")
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 10_000 {
			all.Go(func() { _, _ = f.Wait(ctx) })
		}
		synctest.Wait()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		leave()
		all.Wait()
		runtime.ReadMemStats(&after)
		if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 50 {
			t.Errorf("letting them go took %d MB", got)
		}
	})
}

func TestFuture_Wait(t *testing.T) {
	t.Run("ends with its context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, scheduler.WithTasks("echo"))
			f := enqueue(t, s, echo, "x")
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := f.Wait(ctx)
			wantErr(t, "Wait", err, context.DeadlineExceeded)
			why := errors.New("a reason")
			withCause, end := context.WithCancelCause(t.Context())
			end(why)
			_, err = f.Wait(withCause)
			if !errors.Is(err, why) && !errors.Is(err, context.Canceled) {
				t.Errorf("Wait: got %v", err)
			}
			wantState(t, s, f.ID(), scheduler.Ready)
		})
	})
	t.Run("a failure is a RunError", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, scheduler.WithHandler(echo, func(context.Context, string) (string, error) {
				return "", errors.New("no paper")
			}))
			f := enqueue(t, s, echo, "x", scheduler.Retry(scheduler.Backoff{Attempts: 2}))
			_, err := f.Wait(t.Context())
			var re *scheduler.RunError
			if !errors.As(err, &re) || re.Run != f.ID() || re.Attempt != 2 || re.Err.Error() != "no paper" {
				t.Errorf("got %#v", err)
			}
		})
	})
	t.Run("the scheduler's end lets everybody go", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, scheduler.WithTasks("echo"))
			f := enqueue(t, s, echo, "x")
			got := make(chan error)
			go func() {
				_, err := f.Wait(t.Context())
				got <- err
			}()
			synctest.Wait()
			go shutdown(t, s)
			wantErr(t, "Wait", <-got, scheduler.ErrClosed)
		})
	})
	t.Run("a result of another type is an error", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, scheduler.WithHandler(echo, echoes))
			id := enqueue(t, s, echo, "text").ID()
			if n, err := scheduler.NewTask[string, int]("echo").Future(s, id).Wait(t.Context()); err == nil {
				t.Errorf("got %d, want an error", n)
			}
		})
	})
}

func TestEnqueue_Unique(t *testing.T) {
	t.Run("one run per key and task", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, scheduler.WithTasks("echo", "block"))
			holder := enqueue(t, s, echo, "a", scheduler.Unique("k"))
			_, err := echo.Enqueue(t.Context(), s, "b", scheduler.Unique("k"))
			var ue *scheduler.UniqueError
			if !errors.As(err, &ue) || ue.Key != "k" || ue.Holder != holder.ID() || !errors.Is(err, scheduler.ErrConflict) {
				t.Errorf("got %v", err)
			}
			enqueue(t, s, echo, "c", scheduler.Unique("K"))
			enqueue(t, s, block, 1, scheduler.Unique("k"))
			_, err = echo.EnqueueMany(t.Context(), s, []string{"d", "e"}, scheduler.Unique("twice"))
			wantErr(t, "a key twice in one call", err, scheduler.ErrConflict)
			enqueue(t, s, echo, "f", scheduler.Unique("twice"))
		})
	})
	t.Run("UniqueFor holds it longer than the run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, scheduler.WithHandler(echo, echoes))
			opts := []scheduler.RunOption{scheduler.Unique("k"), scheduler.UniqueFor(time.Hour)}
			if _, err := enqueue(t, s, echo, "a", opts...).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour - time.Millisecond)
			_, err := echo.Enqueue(t.Context(), s, "b", opts...)
			wantErr(t, "within the window", err, scheduler.ErrConflict)
			time.Sleep(time.Millisecond)
			enqueue(t, s, echo, "c", opts...)
		})
	})
}

func TestEnqueue_ExpireAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handle, release := blocker()
		s := start(t, scheduler.WithHandler(block, handle), scheduler.WithConcurrency(1))
		first := enqueue(t, s, block, 1, scheduler.ExpireAfter(time.Minute))
		second := enqueue(t, s, block, 2, scheduler.ExpireAfter(time.Minute))
		delayed := enqueue(t, s, block, 3, scheduler.In(2*time.Minute), scheduler.ExpireAfter(time.Minute))
		time.Sleep(time.Minute - time.Millisecond)
		wantState(t, s, second.ID(), scheduler.Ready)
		time.Sleep(200 * time.Millisecond)
		wantState(t, s, first.ID(), scheduler.Running) // it has started in time
		wantState(t, s, second.ID(), scheduler.Expired)
		wantState(t, s, delayed.ID(), scheduler.Expired)
		_, err := second.Wait(t.Context())
		wantErr(t, "Wait", err, scheduler.ErrExpired)
		close(release)
		if _, err := first.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestEnqueue_UnknownTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithTasks("declared"))
		_, err := echo.Enqueue(t.Context(), s, "x")
		wantErr(t, "never seen", err, scheduler.ErrUnknownTask)
		f := enqueue(t, s, scheduler.NewTask[string, string]("declared"), "x")
		e, err := s.Explain(t.Context(), f.ID())
		if err != nil || e.Gate != "handler" || !strings.Contains(e.Reason, `"declared"`) {
			t.Errorf("Explain: got %+v, %v", e, err)
		}
	})
}

func TestEnqueue_ContextEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithTasks("echo"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		calls := map[string]func() error{
			"Enqueue":     func() error { _, err := echo.Enqueue(ctx, s, "x"); return err },
			"EnqueueMany": func() error { _, err := echo.EnqueueMany(ctx, s, []string{"x", "y"}); return err },
			"Schedule":    func() error { return s.Schedule(ctx, "s", scheduler.Every(time.Hour), echo.With("x")) },
			"PauseQueue":  func() error { return s.PauseQueue(ctx, "q") },
		}
		for name, call := range calls {
			wantErr(t, name, call(), context.Canceled)
		}
		synctest.Wait()
		stats, err := s.Stats(t.Context())
		if err != nil || stats.Live != 0 || stats.Schedules != 0 || len(stats.Queues) != 0 {
			t.Errorf("something was done: %+v, %v", stats, err)
		}
	})
}

func TestEnqueue_AtAndInWhenTheClockSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := at(epoch)
		opts := []scheduler.Option{scheduler.WithDataDir(dir), scheduler.WithClock(c), scheduler.WithHandler(echo, echoes)}
		s := start(t, opts...)
		in := enqueue(t, s, echo, "", scheduler.In(3*time.Hour))
		abs := enqueue(t, s, echo, "", scheduler.At(epoch.Add(time.Hour)))
		far := enqueue(t, s, echo, "", scheduler.At(epoch.Add(90*time.Minute)))
		c.Step(-time.Hour)
		time.Sleep(90 * time.Minute) // the clock shows half an hour
		wantState(t, s, abs.ID(), scheduler.Scheduled)
		c.Step(45 * time.Minute) // an hour and a quarter
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantState(t, s, abs.ID(), scheduler.Succeeded)
		wantState(t, s, far.ID(), scheduler.Scheduled)
		wantState(t, s, in.ID(), scheduler.Scheduled)
		c.Step(10 * 365 * 24 * time.Hour)
		time.Sleep(2 * time.Second)
		wantState(t, s, far.ID(), scheduler.Succeeded)
		wantState(t, s, in.ID(), scheduler.Scheduled)
		time.Sleep(90*time.Minute - 5*time.Second)
		wantState(t, s, in.ID(), scheduler.Scheduled)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantState(t, s, in.ID(), scheduler.Succeeded)
	})
}
