package dispatch

import (
	"fmt"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// Timers returns the number of timers that are set.
func (d *Dispatcher) Timers() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.timers[0].Len() + d.timers[1].Len()
}

// Sleep returns how long the dispatcher would sleep.
func (d *Dispatcher) Sleep() time.Duration { return d.next() }

// GrantByScan grants what waits as Prepare does, and compares each pick with that of
// a look at every line. It returns how many it granted.
func (d *Dispatcher) GrantByScan(b *store.Batch, st *store.State) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := newPreparation(d, b, st)
	for _, w := range d.workers {
		w.pass(p.elapsed)
	}
	for p.left > 0 {
		want, got := p.scan(), p.pick()
		if got.line != want.line || got.urgency != want.urgency {
			return 0, fmt.Errorf("pick: got %+v of %+v, a scan has %+v of %+v", got.urgency, got.look.key, want.urgency, want.look.key)
		}
		if got.line == nil {
			break
		}
		p.take(&got)
	}
	for _, l := range p.grants {
		p.add(store.Command{Kind: store.KindLease, Lease: l})
	}
	return maxGrants - p.left, nil
}

// scan is pick by a look at every line.
func (p *preparation) scan() candidate {
	best := candidate{urgency: leastUrgent}
	for _, l := range p.d.lanes {
		for c := range l.lines {
			w := &l.lines[c]
			if len(w.heap) == 0 {
				continue
			}
			e := w.head()
			u := urgency{e.rank(w.class, p.elapsed), e.since, e.id}
			lk := look{p.d, l.key, w.class, e.clock, e.due, e.careful, p.wall, p.elapsed}
			if u.before(&best.urgency) && lk.blocked() == nil {
				best = candidate{w, lk, u}
			}
		}
	}
	return best
}
