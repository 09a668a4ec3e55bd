package dispatch_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/store"
)

func TestDispatcher_Grant(t *testing.T) {
	t.Run("a run is leased in the entry that adds it", func(t *testing.T) {
		w := newWorld(t, 1)
		before := w.index
		id := w.enqueue(spec(), 0)
		w.wantGranted(id)
		if got, want := w.index-before, uint64(1); got != want {
			t.Errorf("entries: got %d, want %d", got, want)
		}
	})
	t.Run("capacity holds back, a report lets the next one go in its own entry", func(t *testing.T) {
		w := newWorld(t, 1)
		first, second := w.enqueue(spec(), 0), w.enqueue(spec(), 0)
		g := w.wantGranted(first)
		before := w.index
		w.complete(g[0], store.OutcomeSucceeded)
		w.wantGranted(second)
		if got, want := w.index-before, uint64(1); got != want {
			t.Errorf("entries: got %d, want %d", got, want)
		}
	})
	t.Run("priority comes first, then due time", func(t *testing.T) {
		w := newWorld(t, 0)
		low := w.enqueue(spec(func(s *store.Spec) { s.Priority = store.Low }), 0)
		normal1 := w.enqueue(spec(), 0)
		normal2 := w.enqueue(spec(), 0)
		high := w.enqueue(spec(func(s *store.Spec) { s.Priority = store.High; s.Task = "other" }), 0)
		w.d.SetCapacity(w.session, 4, 0)
		w.batch()
		w.wantGranted(high, normal1, normal2, low)
	})
	t.Run("waiting raises a low run above a stream of higher ones", func(t *testing.T) {
		w := newWorld(t, 0)
		low := w.enqueue(spec(func(s *store.Spec) { s.Priority = store.Low }), 0)
		w.pass(5 * time.Minute)
		critical := w.enqueue(spec(func(s *store.Spec) { s.Priority = store.Critical }), 0)
		w.d.SetCapacity(w.session, 2, 0)
		w.batch()
		w.wantGranted(low, critical)
	})
	t.Run("a delayed run is not granted before it is near", func(t *testing.T) {
		w := newWorld(t, 1)
		id := w.enqueue(spec(), time.Minute)
		w.pass(time.Minute - 150*time.Millisecond)
		w.wantGranted()
		w.pass(145 * time.Millisecond)
		g := w.wantGranted(id)
		if got, want := g[0].In, 5*time.Millisecond; got != want {
			t.Errorf("time left: got %v, want %v", got, want)
		}
	})
	t.Run("a busy worker is not granted ahead of time", func(t *testing.T) {
		w := newWorld(t, 1)
		w.enqueue(spec(), 0)
		w.take()
		w.enqueue(spec(), time.Minute)
		w.pass(time.Minute - 5*time.Millisecond)
		w.wantGranted()
	})
	t.Run("a task without a handler waits and says so", func(t *testing.T) {
		w := newWorld(t, 4)
		w.batch(store.Command{Kind: store.KindOpenSession, Open: &store.OpenSession{Node: "m", Tasks: []string{"elsewhere"}}})
		id := w.enqueue(spec(func(s *store.Spec) { s.Task = "elsewhere" }), 0)
		w.wantGranted()
		v, ok := w.d.Explain(w.st.LiveRun(id))
		if !ok || v.Gate != "handler" {
			t.Errorf("Explain: got %+v %v, want the gate \"handler\"", v, ok)
		}
	})
	t.Run("a run that was canceled while it waited is not granted", func(t *testing.T) {
		w := newWorld(t, 0)
		gone, stays := w.enqueue(spec(), 0), w.enqueue(spec(), 0)
		w.batch(store.Command{Kind: store.KindCancel, Run: &store.RunCommand{ID: gone}})
		w.d.SetCapacity(w.session, 2, 0)
		w.batch()
		w.wantGranted(stays)
	})
	t.Run("what is kept for critical runs is not barred by runs that have waited longer", func(t *testing.T) {
		w := newWorld(t, 1)
		w.d.SetCapacity(w.session, 1, 1)
		busy := w.enqueue(spec(), 0)
		w.wantGranted(busy)
		w.enqueue(spec(), 0)
		w.pass(5 * time.Minute)
		critical := w.enqueue(spec(func(s *store.Spec) { s.Priority = store.Critical }), 0)
		w.batch()
		w.wantGranted(critical)
	})
	t.Run("a worker that wants nothing is not granted what it hands back ahead of time", func(t *testing.T) {
		w := newWorld(t, 1)
		id := w.enqueue(spec(), time.Minute)
		w.pass(time.Minute - 20*time.Millisecond)
		g := w.wantGranted(id)
		w.d.SetCapacity(w.session, 0, 0)
		w.complete(g[0], store.OutcomeReleased)
		w.batch()
		w.wantGranted()
	})
	t.Run("a run that the loss of its worker would end is granted only to start at once", func(t *testing.T) {
		once := func(s *store.Spec) { s.Retry.Attempts = 1 }
		w := newWorld(t, 10) // of which one is a slot
		first, second := w.enqueue(spec(once), 0), w.enqueue(spec(once), 0)
		g := w.wantGranted(first)
		if v, _ := w.d.Explain(w.st.LiveRun(second)); v.Gate != "worker" {
			t.Errorf("gate: got %q, want worker", v.Gate)
		}
		w.complete(g[0], store.OutcomeSucceeded)
		g = w.wantGranted(second)
		w.complete(g[0], store.OutcomeSucceeded)
		later := w.enqueue(spec(once), time.Minute)
		w.pass(time.Minute - 5*time.Millisecond)
		w.wantGranted()
		w.pass(5 * time.Millisecond)
		w.wantGranted(later)
	})
	t.Run("a refused call reserves nothing", func(t *testing.T) {
		w := newWorld(t, 1)
		unknown := spec(func(s *store.Spec) { s.Task = "work"; s.Queue = "q" })
		id := w.id()
		res := w.batch(store.Command{Kind: store.KindEnqueue, Enqueue: &store.Enqueue{
			Specs: [][]byte{unknown.Encode()}, Runs: []store.NewRun{{ID: id}, {ID: id}},
		}})
		if got, want := res[0].Code, store.CodeConflict; got != want {
			t.Fatalf("code: got %v, want %v", got, want)
		}
		w.wantGranted()
		next := w.enqueue(spec(), 0)
		w.wantGranted(next)
	})
}

func TestDispatcher_Queue(t *testing.T) {
	limit := func(w *world, n uint32, paused bool) {
		w.batch(store.Command{Kind: store.KindPutQueue, Queue: &store.Queue{Name: "default", Limit: n, Paused: paused}})
	}
	t.Run("the limit is never passed, and explained", func(t *testing.T) {
		w := newWorld(t, 10)
		limit(w, 2, false)
		a, b, c := w.enqueue(spec(), 0), w.enqueue(spec(), 0), w.enqueue(spec(), 0)
		g := w.wantGranted(a, b)
		if v, _ := w.d.Explain(w.st.LiveRun(c)); v.Gate != "queue_limit" {
			t.Errorf("gate: got %q, want queue_limit", v.Gate)
		}
		w.complete(g[0], store.OutcomeSucceeded)
		w.wantGranted(c)
	})
	t.Run("a paused queue starts nothing until it is resumed", func(t *testing.T) {
		w := newWorld(t, 10)
		limit(w, 0, true)
		a := w.enqueue(spec(), 0)
		w.wantGranted()
		if v, _ := w.d.Explain(w.st.LiveRun(a)); v.Gate != "paused" {
			t.Errorf("gate: got %q, want paused", v.Gate)
		}
		limit(w, 0, false)
		w.batch()
		w.wantGranted(a)
	})
	t.Run("one queue's limit does not hold up another", func(t *testing.T) {
		w := newWorld(t, 10)
		limit(w, 1, false)
		a := w.enqueue(spec(), 0)
		w.enqueue(spec(), 0)
		other := w.enqueue(spec(func(s *store.Spec) { s.Queue = "other" }), 0)
		w.wantGranted(a, other)
	})
}

func TestDispatcher_Retry(t *testing.T) {
	t.Run("a failure is retried after its backoff, and at last fails", func(t *testing.T) {
		w := newWorld(t, 1)
		id := w.enqueue(spec(), 0)
		for want := uint32(1); want <= 3; want++ {
			g := w.wantGranted(id)
			if got := g[0].Run.Attempt; got != want {
				t.Fatalf("attempt: got %d, want %d", got, want)
			}
			w.complete(g[0], store.OutcomeFailed)
			w.pass(3 * time.Second) // backoff of 1 s, then 2 s
			w.batch()
		}
		if got, want := w.st.Run(id).State, store.Failed; got != want {
			t.Errorf("state: got %v, want %v", got, want)
		}
	})
	t.Run("a lost worker's lease ends only after the bound", func(t *testing.T) {
		w := newWorld(t, 1)
		id := w.enqueue(spec(), 0)
		w.take()
		w.d.Detach(w.session)
		w.pass(9 * time.Second)
		if got, want := w.st.LiveRun(id).State, store.Running; got != want {
			t.Fatalf("state before the bound: got %v, want %v", got, want)
		}
		w.pass(time.Second)
		if got, want := w.st.LiveRun(id).Crashes, uint32(1); got != want {
			t.Errorf("crashes: got %d, want %d", got, want)
		}
	})
	t.Run("so does a lease that was on its way to the worker", func(t *testing.T) {
		w := newWorld(t, 1)
		id := w.id()
		b := &store.Batch{Level: store.FormatLevel, Wall: w.wall, Elapsed: w.elapsed, Commands: []store.Command{{
			Kind: store.KindEnqueue, Enqueue: &store.Enqueue{Specs: [][]byte{spec().Encode()}, Runs: []store.NewRun{{ID: id}}},
		}}}
		w.d.Prepare(b, w.st)
		w.d.Detach(w.session)
		w.index++
		res, ev := w.st.Apply(w.index, 1, b)
		w.d.Applied(w.st, b, res, ev)
		w.pass(10 * time.Second)
		if got, want := w.st.LiveRun(id).Crashes, uint32(1); got != want {
			t.Errorf("crashes: got %d, want %d", got, want)
		}
	})
	t.Run("a new session of the node ends the old one's leases at once", func(t *testing.T) {
		w := newWorld(t, 1)
		id := w.enqueue(spec(), 0)
		w.take()
		w.d.Detach(w.session)
		w.batch(store.Command{Kind: store.KindOpenSession, Open: &store.OpenSession{Node: "n", Tasks: []string{"work"}}})
		w.batch()
		if got, want := w.st.LiveRun(id).Crashes, uint32(1); got != want {
			t.Errorf("crashes: got %d, want %d", got, want)
		}
	})
	t.Run("so it does if the old one still has its worker, which gets nothing more", func(t *testing.T) {
		w := newWorld(t, 2)
		id := w.enqueue(spec(), 0)
		w.take()
		w.batch(store.Command{Kind: store.KindOpenSession, Open: &store.OpenSession{Node: "n", Tasks: []string{"work"}}})
		w.batch()
		if got, want := w.st.LiveRun(id).Crashes, uint32(1); got != want {
			t.Errorf("crashes: got %d, want %d", got, want)
		}
		w.enqueue(spec(), 0)
		w.wantGranted()
	})
	t.Run("a worker that comes back too late is told", func(t *testing.T) {
		w := newWorld(t, 1)
		id := w.enqueue(spec(), 0)
		w.take()
		w.d.Detach(w.session)
		w.wall, w.elapsed = w.wall+10*second, w.elapsed+10*second
		b := &store.Batch{Level: store.FormatLevel, Wall: w.wall, Elapsed: w.elapsed}
		w.d.Prepare(b, w.st)
		w.d.Attach(w.session, &w.worker, []string{"work"}, 1)
		w.index++
		res, ev := w.st.Apply(w.index, 1, b)
		w.d.Applied(w.st, b, res, ev)
		if got := w.worker.canceled; len(got) != 1 || got[0] != id {
			t.Errorf("canceled: got %v, want [%v]", got, id)
		}
	})
	t.Run("a canceled run's worker is told", func(t *testing.T) {
		w := newWorld(t, 1)
		id := w.enqueue(spec(), 0)
		w.take()
		w.batch(store.Command{Kind: store.KindCancel, Run: &store.RunCommand{ID: id}})
		if got := w.worker.canceled; len(got) != 1 || got[0] != id {
			t.Errorf("canceled: got %v, want [%v]", got, id)
		}
	})
}

func TestDispatcher_Expire(t *testing.T) {
	expires := func(after int64) *store.Spec { return spec(func(s *store.Spec) { s.ExpireAfter = after }) }
	t.Run("at its time and not before", func(t *testing.T) {
		w := newWorld(t, 0)
		id := w.enqueue(expires(10*second), 0)
		w.pass(10*time.Second - time.Millisecond)
		if got, want := w.st.LiveRun(id) != nil, true; got != want {
			t.Fatalf("live before its time is over: got %v, want %v", got, want)
		}
		w.pass(time.Millisecond)
		if got, want := w.st.Run(id).State, store.Expired; got != want {
			t.Errorf("state: got %v, want %v", got, want)
		}
	})
	t.Run("a run that started in time leaves no timer behind", func(t *testing.T) {
		w := newWorld(t, 0)
		for range 3 {
			w.enqueue(expires(int64(24*time.Hour)), 0)
		}
		w.d.SetCapacity(w.session, 3, 0)
		w.batch()
		if got := w.d.Timers(); got != 0 {
			t.Errorf("timers: got %d, want none", got)
		}
	})
	t.Run("an end of time is never", func(t *testing.T) {
		w := newWorld(t, 1)
		id := w.enqueue(expires(math.MaxInt64), time.Minute)
		w.pass(time.Minute)
		w.wantGranted(id)
	})
}

func TestDispatcher_LeadAnew(t *testing.T) {
	t.Run("what waits is armed and what is leased is kept", func(t *testing.T) {
		w := newWorld(t, 1)
		running := w.enqueue(spec(), 0)
		waiting := w.enqueue(spec(), 0)
		later := w.enqueue(spec(), time.Minute)
		g := w.wantGranted(running)
		w.d.Lead(w.st, false)
		w.d.Lead(w.st, true)
		w.batch()
		w.wantGranted(running) // again: it may not know
		g2 := g[0]
		w.complete(g2, store.OutcomeSucceeded)
		g = w.wantGranted(waiting)
		w.complete(g[0], store.OutcomeSucceeded)
		w.pass(time.Minute)
		w.wantGranted(later)
	})
}

func TestDispatcher_LeaseAppliedWhileNobodyLed(t *testing.T) {
	w := newWorld(t, 1)
	id := w.id()
	b := &store.Batch{Level: store.FormatLevel, Wall: w.wall, Elapsed: w.elapsed, Commands: []store.Command{{
		Kind: store.KindEnqueue, Enqueue: &store.Enqueue{Specs: [][]byte{spec().Encode()}, Runs: []store.NewRun{{ID: id}}},
	}}}
	w.d.Prepare(b, w.st)
	w.d.Lead(w.st, false)
	w.index++
	res, ev := w.st.Apply(w.index, 1, b)
	w.d.Applied(w.st, b, res, ev)
	w.wantGranted()
	w.d.Lead(w.st, true)
	w.wantGranted(id)
}

func TestDispatcher_Dropped(t *testing.T) {
	w := newWorld(t, 4)
	b := &store.Batch{Level: store.FormatLevel, Wall: w.wall, Elapsed: w.elapsed, Commands: []store.Command{{
		Kind: store.KindEnqueue, Enqueue: &store.Enqueue{Specs: [][]byte{spec().Encode()}, Runs: []store.NewRun{{ID: w.id()}}},
	}}}
	w.d.Prepare(b, w.st) // reserves, and is never applied
	w.d.Dropped(w.st)
	w.d.SetCapacity(w.session, 1, 0)
	id := w.enqueue(spec(), 0)
	w.wantGranted(id)
}

// An alarm is the runtime's timer.
type alarm struct{ *time.Timer }

func (a alarm) Reset(d time.Duration) { a.Timer.Reset(d) }
func (a alarm) C() <-chan time.Time   { return a.Timer.C }

// A refused lease gives its place to another at once, though nothing else happens.
func TestDispatcher_RefusedLeaseLetsAnotherGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, func(c *dispatch.Config) { c.Alarm = alarm{time.NewTimer(time.Hour)} })
		w.d.SetCapacity(w.session, 0, 0)
		gone, next := w.enqueue(spec(), 0), w.enqueue(spec(), 0)
		w.d.SetCapacity(w.session, 1, 0)
		lease := &store.Batch{Level: store.FormatLevel, Wall: w.wall, Elapsed: w.elapsed}
		w.d.Prepare(lease, w.st)
		cancel := &store.Batch{Level: store.FormatLevel, Wall: w.wall, Elapsed: w.elapsed, Commands: []store.Command{
			{Kind: store.KindCancel, Run: &store.RunCommand{ID: gone}},
		}}
		w.index++
		res, ev := w.st.Apply(w.index, 1, cancel) // an entry that was before it
		w.d.Applied(w.st, cancel, res, ev)
		var loop sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		loop.Go(func() { w.d.Run(ctx) })
		synctest.Wait()
		w.kicked = 0
		w.index++
		res, ev = w.st.Apply(w.index, 1, lease)
		w.d.Applied(w.st, lease, res, ev)
		synctest.Wait()
		stop()
		loop.Wait()
		if w.kicked == 0 {
			t.Error("no batch is asked for")
		}
		w.batch()
		w.wantGranted(next)
	})
}

var _ dispatch.Worker = (*fakeWorker)(nil)
