package dispatch

import (
	"math"

	"github.com/escapement-go/scheduler/store"
)

// urgency orders what may be granted: by class, raised by the time waited, then by
// when it was due, then by ID.
type urgency struct {
	rank  int64
	since int64
	id    store.RunID
}

// The ends of the order.
var (
	mostUrgent  = urgency{rank: math.MaxInt64}
	leastUrgent = urgency{rank: math.MinInt64}
)

func (u *urgency) before(v *urgency) bool {
	if u.rank != v.rank {
		return u.rank > v.rank
	}
	if u.since != v.since {
		return u.since < v.since
	}
	return u.id.Compare(v.id) < 0
}

// freshTick is a run of one of the batch's ticks.
type freshTick struct {
	run      store.RunID
	schedule *store.Schedule
	due      int64
}

// grantAll decides leases: for what waits in the lanes, and for the runs that the
// batch itself adds, each when nothing that waits is more urgent.
func (p *preparation) grantAll(clients int) {
	for _, w := range p.d.workers {
		w.pass(p.elapsed)
	}
	for i := range clients {
		if e := p.b.Commands[i].Enqueue; e != nil {
			p.grantNew(e)
		}
	}
	for _, t := range p.fresh {
		p.grantFresh(t.run, t.schedule.Spec, t.schedule.Trigger.TickClock(), t.due)
	}
	p.grantWaiting(leastUrgent)
	for _, l := range p.grants {
		p.add(store.Command{Kind: store.KindLease, Lease: l})
	}
}

// grantNew grants runs that the batch itself adds, as long as they are due.
func (p *preparation) grantNew(e *store.Enqueue) {
	specs := make([]*store.Spec, len(e.Specs))
	for i := range e.Runs {
		r := &e.Runs[i]
		if r.Clock != store.Elapsed || r.Due > 0 || int(r.Spec) >= len(specs) {
			continue
		}
		if specs[r.Spec] == nil {
			spec, err := p.d.specs.Intern(e.Specs[r.Spec])
			if err != nil || spec.Priority > store.Critical {
				return // the state will refuse it
			}
			specs[r.Spec] = spec
		}
		if _, out := p.d.leases[r.ID]; out {
			continue // a repeated call
		}
		if !p.grantFresh(r.ID, specs[r.Spec], store.Elapsed, p.elapsed) {
			return
		}
	}
}

// grantFresh grants a run that is not in the state yet if every gate is open,
// nothing of its line waits, and nothing else that could be granted is more urgent.
// It reports false if no run like it can be granted in this batch: a gate holds it,
// or the batch is full.
func (p *preparation) grantFresh(id store.RunID, spec *store.Spec, clock store.Clock, due int64) bool {
	since := due
	if clock == store.Wall {
		since += p.elapsed - p.wall
	}
	p.grantWaiting(urgency{int64(spec.Priority), since, id})
	key := laneKey{spec.Queue, spec.Task}
	if l := p.d.lanes[key]; l != nil && len(l.lines[spec.Priority].heap) > 0 {
		return true
	}
	l := look{p.d, key, spec.Priority, clock, due, careful(spec, 0), p.wall, p.elapsed}
	if p.left == 0 || l.blocked() != nil {
		return false
	}
	p.lease(&l, id)
	return true
}

// lease reserves the run for a worker and adds it to the batch's leases.
func (p *preparation) lease(l *look, id store.RunID) {
	w := l.choose()
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
	if left := l.left(); left > 0 {
		w.early = append(w.early, p.elapsed+left)
	}
	p.d.queue(l.key.queue).leased++
	p.d.leases[id] = lease{session: w.session, queue: l.key.queue}
	p.left--
}

// candidate is the head of a line, and no gate holds it.
type candidate struct {
	line *line
	look look
	urgency
}

// grantWaiting grants from the lanes what is more urgent than the bound, always the
// most urgent head that no gate holds.
func (p *preparation) grantWaiting(bound urgency) {
	for p.left > 0 && p.waiting.before(&bound) {
		best := p.pick()
		p.waiting = best.urgency // gates only close while grants are made
		if best.line != nil && best.before(&bound) {
			p.take(&best)
		}
	}
}

// pick returns the most urgent head that no gate holds.
func (p *preparation) pick() candidate {
	best := candidate{urgency: leastUrgent}
	for pool := range p.d.pools() {
		w, lk, g := p.front(pool)
		if w == nil || g != nil {
			continue
		}
		e := w.head()
		if u := (urgency{e.rank(w.class, p.elapsed), e.since, e.id}); u.before(&best.urgency) {
			best = candidate{w, lk, u}
		}
	}
	return best
}

// front is [Dispatcher.front] of what is near its time. What is not any more, for
// the wall clock was set back, goes to the timers: it would bar what is behind it.
func (p *preparation) front(pool *pool) (*line, look, *gate) {
	for {
		w, lk, g := p.d.front(pool, p.wall, p.elapsed)
		if w == nil || lk.left() <= releaseAhead {
			return w, lk, g
		}
		e := p.d.pop(w)
		p.d.timers[e.clock].Set(e.due, timer{e.id, runDue})
	}
}

// take grants the candidate unless it is out of date: canceled, or waiting for
// another time.
func (p *preparation) take(c *candidate) {
	e := p.d.pop(c.line)
	r := p.st.LiveRun(e.id)
	if r == nil || r.State != store.Scheduled || r.Due != e.due || r.Clock != e.clock {
		return
	}
	if _, out := p.d.leases[e.id]; !out {
		p.lease(&c.look, e.id)
	}
}
