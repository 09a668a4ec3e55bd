package scheduler

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// waiters are the calls that wait for runs to end.
type waiters struct {
	n      atomic.Int64  // how many, to be asked without the lock
	missed chan struct{} // 1: runs may have ended without an event

	mu     sync.Mutex // guards all below
	byRun  map[store.RunID][]chan *store.Run
	closed bool
}

// add returns a channel that receives the run once it has ended, or is closed
// when the scheduler stops. The channel holds 1, so that telling never waits.
func (w *waiters) add(id store.RunID) chan *store.Run {
	ch := make(chan *store.Run, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		close(ch)
		return ch
	}
	if w.byRun == nil {
		w.byRun = make(map[store.RunID][]chan *store.Run)
	}
	w.byRun[id] = append(w.byRun[id], ch)
	w.n.Add(1)
	return ch
}

// remove takes back a channel that was added.
func (w *waiters) remove(id store.RunID, ch chan *store.Run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.byRun[id]
	for i := range list {
		if list[i] == ch {
			w.n.Add(-1)
			if len(list) == 1 {
				delete(w.byRun, id)
				return
			}
			list[i] = list[len(list)-1] // their order is of no account
			list[len(list)-1] = nil
			w.byRun[id] = list[:len(list)-1]
			return
		}
	}
}

// tell hands ended runs to those who wait for them.
func (w *waiters) tell(events []store.Event) {
	if w.n.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range events {
		if events[i].Kind != store.EventFinished {
			continue
		}
		id := events[i].Run.ID
		for _, ch := range w.byRun[id] {
			ch <- events[i].Run
			w.n.Add(-1)
		}
		delete(w.byRun, id)
	}
}

// close lets everybody go.
func (w *waiters) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, list := range w.byRun {
		for _, ch := range list {
			close(ch)
		}
	}
	w.byRun, w.closed = nil, true
}

// suspect tells that the state was replaced: what has ended meanwhile was in no
// event.
func (w *waiters) suspect() {
	select {
	case w.missed <- struct{}{}:
	default:
	}
}

// watch looks for ended runs whenever that is so, until ctx ends.
func (w *waiters) watch(ctx context.Context, find func(RunID) (*store.Run, error)) {
	for {
		select {
		case <-w.missed:
		case <-ctx.Done():
			return
		}
		w.mu.Lock()
		ids := slices.Collect(maps.Keys(w.byRun))
		w.mu.Unlock()
		var ended []store.Event
		for _, id := range ids {
			switch r, err := find(id); {
			case err == nil && r.State.Final():
				ended = append(ended, store.Event{Kind: store.EventFinished, Run: r})
			case err != nil && !errors.Is(err, ErrNotFound):
				w.suspect() // it could not be read now
			}
		}
		w.tell(ended)
		timer := time.NewTimer(time.Second) // between two looks
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}
