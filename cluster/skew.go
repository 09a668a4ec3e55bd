package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// offset estimates how far this node's wall clock is ahead of another's, from
// exchanges of their times: the one with the shortest round trip among the last
// few is off by at most half of that (the clock filter of NTP, RFC 5905 §10).
type offset struct {
	mu      sync.Mutex // guards all below
	samples [8]sample
	n       int

	// Estimates of earlier, between which and now the clocks have drifted apart: from
	// before the last one or two driftSpans.
	old, older past
}

type past struct {
	at time.Time // zero: there is none
	by int64     // the estimate
}

// driftSpan is over how long drift is measured, at least: estimates are good to
// some 100 µs, so that what it says is good to about 2 ppm.
const driftSpan = time.Minute

type sample struct{ offset, trip int64 } // ns

// add takes in an exchange: sent and received by this node's clock, theirs by the
// other's. One during which this node's clock was set back tells nothing.
func (o *offset) add(sent, theirs, received int64) {
	trip := received - sent
	if trip < 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.samples[o.n%len(o.samples)] = sample{sent + trip/2 - theirs, max(trip, 1)}
	o.n++
}

// best returns the estimate and by how much it may be off, ns; 0 and 0 if there is
// none yet.
func (o *offset) best() (by, bound int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	have := o.samples[:min(o.n, len(o.samples))]
	if len(have) == 0 {
		return 0, 0
	}
	s := slices.MinFunc(have, func(a, b sample) int { return int(min(max(a.trip-b.trip, -1), 1)) })
	return s.offset, (s.trip + 1) / 2
}

// drift returns how fast the estimate grows, s/s; at is now, by the monotonic
// clock. It is 0 until a driftSpan is over.
func (o *offset) drift(at time.Time) float64 {
	by, bound := o.best()
	if bound == 0 {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.old.at.IsZero():
		o.old = past{at, by}
	case at.Sub(o.old.at) >= driftSpan:
		o.older, o.old = o.old, past{at, by}
	}
	if o.older.at.IsZero() {
		return 0
	}
	return float64(by-o.older.by) / float64(at.Sub(o.older.at))
}

// watchClock hands leadership over if this node's wall clock is off the median of
// the nodes' by more than the bound: what it stamps decides when cron ticks come.
func (n *Node) watchClock(ctx context.Context, members raft.Configuration) error {
	bound := int64(n.cfg.Cluster.MaxClockSkew)
	offsets := []int64{0}
	for _, s := range members.Servers {
		if heard, ok := n.members.recent(string(s.ID)); ok && string(s.ID) != n.cfg.ID && heard.Error > 0 {
			offsets = append(offsets, atLeast(heard.Offset, heard.Error))
		}
	}
	off := median(offsets)
	if max(off, -off) <= bound {
		n.skewed.Store(false)
		return nil
	}
	if !n.skewed.Swap(true) {
		n.log.Error("the wall clock is off the other nodes': leadership is handed over", keyBound, time.Duration(bound), keyOffset, -time.Duration(off))
	}
	return n.StepAside(ctx)
}

// atLeast returns what is sure of an offset that may be off by so much.
func atLeast(offset, by int64) int64 {
	if offset < 0 {
		return min(offset+by, 0)
	}
	return max(offset-by, 0)
}

// median returns the middle of the offsets, of two middles the one nearer to 0: of
// two clocks, or of two against two, nobody knows which are wrong.
func median(offsets []int64) int64 {
	slices.Sort(offsets)
	low, high := offsets[(len(offsets)-1)/2], offsets[len(offsets)/2]
	if max(low, -low) < max(high, -high) {
		return low
	}
	return high
}
