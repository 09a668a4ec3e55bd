package store_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/store/storetest"
)

// naive is what must hold of the events of a state, told without its data
// structures: it only ever sees commands, results and events.
type naive struct {
	t     *testing.T
	ticks map[uint64][]store.Span // decided, by schedule
	runs  map[store.RunID]*life
	fence uint64
	limit map[string]uint32
	held  map[string]int                      // leases, by queue
	told  map[[2]uint64]store.Result          // by session and sequence number
	codes map[store.Kind]map[store.Code]int   // how commands fared
	ends  map[store.RunState]int              // how runs ended
	fared map[store.TickOutcome]int           // how ticks fared
	again int                                 // repeated commands
	keys  map[string]map[store.RunID]struct{} // live runs by unique key
}

// life is what is known of a run.
type life struct {
	run     *store.Run
	leased  bool
	final   bool
	revived uint32
}

func newNaive(t *testing.T) *naive {
	t.Helper()
	return &naive{
		t: t, ticks: make(map[uint64][]store.Span), runs: make(map[store.RunID]*life),
		limit: make(map[string]uint32), held: make(map[string]int), told: make(map[[2]uint64]store.Result),
		codes: make(map[store.Kind]map[store.Code]int), ends: make(map[store.RunState]int),
		fared: make(map[store.TickOutcome]int), keys: make(map[string]map[store.RunID]struct{}),
	}
}

// results checks that a command of a session has one result for ever.
func (m *naive) results(b *store.Batch, results []store.Result) {
	if len(results) != len(b.Commands) {
		m.t.Fatalf("%d results of %d commands", len(results), len(b.Commands))
	}
	for i, c := range b.Commands {
		if m.codes[c.Kind] == nil {
			m.codes[c.Kind] = make(map[store.Code]int)
		}
		m.codes[c.Kind][results[i].Code]++
		if c.Session == 0 || c.Seq == 0 {
			continue
		}
		at := [2]uint64{c.Session, c.Seq}
		first, repeated := m.told[at]
		if !repeated {
			m.told[at] = results[i]
			continue
		}
		m.again++
		code := results[i].Code
		if code != store.CodeRepeated && code != store.CodeSessionGone && !cmp.Equal(results[i], first) {
			m.t.Errorf("command %d of session %d: %+v, the first time %+v", c.Seq, c.Session, results[i], first)
		}
	}
}

func (m *naive) event(e store.Event) {
	switch e.Kind {
	case store.EventEnqueued:
		m.enqueued(e)
	case store.EventLeased:
		m.leased(e)
	case store.EventRescheduled, store.EventFinished:
		m.ended(e)
	case store.EventCheckpointed:
		l := m.life(e)
		if l == nil || !l.leased {
			m.t.Errorf("run %v: a checkpoint without a lease", e.Run.ID)
			return
		}
		l.run = e.Run
	case store.EventTick:
		m.ticked(e.Tick)
	case store.EventQueueSet:
		m.limit[e.Queue.Name] = e.Queue.Limit
	}
}

func (m *naive) life(e store.Event) *life {
	l := m.runs[e.Run.ID]
	if l == nil {
		m.t.Errorf("run %v: event %d of a run that was never enqueued", e.Run.ID, e.Kind)
	}
	return l
}

func (m *naive) enqueued(e store.Event) {
	if l := m.runs[e.Run.ID]; l != nil && !l.final {
		m.t.Errorf("run %v: enqueued twice", e.Run.ID)
	}
	m.runs[e.Run.ID] = &life{run: e.Run}
	m.hold(e.Run)
}

func (m *naive) leased(e store.Event) {
	l := m.life(e)
	switch {
	case l == nil:
		return
	case l.leased || l.final:
		m.t.Errorf("run %v: leased while leased or final", e.Run.ID)
	case e.Fence <= m.fence || e.Run.Fence != e.Fence || e.Run.Session != e.Session:
		m.t.Errorf("run %v: fence %d after %d", e.Run.ID, e.Fence, m.fence)
	}
	m.fence = e.Fence
	queue := e.Run.Spec.Queue
	m.held[queue]++
	if limit := m.limit[queue]; limit > 0 && m.held[queue] > int(limit) {
		m.t.Errorf("queue %s: %d leases, limit %d", queue, m.held[queue], limit)
	}
	l.run, l.leased = e.Run, true
}

// ended takes the end of an attempt, of a wait, or of the run.
func (m *naive) ended(e store.Event) {
	l := m.life(e)
	if l == nil {
		return
	}
	revived := uint32(0)
	if e.Run.More != nil {
		revived = e.Run.More.Revived
	}
	switch {
	case l.final && (e.Kind != store.EventRescheduled || revived != l.revived+1):
		m.t.Errorf("run %v: it ended as %v and is %v now", e.Run.ID, l.run.State, e.Run.State)
	case l.leased && (e.Fence != l.run.Fence || e.Session != l.run.Session):
		m.t.Errorf("run %v: lease %d/%d ended by %d/%d", e.Run.ID, l.run.Session, l.run.Fence, e.Session, e.Fence)
	case e.Run.State.Final() != (e.Kind == store.EventFinished):
		m.t.Errorf("run %v: event %d with state %v", e.Run.ID, e.Kind, e.Run.State)
	}
	if l.leased {
		m.held[e.Run.Spec.Queue]--
	}
	if l.final {
		m.hold(e.Run)
	}
	l.run, l.leased, l.final, l.revived = e.Run, false, e.Run.State.Final(), revived
	if l.final {
		m.ends[e.Run.State]++
		if e.Run.More != nil {
			delete(m.keys[e.Run.Spec.Task+"/"+e.Run.More.Unique], e.Run.ID)
		}
	}
}

// hold checks that a run that becomes live is the only one with its unique key.
func (m *naive) hold(r *store.Run) {
	if r.More == nil || r.More.Unique == "" {
		return
	}
	key := r.Spec.Task + "/" + r.More.Unique
	if m.keys[key] == nil {
		m.keys[key] = make(map[store.RunID]struct{})
	}
	m.keys[key][r.ID] = struct{}{}
	if len(m.keys[key]) > 1 {
		m.t.Errorf("unique key %q is held by %d live runs", key, len(m.keys[key]))
	}
}

// ticked checks that no tick that was decided gets a second outcome. One that was
// let go may come about later, when the clock was set back.
func (m *naive) ticked(t *store.Tick) {
	m.fared[t.Outcome]++
	if t.Backfill {
		return // the outcome that the tick had stays
	}
	for _, d := range m.ticks[t.Schedule] {
		if d.From <= t.To && t.From <= d.To {
			m.t.Errorf("schedule %d: ticks %d to %d are decided again by %d to %d", t.Schedule, d.From, d.To, t.From, t.To)
		}
	}
	if t.Outcome != store.TickMerged && t.Outcome != store.TickMissed {
		m.ticks[t.Schedule] = append(m.ticks[t.Schedule], store.Span{From: t.From, To: t.To})
	}
}

// state checks what the state says of itself against the events so far.
func (m *naive) state(s *store.State) {
	live := 0
	waiting, leased := make(map[string]int), make(map[string]int)
	for id, l := range m.runs {
		got := s.LiveRun(id)
		if l.final {
			if got != nil {
				m.t.Errorf("run %v is final and live", id)
			}
			continue
		}
		live++
		if got != l.run {
			m.t.Errorf("run %v: the state has another record than the last event", id)
		}
		if l.leased {
			leased[l.run.Spec.Queue]++
		} else {
			waiting[l.run.Spec.Queue]++
		}
	}
	if s.Live() != live {
		m.t.Errorf("%d live runs, want %d", s.Live(), live)
	}
	for _, q := range s.Queues() {
		if q.Waiting != waiting[q.Name] || q.Leased != leased[q.Name] || q.Leased != m.held[q.Name] {
			m.t.Errorf("queue %+v, want %d waiting and %d leased", q, waiting[q.Name], leased[q.Name])
		}
	}
}

func TestState_keeps_its_promises(t *testing.T) {
	seeds, entries := uint64(12), uint64(1500)
	if testing.Short() {
		seeds, entries = 3, 600
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			g, s, m := storetest.NewGenerator(seed), store.NewState(), newNaive(t)
			for index := uint64(1); index <= entries && !t.Failed(); index++ {
				b := g.Next(s)
				results, events := s.Apply(index, 1, b)
				g.Observe(index, events)
				m.results(b, results)
				for _, e := range events {
					m.event(e)
				}
				if index%50 == 0 {
					m.state(s)
				}
			}
			t.Logf("ends %v, ticks %v, repeated %d, codes %v", m.ends, m.fared, m.again, m.codes)
		})
	}
}
