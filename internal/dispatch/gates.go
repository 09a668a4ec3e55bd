package dispatch

import (
	"fmt"

	"github.com/escapement-go/scheduler/store"
)

// look is what the gates look at: a run that asks to be granted, at a time.
type look struct {
	d       *Dispatcher
	key     laneKey
	class   store.Priority
	clock   store.Clock
	due     int64
	careful bool // to be granted only when it starts at once: the loss of its worker would end it
	wall    int64
	elapsed int64
}

// careful reports whether the loss of one more worker would end the run. A run
// that has not started must not be among the lost, so it is granted only into a
// free slot, and not ahead of time.
func careful(spec *store.Spec, crashes uint32) bool { return crashes+1 >= spec.CrashBudget() }

// ahead returns how long before it is due the run may be granted (ns).
func (l *look) ahead() int64 {
	if l.careful {
		return 0
	}
	return releaseAhead
}

// left returns the ns until the run is due.
func (l *look) left() int64 {
	if l.clock == store.Wall {
		return l.due - l.wall
	}
	return l.due - l.elapsed
}

// A gate holds a run back, or lets it pass.
type gate struct {
	name string
	// ofQueue tells that it holds all runs of a queue, or none, until the queue
	// changes. Such gates come first.
	ofQueue bool
	// holds reports whether the run must wait.
	holds func(*look) bool
	// says tells why in a sentence.
	says func(*look) string
	// opens returns when the gate will open by itself (ns on the run's clock), 0
	// if time alone does not open it.
	opens func(*look) int64
}

func never(*look) int64 { return 0 }

// gates are what a run passes before it is granted, in order. This list is the
// only one: granting and explaining both walk it.
var gates = [...]gate{
	{
		name:    "paused",
		ofQueue: true,
		holds: func(l *look) bool {
			q := l.d.queues[l.key.queue]
			return q != nil && q.paused
		},
		says:  func(l *look) string { return fmt.Sprintf("queue %q is paused", l.key.queue) },
		opens: never,
	},
	{
		name:    "queue_limit",
		ofQueue: true,
		holds: func(l *look) bool {
			q := l.d.queues[l.key.queue]
			return q != nil && q.limit > 0 && q.leased >= int(q.limit)
		},
		says: func(l *look) string {
			q := l.d.queues[l.key.queue]
			return fmt.Sprintf("queue %q runs %d at a time and %d are running", l.key.queue, q.limit, q.leased)
		},
		opens: never,
	},
	{
		name:  "handler",
		holds: func(l *look) bool { return len(l.d.crew(l.key.task).workers) == 0 },
		says: func(l *look) string {
			return fmt.Sprintf("no live worker has a handler for task %q", l.key.task)
		},
		opens: never,
	},
	{
		name:  "due",
		holds: func(l *look) bool { return l.left() > l.ahead() },
		says:  func(l *look) string { return "it is not due yet" },
		opens: func(l *look) int64 { return l.due },
	},
	{
		name:  "worker",
		holds: func(l *look) bool { return l.choose() == nil },
		says: func(l *look) string {
			return fmt.Sprintf("every worker with a handler for task %q is busy", l.key.task)
		},
		opens: never,
	},
}

// blocked returns the first gate that holds the run, or nil.
func (l *look) blocked() *gate {
	for i := range gates {
		if gates[i].holds(l) {
			return &gates[i]
		}
	}
	return nil
}

// Verdict says why a waiting run waits.
type Verdict struct {
	Gate   string      // its name; "" if nothing holds the run
	Reason string      // a sentence
	Clock  store.Clock // of Until
	Until  int64       // ns; 0 if time alone does not open the gate
}

// Explain runs the gates for a waiting run. It answers only on the leader;
// ok is false elsewhere.
func (d *Dispatcher) Explain(r *store.Run) (v Verdict, ok bool) {
	wall, elapsed := d.cfg.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.leading {
		return Verdict{}, false
	}
	l := look{d, laneKey{r.Spec.Queue, r.Spec.Task}, r.Spec.Priority, r.Clock, r.Due, careful(r.Spec, r.Crashes), wall, elapsed}
	if g := l.blocked(); g != nil {
		return Verdict{Gate: g.name, Reason: g.says(&l), Clock: r.Clock, Until: g.opens(&l)}, true
	}
	return Verdict{Reason: "nothing holds it; it is about to be leased"}, true
}
