package worker_test

import (
	"context"
	"sync"
	"testing"

	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/worker"
)

// A desk is a dispatcher for one pool: it assigns what waits, the highest class first, as far as the pool wants more.
type desk struct {
	*rig
	mu      sync.Mutex // guards what follows
	lines   [store.NumPriorities][]worker.Assignment
	byFence map[uint64]*item
	held    int // of any class
}

type item struct {
	worker.Assignment
	done chan struct{}
}

func open(t *testing.T, slots int, hs handlers) *desk {
	t.Helper()
	d := &desk{byFence: map[uint64]*item{}}
	d.rig = start(t, slots, hs, func(c *worker.Config) {
		c.Report = d.report
		c.OnCapacity = func(int) { d.pump() }
	})
	return d
}

// enqueue makes a run; the channel is closed when it has succeeded.
func (d *desk) enqueue(task string, p store.Priority) <-chan struct{} {
	it := &item{d.grant(task, 0, class(p)), make(chan struct{})}
	d.mu.Lock()
	d.byFence[it.Fence] = it
	d.lines[p] = append(d.lines[p], it.Assignment)
	d.mu.Unlock()
	d.pump()
	return it.done
}

func (d *desk) report(_ context.Context, reports []store.Report) error {
	d.mu.Lock()
	for _, rep := range reports {
		it := d.byFence[rep.Fence]
		delete(d.byFence, rep.Fence)
		d.held--
		switch rep.Outcome {
		case store.OutcomeSucceeded:
			close(it.done)
		case store.OutcomeReleased:
			it.Assignment = d.grant(it.Run.Spec.Task, 0, class(it.Run.Spec.Priority))
			d.byFence[it.Fence] = it
			d.lines[it.Run.Spec.Priority] = append(d.lines[it.Run.Spec.Priority], it.Assignment)
		}
	}
	d.mu.Unlock()
	d.pump()
	return nil
}

// pump assigns what it may.
func (d *desk) pump() {
	capacity, reserved := d.Capacity(), d.Reserved()
	d.mu.Lock()
	var as []worker.Assignment
	for c := store.Critical; ; c-- {
		most := capacity
		if c == store.Critical {
			most += reserved
		}
		for len(d.lines[c]) > 0 && d.held < most {
			as = append(as, d.lines[c][0])
			d.lines[c] = d.lines[c][1:]
			d.held++
		}
		if c == store.Low {
			break
		}
	}
	d.mu.Unlock()
	d.Assign(as)
}
