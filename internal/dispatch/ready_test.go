package dispatch_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/store"
)

// Whatever has happened, the next run is the one that a look at all that waits
// finds.
func TestDispatcher_PicksAsAScanDoes(t *testing.T) {
	granted := 0
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := newCrowd(t, seed)
			for range 200 {
				granted += c.step()
			}
		})
	}
	if granted < 1000 {
		t.Errorf("granted: %d runs, too few to tell anything", granted)
	}
}

// A crowd is a leader with several workers, queues and tasks.
type crowd struct {
	*world
	rnd      *rand.Rand
	sessions []uint64
	tasks    [][]string // by session
	running  []dispatch.Grant
	waiting  []store.RunID
}

func newCrowd(t *testing.T, seed uint64) *crowd {
	t.Helper()
	c := &crowd{world: newWorld(t, 0), rnd: rand.New(rand.NewPCG(seed, 2))}
	c.sessions, c.tasks = []uint64{c.session}, [][]string{{"work", "other"}}
	for i, tasks := range [][]string{{"work", "other"}, {"third"}, {"third", "work", "fourth"}} {
		res := c.batch(store.Command{Kind: store.KindOpenSession, Open: &store.OpenSession{Node: fmt.Sprint(i), Tasks: tasks}})
		c.sessions, c.tasks = append(c.sessions, res[0].N), append(c.tasks, tasks)
		c.attach(i + 1)
	}
	return c
}

func (c *crowd) attach(i int) {
	c.d.Attach(c.sessions[i], &c.worker, c.tasks[i], 1+c.rnd.IntN(3))
	c.d.SetCapacity(c.sessions[i], c.rnd.IntN(5), c.rnd.IntN(2))
}

// step lets something happen, and grants.
func (c *crowd) step() (granted int) {
	c.wall, c.elapsed = c.wall+c.rnd.Int64N(second), 0
	c.elapsed = c.wall
	switch c.rnd.IntN(8) {
	case 0, 1, 2:
		c.enqueueSome()
	case 3, 4:
		c.completeSome()
	case 5:
		c.batch(store.Command{Kind: store.KindPutQueue, Queue: &store.Queue{
			Name: c.queue(), Limit: uint32(c.rnd.IntN(4)), Paused: c.rnd.IntN(4) == 0,
		}})
	case 6:
		i := c.rnd.IntN(len(c.sessions))
		c.d.SetCapacity(c.sessions[i], c.rnd.IntN(5), c.rnd.IntN(2))
		if c.rnd.IntN(4) == 0 {
			c.d.Detach(c.sessions[i])
			c.attach(i)
		}
	default:
		if len(c.waiting) > 0 {
			c.batch(store.Command{Kind: store.KindCancel, Run: &store.RunCommand{ID: c.waiting[c.rnd.IntN(len(c.waiting))]}})
		}
		if c.rnd.IntN(4) == 0 {
			c.wall, c.elapsed = c.wall+minute, c.elapsed+minute // they age
		}
	}
	b := &store.Batch{Level: store.FormatLevel, Wall: c.wall, Elapsed: c.elapsed}
	granted, err := c.d.GrantByScan(b, c.st)
	if err != nil {
		c.t.Fatal(err)
	}
	c.batch(b.Commands...)
	c.running = append(c.running, c.take()...)
	return granted
}

func (c *crowd) queue() string { return []string{"default", "a", "b", "c", "d"}[c.rnd.IntN(5)] }

func (c *crowd) enqueueSome() {
	e := new(store.Enqueue)
	for range c.rnd.IntN(10) {
		e.Specs = append(e.Specs, spec(func(s *store.Spec) {
			s.Priority = store.Priority(c.rnd.IntN(store.NumPriorities))
			s.Task = []string{"work", "other", "third", "fourth"}[c.rnd.IntN(4)]
			s.Queue = c.queue()
			s.Retry.Attempts = uint32(1 + c.rnd.IntN(2))
		}).Encode())
		r := store.NewRun{ID: c.id(), Spec: uint32(len(e.Runs))}
		if c.rnd.IntN(3) == 0 {
			r.Due = c.rnd.Int64N(second)
		}
		e.Runs = append(e.Runs, r)
		c.waiting = append(c.waiting, r.ID)
	}
	if len(e.Runs) > 0 {
		c.batch(store.Command{Kind: store.KindEnqueue, Enqueue: e})
	}
	c.running = append(c.running, c.take()...)
}

func (c *crowd) completeSome() {
	var kept []dispatch.Grant
	outcomes := []store.Outcome{store.OutcomeSucceeded, store.OutcomeSucceeded, store.OutcomeFailed, store.OutcomeReleased}
	for _, g := range c.running {
		if c.rnd.IntN(2) == 0 {
			kept = append(kept, g)
			continue
		}
		c.batch(store.Command{Kind: store.KindComplete, Complete: &store.Complete{
			Session: g.Run.Session, Reports: []store.Report{{Run: g.Run.ID, Fence: g.Run.Fence, Outcome: outcomes[c.rnd.IntN(4)]}},
		}})
	}
	c.running = append(kept, c.take()...)
}

// What a batch adds does not get before what waits and is as urgent, in whatever
// lane.
func TestDispatcher_NewRunsTakeTheirTurn(t *testing.T) {
	low := func(s *store.Spec) { s.Priority = store.Low }
	elsewhere := func(s *store.Spec) { s.Queue = "elsewhere" }
	for name, c := range map[string]struct {
		waits, comes func(*store.Spec)
		first        string
	}{
		"of the same class": {elsewhere, func(*store.Spec) {}, "waits"},
		"of a lower class":  {elsewhere, low, "waits"},
		"of a higher class": {func(s *store.Spec) { elsewhere(s); low(s) }, func(*store.Spec) {}, "comes"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			running := w.wantGranted(w.enqueue(spec(), 0))
			waits := w.enqueue(spec(c.waits), 0)
			w.pass(time.Second)
			w.wantGranted()
			comes := w.id()
			w.batch(
				store.Command{Kind: store.KindEnqueue, Enqueue: &store.Enqueue{
					Specs: [][]byte{spec(c.comes).Encode()}, Runs: []store.NewRun{{ID: comes}},
				}},
				store.Command{Kind: store.KindComplete, Complete: &store.Complete{
					Session: w.session, Reports: []store.Report{{Run: running[0].Run.ID, Fence: running[0].Run.Fence, Outcome: store.OutcomeSucceeded}},
				}},
			)
			w.wantGranted(map[string]store.RunID{"waits": waits, "comes": comes}[c.first])
		})
	}
}

// What a queue held back is granted as soon as the queue lets it pass, and in its
// turn.
func TestDispatcher_ParkedQueue(t *testing.T) {
	limit := func(w *world, n uint32) {
		w.batch(store.Command{Kind: store.KindPutQueue, Queue: &store.Queue{Name: "narrow", Limit: n}})
	}
	task := func(name string) func(*store.Spec) {
		return func(s *store.Spec) { s.Queue, s.Task = "narrow", name }
	}
	w := newWorld(t, 10)
	limit(w, 1)
	first := w.enqueue(spec(task("work")), 0)
	second := w.enqueue(spec(task("other")), 0)
	third := w.enqueue(spec(task("work")), 0)
	for _, want := range []store.RunID{first, second, third} {
		g := w.wantGranted(want)
		w.pass(time.Second)
		w.wantGranted()
		if got := w.d.Sleep(); got <= 0 {
			t.Errorf("sleep while the queue is full: got %v", got)
		}
		w.complete(g[0], store.OutcomeSucceeded)
	}
	a, b := w.enqueue(spec(task("work")), 0), w.enqueue(spec(task("other")), 0)
	w.wantGranted(a)
	limit(w, 2)
	w.batch()
	w.wantGranted(b)
}
