package sim_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/internal/sim"
	"github.com/escapement-go/scheduler/store"
)

// epoch is when the history of these tests begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// author writes a history that is as it should be: a leader that does one thing a
// second, and clients that are told the truth.
type author struct {
	t     *testing.T
	h     *sim.History
	st    *store.State
	index uint64
	now   time.Time
	spec  *store.Spec
}

func newAuthor(t *testing.T) *author {
	t.Helper()
	a := &author{
		t: t, st: store.NewState(), now: epoch,
		h: &sim.History{
			Nodes: []string{"n1"}, Clocks: map[string][]sim.Setting{"n1": {{From: epoch}}},
			Stores: make(map[string]sim.Stores), Plans: map[string]sim.Plan{
				"s": {Every: time.Second, Wall: true, Steady: true, Window: 100 * time.Millisecond},
			},
		},
		spec: &store.Spec{
			Task: "job", Queue: "narrow", Priority: store.Normal,
			Retry: store.Retry{Initial: 1e9, Max: 1e9, Factor: 1, Attempts: 5},
		},
	}
	a.commit(store.Command{Kind: store.KindOpenSession, Open: &store.OpenSession{Node: "n1", Tasks: []string{"job"}}})
	a.commit(store.Command{Kind: store.KindPutQueue, Queue: &store.Queue{Name: "narrow", Limit: 1}})
	return a
}

// commit writes an entry, and what it makes of the state.
func (a *author) commit(cmds ...store.Command) {
	a.t.Helper()
	b := &store.Batch{Level: store.FormatLevel, Wall: a.now.UnixNano(), Elapsed: a.now.UnixNano(), Commands: cmds}
	data, err := store.EncodeBatch(nil, b)
	if err != nil {
		a.t.Fatal(err)
	}
	a.index++
	a.h.Log = append(a.h.Log, sim.Entry{Index: a.index, Term: 1, Data: data, Leader: "n1", At: a.now})
	decoded, err := store.DecodeBatch(data)
	if err != nil {
		a.t.Fatal(err)
	}
	a.st.Apply(a.index, 1, decoded)
	a.h.Samples = append(a.h.Samples, sim.Sample{Node: "n1", Index: a.index, Digest: a.st.Digest()})
}

func (a *author) pass(d time.Duration) { a.now = a.now.Add(d) }

func (a *author) id(n byte) store.RunID { return store.NewRunID(epoch, [10]byte{9: n}) }

func input(w sim.Work) []byte {
	b, _ := json.Marshal(w) // it has no field that could fail
	return b
}

func (a *author) enqueue(n byte, key string, work sim.Work) {
	id := a.id(n)
	a.commit(store.Command{Kind: store.KindEnqueue, Enqueue: &store.Enqueue{
		Specs: [][]byte{a.spec.Encode()}, Runs: []store.NewRun{{ID: id, Input: input(work), Unique: key}},
	}})
	a.call(sim.Call{Op: sim.OpEnqueue, Runs: []store.RunID{id}, Work: work, Answer: sim.Done})
}

// call notes a call that was answered a millisecond later.
func (a *author) call(c sim.Call) {
	c.Node, c.Begin, c.End = "n1", a.now, a.now.Add(time.Millisecond)
	a.h.Calls = append(a.h.Calls, c)
	a.pass(2 * time.Millisecond)
}

// lease gives a run to the worker, which starts it at once.
func (a *author) lease(id store.RunID) (fence uint64) {
	a.commit(store.Command{Kind: store.KindLease, Lease: &store.Lease{Session: 1, Runs: []store.RunID{id}}})
	fence = a.st.Meta().Fence
	a.h.Facts = append(a.h.Facts, sim.Fact{What: sim.Began, Node: "n1", Run: id, Attempt: 1, Fence: fence, At: a.now})
	a.pass(time.Millisecond)
	return fence
}

func (a *author) report(id store.RunID, fence uint64, o store.Outcome) {
	f := sim.Fact{What: sim.Ended, Node: "n1", Run: id, Attempt: 1, Fence: fence, At: a.now}
	if o != store.OutcomeSucceeded {
		f.Error = "not yet"
	}
	a.h.Facts = append(a.h.Facts, f)
	a.commit(complete(id, fence, o))
	a.pass(time.Millisecond)
}

func complete(id store.RunID, fence uint64, o store.Outcome) store.Command {
	return store.Command{Kind: store.KindComplete, Complete: &store.Complete{
		Session: 1, Reports: []store.Report{{Run: id, Fence: fence, Outcome: o}},
	}}
}

// tick fires the armed tick of the schedule "s" at its time and executes its run.
func (a *author) tick(n byte) {
	sc := a.st.Schedule("s")
	a.now = time.Unix(0, sc.Next).UTC()
	id := a.id(100 + n)
	a.commit(store.Command{Kind: store.KindTick, Tick: &store.TickCommand{
		Schedule: "s", Version: sc.Version, Armed: sc.Next, Nominal: sc.Next, Run: id, Next: sc.Next + 1e9,
	}})
	fence := a.lease(id)
	a.report(id, fence, store.OutcomeSucceeded)
}

// good writes a history of a bit of everything.
func good(t *testing.T) *sim.History {
	t.Helper()
	a := newAuthor(t)
	plain := sim.Work{Kind: sim.Plain, N: 1}
	a.enqueue(1, "", plain)
	a.report(a.id(1), a.lease(a.id(1)), store.OutcomeSucceeded)
	a.call(sim.Call{Op: sim.OpGet, Runs: []store.RunID{a.id(1)}, Answer: sim.Done, State: store.Succeeded, Atomic: true})
	a.enqueue(2, "key", plain)
	a.enqueue(3, "", sim.Work{Kind: sim.Flaky, N: 3})
	a.report(a.id(3), a.lease(a.id(3)), store.OutcomeFailed)
	a.pass(5 * time.Second)
	stale := a.lease(a.id(3))
	a.commit(store.Command{Kind: store.KindEndLease, EndLease: &store.EndLease{Run: a.id(3), Fence: stale, Outcome: store.OutcomeCrashed}})
	a.pass(5 * time.Second)
	again := a.lease(a.id(3))
	a.commit(complete(a.id(3), stale, store.OutcomeSucceeded)) // too late: it changes nothing
	a.report(a.id(3), again, store.OutcomeSucceeded)
	a.commit(store.Command{Kind: store.KindCancel, Run: &store.RunCommand{ID: a.id(2)}})
	a.call(sim.Call{Op: sim.OpCancel, Runs: []store.RunID{a.id(2)}, Answer: sim.Done})
	a.call(sim.Call{Op: sim.OpCancel, Runs: []store.RunID{a.id(2)}, Answer: sim.Conflict, Atomic: true})
	a.enqueue(4, "key", plain) // its holder has ended
	a.report(a.id(4), a.lease(a.id(4)), store.OutcomeSucceeded)
	a.commit(store.Command{Kind: store.KindPutSchedule, Schedule: &store.PutSchedule{
		Schedule: store.Schedule{
			ID: "s", Spec: a.spec, Input: input(plain), Trigger: store.Trigger{Kind: store.TriggerCron, Expr: "* * * * * *"},
		},
		Next: a.now.Truncate(time.Second).Add(time.Second).UnixNano(),
	}})
	for n := range byte(8) {
		a.tick(n)
	}
	a.h.Calm, a.h.End = a.now.Add(-3500*time.Millisecond), a.now.Add(-200*time.Millisecond)
	a.h.Stores["n1"] = a.stores()
	return a.h
}

// stores is what a disk has that was flushed at the end.
func (a *author) stores() sim.Stores {
	st := sim.Stores{Index: a.index, Runs: make(map[store.RunID]*store.Run)}
	for r := range a.st.FinalRuns() {
		st.Runs[r.ID] = r
	}
	for t := range a.st.UnflushedTicks() {
		st.Ticks = append(st.Ticks, *t)
	}
	return st
}

func TestCheck_finds_nothing_in_a_good_history(t *testing.T) {
	for _, b := range sim.Check(good(t)) {
		t.Error(b)
	}
}

// A mutation breaks one promise of the good history.
type mutation struct {
	name   string
	want   string // in the breach
	mutate func(s *sim.Story)
}

// event returns the nth event of a kind.
func event(s *sim.Story, kind store.EventKind, n int) (entry int, e *store.Event) {
	for i := range s.Applied {
		for j := range s.Applied[i].Events {
			if e := &s.Applied[i].Events[j]; e.Kind == kind {
				if n == 0 {
					return i, e
				}
				n--
			}
		}
	}
	panic("the good history has no such event")
}

// repeat has an event happen once more, in an entry after its own.
func repeat(s *sim.Story, kind store.EventKind, n int) {
	i, e := event(s, kind, n)
	again := *e
	s.Applied[i+1].Events = slices.Insert(slices.Clone(s.Applied[i+1].Events), 0, again)
}

// drop takes an event away.
func drop(s *sim.Story, kind store.EventKind, n int) {
	i, e := event(s, kind, n)
	j := slices.IndexFunc(s.Applied[i].Events, func(o store.Event) bool { return o == *e })
	s.Applied[i].Events = slices.Delete(slices.Clone(s.Applied[i].Events), j, j+1)
}

// change replaces a run of an event by another version.
func change(s *sim.Story, kind store.EventKind, n int, do func(r *store.Run)) {
	_, e := event(s, kind, n)
	r := *e.Run
	do(&r)
	e.Run = &r
}

func mutations() []mutation {
	return append(scheduling(), []mutation{
		{"acknowledged calls", "is lost", func(s *sim.Story) { drop(s, store.EventEnqueued, 0) }},
		{"acknowledged calls", "was enqueued 2 times", func(s *sim.Story) { repeat(s, store.EventEnqueued, 0) }},
		{"acknowledged calls", "its cancel was acknowledged", func(s *sim.Story) {
			change(s, store.EventFinished, 2, func(r *store.Run) { r.State = store.Succeeded })
		}},
		{"acknowledged calls", "has input", func(s *sim.Story) {
			change(s, store.EventEnqueued, 0, func(r *store.Run) { r.Input = []byte("{}") })
		}},
		{"acknowledged calls", "was told that it is not", func(s *sim.Story) { s.Calls[0].Answer = sim.Refused }},
		{"leases", "leases run", func(s *sim.Story) { repeat(s, store.EventLeased, 0) }},
		{"leases", "was given before", func(s *sim.Story) {
			_, e := event(s, store.EventLeased, 2)
			e.Fence = 1
		}},
		{"leases", "which nothing in it asks for", func(s *sim.Story) { // a report under an old fence is accepted
			i, e := event(s, store.EventFinished, 1)
			s.Applied[i].Batch.Commands[0].Complete.Reports[0].Fence = e.Fence - 1
		}},
		{"leases", "which nothing in it asks for", func(s *sim.Story) { // or of another worker
			i, _ := event(s, store.EventFinished, 0)
			s.Applied[i].Batch.Commands[0].Complete.Session = 7
		}},
		{"leases", "ends lease", func(s *sim.Story) {
			_, e := event(s, store.EventFinished, 0)
			e.Fence = 17
		}},
		{"leases", "which had ended as", func(s *sim.Story) { repeat(s, store.EventFinished, 0) }},
		{"results", "has not ended", func(s *sim.Story) {
			s.Last()[runID(1)] = &store.Run{ID: runID(1), Input: input(sim.Work{Kind: sim.Plain})}
		}},
		{"results", "has failed", func(s *sim.Story) {
			s.Last()[runID(1)] = &store.Run{ID: runID(1), Input: input(sim.Work{Kind: sim.Plain}), State: store.Failed}
		}},
		{"unique keys", "which run", func(s *sim.Story) { drop(s, store.EventFinished, 2) }},
		{"queues", "its limit is 1", func(s *sim.Story) { drop(s, store.EventFinished, 0) }},
		{"queues", "which is paused", func(s *sim.Story) {
			_, e := event(s, store.EventQueueSet, 0)
			e.Queue = &store.Queue{Name: "narrow", Paused: true}
		}},
		{"overlap", "is live", func(s *sim.Story) { drop(s, store.EventFinished, 5) }},
		{"ledger", "was ran before", func(s *sim.Story) { repeat(s, store.EventTick, 0) }},
		{"ledger", "has no outcome", func(s *sim.Story) { drop(s, store.EventTick, 2) }},
		{"ledger", "has not got it", func(s *sim.Story) { drop(s, store.EventTick, 2) }},
		{"ledger", "is not there", func(s *sim.Story) { drop(s, store.EventEnqueued, 5) }},
		{"ledger", "before its tick", func(s *sim.Story) {
			change(s, store.EventEnqueued, 5, func(r *store.Run) { r.Due -= 1e6 })
		}},
		{"windows", "no run of its own", func(s *sim.Story) { s.Facts = s.Facts[:len(s.Facts)-6] }},
		{"windows", "is missed", func(s *sim.Story) {
			_, e := event(s, store.EventTick, 7)
			missed := *e.Tick
			missed.Outcome = store.TickMissed
			e.Tick = &missed
		}},
		{"early starts", "before its time", func(s *sim.Story) {
			for i := range s.Facts {
				s.Facts[i].At = s.Facts[i].At.Add(-time.Second)
			}
		}},
		{"handlers", "was started twice", func(s *sim.Story) { s.Facts = append(s.Facts, s.Facts[0]) }},
		{"handlers", "which the log does not give it", func(s *sim.Story) { s.Facts[0].Fence = 17 }},
		{"handlers", "no handler returned so", func(s *sim.Story) { s.Facts[1].Error = "no" }},
		{"digests", "is not what the log makes", func(s *sim.Story) { s.Samples[5].Digest++ }},
		{"storage", "lacks run", func(s *sim.Story) { delete(s.Stores["n1"].Runs, runID(1)) }},
		{"storage", "it is", func(s *sim.Story) { s.Stores["n1"].Runs[runID(1)] = s.Stores["n1"].Runs[runID(4)] }},
		{"storage", "lacks tick", func(s *sim.Story) { s.Stores["n1"].Ticks[0].Outcome = store.TickMissed }},
		{"linearizability", "fits no order", func(s *sim.Story) { // a read of what had ended before
			for i := range s.Calls {
				if s.Calls[i].Op == sim.OpGet {
					s.Calls[i].Answer = sim.Missing
				}
			}
		}},
		{"linearizability", "fits no order", func(s *sim.Story) {
			for i := range s.Calls {
				if s.Calls[i].Answer == sim.Conflict {
					s.Calls[i].Answer = sim.Done // a second cancel
				}
			}
		}},
	}...)
}

func runID(n byte) store.RunID { return store.NewRunID(epoch, [10]byte{9: n}) }

// A tick that is released right before the calm starts when it is due, in the calm.
func TestCheck_waits_for_a_tick_that_was_released_ahead(t *testing.T) {
	s, err := sim.Replay(good(t))
	if err != nil {
		t.Fatal(err)
	}
	i, e := event(s, store.EventTick, 4)
	due := time.Unix(0, e.Tick.From)
	s.Applied[i].At, s.Calm = due.Add(-95*time.Millisecond), due.Add(-95*time.Millisecond)
	for f := range s.Facts {
		if fact := &s.Facts[f]; fact.Run == e.Tick.Run && fact.What == sim.Began {
			fact.At = due.Add(10 * time.Millisecond)
		}
	}
	for _, c := range sim.Checkers() {
		if c.Name != "windows" {
			continue
		}
		for _, b := range c.Check(s) {
			t.Error(b)
		}
	}
}

func TestCheckers_catch_each_a_history_that_breaks_its_promise(t *testing.T) {
	caught := make(map[string]bool)
	for _, m := range mutations() {
		t.Run(m.name+" "+m.want, func(t *testing.T) {
			s, err := sim.Replay(good(t))
			if err != nil {
				t.Fatal(err)
			}
			m.mutate(s)
			for _, c := range sim.Checkers() {
				if c.Name != m.name {
					continue
				}
				broken := c.Check(s)
				if !slices.ContainsFunc(broken, func(b string) bool { return strings.Contains(b, m.want) }) {
					t.Errorf("got %q, want a breach with %q", broken, m.want)
				}
				caught[c.Name] = true
			}
		})
	}
	for _, c := range sim.Checkers() {
		if !caught[c.Name] {
			t.Errorf("no mutation is for the checker of %s", c.Name)
		}
	}
}

func TestMatch_finds_a_match_if_there_is_one(t *testing.T) {
	at := func(s int) time.Time { return epoch.Add(time.Duration(s) * time.Second) }
	targets := []sim.Target{{1, at(0), at(10)}, {2, at(2), at(4)}, {3, at(3), at(3)}}
	starts := []sim.Start{{runID(1), at(3)}, {runID(2), at(2)}, {runID(3), at(9)}, {runID(4), at(20)}}
	missed, extra := sim.Match(targets, starts)
	if len(missed) != 0 || len(extra) != 1 || extra[0].Run != runID(4) {
		t.Errorf("match: got missed %v and extra %v, want the last start to be extra", missed, extra)
	}
	missed, _ = sim.Match(targets, starts[2:])
	if len(missed) != 2 {
		t.Errorf("match: got missed %v, want two", missed)
	}
}
