package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/store"
)

// fsm is the node as one instance of raft sees it. Its methods run on raft's
// apply goroutine, which outlives no instance; none of them panics.
type fsm struct {
	node  *Node
	guard *guard
}

var (
	_ raft.FSM                = (*fsm)(nil)
	_ raft.ConfigurationStore = (*fsm)(nil)
)

// checksum is what an entry carries beside its data, so that damage on disk or
// on the wire is told from a command.
func checksum(data []byte) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 0, 8), xxhash.Sum64(data))
}

// Apply applies an entry and returns nil, or the error that kept it from doing so.
func (f *fsm) Apply(l *raft.Log) any {
	n := f.node
	if f.guard.blind.Load() {
		return errPoisoned // an earlier entry was not read; this one will come again
	}
	if err := n.parkedBy(); err != nil {
		return err
	}
	if l.Index <= n.applied.Load() {
		return nil
	}
	own := n.batcher.claim(l.Data)
	b, err := f.batch(l, own)
	var results []store.Result
	if err == nil {
		results, err = n.apply(l, b)
	}
	if err != nil {
		err = n.park(fmt.Errorf("apply entry %d: %w", l.Index, err))
		if own != nil {
			own.fail(unknown(err))
		}
		return err
	}
	if own != nil {
		n.batcher.answer(own, results)
		n.nudge(l.Index, l.Term)
	}
	return nil
}

// batch returns the batch of an entry: as it was encoded if that was here and
// just now, decoded otherwise.
func (f *fsm) batch(l *raft.Log, own *batch) (b *store.Batch, err error) {
	if own != nil && asDecoded(&own.body) {
		return &own.body, nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: decoding panics: %v", store.ErrFormat, r)
		}
	}()
	if own == nil && (len(l.Extensions) != 8 || binary.BigEndian.Uint64(l.Extensions) != xxhash.Sum64(l.Data)) {
		return nil, fmt.Errorf("%w: checksum differs", store.ErrFormat)
	}
	return store.DecodeBatch(l.Data)
}

// asDecoded reports whether applying b is known to do what applying its decoded
// form would. That is so for commands of plain values; those that carry records
// into the state, which may hold caches that only decoding fills, are decoded.
func asDecoded(b *store.Batch) bool {
	for i := range b.Commands {
		switch b.Commands[i].Kind {
		case store.KindEnqueue, store.KindLease, store.KindComplete, store.KindEndLease,
			store.KindCheckpoint, store.KindExpire, store.KindTick:
		default:
			return false
		}
	}
	return true
}

// apply changes the state. A panic is returned as an error.
func (n *Node) apply(l *raft.Log, b *store.Batch) (results []store.Result, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	results, events := n.state.Apply(l.Index, l.Term, b)
	if n.cfg.OnApply != nil {
		n.cfg.OnApply(n.state, l.Index, b, results, events)
	}
	n.moveTo(l.Index)
	n.clocks.applied(b.Wall, n.state.Meta().Elapsed)
	n.flusher.changed(n.state.Unflushed())
	return results, nil
}

// moveTo notes where the state is now.
func (n *Node) moveTo(index uint64) {
	n.applied.Store(index)
	if n.watchers.Load() > 0 {
		n.moved.fire()
	}
}

// contain parks the node if the deferring hook panics, and sets ok to false. The
// process that hosts us must not end by our bugs.
func (n *Node) contain(hook string, ok *bool) {
	if r := recover(); r != nil {
		*ok = false
		_ = n.park(fmt.Errorf("%s panics: %v\n%s", hook, r, debug.Stack())) // told by Status
	}
}

// StoreConfiguration implements [raft.ConfigurationStore].
func (f *fsm) StoreConfiguration(index uint64, c raft.Configuration) {
	n := f.node
	if f.guard.blind.Load() || n.parkedBy() != nil || index <= n.applied.Load() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.configuration = encodeConfiguration(index, c)
	var entry raft.Log
	if f.guard.inner.GetLog(index, &entry) == nil { // raft does not tell its term
		n.state.Advance(index, entry.Term)
		n.moveTo(index)
	}
	n.flusher.changed(n.state.Unflushed())
}

// Snapshot implements [raft.FSM].
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) { return reference{f.node}, nil }

// Restore implements [raft.FSM]: it replaces the state by what a leader sent.
func (f *fsm) Restore(r io.ReadCloser) error {
	err := f.node.parkedBy()
	if err == nil {
		err = f.node.flusher.replace(r)
	}
	if err == nil {
		f.guard.replaced(f.node.applied.Load())
	}
	return errors.Join(err, r.Close())
}
