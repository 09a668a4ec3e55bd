package cluster

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// guard stands between raft and its log. It keeps raft from what raft does badly:
//
//   - Poison latch: after the first failed write nothing is written any more, so
//     no vote is given and no entry stored, whatever a retry might seem to
//     achieve. The supervisor hears of it and opens everything anew.
//   - No panics: raft brings the process down when its term cannot be saved or an
//     entry to apply cannot be read. A guard that has latched accepts the term
//     without keeping it (no vote or entry of that term will be given, so nothing
//     was promised) and gives no-ops for entries (the state machine applies
//     nothing more, and the transport sends nothing).
//   - No false end: raft goes on counting with the end that its log had before a
//     copy of a leader's state took its place (issue 697). Where that was not
//     before the copy's the guard latches too, so that raft begins anew.
//   - Stall watch: it knows since when a write has been under way.
type guard struct {
	inner LogStore
	size  *logSize

	faulted chan struct{} // closed by the first fault
	once    sync.Once
	fault   error        // set before faulted is closed
	dead    atomic.Bool  // latched
	blind   atomic.Bool  // latched by a read: what raft got is not the log
	opened  atomic.Bool  // raft's goroutines run; before, errors are returned
	writing atomic.Int64 // when the write under way began, ns since start; 0 if none
	start   time.Time
	cut     uint64 // up to where the log may go; the flusher's own
	unread  error  // of reading an entry before opened; raft does not wrap it

	expects atomic.Pointer[func(index uint64) bool] // whether raft counts on an entry; set once it runs
	tail    atomic.Uint64                           // the last entry, no less far than the copy that has taken its place; 0 if none has
}

var errPoisoned = errors.New("cluster: log is latched after a failed write")

// errTail ends an instance whose raft counts entries that are gone.
var errTail = errors.New("cluster: a copy has taken the place of a log as long or longer")

func newGuard(inner LogStore, keep int64) (*guard, error) {
	first, err := inner.FirstIndex()
	if err != nil {
		return nil, damaged("read first index of the log: %v", err)
	}
	last, err := inner.LastIndex()
	if err != nil {
		return nil, damaged("read last index of the log: %v", err)
	}
	return &guard{
		inner: inner, size: newLogSize(keep, first, last, inner.Bytes()),
		faulted: make(chan struct{}), start: time.Now(),
	}, nil
}

// IsMonotonic implements [raft.MonotonicLogStore]: raft is to empty the log before it
// goes on after an installed copy, whether the log would take a gap or not.
func (g *guard) IsMonotonic() bool { return true }

// latch ends the life of this instance.
func (g *guard) latch(err error) {
	g.once.Do(func() {
		g.fault = err
		g.dead.Store(true)
		close(g.faulted)
	})
}

// failed returns what latched the guard, or nil.
func (g *guard) failed() error {
	if !g.dead.Load() {
		return nil
	}
	<-g.faulted
	return g.fault
}

// stalled reports whether a write has been under way for longer than limit.
func (g *guard) stalled(limit time.Duration) bool {
	since := g.writing.Load()
	return since != 0 && time.Since(g.start)-time.Duration(since) > limit
}

// write runs one write of the log.
func (g *guard) write(what string, do func() error) error {
	if g.dead.Load() {
		return errPoisoned
	}
	g.writing.Store(int64(time.Since(g.start)) | 1)
	err := do()
	g.writing.Store(0)
	if err != nil {
		err = fmt.Errorf("cluster: %s: %w", what, err)
		g.latch(err)
	}
	return err
}

// StoreLogs implements [raft.LogStore].
func (g *guard) StoreLogs(logs []*raft.Log) error {
	err := g.write("write log", func() error { return g.inner.StoreLogs(logs) })
	if err == nil {
		g.size.append(logs)
	}
	return err
}

// StoreLog implements [raft.LogStore].
func (g *guard) StoreLog(log *raft.Log) error { return g.StoreLogs([]*raft.Log{log}) }

// DeleteRange implements [raft.LogStore].
func (g *guard) DeleteRange(lo, hi uint64) error {
	err := g.write("truncate log", func() error { return g.inner.DeleteRange(lo, hi) })
	if tail := g.tail.Load(); err == nil && tail != 0 && hi >= tail {
		g.latch(errTail)
	}
	return err
}

// replaces tells that a copy up to index is about to take the place of the log.
func (g *guard) replaces(index uint64) error { return g.SetUint64(installedKey, index) }

// replaced tells that it has. Raft empties the log next.
func (g *guard) replaced(index uint64) {
	last, err := g.inner.LastIndex()
	switch {
	case err != nil:
		g.latch(fmt.Errorf("cluster: read last index of the log: %w", err))
	case last >= index: // one at index is of another term, in which raft would vote
		g.tail.Store(last)
	}
}

// reachesBack reports whether the log begins at index or before.
func (g *guard) reachesBack(index uint64) bool {
	first, err := g.inner.FirstIndex()
	return err == nil && first != 0 && first <= index
}

// has reports whether the log has an entry, and with it all before it that any leader
// of its term or a later one has.
func (g *guard) has(index, term uint64) bool {
	var l raft.Log
	return !g.dead.Load() && g.inner.GetLog(index, &l) == nil && l.Index == index && l.Term == term
}

// Set implements [raft.StableStore]. raft saves the candidate it votes for here,
// and does not vote if it gets an error.
func (g *guard) Set(key, value []byte) error {
	return g.write("save vote", func() error { return g.inner.Set(key, value) })
}

// SetUint64 implements [raft.StableStore]. raft panics on an error for the term.
func (g *guard) SetUint64(key []byte, n uint64) error {
	err := g.write("save term", func() error { return g.inner.SetUint64(key, n) })
	if err != nil && g.opened.Load() && string(key) == "CurrentTerm" {
		return nil
	}
	return err
}

// Get implements [raft.StableStore].
func (g *guard) Get(key []byte) ([]byte, error) { return g.inner.Get(key) }

// GetUint64 implements [raft.StableStore].
func (g *guard) GetUint64(key []byte) (uint64, error) { return g.inner.GetUint64(key) }

// FirstIndex implements [raft.LogStore].
func (g *guard) FirstIndex() (uint64, error) { return g.inner.FirstIndex() }

// LastIndex implements [raft.LogStore].
func (g *guard) LastIndex() (uint64, error) { return g.inner.LastIndex() }

// GetLog implements [raft.LogStore]. That an entry is before or after the log is
// an answer; that one within it is missing or unreadable is a fault.
func (g *guard) GetLog(index uint64, log *raft.Log) error {
	if g.blind.Load() {
		*log = raft.Log{Index: index, Type: raft.LogNoop}
		return nil
	}
	err := g.inner.GetLog(index, log)
	if err == nil {
		err = checkEntry(index, log)
	} else if g.outside(index) && !g.expected(index) {
		return raft.ErrLogNotFound
	}
	if err == nil {
		return nil
	}
	err = damaged("read log entry %d: %v", index, err)
	if !g.opened.Load() {
		g.unread = err
		return err
	}
	g.blind.Store(true)
	g.latch(err)
	*log = raft.Log{Index: index, Type: raft.LogNoop}
	return nil
}

// outside reports whether the log is known not to span index.
func (g *guard) outside(index uint64) bool {
	first, err := g.inner.FirstIndex()
	if err != nil {
		return false
	}
	last, err := g.inner.LastIndex()
	return err == nil && (index < first || index > last)
}

// expected reports whether raft would not bear that the log is without an entry.
func (g *guard) expected(index uint64) bool {
	expects := g.expects.Load()
	return expects != nil && (*expects)(index)
}

// checkEntry refuses what raft would panic on, and a command that damage has
// turned into something to pass over.
func checkEntry(index uint64, log *raft.Log) (err error) {
	switch {
	case log.Index != index:
		return fmt.Errorf("it is numbered %d", log.Index)
	case log.Type > raft.LogConfiguration, log.Type == raft.LogAddPeerDeprecated, log.Type == raft.LogRemovePeerDeprecated:
		return fmt.Errorf("its type %d is unknown", log.Type)
	case log.Type == raft.LogNoop || log.Type == raft.LogBarrier:
		// Raft keeps no checksum over the type, and passes over these.
		if len(log.Data) > 0 || len(log.Extensions) > 0 {
			return fmt.Errorf("its type %d has no content, and it has some", log.Type)
		}
	case log.Type == raft.LogConfiguration:
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("%v", r)
			}
		}()
		raft.DecodeConfiguration(log.Data)
	}
	return nil
}

// truncate deletes one step of what the log holds too much of and Storage, which
// is at index durable, has. It reports whether more is left to delete. Only the
// flusher calls it.
func (g *guard) truncate(durable uint64) (more bool) {
	g.cut = max(g.cut, g.size.cut())
	upTo := min(g.cut, durable-min(durable, minTrailing))
	first, err := g.inner.FirstIndex()
	if err != nil || first == 0 || first > upTo {
		return false
	}
	step := min(upTo, first+truncateStep-1)
	return g.DeleteRange(first, step) == nil && step < upTo
}

// installedKey is the stable key of the index at which a snapshot last replaced
// the state: there alone Storage may be ahead of the log.
var installedKey = []byte("escapement.installed")

// check compares the log with the position of Storage.
// Errors: [ErrDamaged].
func (g *guard) check(index, term uint64) error {
	first, err := g.inner.FirstIndex()
	if err != nil {
		return damaged("read first index of the log: %v", err)
	}
	last, err := g.inner.LastIndex()
	if err != nil {
		return damaged("read last index of the log: %v", err)
	}
	if index > last {
		if g.installed(index) {
			return g.empty(first, last)
		}
		return damaged("storage is at index %d, but the log ends at %d", index, last)
	}
	if first > index+1 {
		return damaged("storage is at index %d, but the log begins at %d", index, first)
	}
	if index < first || index == 0 {
		return nil
	}
	var l raft.Log
	if err := g.GetLog(index, &l); err != nil {
		return err
	}
	if l.Term != term && g.installed(index) {
		return g.empty(first, last)
	}
	if l.Term != term {
		return damaged("entry %d has term %d in the log and %d in storage", index, l.Term, term)
	}
	return nil
}

// installed reports whether the last copy that took the place of the state, or was
// about to, was up to index.
func (g *guard) installed(index uint64) bool {
	at, err := g.inner.GetUint64(installedKey)
	return err == nil && at == index
}

// empty does what raft has not come to after it installed a copy.
func (g *guard) empty(first, last uint64) error {
	if last == 0 {
		return nil
	}
	if err := g.inner.DeleteRange(first, last); err != nil {
		return fmt.Errorf("cluster: empty log: %w", err)
	}
	return nil
}
