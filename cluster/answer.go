package cluster

import (
	"errors"
	"time"

	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/store"
)

// claim returns the entry of ours that raft has as data, or nil. It is ours if it
// is the very same bytes in memory: then what was encoded is what would be
// decoded. The caller answers it.
func (b *batcher) claim(data []byte) *batch {
	if len(data) == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, bt := range b.inflight {
		if len(bt.data) == len(data) && &bt.data[0] == &data[0] {
			bt.claimed = true
			return bt
		}
	}
	return nil
}

// answer gives the callers of a claimed entry their results.
func (b *batcher) answer(bt *batch, results []store.Result) {
	at := 0
	for _, w := range bt.waiters {
		n := len(w.cmds)
		w.done <- outcome{results: results[at : at+n : at+n]}
		at += n
	}
	took := time.Since(bt.began)
	b.pace.Store((7*b.pace.Load() + int64(took)) / 8) // only the apply goroutine stores
	if seen := b.node.cfg.Observe.Batch; seen != nil {
		seen(len(results), len(bt.data), took)
	}
}

// settle ends the entry's time in flight; callers that the apply goroutine does
// not answer get err. It reports whether the entry was dropped: not applied
// through here, whatever else became of it.
func (b *batcher) settle(bt *batch, err error) (dropped bool) {
	b.mu.Lock()
	claimed := bt.claimed
	for i := range b.inflight {
		if b.inflight[i] == bt {
			b.inflight = append(b.inflight[:i], b.inflight[i+1:]...)
			break
		}
	}
	if len(b.inflight) == 0 && b.drained != nil {
		close(b.drained)
		b.drained = nil
	}
	b.mu.Unlock()
	if !claimed {
		bt.fail(err)
	}
	return !claimed
}

// fail gives the callers of an entry an error.
func (bt *batch) fail(err error) {
	for _, w := range bt.waiters {
		w.done <- outcome{err: err}
	}
}

// classify turns the fate of an entry into the error of its callers: either it
// was certainly not appended, or nobody knows.
func classify(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader),
		errors.Is(err, raft.ErrEnqueueTimeout),
		errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return ErrNotLeader
	case err == nil:
		return unknown(errors.New("applied by another way"))
	}
	return unknown(err)
}

// lead begins to send to r, first what the host has to decide as a new leader.
func (b *batcher) lead(r *raft.Raft) {
	b.mu.Lock()
	b.raft, b.refusal, b.nudged = r, nil, true
	b.mu.Unlock()
	b.poke()
}

// refuse ends sending: calls that wait for an entry, and later ones, get err.
// What is in flight goes on to its fate.
func (b *batcher) refuse(err error) {
	b.mu.Lock()
	var waiting []*waiter
	if b.raft != nil || b.remote == nil || !errors.Is(err, ErrNotLeader) {
		waiting = append(b.reports.empty(), b.adding.empty()...)
	}
	b.raft, b.refusal, b.nudged = nil, err, false
	b.mu.Unlock()
	for _, w := range waiting {
		w.done <- outcome{err: err}
	}
}

// refuseHeld gives err to the calls that are held back.
func (b *batcher) refuseHeld(err error) {
	b.mu.Lock()
	held := b.adding.empty()
	b.mu.Unlock()
	for _, w := range held {
		w.done <- outcome{err: err}
	}
}

// empty takes all calls out of the lane.
func (l *lane) empty() []*waiter {
	waiters := l.waiters
	*l = lane{}
	for _, w := range waiters {
		w.queued = false
	}
	return waiters
}

// idle returns a channel that is closed once nothing is in flight. The batcher
// must have been told to refuse.
func (b *batcher) idle() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.drained == nil {
		b.drained = make(chan struct{})
	}
	drained := b.drained
	if len(b.inflight) == 0 {
		close(drained)
		b.drained = nil
	}
	return drained
}
