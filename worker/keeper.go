package worker

import (
	"log/slog"
	"math"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// chores are what the keeper does at certain times (ns on the pool's clock), never if there is nothing to do.
type chores struct {
	alarmAt  int64  // an attempt becomes due
	lineAt   int64  // look for attempts that have waited too long for a slot
	patrolAt int64  // look for handlers that ignore the end of their context
	mark     uint64 // slots.started when lineAt was set
	tell     bool   // the capacity has changed
}

const (
	never    = int64(math.MaxInt64)
	patience = int64(100 * time.Millisecond) // an attempt waits for a slot before it is handed back
)

// keep is the one goroutine that waits for moments. It sleeps as long as there is none.
func (p *Pool) keep() {
	alarm := p.cfg.NewAlarm()
	defer alarm.Close()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if due := p.tend(); due != never {
			alarm.Reset(p.until(due))
		} else {
			alarm.Stop()
		}
		if at := p.nextChore(); at != never {
			timer.Reset(p.until(at))
		} else {
			timer.Stop()
		}
		select {
		case <-p.poke:
		case <-alarm.C():
		case <-timer.C:
		case <-p.closed:
			return
		}
	}
}

func (p *Pool) until(at int64) time.Duration { return time.Duration(at) - time.Since(p.epoch) }

// pokeKeeper has the keeper look at the chores again.
func (p *Pool) pokeKeeper() {
	select {
	case p.poke <- struct{}{}:
	default: // it will look anyway
	}
}

// tend does what it is time for, and returns when the next attempt becomes due.
func (p *Pool) tend() (due int64) {
	now := p.now()
	p.mu.Lock()
	p.rouseLocked(now.at)
	p.kickLocked(now.at)
	released := p.tendLineLocked(now)
	stuck := p.tendPatrolLocked(now.at)
	tell, capacity := p.chores.tell, p.capacityLocked()
	p.chores.tell = false
	due, ok := p.waiting.next()
	if !ok {
		due = never
	}
	p.chores.alarmAt = due
	p.mu.Unlock()

	if tell && p.cfg.OnCapacity != nil {
		p.cfg.OnCapacity(capacity)
	}
	if released > 0 {
		p.cfg.Logger.LogAttrs(p.base, slog.LevelDebug, "runs handed back: no slot became free", slog.Int(keyRuns, released))
	}
	p.reportStuck(stuck, now.at)
	return due
}

func (p *Pool) nextChore() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(p.chores.lineAt, p.chores.patrolAt)
}

// watchLineLocked is called when attempts wait for a slot.
func (p *Pool) watchLineLocked(now int64) {
	if p.chores.lineAt == never {
		p.chores.lineAt, p.chores.mark = now+patience, p.slots.started
		p.pokeKeeper()
	}
}

// tendLineLocked hands back what has waited too long for a slot, but for as many as were started since the last look: so
// many, the first in line, need not wait for much longer.
func (p *Pool) tendLineLocked(now moment) (released int) {
	if now.at < p.chores.lineAt {
		return 0
	}
	moving := int(p.slots.started - p.chores.mark)
	p.chores.lineAt = never
	if p.ready.n == 0 || p.startableLocked(now.at) {
		return 0
	}
	for _, x := range p.ready.overdue(now.at-patience, moving) {
		if x.state == stateWaiting {
			p.dropLocked(x, store.OutcomeReleased, now)
			released++
		}
	}
	if released > 0 {
		p.prefetch.collapse()
		p.tellLocked()
	}
	if p.ready.n > 0 {
		p.watchLineLocked(now.at)
	}
	return released
}
