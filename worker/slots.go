package worker

import (
	"time"

	"github.com/escapement-go/scheduler/store"
)

// slots counts who may run. A slot is a right, not a goroutine: the goroutines that execute attempts take a slot for
// each, keep on as long as there is work, and then sit idle; there are never more of them than slots, and those whose
// handlers have given their slot back.
type slots struct {
	used     int        // slots in use
	ordinary int        // of these by runs below store.Critical
	away     int        // running handlers without a slot
	lost     int        // running handlers without a lease
	resuming []*resumer // handlers that want their slot back, first come first; they go before what has not started
	started  uint64     // attempts ever started

	idle       []*goroutine // the one that was busy last is taken first
	goroutines int          // all of them
	waking     bool         // one was woken and has not looked for work yet; it wakes the next
}

// A goroutine of the pool that executes attempts.
type goroutine struct {
	id   int64         // of the runtime, to find its stack; 0 if unknown
	wake chan struct{} // capacity 1: it gets one token each time it is taken off the idle
	cur  *Execution    // what it executes; seen by itself alone
}

// reservedOf returns how many of n slots are kept for critical runs.
func reservedOf(n int) int {
	if n < 4 {
		return 0
	}
	return max(1, n/8)
}

// admitsLocked reports whether a run of the class may take a slot now.
func (p *Pool) admitsLocked(class store.Priority) bool {
	if p.slots.used >= p.cfg.Slots {
		return false
	}
	return class == store.Critical || p.slots.ordinary < p.cfg.Slots-p.reserved
}

func (p *Pool) occupyLocked(x *Execution) {
	x.hasSlot = true
	p.slots.used++
	if x.class != store.Critical {
		p.slots.ordinary++
	}
}

func (p *Pool) vacateLocked(x *Execution) {
	x.hasSlot = false
	p.slots.used--
	if x.class != store.Critical {
		p.slots.ordinary--
	}
}

// startableLocked reports whether there is something to start and a slot for it.
func (p *Pool) startableLocked(now int64) bool {
	if p.state != open || !p.admitsLocked(store.Critical) {
		return false
	}
	if due, ok := p.waiting.next(); ok && due <= now {
		return true // whether its class has a slot shows when it is taken
	}
	return p.ready.n > 0 && p.admitsLocked(store.Low) || p.ready.lines[store.Critical].n > 0
}

// kickLocked sees to it that work which could start is looked at by a goroutine. It wakes or starts one at a time, and
// that one the next, before it begins with its own work: while handlers are short there are soon enough awake,
// and the others are left asleep.
func (p *Pool) kickLocked(now int64) {
	if !p.startableLocked(now) {
		if p.ready.n > 0 {
			p.watchLineLocked(now)
		}
		return
	}
	if p.slots.waking {
		return
	}
	p.slots.waking = true
	if n := len(p.slots.idle); n > 0 {
		g := p.slots.idle[n-1]
		p.slots.idle[n-1] = nil
		p.slots.idle = p.slots.idle[:n-1]
		g.wake <- struct{}{} // has room: g was idle, so it has used up its last token
		return
	}
	p.slots.goroutines++
	go p.work(&goroutine{wake: make(chan struct{}, 1)}) // ends when there are enough idle, or the pool is closed; awaited by Run
}

// work executes one attempt after the other.
func (p *Pool) work(g *goroutine) {
	defer p.leave(g)
	g.id = goroutineID()
	p.mu.Lock()
	p.slots.waking = false
	x := p.nextLocked(g, p.now())
	p.mu.Unlock()
	for x != nil {
		g.cur = x
		result, err := p.execute(x)
		g.cur = nil
		x = p.finish(g, x, result, err)
	}
}

// leave ends a goroutine. If that was the doing of a handler (runtime.Goexit), its attempt has failed and somebody else
// takes over the line.
func (p *Pool) leave(g *goroutine) {
	if x := g.cur; x != nil {
		g.cur = nil
		p.finish(nil, x, nil, ErrGoexit)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slots.goroutines--
	p.notifyLocked()
}

// nextLocked returns the next attempt for g to execute, and waits for one if need be. It returns nil when g must end.
func (p *Pool) nextLocked(g *goroutine, now moment) *Execution {
	for {
		if x := p.takeLocked(g, now); x != nil {
			p.kickLocked(now.at)
			return x
		}
		p.kickLocked(now.at)
		if p.state == closed || len(p.slots.idle) >= p.cfg.Slots {
			return nil
		}
		p.slots.idle = append(p.slots.idle, g)
		p.mu.Unlock()
		<-g.wake
		p.mu.Lock()
		p.slots.waking = false
		now = p.now()
	}
}

// takeLocked starts the attempt whose turn it is, if there is one and a slot for it.
func (p *Pool) takeLocked(g *goroutine, now moment) *Execution {
	p.rouseLocked(now.at)
	if p.state != open || p.ready.n == 0 {
		return nil
	}
	if now.at > p.bound {
		p.dropAllLocked(now)
		return nil
	}
	for p.admitsLocked(store.Critical) {
		x := p.ready.pop(now.at, !p.admitsLocked(store.Low))
		if x == nil {
			return nil
		}
		if x.state != stateWaiting {
			continue // canceled meanwhile
		}
		x.begin(g, now)
		p.occupyLocked(x)
		p.running.push(x)
		p.slots.started++
		if x.deadline != 0 {
			p.patrolAtLocked(x.stuckAt)
		}
		return x
	}
	return nil
}

// rouseLocked makes ready what has become due.
func (p *Pool) rouseLocked(now int64) {
	for {
		due, ok := p.waiting.next()
		if !ok || due > now {
			return
		}
		if x := p.waiting.pop(); x.state == stateWaiting {
			p.ready.push(x)
		}
	}
}

// execute runs the handler.
func (p *Pool) execute(x *Execution) (result []byte, err error) {
	if f := p.cfg.Observer.Started; f != nil {
		f(x.run, time.Duration(x.started.at-x.due))
	}
	return x.call()
}

// finish ends an attempt whose handler has returned, and returns the next one for g. Without g it returns nil.
func (p *Pool) finish(g *goroutine, x *Execution, result []byte, err error) *Execution {
	now := p.now()
	rep := x.conclude(result, err, now)
	p.observeFinished(x, &rep, time.Duration(now.at-x.started.at))

	p.mu.Lock()
	defer p.mu.Unlock()
	x.state = stateDone
	p.running.remove(x)
	if x.lost {
		p.slots.lost--
	}
	if x.hasSlot {
		p.vacateLocked(x)
	} else {
		p.slots.away--
		x.awayFor += now.at - x.awayAt
		p.leaveLineLocked(x) // a goroutine of the handler that is left behind must not get a slot
	}
	if rep.Outcome == 0 {
		p.forgetLocked(key{x.run.ID, x.fence})
	} else {
		p.sendLocked(rep)
	}
	p.measureLocked(now.at - x.started.at - x.awayFor)
	p.notifyLocked()
	p.resumeLocked(now.at)
	if g == nil {
		p.kickLocked(now.at)
		return nil
	}
	return p.nextLocked(g, now)
}
