package dispatch

import (
	"time"

	"github.com/escapement-go/scheduler/store"
)

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
	}
	p := preparation{d: d, b: b, st: st, wall: b.Wall, elapsed: b.Elapsed}
	for session := range d.back {
		d.assignAgain(st, session)
	}
	clear(d.back)
	p.followClock()
	p.endOrphans()
	p.popTimers()
	p.tickHeld()
	p.flush()
	p.grant(clients)
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
	d.queue(l.queue).leased--
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
	fresh   map[store.RunID]*store.Schedule // runs of this batch's ticks
	grants  map[uint64]*store.Lease         // by session
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
	d.lane(r.Spec).classes[r.Spec.Priority].push(entry{id: r.ID, due: r.Due, clock: r.Clock, since: since, careful: careful(r.Spec, r.Crashes)})
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

// grant decides leases: first for the batch's own runs if nothing waits before
// them, then for the lanes.
func (p *preparation) grant(clients int) {
	for _, w := range p.d.workers {
		w.pass(p.elapsed)
	}
	n := 0
	for i := 0; i < clients && n < maxGrants; i++ {
		if e := p.b.Commands[i].Enqueue; e != nil {
			n += p.grantNew(e, maxGrants-n)
		}
	}
	for id, sc := range p.fresh {
		if n < maxGrants && p.grantTick(id, sc) {
			n++
		}
	}
	p.grantWaiting(maxGrants - n)
	for _, l := range p.grants {
		p.add(store.Command{Kind: store.KindLease, Lease: l})
	}
}

// grantNew grants runs that the batch itself adds, as long as they are due and
// their lane is empty.
func (p *preparation) grantNew(e *store.Enqueue, most int) int {
	specs := make([]*store.Spec, len(e.Specs))
	n := 0
	for i := range e.Runs {
		r := &e.Runs[i]
		if n >= most {
			break
		}
		if r.Clock != store.Elapsed || r.Due > 0 || int(r.Spec) >= len(specs) {
			continue
		}
		if specs[r.Spec] == nil {
			spec, err := p.d.specs.Intern(e.Specs[r.Spec])
			if err != nil || spec.Priority > store.Critical {
				return n // the state will refuse it
			}
			specs[r.Spec] = spec
		}
		spec := specs[r.Spec]
		if l := p.d.lanes[laneKey{spec.Queue, spec.Task}]; l != nil && !l.empty() {
			continue
		}
		if _, out := p.d.leases[r.ID]; out {
			continue // a repeated call
		}
		if !p.give(r.ID, spec, store.Elapsed, p.elapsed) {
			return n
		}
		n++
	}
	return n
}

func (p *preparation) grantTick(id store.RunID, sc *store.Schedule) bool {
	if l := p.d.lanes[laneKey{sc.Spec.Queue, sc.Spec.Task}]; l != nil && !l.empty() {
		return false
	}
	return p.give(id, sc.Spec, sc.Trigger.TickClock(), sc.Next)
}

// give grants the run if every gate is open.
func (p *preparation) give(id store.RunID, spec *store.Spec, clock store.Clock, due int64) bool {
	d := p.d
	l := look{d, laneKey{spec.Queue, spec.Task}, spec.Priority, clock, due, careful(spec, 0), p.wall, p.elapsed}
	if l.blocked() != nil {
		return false
	}
	p.lease(l.choose(), id, spec.Queue, l.left())
	return true
}

// lease reserves the run for the worker and adds it to the batch's leases.
func (p *preparation) lease(w *worker, id store.RunID, queueName string, left int64) {
	if p.grants == nil {
		p.grants = make(map[uint64]*store.Lease)
	}
	g := p.grants[w.session]
	if g == nil {
		g = &store.Lease{Session: w.session}
		p.grants[w.session] = g
	}
	g.Runs = append(g.Runs, id)
	w.held++
	if left > 0 {
		w.early = append(w.early, p.elapsed+left)
	}
	p.d.queue(queueName).leased++
	p.d.leases[id] = lease{session: w.session, queue: queueName}
}

// candidate is a waiting run whose gates are open.
type candidate struct {
	lane  *lane // nil: there is none
	class int
	top   *entry
	rank  int64
	look  look
}

// grantWaiting grants from the lanes, always the most urgent entry whose gates
// are open.
func (p *preparation) grantWaiting(most int) {
	for most > 0 {
		var best candidate
		for key, l := range p.d.lanes {
			if l.empty() {
				delete(p.d.lanes, key)
				continue
			}
			p.compare(l, &best)
		}
		if best.lane == nil {
			return
		}
		most -= p.grantFrom(best, most)
	}
}

// compare makes the most urgent entry of the lane the best if there is none more
// urgent. Each class is looked at, for a worker may have room for one that it does
// not have for another.
func (p *preparation) compare(l *lane, best *candidate) {
	for class := len(l.classes) - 1; class >= 0; class-- {
		p.sendBack(&l.classes[class])
		heap := l.classes[class].heap
		if len(heap) == 0 {
			continue
		}
		e := &heap[0]
		rank := e.rank(class, p.elapsed)
		if best.lane != nil && (rank < best.rank || rank == best.rank && !e.before(best.top)) {
			continue
		}
		lk := look{p.d, l.key, store.Priority(class), e.clock, e.due, e.careful, p.wall, p.elapsed}
		if lk.blocked() == nil {
			*best = candidate{l, class, e, rank, lk}
		}
	}
}

// sendBack gives entries at the head that are not near their time any more, for the
// wall clock was set back, to the timers: they would bar what is behind them.
func (p *preparation) sendBack(w *waiting) {
	for len(w.heap) > 0 && w.heap[0].due-p.now(w.heap[0].clock) > releaseAhead {
		e := w.pop()
		p.d.timers[e.clock].Set(e.due, timer{e.id, runDue})
	}
}

// grantFrom grants the best entry and those behind it that are just as urgent for
// as long as no other lane could be before them: while theirs is the only lane, or
// up to a small burst.
func (p *preparation) grantFrom(best candidate, most int) int {
	d := p.d
	burst := 1
	if len(d.lanes) == 1 {
		burst = most
	}
	n := 0
	for n < burst {
		var next candidate
		if p.compare(best.lane, &next); next.lane == nil || next.class != best.class {
			return n
		}
		got := next.lane.classes[next.class].pop()
		r := p.st.LiveRun(got.id)
		if r == nil || r.State != store.Scheduled || r.Due != got.due || r.Clock != got.clock {
			continue // out of date: canceled, or waiting for another time
		}
		if _, out := d.leases[got.id]; out {
			continue
		}
		p.lease(next.look.choose(), got.id, next.lane.key.queue, next.look.left())
		n++
	}
	return n
}

// laneWait returns the ns until a waiting run could be granted without any other
// event, as far as time alone decides. It looks at the heads, which is enough:
// they are the earliest.
func (d *Dispatcher) laneWait(wall, elapsed int64) int64 {
	wait := int64(time.Hour)
	for _, l := range d.lanes {
		for c := range l.classes {
			if len(l.classes[c].heap) == 0 {
				continue
			}
			e := &l.classes[c].heap[0]
			lk := look{d, l.key, store.Priority(c), e.clock, e.due, e.careful, wall, elapsed}
			g := lk.blocked()
			switch {
			case g == nil:
				return 0
			case g.opens(&lk) != 0:
				wait = min(wait, lk.left()-lk.ahead())
			case lk.left() > 0: // it may pass when it is due
				wait = min(wait, lk.left())
			}
		}
	}
	return wait
}
