package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/worker"
)

func TestNew_reports_all_faults_at_once(t *testing.T) {
	_, err := worker.New(worker.Config{Handlers: handlers{"x": nil}, Grace: -1})
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{"slots", "Report", "Checkpoint", `"x"`, "negative"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want it to mention %s", err, want)
		}
	}
}

func TestPool_Assign(t *testing.T) {
	t.Run("starts each run at its moment and no earlier", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			var mu sync.Mutex
			started := map[string]time.Duration{}
			note := func(_ context.Context, x *worker.Execution) ([]byte, error) {
				mu.Lock()
				defer mu.Unlock()
				started[x.ID().String()] = time.Since(begin)
				return nil, nil
			}
			r := start(t, 4, handlers{"note": note})
			want := map[string]time.Duration{}
			var as []worker.Assignment
			for _, in := range []time.Duration{30 * time.Millisecond, -time.Second, 7, 0, time.Microsecond, 30 * time.Millisecond, time.Hour} {
				a := r.grant("note", in)
				as = append(as, a)
				want[a.Run.ID.String()] = max(in, 0)
			}
			r.Assign(as)
			synctest.Wait()
			time.Sleep(time.Minute)
			late := r.grant("note", time.Second) // before one that is assigned already
			want[late.Run.ID.String()] = time.Minute + time.Second
			r.Assign([]worker.Assignment{late})
			time.Sleep(2 * time.Hour)
			mu.Lock()
			defer mu.Unlock()
			if diff := cmp.Diff(want, started); diff != "" {
				t.Errorf("started after (-want +got):\n%s", diff)
			}
		})
	})

	t.Run("keeps what comes before Run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := new(leader)
			p, err := worker.New(worker.Config{
				Slots: 1, Handlers: handlers{"ok": ok}, Report: l.report, Checkpoint: l.checkpoint, NewAlarm: plain,
			})
			if err != nil {
				t.Fatal(err)
			}
			a := l.grant("ok", 0)
			p.Assign([]worker.Assignment{a})
			done := make(chan error)
			go func() { done <- p.Run(t.Context()) }()
			synctest.Wait()
			if got := len(l.of(a)); got != 1 {
				t.Errorf("reports: got %d, want 1", got)
			}
			if err := p.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			if err := p.Run(t.Context()); !errors.Is(err, worker.ErrStarted) {
				t.Errorf("second Run: got %v, want %v", err, worker.ErrStarted)
			}
		})
	})

	t.Run("executes a run and fence once, however often it comes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var calls atomic.Int32
			r := start(t, 2, handlers{"slow": func(context.Context, *worker.Execution) ([]byte, error) {
				calls.Add(1)
				time.Sleep(time.Second)
				return nil, nil
			}})
			a := r.grant("slow", time.Second)
			r.setCut(true)
			for range 8 { // waiting, running, ended but not acked, acked
				r.Assign([]worker.Assignment{a, a})
				time.Sleep(500 * time.Millisecond)
			}
			r.setCut(false)
			time.Sleep(time.Minute)
			r.Assign([]worker.Assignment{a})
			time.Sleep(time.Minute)
			if got := calls.Load(); got != 1 {
				t.Errorf("calls of the handler: got %d, want 1", got)
			}
			r.outcome(t, a)

			again := a
			again.Fence += 100 // the next attempt is another matter
			r.Assign([]worker.Assignment{again})
			time.Sleep(time.Minute)
			r.outcome(t, again)
		})
	})

	t.Run("fails a task it has no handler for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, 1, nil)
			got := r.outcome(t, r.assign("unknown"))
			if got.Outcome != store.OutcomeFailed || got.Error != worker.ErrNoHandler.Error() {
				t.Errorf("got %v %q", got.Outcome, got.Error)
			}
		})
	})
}

// order runs a pool of one slot, has it busy for 30 ms while the given runs come in 1 ms apart, and returns the order in
// which they were started.
func order(t *testing.T, slow time.Duration, classes ...store.Priority) []string {
	t.Helper()
	var mu sync.Mutex
	var got []string
	names := map[store.RunID]string{}
	r := start(t, 1, handlers{"slow": sleep(slow), "note": func(_ context.Context, x *worker.Execution) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, names[x.ID()])
		return nil, nil
	}})
	r.assign("slow")
	synctest.Wait()
	for i, c := range classes {
		a := r.grant("note", 0, class(c))
		mu.Lock()
		names[a.Run.ID] = fmt.Sprint(i, ":", c)
		mu.Unlock()
		r.Assign([]worker.Assignment{a})
		time.Sleep(time.Millisecond)
	}
	time.Sleep(time.Second)
	mu.Lock()
	defer mu.Unlock()
	return got
}

func TestPool_order(t *testing.T) {
	const low, normal, high = store.Low, store.Normal, store.High
	t.Run("higher classes go first and equals in turn", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			got := order(t, 30*time.Millisecond, low, normal, high, low, high)
			if want := []string{"2:2", "4:2", "1:1", "0:0", "3:0"}; !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	})
	t.Run("after 50 ms age alone counts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			// When the slot is free, at 52.5 ms, the first three have waited for more than 50.
			got := order(t, 52500*time.Microsecond, low, normal, high, low, high)
			if want := []string{"0:0", "1:1", "2:2", "4:2", "3:0"}; !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	})
}

func TestPool_StartUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, 2, handlers{"ok": ok})
		r.StartUntil(time.Now().Add(time.Second))
		a, b, c := r.grant("ok", time.Second), r.grant("ok", time.Second+1), r.grant("ok", time.Hour)
		r.Assign([]worker.Assignment{a, b, c})
		time.Sleep(time.Minute)
		if got := r.outcome(t, a).Outcome; got != store.OutcomeSucceeded {
			t.Errorf("at the bound: got %v", got)
		}
		if got := r.outcome(t, b).Outcome; got != store.OutcomeReleased {
			t.Errorf("after the bound: got %v", got)
		}
		if got := r.outcome(t, c).Outcome; got != store.OutcomeReleased {
			t.Errorf("long after the bound: got %v", got)
		}
		r.StartUntil(time.Time{})
		if got := r.outcome(t, r.assign("ok")).Outcome; got != store.OutcomeSucceeded {
			t.Errorf("without a bound: got %v", got)
		}
	})
}

func TestPool_observer_and_stamps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		skew := 50 * 365 * 24 * time.Hour
		r := start(t, 1, handlers{"slow": sleep(time.Second)}, func(c *worker.Config) {
			c.Now = func() time.Time { return time.Now().Add(skew) }
			c.Observer = worker.Observer{
				Started: func(run *store.Run, late time.Duration) {
					got = append(got, fmt.Sprint("started ", run.Spec.Task, " ", late))
				},
				Finished: func(run *store.Run, outcome store.Outcome, took time.Duration) {
					got = append(got, fmt.Sprint("finished ", run.Spec.Task, " ", outcome, " ", took))
				},
			}
		})
		begin := time.Now().Add(skew).UnixNano()
		a := r.grant("slow", -time.Millisecond)
		r.Assign([]worker.Assignment{a})
		time.Sleep(time.Minute)
		rep := r.outcome(t, a)
		if rep.Started != begin || rep.Finished != begin+int64(time.Second) {
			t.Errorf("stamps: got %d %d, want %d and a second later", rep.Started, rep.Finished, begin)
		}
		if want := []string{"started slow 1ms", "finished slow succeeded 1s"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestPool_Snapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, 1, handlers{"slow": func(_ context.Context, x *worker.Execution) ([]byte, error) {
			x.Progress(2, "all of it")
			time.Sleep(10 * time.Millisecond)
			return nil, nil
		}})
		begin := time.Now()
		a := r.assign("slow")
		r.assign("slow")
		r.Assign([]worker.Assignment{r.grant("slow", time.Hour)})
		synctest.Wait()
		got := r.Snapshot()
		want := worker.Snapshot{
			Slots: 1, Capacity: 1, Used: 1, Waiting: 1, Ready: 1, Started: 1,
			Running: []worker.Running{{
				ID: a.Run.ID, Task: "slow", Attempt: 1, Fence: 1, Since: begin, Progress: 1, Note: "all of it",
			}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := r.Running(); got != 1 {
			t.Errorf("Running: got %d, want 1", got)
		}
	})
}

// TestPool_in_a_storm assigns, duplicates and cancels from many goroutines, in real time for the race detector's sake,
// and checks that each attempt is executed at most once and reported exactly once.
func TestPool_in_a_storm(t *testing.T) {
	const senders, each = 4, 2000
	l := new(leader)
	var calls [senders*each + 1]atomic.Int32
	p, err := worker.New(worker.Config{
		Slots: 5,
		Handlers: handlers{"storm": func(ctx context.Context, x *worker.Execution) ([]byte, error) {
			calls[x.Fence()].Add(1)
			switch x.Fence() % 7 {
			case 0:
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				return nil, waitNot(ctx)
			case 1:
				panic("storm")
			case 2:
				resume := x.Yield()
				return nil, resume(ctx)
			}
			return nil, nil
		}},
		Report: l.report, Checkpoint: l.checkpoint,
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- p.Run(t.Context()) }()
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for i := range each {
				a := l.grant("storm", time.Duration(i%3)*time.Microsecond, class(store.Priority(i%4)))
				p.Assign([]worker.Assignment{a, a})
				if i%5 == 0 {
					p.Cancel(a.Run.ID, a.Fence, worker.ErrCanceled)
				}
			}
		})
	}
	wg.Wait()
	if err := p.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	reports := make(map[uint64]int)
	for _, r := range l.all() {
		reports[r.Fence]++
	}
	for fence := range uint64(senders * each) {
		if got := reports[fence+1]; got != 1 {
			t.Errorf("reports of fence %d: got %d, want 1", fence+1, got)
		}
		if got := calls[fence+1].Load(); got > 1 {
			t.Errorf("calls of fence %d: got %d", fence+1, got)
		}
	}
}

// A session says what the pool holds when it comes back: what runs, what waits, and what has ended but is not acked.
func TestPool_Held(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, 1, handlers{"quick": ok, "slow": sleep(time.Minute)})
		r.setCut(true)
		ended := r.assign("quick")
		synctest.Wait()
		running := r.assign("slow")
		waiting := r.grant("quick", time.Hour)
		r.Assign([]worker.Assignment{waiting})
		synctest.Wait()
		held := make(map[worker.Lease]bool)
		for _, l := range r.Held() {
			held[l] = true
		}
		for _, a := range []worker.Assignment{ended, running, waiting} {
			if !held[worker.Lease{Run: a.Run.ID, Fence: a.Fence}] {
				t.Errorf("fence %d is not among the held: %v", a.Fence, held)
			}
		}
		if len(held) != 3 {
			t.Errorf("held: got %d, want 3", len(held))
		}
		r.setCut(false)
		r.Cancel(waiting.Run.ID, waiting.Fence, worker.ErrLeaseLost)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := r.Held(); len(got) != 0 {
			t.Errorf("held: got %v, want none", got)
		}
	})
}
