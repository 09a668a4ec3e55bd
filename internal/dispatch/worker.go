package dispatch

import "github.com/escapement-go/scheduler/store"

// maxEarly is how many grants that are not yet due a worker may hold beyond its
// capacity, as long as it is not busy: they take no slot until they are due.
const maxEarly = 16384

// worker is a session's worker and what it holds.
type worker struct {
	Worker
	session  uint64
	tasks    map[string]bool
	slots    int // what it runs at a time
	retired  bool
	capacity int
	reserved int     // grants of class Critical wanted beyond capacity
	held     int     // grants out, or about to be
	early    []int64 // due times (ns elapsed) of grants made ahead, in no order; pass drops those that have come
}

// pass forgets the early grants whose time has come.
func (w *worker) pass(elapsed int64) {
	n := 0
	for _, due := range w.early {
		if due > elapsed {
			w.early[n] = due
			n++
		}
	}
	w.early = w.early[:n]
}

// room reports whether the worker wants one more grant, that of the run looked at.
func (w *worker) room(l *look) bool {
	early := l.left() > 0
	if w.retired {
		return false
	}
	if early && len(w.early) >= maxEarly {
		return false
	}
	most := w.capacity
	if l.class == store.Critical {
		most += w.reserved
	}
	if l.careful {
		most = min(most, w.slots)
	}
	return most > 0 && w.held-len(w.early) < most
}

// choose returns the least loaded worker that has the task and room, or nil.
func (l *look) choose() *worker {
	var best *worker
	for _, w := range l.d.crew(l.key.task).workers {
		if !w.room(l) {
			continue
		}
		if best == nil || w.held*best.capacity < best.held*w.capacity { // of equals the first session
			best = w
		}
	}
	return best
}
