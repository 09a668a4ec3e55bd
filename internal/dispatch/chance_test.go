package dispatch_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/store"
)

// A chance is a leader that anything may happen to, with entries on their way.
type chance struct {
	*world
	rnd      *rand.Rand
	flight   []*store.Batch // prepared and not applied
	granted  map[store.RunID]dispatch.Grant
	periods  map[string]time.Duration
	attached bool
}

// Whatever happens, nothing gets stuck: once it is over, every run comes to its
// end and every schedule ticks on. Meanwhile the leader never turns in circles: an
// entry that stays empty is followed by sleep.
func TestDispatcher_NothingGetsStuck(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := &chance{
				world: newWorld(t, 4), rnd: rand.New(rand.NewPCG(seed, 1)), attached: true,
				granted: make(map[store.RunID]dispatch.Grant), periods: make(map[string]time.Duration),
			}
			for range 300 {
				c.step()
			}
			c.settle()
		})
	}
}

func (c *chance) step() {
	switch c.rnd.IntN(12) {
	case 0, 1, 2:
		c.propose(c.enqueueOne())
	case 3, 4:
		c.propose(c.completeSome()...)
	case 5:
		c.propose(c.change())
	case 6:
		c.d.SetCapacity(c.session, c.rnd.IntN(5), c.rnd.IntN(2))
	case 7:
		c.tick(time.Duration(c.rnd.Int64N(int64(2 * time.Minute))))
	case 8:
		if c.rnd.IntN(4) == 0 {
			c.wall += c.rnd.Int64N(2*int64(time.Hour)) - int64(time.Hour)
		}
	case 9:
		c.trouble()
	case 10:
		c.land()
	default:
		c.tick(time.Duration(c.rnd.Int64N(int64(100 * time.Millisecond))))
	}
	if len(c.flight) > 2 || c.rnd.IntN(2) == 0 {
		c.land()
	}
}

func (c *chance) tick(d time.Duration) {
	c.wall, c.elapsed = c.wall+int64(d), c.elapsed+int64(d)
	c.propose()
}

// propose prepares an entry.
func (c *chance) propose(cmds ...store.Command) {
	b := &store.Batch{Level: store.FormatLevel, Wall: c.wall, Elapsed: c.elapsed, Commands: cmds}
	c.d.Prepare(b, c.st)
	c.receive()
	if len(b.Commands) > 0 {
		c.flight = append(c.flight, b)
		return
	}
	if sleep := c.d.Sleep(); sleep <= 0 && len(c.flight) == 0 {
		c.t.Fatalf("an empty entry is followed by a sleep of %v", sleep)
	}
}

// land applies the oldest entry on its way.
func (c *chance) land() {
	if len(c.flight) == 0 {
		return
	}
	b := c.flight[0]
	c.flight = c.flight[1:]
	data, err := store.EncodeBatch(nil, b)
	if err != nil {
		c.t.Fatal(err)
	}
	decoded, err := store.DecodeBatch(data)
	if err != nil {
		c.t.Fatal(err)
	}
	c.index++
	results, events := c.st.Apply(c.index, 1, decoded)
	c.d.Applied(c.st, decoded, results, events)
	c.receive()
}

// receive has the worker take what it was granted.
func (c *chance) receive() {
	for _, g := range c.take() {
		c.granted[g.Run.ID] = g
	}
}

// trouble is what a leader goes through.
func (c *chance) trouble() {
	switch c.rnd.IntN(4) {
	case 0: // entries are lost; a worker delivers its reports again
		for _, b := range c.flight {
			for i := range b.Commands {
				if done := b.Commands[i].Complete; done != nil {
					for _, rep := range done.Reports {
						c.granted[rep.Run] = dispatch.Grant{Run: &store.Run{ID: rep.Run, Fence: rep.Fence}}
					}
				}
			}
		}
		c.flight = c.flight[:0]
		c.d.Dropped(c.st)
	case 1: // another leads for a while
		c.d.Lead(c.st, false)
		for len(c.flight) > 0 {
			c.land()
		}
		c.wall, c.elapsed = c.wall+minute, c.elapsed+minute
		c.d.Lead(c.st, true)
		c.receive()
	case 2:
		c.d.Detach(c.session)
		c.attached = false
	default:
		c.attach()
	}
}

func (c *chance) attach() {
	if !c.attached {
		c.d.Attach(c.session, &c.worker, []string{"work", "other"}, 4)
		c.d.SetCapacity(c.session, 4, 1)
		c.attached = true
	}
}

func (c *chance) enqueueOne() store.Command {
	s := spec(func(s *store.Spec) {
		s.Priority = store.Priority(c.rnd.IntN(store.NumPriorities))
		s.Task = []string{"work", "other"}[c.rnd.IntN(2)]
		s.Queue = []string{"default", "narrow"}[c.rnd.IntN(2)]
		s.Retry.Attempts = uint32(1 + c.rnd.IntN(3))
		if c.rnd.IntN(3) == 0 {
			s.ExpireAfter = c.rnd.Int64N(minute)
		}
	})
	n := store.NewRun{ID: c.id(), Due: max(c.rnd.Int64N(2*minute)-minute, 0)}
	if c.rnd.IntN(4) == 0 {
		n.Clock, n.Due = store.Wall, c.wall+c.rnd.Int64N(minute)
	}
	return store.Command{Kind: store.KindEnqueue, Enqueue: &store.Enqueue{Specs: [][]byte{s.Encode()}, Runs: []store.NewRun{n}}}
}

func (c *chance) completeSome() []store.Command {
	done := &store.Complete{Session: c.session}
	for id, g := range c.granted {
		outcomes := []store.Outcome{store.OutcomeSucceeded, store.OutcomeFailed, store.OutcomeSnoozed, store.OutcomeReleased}
		done.Reports = append(done.Reports, store.Report{
			Run: id, Fence: g.Run.Fence, Outcome: outcomes[c.rnd.IntN(len(outcomes))], Delay: c.rnd.Int64N(minute), Error: "failed",
		})
		delete(c.granted, id)
		if c.rnd.IntN(2) == 0 {
			break
		}
	}
	if len(done.Reports) == 0 {
		return nil
	}
	return []store.Command{{Kind: store.KindComplete, Complete: done}}
}

// change is a call about a schedule, a queue or a run.
func (c *chance) change() store.Command {
	id := []string{"a", "b", "c"}[c.rnd.IntN(3)]
	switch c.rnd.IntN(7) {
	case 0:
		return store.Command{Kind: store.KindDeleteSchedule, Delete: &store.DeleteSchedule{ID: id}}
	case 1:
		return store.Command{Kind: store.KindPauseSchedule, Pause: &store.PauseSchedule{ID: id, Paused: true}}
	case 2:
		if p := c.resume(id); p != nil {
			return *p
		}
	case 3:
		return store.Command{Kind: store.KindPutQueue, Queue: &store.Queue{Name: "narrow", Limit: uint32(1 + c.rnd.IntN(2)), Paused: c.rnd.IntN(2) == 0}}
	case 4:
		for r := range c.st.LiveRuns() {
			kind := []store.Kind{store.KindCancel, store.KindRetryNow}[c.rnd.IntN(2)]
			return store.Command{Kind: kind, Run: &store.RunCommand{ID: r.ID}}
		}
	case 5:
		return store.Command{Kind: store.KindRunNow, RunNow: &store.RunNow{Schedule: id, Run: c.id()}}
	}
	period := time.Duration(1+c.rnd.IntN(60)) * time.Second
	sc := store.Schedule{
		ID: id, Spec: spec(), Overlap: store.Overlap(c.rnd.IntN(4)), QueueMax: 2,
		CatchUp: store.CatchUp(c.rnd.IntN(3)), MaxCount: 10, Pace: c.rnd.Int64N(2) * second,
		Trigger: store.Trigger{Kind: store.TriggerEvery, Every: int64(period)},
	}
	now := c.elapsed
	if c.rnd.IntN(2) == 0 {
		onWall(&sc)
		now = c.wall
	}
	return store.Command{Kind: store.KindPutSchedule, Schedule: &store.PutSchedule{Schedule: sc, Next: every(period).Next(now)}}
}

func (c *chance) resume(id string) *store.Command {
	sc := c.st.Schedule(id)
	if sc == nil || !sc.Paused {
		return nil
	}
	return &store.Command{Kind: store.KindPauseSchedule, Pause: &store.PauseSchedule{ID: id}}
}

// settle lets everything come to rest and looks whether it does.
func (c *chance) settle() {
	c.t.Helper()
	c.attach()
	c.d.SetCapacity(c.session, 100, 0)
	c.propose(store.Command{Kind: store.KindPutQueue, Queue: &store.Queue{Name: "narrow"}})
	for _, id := range []string{"a", "b", "c"} {
		for len(c.flight) > 0 {
			c.land()
		}
		if p := c.resume(id); p != nil {
			c.propose(*p)
		}
	}
	for range 600 {
		c.tick(time.Second)
		for len(c.flight) > 0 {
			c.land()
		}
		done := &store.Complete{Session: c.session}
		for id, g := range c.granted {
			done.Reports = append(done.Reports, store.Report{Run: id, Fence: g.Run.Fence, Outcome: store.OutcomeSucceeded})
			delete(c.granted, id)
		}
		if len(done.Reports) > 0 {
			c.propose(store.Command{Kind: store.KindComplete, Complete: done})
		}
	}
	for r := range c.st.LiveRuns() {
		if r.Due < min(c.wall, c.elapsed)-minute {
			v, _ := c.d.Explain(r)
			c.t.Errorf("%+v; run %v is %v and was due %v ago (lease of session %d)", v, r.ID, r.State, time.Duration(c.elapsed-r.Due), r.Session)
		}
	}
	for sc := range c.st.Schedules() {
		now := c.elapsed
		if sc.Trigger.TickClock() == store.Wall {
			now = c.wall
		}
		// Runs take a second here: ticks that come as fast leave no room to make up others.
		if n := len(sc.Waiting); n > int(sc.QueueMax) && sc.Trigger.Every > 10*second {
			c.t.Errorf("schedule %q: %d spans still wait: %+v; live %v overlap %d every %v", sc.ID, n, sc.Waiting, sc.Live, sc.Overlap, time.Duration(sc.Trigger.Every))
		}
		if late := now - sc.Next; late > minute || -late > 2*minute+int64(2*time.Hour) {
			c.t.Errorf("schedule %q stands still: its next tick is %v away", sc.ID, time.Duration(-late))
		}
	}
}
