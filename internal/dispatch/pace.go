package dispatch

import (
	"slices"
	"time"
)

// The bounds of the release ahead.
const (
	minAhead = int64(10 * time.Millisecond)
	maxAhead = int64(50 * time.Millisecond)
)

// pace follows how long commits take, to release ahead of time by about twice
// the 99th percentile.
type pace struct {
	recent [128]int64 // ns, a ring
	n      int        // samples ever
	value  int64      // of the last look at the ring
}

func (p *pace) add(took time.Duration) {
	p.recent[p.n%len(p.recent)] = int64(took)
	p.n++
	if p.n%(len(p.recent)/2) != 0 {
		return
	}
	sorted := slices.Clone(p.recent[:min(p.n, len(p.recent))])
	slices.Sort(sorted)
	p.value = 2 * sorted[len(sorted)*99/100]
}

// ns returns how long before its due time a run or tick is released.
func (p *pace) ns() int64 { return min(max(p.value, minAhead), maxAhead) }
