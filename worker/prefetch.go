package worker

import "time"

// prefetch decides how many attempts the pool wants to hold beyond those it executes: as many as keep its slots busy
// while a report is on its way and the next assignment comes, and for a moment more, going by how long handlers and
// commits have taken lately. It is zero for handlers that take longer than that.
type prefetch struct {
	slots   int
	typical int64 // ns a handler holds its slot: a moving average; 0 before the first
	commit  int64 // ns until a report is acked, likewise
	told    int   // the capacity last told
	away    int   // the part of it that replaces slots given back, less those held without a lease
}

const (
	ahead       = int64(5 * time.Millisecond)  // of work for each slot, and that for the time of two commits
	maxAhead    = int64(50 * time.Millisecond) // but well below patience, or what was prefetched would be handed back
	maxPrefetch = 8192
	smoothing   = 16 // runs, or commits, after which a change has come through by two thirds
)

func (f *prefetch) measure(took int64) {
	took = max(took, 1)
	if f.typical == 0 {
		f.typical = took
		return
	}
	f.typical = max(f.typical+(took-f.typical)/smoothing, 1)
}

func (f *prefetch) measureCommit(took int64) { f.commit += (took - f.commit) / smoothing }

// collapse is for when attempts have waited for too long: the average does not know yet of handlers that are still
// running. It recovers with the next short ones.
func (f *prefetch) collapse() { f.typical = max(f.typical, int64(f.slots)*maxAhead+1) }

func (f *prefetch) want() int {
	if f.typical == 0 {
		return 0
	}
	work := min(ahead+2*f.commit, maxAhead)
	return int(min(int64(f.slots)*work/f.typical, maxPrefetch))
}

// Capacity returns how many assignments of any class the pool wants to hold at a time, waiting, running and not yet
// acked together: its slots without the reserved ones, one more for each handler that has given its slot back, one less
// for each that still runs though its lease is gone, and a prefetch while handlers are short: work for each slot for 5 ms
// and the time of two commits, 50 ms at most, and no more than 8,192 runs. It is zero once the pool drains.
// A run that is not due yet takes no slot: as many of these may be assigned as the scheduler likes.
func (p *Pool) Capacity() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.capacityLocked()
}

// Reserved returns how many assignments of class [store.Critical] the pool wants to hold beyond [Pool.Capacity].
// Others, assigned in their place, would wait for an ordinary slot and be handed back.
func (p *Pool) Reserved() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state >= draining {
		return 0
	}
	return p.reserved
}

func (p *Pool) capacityLocked() int {
	if p.state >= draining {
		return 0
	}
	return max(0, p.cfg.Slots-p.reserved+p.slots.away-p.slots.lost+p.prefetch.want())
}

// measureLocked takes in how long (ns) a handler held its slot.
func (p *Pool) measureLocked(took int64) {
	p.prefetch.measure(took)
	p.tellLocked()
}

// tellLocked has the keeper tell the capacity if it has changed by more than an eighth, or because of a slot that was
// given or taken back: a handler may be waiting for a run that only this makes room for.
func (p *Pool) tellLocked() {
	c, f := p.capacityLocked(), &p.prefetch
	away := p.slots.away - p.slots.lost
	if diff := c - f.told; diff > f.told/8 || -diff > f.told/8 || f.away != away {
		f.told, f.away = c, away
		p.chores.tell = true
		p.pokeKeeper()
	}
}
