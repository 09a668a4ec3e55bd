package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// Drain brings the pool to its end, as the package's documentation says under Shutdown, and returns when that is reached.
// It returns nil if every attempt that the pool was assigned has ended and its report is committed; else a [*DrainError]
// with what was left. It takes up to twice Config.Grace longer than ctx. Of several calls, the one whose context ends
// first has its way; all return the same.
func (p *Pool) Drain(ctx context.Context) error {
	p.beginDrain()
	p.stop(func(x *Execution) bool { return x.yields > 0 }) // what they wait for may never begin
	last := false                                           // whether it is this call that has closed the pool
	closeLocked := func() bool {
		last = last || p.closeLocked()
		return true
	}
	settled := func() bool {
		done := p.running.n == 0 && p.deliveredLocked()
		return p.state == closed || done && closeLocked() // at once, lest something be assigned in between
	}
	if !p.waitFor(settled, ctx.Done(), never) {
		p.stop(func(*Execution) bool { return true })
		grace := int64(p.cfg.Grace)
		p.waitFor(func() bool { return p.running.n == 0 || p.state == closed }, nil, grace)
		p.waitFor(func() bool { return p.deliveredLocked() || p.state == closed }, nil, grace)
		p.waitFor(closeLocked, nil, never)
	}
	if last {
		p.end()
	}
	<-p.ended
	return p.drainErr
}

// beginDrain stops starting and hands back what has not started. A pool that was never run ends here.
func (p *Pool) beginDrain() {
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state > open {
		return
	}
	unrun := p.state == fresh
	p.state = draining
	p.dropAllLocked(now)
	p.tellLocked()
	if unrun {
		p.state = closed
		p.drainErr = p.lossLocked()
		close(p.closed)
		close(p.ended)
	}
}

func (p *Pool) deliveredLocked() bool { return len(p.out) == 0 && len(p.inFlight) == 0 }

// stop tells the handlers that are chosen to stop; choose is called with mu held.
func (p *Pool) stop(choose func(*Execution) bool) {
	var xs []*Execution
	now := p.now().at
	p.mu.Lock()
	p.running.all(func(x *Execution) {
		if choose(x) {
			xs = append(xs, x)
			p.patrolLocked(x, now)
		}
	})
	p.mu.Unlock()
	if len(xs) > 0 {
		p.cfg.Logger.LogAttrs(p.base, slog.LevelInfo, "handlers are told to stop", slog.Int(keyRuns, len(xs)))
	}
	for _, x := range xs {
		x.end(ErrShutdown)
	}
}

// closeLocked tells the pool's goroutines to end. It reports false if that was done before.
func (p *Pool) closeLocked() bool {
	if p.state == closed {
		return false
	}
	p.state = closed
	p.cut(ErrShutdown)
	close(p.closed)
	for _, g := range p.slots.idle {
		g.wake <- struct{}{} // has room, as in kickLocked
	}
	p.slots.idle = nil
	p.notifyLocked()
	return true
}

// end awaits the reporter of a closed pool and says what is lost.
func (p *Pool) end() {
	now := p.now()
	var left []*Execution
	p.mu.Lock()
	p.running.all(func(x *Execution) {
		if !x.told {
			x.told = true
			x.stuckAt = now.at - int64(p.cfg.Grace) + int64(p.cfg.StuckAfter)
			left = append(left, x)
		}
	})
	p.mu.Unlock()

	p.reportStuck(left, now.at)
	<-p.silent
	p.mu.Lock()
	p.drainErr = p.lossLocked()
	p.mu.Unlock()
	close(p.ended)
}

// lossLocked returns a *DrainError, or nil if there is nothing to tell.
func (p *Pool) lossLocked() error {
	e := new(DrainError)
	p.running.all(func(x *Execution) { e.Running = append(e.Running, x.snapshotLocked()) })
	e.Unreported = append(append([]store.Report(nil), p.inFlight...), p.out...)
	if len(e.Running) == 0 && len(e.Unreported) == 0 {
		return nil
	}
	return e
}

// awaitSlots returns when all goroutines have ended but those whose handlers were left behind.
func (p *Pool) awaitSlots() {
	p.waitFor(func() bool { return p.slots.goroutines <= p.running.n }, nil, never)
}

// waitFor waits until ok, which is called with mu held. It reports false if stop is closed or the limit (ns) passes
// before. Whatever changes what these conditions look at calls notifyLocked.
func (p *Pool) waitFor(ok func() bool, stop <-chan struct{}, limit int64) bool {
	var expired <-chan time.Time
	if limit != never {
		timer := time.NewTimer(time.Duration(limit))
		defer timer.Stop()
		expired = timer.C
	}
	for {
		p.mu.Lock()
		if ok() {
			p.mu.Unlock()
			return true
		}
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-stop:
			return false
		case <-expired:
			return false
		}
	}
}

// notifyLocked wakes those in waitFor.
func (p *Pool) notifyLocked() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}
