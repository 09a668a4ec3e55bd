package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// The pace of the flusher.
const (
	flushInterval = time.Second           // after the first change, if nothing else hurries it
	flushPause    = 50 * time.Millisecond // between two flushes, at least
	flushRows     = 100_000               // so many rows hurry it, or half of MaxUnflushed
	flushDuty     = 2                     // pauses this many times as long as a flush took,
	flushLag      = 2 * flushRows         // unless so many rows wait, or ¾ of MaxUnflushed
	flushBackoff  = 5 * time.Second       // between two tries of a failing flush, at most
)

// flusher writes what changed in the state to Storage, behind the log. It never
// holds up the apply goroutine: the state is locked while changes are handed
// over, not while they are written. It also truncates the log, which only what
// Storage has makes superfluous.
//
// While MaxUnflushed rows wait for it the batcher holds back calls that bring in
// work, so that memory has a bound and intake the pace of Storage.
//
// A flush that fails is tried again, the same one, until it succeeds; meanwhile
// calls are refused and the log goes on.
type flusher struct {
	node *Node

	wake  chan struct{}            // 1: changed has news for run
	quit  chan struct{}            // closed: run ends
	dirty atomic.Bool              // something changed since the last flush began
	rows  atomic.Int64             // not yet flushed
	at    atomic.Pointer[position] // of Storage; not nil
	fault atomic.Pointer[StorageError]

	// busy is a lock on all below that is held across a Commit. It is no mutex,
	// because waiting for one does not count as idle in virtual time.
	busy     chan struct{}
	pending  *store.Flush
	config   []byte // as of pending
	size     int    // rows of pending
	took     time.Duration
	ended    time.Time // when the last commit did
	failures int

	copying sync.RWMutex // held to read while Storage is copied out, to write while it is replaced
}

// position is where Storage is in the log.
type position struct {
	index, term uint64
	config      []byte
}

func newFlusher(n *Node) *flusher {
	f := &flusher{node: n, wake: make(chan struct{}, 1), busy: make(chan struct{}, 1), quit: make(chan struct{})}
	f.at.Store(&position{})
	return f
}

func (f *flusher) lock()   { f.busy <- struct{}{} }
func (f *flusher) unlock() { <-f.busy }

// changed tells that the state changed and how many rows are not flushed.
func (f *flusher) changed(rows int) {
	before := int(f.rows.Swap(int64(rows)))
	first := !f.dirty.Swap(true)
	hurry, lag := f.limits()
	if first || before < hurry && rows >= hurry || before < lag && rows >= lag {
		f.poke()
	}
}

// limits returns how many rows hurry a flush, and how many do away with its pause.
func (f *flusher) limits() (hurry, lag int) {
	bound := f.node.cfg.MaxUnflushed
	return min(flushRows, bound/2), min(flushLag, bound/4*3)
}

func (f *flusher) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// refuse returns why no call may be taken in, or nil.
func (f *flusher) refuse() error {
	if fault := f.fault.Load(); fault != nil {
		return fault
	}
	return nil
}

// full reports whether calls that bring in work are to wait. When that ends the
// batcher is told.
func (f *flusher) full() bool { return f.rows.Load() >= int64(f.node.cfg.MaxUnflushed) }

// run flushes as changes come. It ends when quit is closed; without changes it
// sleeps.
func (f *flusher) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-f.wake:
			timer.Reset(time.Until(f.due()))
		case <-timer.C:
			_ = f.flush() // told by fault
		case <-f.quit:
			return
		}
	}
}

// due returns when the next flush is to begin.
func (f *flusher) due() time.Time {
	f.lock()
	defer f.unlock()
	if f.failures > 0 {
		return f.ended.Add(min(flushPause<<min(f.failures, 10), flushBackoff))
	}
	rows := int(f.rows.Load())
	hurry, lag := f.limits()
	due, rest := time.Now(), flushPause
	if rows < hurry {
		due = due.Add(flushInterval)
	}
	if rows < lag {
		rest = max(rest, flushDuty*f.took)
	}
	if earliest := f.ended.Add(rest); earliest.After(due) {
		return earliest
	}
	return due
}

// flush writes what is there and truncates a step of the log.
func (f *flusher) flush() error {
	f.lock()
	defer f.unlock()
	return f.flushLocked()
}

// flushFor is flush for a caller who may go before a disk that hangs has done what
// was begun for him.
func (f *flusher) flushFor(ctx context.Context) error {
	select {
	case f.busy <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	done := make(chan error, 1) // 1: the result is taken even if nobody waits
	go func() {                 // ends with the Commit; there is one at most, which has the lock
		defer f.unlock()
		done <- f.flushLocked()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *flusher) flushLocked() error {
	f.takeLocked()
	if f.pending != nil {
		if err := f.commitLocked(); err != nil {
			f.poke()
			return err
		}
	}
	if f.dirty.Load() { // what was pending was older than the last change
		f.poke()
	}
	if inst := f.node.inst.Load(); inst != nil && inst.guard.truncate(f.position().index) {
		f.poke()
	}
	return nil
}

// takeLocked makes the changes of the state pending, unless older ones are. A
// parked node's state is not to be trusted and stays where it is.
func (f *flusher) takeLocked() {
	if f.pending != nil || f.node.parkedBy() != nil {
		return
	}
	f.dirty.Store(false)
	f.node.mu.Lock()
	defer f.node.mu.Unlock()
	f.size = f.node.state.Unflushed()
	f.pending = f.node.state.TakeFlush()
	f.config = f.node.configuration
}

func (f *flusher) commitLocked() error {
	began := time.Now()
	err := f.node.cfg.Storage.Commit(f.pending, f.config)
	f.ended = time.Now()
	f.took = f.ended.Sub(began)
	if seen := f.node.cfg.Observe.Flush; seen != nil {
		seen(f.size, f.took, err)
	}
	if err != nil {
		f.failedLocked(err)
		return f.fault.Load()
	}
	if f.fault.Swap(nil) != nil {
		f.node.log.Info("storage works again", keyFailures, f.failures)
		f.node.ailment.end()
	}
	f.failures = 0
	f.at.Store(&position{f.pending.Meta.Index, f.pending.Meta.Term, f.config})
	f.pending.Rest()
	f.node.mu.Lock()
	f.node.state.Flushed(f.pending)
	f.rows.Store(int64(f.node.state.Unflushed()))
	f.node.mu.Unlock()
	f.pending = nil
	f.node.batcher.poke() // there is room for calls that were held back
	return nil
}

func (f *flusher) failedLocked(err error) {
	f.failures++
	fault := &StorageError{fmt.Errorf("flush: %w", err)}
	if f.fault.Swap(fault) == nil {
		f.node.log.Error("storage fails, calls are refused until it works again", keyError, err)
		f.node.ailment.begin(fault)
	}
	f.node.batcher.refuseHeld(fault)
}

// position returns where Storage is. It does not wait for a Commit.
func (f *flusher) position() position {
	return *f.at.Load()
}

// upTo flushes until Storage is at least at index.
func (f *flusher) upTo(ctx context.Context, index uint64) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if f.position().index >= index {
			return nil
		}
		if err := f.node.parkedBy(); err != nil {
			return err
		}
		if err := f.flushFor(ctx); err != nil {
			return err
		}
	}
}

// replace puts a copy in the place of Storage's content and of the state.
func (f *flusher) replace(r io.Reader) error {
	f.copying.Lock()
	defer f.copying.Unlock()
	f.lock()
	defer f.unlock()
	n := f.node
	if err := n.cfg.Storage.Restore(r); err != nil {
		return fmt.Errorf("cluster: install copy: %w", err)
	}
	state, config, err := load(n.cfg.Storage)
	if err != nil {
		return n.park(fmt.Errorf("load installed copy: %w", err))
	}
	f.pending, f.config = nil, nil
	f.at.Store(&position{state.Meta().Index, state.Meta().Term, config})
	f.rows.Store(0)
	n.batcher.poke()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state, n.configuration = state, config
	n.moveTo(state.Meta().Index)
	n.clocks.applied(state.Meta().Wall, state.Meta().Elapsed)
	if n.cfg.OnReplace != nil {
		n.cfg.OnReplace()
	}
	return nil
}

// load reads the state that Storage has.
func load(s Storage) (*store.State, []byte, error) {
	img, err := s.Image()
	if err != nil {
		return nil, nil, fmt.Errorf("%w: read storage: %w", ErrDamaged, err)
	}
	state := store.NewState()
	if img.Meta.Index == 0 {
		return state, nil, nil
	}
	if err := state.Load(img); err != nil {
		return nil, nil, fmt.Errorf("%w: load storage: %w", ErrDamaged, err)
	}
	config := bytes.Clone(s.Configuration())
	if len(config) == 0 {
		return nil, nil, damaged("storage is at index %d, but has no configuration", img.Meta.Index)
	}
	return state, config, nil
}
