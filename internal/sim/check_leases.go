package sim

import (
	"github.com/escapement-go/scheduler/store"
)

// held is a lease in the naive model.
type held struct {
	session, fence uint64
}

// checkLeases: a run has one lease at a time and only while it is live; fences
// only grow; a lease ends by a report of its holder under its fence, by the
// leader's word, or by a cancel; what has ended has ended.
func checkLeases(s *Story) (b Breaches) {
	m := leaseModel{leases: make(map[store.RunID]held), states: make(map[store.RunID]store.RunState), out: &b}
	for i := range s.Applied {
		m.entry(&s.Applied[i])
	}
	return b
}

type leaseModel struct {
	leases map[store.RunID]held
	states map[store.RunID]store.RunState // Scheduled, Running or final
	fence  uint64
	out    *Breaches
}

func (m *leaseModel) entry(a *Applied) {
	for i := range a.Events {
		e := &a.Events[i]
		if e.Run == nil {
			continue
		}
		id := e.Run.ID
		state, known := m.states[id]
		switch e.Kind {
		case store.EventEnqueued:
			if known {
				m.out.add("entry %d enqueues run %v, which is %v", a.Index, id, state)
			}
			m.states[id] = store.Scheduled
		case store.EventLeased:
			m.lease(a, e, state)
		case store.EventRescheduled, store.EventFinished:
			m.end(a, e, state)
		case store.EventCheckpointed:
			if state != store.Running {
				m.out.add("entry %d keeps a checkpoint of run %v, which is %v", a.Index, id, state)
			}
		default: // is of no run
		}
	}
}

func (m *leaseModel) lease(a *Applied, e *store.Event, state store.RunState) {
	id := e.Run.ID
	if state != store.Scheduled {
		m.out.add("entry %d leases run %v, which is %v under fence %d", a.Index, id, state, m.leases[id].fence)
	}
	if e.Fence <= m.fence {
		m.out.add("entry %d gives fence %d to run %v, fence %d was given before", a.Index, e.Fence, id, m.fence)
	}
	m.fence = max(m.fence, e.Fence)
	m.states[id] = store.Running
	m.leases[id] = held{e.Session, e.Fence}
}

// end follows a run that goes back to waiting, or ends for good.
func (m *leaseModel) end(a *Applied, e *store.Event, state store.RunState) {
	id := e.Run.ID
	has, leased := m.leases[id]
	switch {
	case e.Fence == 0 && leased:
		m.out.add("entry %d makes run %v %v and does not end its lease %d", a.Index, id, e.Run.State, has.fence)
	case e.Fence != 0 && (!leased || has != held{e.Session, e.Fence}):
		m.out.add("entry %d ends lease %d of run %v, which has %+v", a.Index, e.Fence, id, has)
	case !m.caused(a, e):
		m.out.add("entry %d makes run %v %v (%v, fence %d), which nothing in it asks for", a.Index, id, e.Run.State, e.Outcome, e.Fence)
	}
	if state.Final() {
		if e.Kind == store.EventFinished {
			m.out.add("entry %d ends run %v as %v, which had ended as %v", a.Index, id, e.Run.State, state)
		} else if state == store.Succeeded {
			m.out.add("entry %d takes up run %v, which had succeeded", a.Index, id)
		}
	}
	delete(m.leases, id)
	m.states[id] = e.Run.State
}

// caused reports whether a command of the entry asks for the event: a report
// under the very lease, the leader's end of the very lease, a cancel, an expiry,
// or a retry.
func (m *leaseModel) caused(a *Applied, e *store.Event) bool {
	id := e.Run.ID
	for i := range a.Batch.Commands {
		switch c := &a.Batch.Commands[i]; c.Kind {
		case store.KindComplete:
			if e.Fence == 0 || c.Complete.Session != e.Session {
				continue
			}
			for j := range c.Complete.Reports {
				if r := &c.Complete.Reports[j]; r.Run == id && r.Fence == e.Fence && r.Outcome == e.Outcome {
					return true
				}
			}
		case store.KindEndLease:
			if e.Fence != 0 && c.EndLease.Run == id && c.EndLease.Fence == e.Fence && c.EndLease.Outcome == e.Outcome {
				return true
			}
		case store.KindCancel:
			if c.Run.ID == id && e.Run.State == store.Canceled {
				return true
			}
		case store.KindRetryNow:
			if c.Run.ID == id && e.Fence == 0 && e.Kind == store.EventRescheduled {
				return true
			}
		case store.KindTick:
			if replaces(e, c.Tick.Schedule) {
				return true
			}
		case store.KindRunNow:
			if replaces(e, c.RunNow.Schedule) {
				return true
			}
		case store.KindExpire:
			for _, r := range c.Expire.Runs {
				if r == id && e.Run.State == store.Expired {
					return true
				}
			}
		default: // ends no run
		}
	}
	return false
}

// replaces reports whether a run of the schedule is canceled: a later one may have
// taken its place.
func replaces(e *store.Event, schedule string) bool {
	return e.Run.State == store.Canceled && e.Run.More != nil && e.Run.More.Schedule == schedule
}

// checkUniques: no two live runs of a task have the same unique key, and a key
// that is to be held longer is.
func checkUniques(s *Story) (b Breaches) {
	type hold struct {
		by    store.RunID
		until int64
	}
	holds := make(map[string]hold)
	live := make(map[store.RunID]bool)
	for i := range s.Applied {
		a := &s.Applied[i]
		for j := range a.Events {
			e := &a.Events[j]
			if e.Run == nil {
				continue
			}
			id := e.Run.ID
			begins := e.Kind == store.EventEnqueued || e.Kind == store.EventRescheduled && !live[id]
			if begins && e.Run.More != nil && e.Run.More.Unique != "" {
				key := e.Run.Spec.Task + " " + e.Run.More.Unique
				h, held := holds[key]
				if held && h.by != id && (live[h.by] || h.until > a.Elapsed) {
					b.add("entry %d makes run %v with key %q, which run %v holds", a.Index, id, key, h.by)
				}
				holds[key] = hold{id, e.Run.More.UniqueUntil}
			}
			live[id] = e.Kind != store.EventFinished
		}
	}
	return b
}

// checkQueues: a queue has no more leases than its limit when one is granted,
// and none is granted while it is paused.
func checkQueues(s *Story) (b Breaches) {
	queues := make(map[string]store.Queue)
	leased := make(map[store.RunID]bool)
	busy := make(map[string]int)
	for i := range s.Applied {
		a := &s.Applied[i]
		for j := range a.Events {
			e := &a.Events[j]
			if e.Kind == store.EventQueueSet {
				queues[e.Queue.Name] = *e.Queue
			}
			if e.Run == nil {
				continue
			}
			name := e.Run.Spec.Queue
			switch q := queues[name]; {
			case e.Kind == store.EventLeased:
				leased[e.Run.ID] = true
				busy[name]++
				if q.Paused {
					b.add("entry %d leases run %v of queue %q, which is paused", a.Index, e.Run.ID, name)
				}
				if q.Limit > 0 && busy[name] > int(q.Limit) {
					b.add("entry %d leases run %v of queue %q: %d at a time, its limit is %d", a.Index, e.Run.ID, name, busy[name], q.Limit)
				}
			case leased[e.Run.ID] && (e.Kind == store.EventFinished || e.Kind == store.EventRescheduled):
				delete(leased, e.Run.ID)
				busy[name]--
			}
		}
	}
	return b
}
