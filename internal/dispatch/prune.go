package dispatch

import (
	"time"

	"github.com/escapement-go/scheduler/store"
)

// pruneEvery is how often the history's bounds are looked at.
const pruneEvery = 10 * time.Second

// prune drops the history that is over its bounds, the oldest first, and forgets
// ended sessions that hold nothing and queues that were merely used.
func (p *preparation) prune() {
	for name, q := range p.d.queues {
		if q.idle() {
			delete(p.d.queues, name)
		}
	}
	keep := p.d.cfg.Retention
	segments := p.st.Segments()
	var rows [2]int64 // by store.SegmentKind
	var bytes int64
	for _, s := range segments {
		rows[s.Kind] += s.Rows
		bytes += s.Bytes
	}
	most := [...]int64{store.RunSegment: keep.MaxRuns, store.TickSegment: keep.MaxTicks}
	drop := new(store.Prune)
	for _, s := range segments {
		old := keep.MaxAge > 0 && p.elapsed-s.Last > int64(keep.MaxAge)
		many := most[s.Kind] > 0 && rows[s.Kind]-s.Rows >= most[s.Kind]
		big := keep.MaxBytes > 0 && bytes-s.Bytes >= keep.MaxBytes
		if !old && !many && !big {
			continue
		}
		drop.Segments = append(drop.Segments, s.Key())
		bytes -= s.Bytes
		rows[s.Kind] -= s.Rows
	}
	drop.Schedules = p.deletedOver()
	if len(drop.Segments)+len(drop.Schedules) > 0 || p.st.UniquesOver() {
		p.add(store.Command{Kind: store.KindPrune, Prune: drop})
	}
	p.forgetSessions()
}

func (p *preparation) forgetSessions() {
	d := p.d
	if len(d.dead) == 0 {
		return
	}
	holds := make(map[uint64]bool)
	for _, l := range d.leases {
		if d.dead[l.session] {
			holds[l.session] = true
		}
	}
	for id := range d.dead {
		if !holds[id] {
			p.add(store.Command{Kind: store.KindEndSession, End: &store.EndSession{ID: id}})
		}
	}
}
