package dispatch

import (
	"time"

	"github.com/escapement-go/scheduler/store"
)

// agingStep is the wait that raises a run's effective priority by one class, so
// that a steady stream of higher classes does not starve it (ns).
const agingStep = int64(30e9)

type laneKey struct {
	queue string
	task  string
}

// A lane holds the waiting runs of one task in one queue.
type lane struct {
	key   laneKey
	queue *queue
	crew  *crew
	lines [store.NumPriorities]line // by class
}

// A line holds the waiting runs of one class in a lane: a binary heap of entries,
// the earliest on top. That one, its head, alone asks to be granted; one that is
// held back bars those behind it.
type line struct {
	heap  []entry
	lane  *lane
	class store.Priority
	group *group // nil while it is empty
	at    int    // its place in the group
}

// entry is a run that waits in a line. It may be out of date; the state is asked
// before it is granted.
type entry struct {
	id    store.RunID
	due   int64 // ns on clock
	since int64 // ns elapsed at which it was, or will be, due: what orders it
	clock store.Clock

	careful bool // see look
}

func (d *Dispatcher) lane(spec *store.Spec) *lane {
	key := laneKey{spec.Queue, spec.Task}
	l := d.lanes[key]
	if l == nil {
		l = &lane{key: key, queue: d.queue(key.queue), crew: d.crew(key.task)}
		for c := range l.lines {
			l.lines[c].lane, l.lines[c].class = l, store.Priority(c)
		}
		d.lanes[key] = l
	}
	return l
}

func (l *lane) empty() bool {
	for i := range l.lines {
		if len(l.lines[i].heap) > 0 {
			return false
		}
	}
	return true
}

// rank grows with the urgency of an entry: its class, raised by the time waited.
func (a *entry) rank(class store.Priority, elapsed int64) int64 {
	raised := int64(class)
	if waited := elapsed - a.since; waited > 0 {
		raised = min(raised+waited/agingStep, int64(store.Critical))
	}
	return raised
}

// before orders entries of one class by when they are due, then by ID.
func (a *entry) before(b *entry) bool {
	if a.since != b.since {
		return a.since < b.since
	}
	return a.id.Compare(b.id) < 0
}

func (w *line) push(e entry) {
	w.heap = append(w.heap, e)
	i := len(w.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !w.heap[i].before(&w.heap[up]) {
			break
		}
		w.heap[i], w.heap[up] = w.heap[up], w.heap[i]
		i = up
	}
	if i == 0 {
		w.seat()
	}
}

func (w *line) pop() entry {
	top := w.heap[0]
	last := len(w.heap) - 1
	w.heap[0] = w.heap[last]
	w.heap = w.heap[:last]
	for i := 0; ; {
		least := i
		for _, kid := range [2]int{2*i + 1, 2*i + 2} {
			if kid < last && w.heap[kid].before(&w.heap[least]) {
				least = kid
			}
		}
		if least == i {
			break
		}
		w.heap[i], w.heap[least] = w.heap[least], w.heap[i]
		i = least
	}
	if cap(w.heap) > 1024 && last < cap(w.heap)/4 { // give a past burst's memory back
		w.heap = append(make([]entry, 0, cap(w.heap)/2), w.heap...)
	}
	w.seat()
	return top
}

// pop takes the head out of a line, and the lane away if it was its last run.
func (d *Dispatcher) pop(w *line) entry {
	e := w.pop()
	if w.lane.empty() {
		delete(d.lanes, w.lane.key)
	}
	return e
}

// ReadyRuns is what waits in a queue for a worker.
type ReadyRuns struct {
	Runs   int           // due runs; those canceled meanwhile count until their turn comes
	Oldest time.Duration // since the first of them was due
}

// Ready returns what waits, by queue, on the leader; nil elsewhere. It costs a look
// at every lane.
func (d *Dispatcher) Ready() map[string]ReadyRuns {
	_, elapsed := d.cfg.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.leading {
		return nil
	}
	ready := make(map[string]ReadyRuns)
	for key, l := range d.lanes {
		r := ready[key.queue]
		for c := range l.lines {
			h := l.lines[c].heap
			if len(h) == 0 {
				continue
			}
			r.Runs += len(h)
			r.Oldest = max(r.Oldest, time.Duration(elapsed-h[0].since))
		}
		ready[key.queue] = r
	}
	return ready
}
