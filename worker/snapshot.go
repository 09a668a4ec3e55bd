package worker

import (
	"time"

	"github.com/escapement-go/scheduler/store"
)

// A Snapshot is what a pool has at one moment.
type Snapshot struct {
	Slots, Reserved, Capacity int // as of [Config], [Pool.Reserved] and [Pool.Capacity]

	Running    []Running // the longest first
	Used       int       // slots in use: less than Running if handlers have given theirs back
	Waiting    int       // attempts that are not due yet; canceled ones count until they would be
	Ready      int       // attempts that are due and wait for a slot
	Unreported int       // attempts that have ended and whose reports are not acked
	Started    uint64    // attempts started since the pool was made
}

// Running is an attempt whose handler runs.
type Running struct {
	ID      store.RunID
	Task    string
	Attempt int
	Fence   uint64
	Since   time.Time // of day
	Yielded bool      // it has given its slot back, and waits for something

	Progress float64 // 0 to 1, and what the handler says to it; see [Execution.Progress]
	Note     string
}

// Snapshot returns what the pool has now. It is O(running).
func (p *Pool) Snapshot() Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Snapshot{
		Slots: p.cfg.Slots, Reserved: p.reserved, Capacity: p.capacityLocked(),
		Used: p.slots.used, Waiting: len(p.waiting.heap), Ready: p.ready.n,
		Unreported: len(p.out) + len(p.inFlight), Started: p.slots.started,
	}
	if p.running.n > 0 {
		s.Running = make([]Running, 0, p.running.n)
		p.running.all(func(x *Execution) { s.Running = append(s.Running, x.snapshotLocked()) })
	}
	return s
}

// Find returns the attempt of a run whose handler runs, if there is one here. It is O(running).
func (p *Pool) Find(run store.RunID) (found Running, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running.all(func(x *Execution) {
		if x.run.ID == run {
			found, ok = x.snapshotLocked(), true
		}
	})
	return found, ok
}

// A Lease is the right to execute one attempt.
type Lease struct {
	Run   store.RunID
	Fence uint64
}

// Held returns the leases of all that the pool has been assigned and that is not over yet, in no order: attempts that
// wait or run, and ended ones whose reports are not acked. It is O(held).
func (p *Pool) Held() []Lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := make([]Lease, 0, len(p.live))
	for k := range p.live {
		held = append(held, Lease{k.run, k.fence})
	}
	return held
}

// snapshotLocked is called with pool.mu held.
func (x *Execution) snapshotLocked() Running {
	r := Running{
		ID: x.run.ID, Task: x.Task(), Attempt: x.Attempt(), Fence: x.fence,
		Since: time.Unix(0, x.started.wall), Yielded: !x.hasSlot,
	}
	if at := x.progress.Load(); at != nil {
		r.Progress, r.Note = at.fraction, at.note
	}
	return r
}
