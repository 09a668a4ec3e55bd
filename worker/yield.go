package worker

import (
	"context"
	"slices"
	"sync"
)

// A resumer is a handler in line for a slot.
type resumer struct {
	x     *Execution
	ready chan struct{} // closed when it may go on
}

// Yield gives the handler's slot back while it waits for something that needs a slot itself, such as another run. The
// handler must call resume before it goes on with work of its own: resume waits for a slot, ahead of everything that has
// not started, and returns nil; or it returns the cause if ctx ends first. After that the handler runs without a slot,
// and should return.
//
// Meanwhile the pool takes on other work, and asks for more: runs that each wait for another are all begun, however many
// there are, unless those they wait for are of a higher class or in another queue than they are.
//
// Several goroutines of a handler may do so at a time: the slot stays away until the last of them has resumed. Calling a
// resume again does nothing.
//
// While the pool drains nothing begins, and what is waited for may never come: the handler's context ends with
// [ErrShutdown] then, at once.
func (x *Execution) Yield() (resume func(ctx context.Context) error) {
	resume, over := x.yield()
	if over {
		x.end(ErrShutdown)
	}
	return resume
}

func (x *Execution) yield() (resume func(ctx context.Context) error, over bool) {
	p := x.pool
	now := p.now().at
	p.mu.Lock()
	defer p.mu.Unlock()
	if x.state != stateRunning {
		return func(context.Context) error { return nil }, false
	}
	x.yields++
	if x.hasSlot {
		p.vacateLocked(x)
		p.slots.away++
		x.awayAt = now
		p.resumeLocked(now)
		p.kickLocked(now)
		p.tellLocked()
	} else {
		// Another goroutine of the handler was about to fetch the slot. It need not: the slot stays away now.
		p.leaveLineLocked(x)
	}
	var once sync.Once
	return func(ctx context.Context) (err error) {
		once.Do(func() { err = x.resume(ctx) })
		return err
	}, p.state >= draining
}

func (x *Execution) resume(ctx context.Context) error {
	p := x.pool
	p.mu.Lock()
	x.yields--
	if x.yields > 0 || x.hasSlot || x.state != stateRunning {
		p.mu.Unlock()
		return nil
	}
	r := &resumer{x, make(chan struct{})}
	x.resumer = r
	p.slots.resuming = append(p.slots.resuming, r)
	p.resumeLocked(p.now().at)
	p.mu.Unlock()
	select {
	case <-r.ready:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if x.resumer != r { // just now it could go on
		return nil
	}
	p.leaveLineLocked(x)
	return context.Cause(ctx)
}

// resumeLocked gives free slots to the handlers that want theirs back.
func (p *Pool) resumeLocked(now int64) {
	if len(p.slots.resuming) == 0 {
		return
	}
	p.slots.resuming = slices.DeleteFunc(p.slots.resuming, func(r *resumer) bool {
		x := r.x
		if !p.admitsLocked(x.class) {
			return false
		}
		p.occupyLocked(x)
		p.slots.away--
		x.awayFor += now - x.awayAt
		x.resumer = nil
		close(r.ready)
		return true
	})
	p.tellLocked()
}

// leaveLineLocked takes x out of the line for a slot, if it is there, and lets it go on without.
func (p *Pool) leaveLineLocked(x *Execution) {
	if x.resumer == nil {
		return
	}
	p.slots.resuming = slices.DeleteFunc(p.slots.resuming, func(r *resumer) bool { return r == x.resumer })
	close(x.resumer.ready)
	x.resumer = nil
}
