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
}

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

// watchClock hands leadership over if this node's wall clock is off the median of
// the nodes' by more than the bound: what it stamps decides when cron ticks come.
func (n *Node) watchClock(ctx context.Context, members raft.Configuration) error {
	bound := int64(n.cfg.Cluster.MaxClockSkew)
	offsets := []int64{0}
	for _, s := range members.Servers {
		heard, ok := n.members.of(string(s.ID))
		if string(s.ID) != n.cfg.ID && ok && time.Since(heard.at) < fresh && heard.status.Error > 0 {
			offsets = append(offsets, heard.status.Offset)
		}
	}
	if len(offsets) < 3 { // of two clocks nobody knows which is wrong
		return nil
	}
	slices.Sort(offsets)
	median := offsets[len(offsets)/2]
	if max(median, -median) <= bound {
		n.skewed.Store(false)
		return nil
	}
	if !n.skewed.Swap(true) {
		n.log.Error("the wall clock is off the other nodes': leadership is handed over", keyBound, time.Duration(bound), "off_by", -time.Duration(median))
	}
	return n.StepAside(ctx)
}
