package dispatch

import "github.com/escapement-go/scheduler/store"

// Bounds of what one batch may decide, so that it stays small and the others in
// flight are not kept waiting. What is left over is decided in the next.
const (
	maxGrants  = 2048
	maxTicks   = 1024
	maxPopped  = 8192
	maxOrphans = 1024
	maxExpired = 4096
)

// Prepare adds to a batch that is about to be proposed what the leader has to
// decide at the batch's time: ticks, expired runs, lost leases, and leases for
// all that is ready, the batch's own runs included. It also stamps what the
// batch's commands lack. Called under the state's read lock.
func (d *Dispatcher) Prepare(b *store.Batch, st *store.State) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.leading {
		return
	}
	clients := len(b.Commands)
	for i := range clients {
		if c := b.Commands[i].Complete; c != nil {
			d.settle(c, st)
		}
		if c := b.Commands[i].Schedule; c != nil {
			d.stamp(b, st, c)
		}
	}
	p := newPreparation(d, b, st)
	for session := range d.back {
		d.assignAgain(st, session)
	}
	clear(d.back)
	p.followClock()
	p.askAgain()
	p.endOrphans()
	p.popTimers()
	p.tickHeld()
	p.flush()
	p.grantAll(clients)
	if b.Elapsed >= d.nextPrune {
		d.nextPrune = b.Elapsed + int64(pruneEvery)
		p.prune()
	}
	d.poke() // the batch may turn out empty: then no entry will
}

// settle frees what the reports of a Complete hold, so that the same batch can
// grant the next, and stamps the backoff of failed attempts.
func (d *Dispatcher) settle(c *store.Complete, st *store.State) {
	for i := range c.Reports {
		rep := &c.Reports[i]
		l, ok := d.leases[rep.Run]
		if !ok || l.fence != rep.Fence {
			continue
		}
		d.release(rep.Run, l)
		if rep.Outcome != store.OutcomeFailed || rep.Backoff != 0 {
			continue
		}
		if r := st.LiveRun(rep.Run); r != nil && r.Fence == rep.Fence {
			rep.Backoff = r.Spec.Retry.Delay(r.Failures+1, d.cfg.Random())
		}
	}
}

// free forgets a lease or a grant that was being proposed.
func (d *Dispatcher) free(id store.RunID) {
	if l, ok := d.leases[id]; ok {
		d.release(id, l)
	}
}

// release is free for a lease that was looked up already.
func (d *Dispatcher) release(id store.RunID, l lease) {
	delete(d.leases, id)
	q := d.queue(l.queue)
	q.leased--
	q.changed()
	if w := d.workers[l.session]; w != nil {
		w.held--
	}
}

// preparation is the work of one Prepare.
type preparation struct {
	d       *Dispatcher
	b       *store.Batch
	st      *store.State
	wall    int64
	elapsed int64

	ticks   int
	expired []store.RunID
	fresh   []freshTick

	left    int                     // grants that the batch may still have
	waiting urgency                 // nothing in the lanes that may be granted is more urgent
	grants  map[uint64]*store.Lease // by session
}

func newPreparation(d *Dispatcher, b *store.Batch, st *store.State) *preparation {
	return &preparation{d: d, b: b, st: st, wall: b.Wall, elapsed: b.Elapsed, left: maxGrants, waiting: mostUrgent}
}

func (p *preparation) now(c store.Clock) int64 {
	if c == store.Wall {
		return p.wall
	}
	return p.elapsed
}

func (p *preparation) add(c store.Command) { p.b.Commands = append(p.b.Commands, c) }

// popTimers takes what is due, or soon, from the timing wheels.
func (p *preparation) popTimers() {
	d := p.d
	for clock, wheel := range d.timers {
		until := p.now(store.Clock(clock)) + releaseAhead
		for popped := 0; popped < maxPopped && p.ticks < maxTicks && len(p.expired) < maxExpired; popped++ {
			t, due, ok := wheel.Pop(until)
			if !ok {
				break
			}
			switch t.kind {
			case runDue:
				p.ready(t.id, store.Clock(clock), due)
			case runExpires:
				p.expires(t.id)
			case tickDue:
				p.tick(tickNumber(t.id), due)
			case startDue:
				p.start(tickNumber(t.id), due)
			}
		}
	}
}

// ready moves a run whose time has come, or is near, to its lane.
func (p *preparation) ready(id store.RunID, clock store.Clock, due int64) {
	r := p.st.LiveRun(id)
	if r == nil || r.State != store.Scheduled || r.Clock != clock || r.Due != due {
		p.d.stale--
		return
	}
	p.d.enter(r, p.wall, p.elapsed)
}

// enter puts a run that is due now or soon into its lane.
func (d *Dispatcher) enter(r *store.Run, wall, elapsed int64) {
	since := r.Due
	if r.Clock == store.Wall {
		since += elapsed - wall
	}
	d.lane(r.Spec).lines[r.Spec.Priority].push(entry{id: r.ID, due: r.Due, clock: r.Clock, since: since, careful: careful(r.Spec, r.Crashes)})
}

func (p *preparation) expires(id store.RunID) {
	delete(p.d.expiries, id)
	p.expired = append(p.expired, id) // the state looks whether it still waits
}

func (p *preparation) flush() {
	if len(p.expired) > 0 {
		p.add(store.Command{Kind: store.KindExpire, Expire: &store.Expire{Runs: p.expired}})
	}
}

// endOrphans ends leases whose worker is gone for good.
func (p *preparation) endOrphans() {
	d := p.d
	left := d.orphans[:0]
	ended := 0
	for _, o := range d.orphans {
		l, ok := d.leases[o.run]
		switch {
		case !ok || l.fence != o.fence || d.workers[o.session] != nil:
		case o.due > p.elapsed || ended >= maxOrphans:
			left = append(left, o)
		default:
			ended++
			p.endLease(o)
		}
	}
	d.orphans = left
}

func (p *preparation) endLease(o orphan) {
	r := p.st.LiveRun(o.run)
	if r == nil || r.Fence != o.fence {
		return
	}
	p.add(store.Command{Kind: store.KindEndLease, EndLease: &store.EndLease{
		Run: o.run, Fence: o.fence, Outcome: store.OutcomeCrashed, Reason: "worker lost",
		Backoff: r.Spec.Retry.Delay(r.Crashes+1, p.d.cfg.Random()),
	}})
}
