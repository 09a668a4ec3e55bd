package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/store"
)

// batcher gathers commands into log entries. While Depth entries are in flight
// the next one gathers; nothing ever waits for a timer.
//
// Each of Depth sender goroutines takes its turn to form an entry and to hand it
// to raft, then waits for its fate while the next sender has the turn. So entries
// reach raft in the order they were stamped in, and an entry is formed as late as
// raft can take it.
//
// While Storage lags, calls that bring in work stay where they wait, and entries are
// formed of the others.
//
// An entry's callers are answered by the apply goroutine itself; the sender
// answers only those of an entry that failed.
type batcher struct {
	node *Node

	kick chan struct{} // 1: there is something to send
	turn chan struct{} // 1: the right to form and hand over an entry
	quit chan struct{} // closed: the senders end

	mu       sync.Mutex // guards all below
	adding   lane       // calls that bring in work
	reports  lane       // the others, which are never held back
	nudged   bool       // an entry is wanted though nobody waits
	raft     *raft.Raft // nil while the node does not lead
	remote   *remote    // to the leader, if that is another node; nil while there is none
	refusal  error      // what callers get while raft and remote are nil
	inflight []*batch
	drained  chan struct{} // closed when inflight becomes empty, if not nil

	scratch []byte       // encodes entries; belongs to the turn
	pace    atomic.Int64 // ns an entry takes, smoothed
	pool    sync.Pool    // of *waiter
}

// lane is calls in wait for an entry.
type lane struct {
	waiters []*waiter
	bytes   int
}

// maxWaitingBytes bounds the calls of a lane by their size, so that a hanging disk
// cannot fill the memory.
const maxWaitingBytes = 64 << 20

// waiter is one call in wait for its results.
type waiter struct {
	cmds   []store.Command
	one    [1]store.Command // backs cmds of a single command
	size   int
	adds   bool
	queued bool // guarded by batcher.mu
	done   chan outcome
}

type outcome struct {
	results []store.Result
	err     error
}

// batch is one entry on its way.
type batch struct {
	body    store.Batch
	waiters []*waiter
	data    []byte // as raft has it
	began   time.Time
	claimed bool // the apply goroutine answers it; guarded by batcher.mu
}

func newBatcher(n *Node) *batcher {
	b := &batcher{
		node: n, refusal: ErrNotLeader,
		kick: make(chan struct{}, 1), turn: make(chan struct{}, 1), quit: make(chan struct{}),
	}
	b.pool.New = func() any { return &waiter{done: make(chan outcome, 1)} } // 1: answering never waits
	b.turn <- struct{}{}
	return b
}

// do runs one call to its end.
func (b *batcher) do(ctx context.Context, w *waiter) ([]store.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := b.enqueue(w, false); err != nil {
		return nil, err
	}
	select {
	case out := <-w.done:
		b.release(w)
		return out.results, out.err
	case <-ctx.Done():
	}
	if b.withdraw(w) {
		b.release(w)
		return nil, ctx.Err()
	}
	select { // the answer may have come meanwhile
	case out := <-w.done:
		b.release(w)
		return out.results, out.err
	default:
		return nil, unknown(ctx.Err()) // w stays with its batch
	}
}

func (b *batcher) release(w *waiter) {
	w.cmds, w.one[0] = nil, store.Command{}
	b.pool.Put(w)
}

// measure sets size, and whether the call brings in work. What a worker reports does
// not: it takes work off, and holding it up would keep the rows waiting for longer.
func (w *waiter) measure() {
	w.size, w.adds = 0, false
	for i := range w.cmds {
		w.size += w.cmds[i].Msgsize()
		w.adds = w.adds || w.cmds[i].Kind != store.KindComplete
	}
}

// enqueue admits a call; one that another node has forwarded is not forwarded
// again. Errors: [ErrTooLarge], [ErrOverloaded], [ErrStorage], [ErrNotLeader], [ErrParked], [ErrClosed].
func (b *batcher) enqueue(w *waiter, forwarded bool) error {
	w.measure()
	if w.size > MaxEntryBytes { // at most so much: the bound counts the longest form of each number
		data, err := store.EncodeBatch(nil, &store.Batch{Commands: w.cmds})
		if err != nil {
			return err
		}
		if w.size = len(data); w.size > MaxEntryBytes {
			return &TooLargeError{w.size, MaxEntryBytes}
		}
	}
	if err := b.node.flusher.refuse(); err != nil {
		return err
	}
	b.mu.Lock()
	l := b.lane(w)
	switch {
	case b.raft == nil && (b.remote == nil || forwarded || !errors.Is(b.refusal, ErrNotLeader)):
		defer b.mu.Unlock()
		return b.refusal
	case len(l.waiters) >= b.node.cfg.MaxWaiting || l.bytes > maxWaitingBytes:
		defer b.mu.Unlock()
		return b.overloadedLocked(w)
	}
	l.waiters = append(l.waiters, w)
	l.bytes += w.size
	w.queued = true
	first := len(l.waiters) == 1
	b.mu.Unlock()
	if first {
		b.poke()
	}
	return nil
}

func (b *batcher) lane(w *waiter) *lane {
	if w.adds {
		return &b.adding
	}
	return &b.reports
}

func (b *batcher) poke() {
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

// nudge asks for an entry even if nobody waits for one.
func (b *batcher) nudge() {
	b.mu.Lock()
	news := b.raft != nil && !b.nudged
	b.nudged = b.nudged || news
	b.mu.Unlock()
	if news {
		b.poke()
	}
}

// overloadedLocked says why w finds no place, and about when it will.
func (b *batcher) overloadedLocked(w *waiter) error {
	entries := int64(b.lane(w).bytes/b.node.cfg.MaxBatchBytes + 1)
	delay := min(max(time.Duration(entries*b.pace.Load()), 10*time.Millisecond), 5*time.Second)
	if w.adds && b.node.flusher.full() {
		return &OverloadedError{"calls wait for storage", max(delay, flushInterval)}
	}
	return &OverloadedError{"calls wait for the log", delay}
}

// withdraw takes back a call that is not in an entry yet.
func (b *batcher) withdraw(w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !w.queued {
		return false
	}
	l := b.lane(w)
	at := slices.Index(l.waiters, w)
	l.waiters = slices.Delete(l.waiters, at, at+1)
	l.bytes -= w.size
	w.queued = false
	return true
}

// run is one sender. It ends when quit is closed.
func (b *batcher) run() {
	for {
		select {
		case <-b.turn:
		case <-b.quit:
			return
		}
		bt, r, to := b.form()
		if bt == nil {
			b.turn <- struct{}{} // the others end too
			return
		}
		if r == nil {
			settle := b.forward(bt, to)
			b.turn <- struct{}{}
			settle()
			continue
		}
		fate, err := b.send(bt, r)
		b.turn <- struct{}{}
		if fate != nil {
			err = classify(outcomeOf(fate))
		}
		if dropped := b.settle(bt, err); dropped && len(bt.body.Commands) > 0 {
			b.node.drop()
			if errors.Is(err, ErrNotLeader) && !b.rest() {
				return
			}
		}
	}
}

// refusedPause is how long a sender rests whose entry raft has refused.
const refusedPause = 10 * time.Millisecond

// rest keeps a sender from spinning: while raft hands leadership over it refuses
// each entry at once, and what is decided anew makes another one at once. It
// reports false after quit.
func (b *batcher) rest() bool {
	timer := time.NewTimer(refusedPause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-b.quit:
		return false
	}
}

// form waits for calls and takes as many as an entry holds, and says where they go:
// into the log or, if r is nil, to the leader. The batch is nil after quit.
func (b *batcher) form() (bt *batch, r *raft.Raft, to *remote) {
	for {
		b.mu.Lock()
		r, to = b.raft, b.remote
		if (r != nil || to != nil) && b.wantedLocked() {
			bt = b.takeLocked()
			b.mu.Unlock()
			return bt, r, to
		}
		b.mu.Unlock()
		select {
		case <-b.kick:
		case <-b.quit:
			return nil, nil, nil
		}
	}
}

// wantedLocked reports whether there is something for an entry.
func (b *batcher) wantedLocked() bool {
	return b.nudged || len(b.reports.waiters) > 0 || len(b.adding.waiters) > 0 && !b.node.flusher.full()
}

func (b *batcher) takeLocked() *batch {
	b.nudged = false
	bt := &batch{began: time.Now()}
	left := b.reports.move(bt, b.node.cfg.MaxBatchBytes)
	if !b.node.flusher.full() {
		b.adding.move(bt, left)
	}
	commands := 0
	for _, w := range bt.waiters {
		commands += len(w.cmds)
	}
	bt.body.Commands = make([]store.Command, 0, commands)
	for _, w := range bt.waiters {
		w.queued = false
		bt.body.Commands = append(bt.body.Commands, w.cmds...)
	}
	b.inflight = append(b.inflight, bt)
	return bt
}

// move moves calls of about so many bytes to an entry, at least one to an empty
// one. It returns how many bytes are left.
func (l *lane) move(bt *batch, room int) (left int) {
	n := 0
	for _, w := range l.waiters {
		if w.size > room && (n > 0 || len(bt.waiters) > 0) {
			break
		}
		room -= w.size
		l.bytes -= w.size
		n++
	}
	bt.waiters = append(bt.waiters, l.waiters[:n]...)
	clear(l.waiters[:n])
	l.waiters = l.waiters[n:]
	return room
}

// send stamps, completes, encodes and hands over an entry; the turn is held. An
// entry that stays empty has no fate and no error.
func (b *batcher) send(bt *batch, r *raft.Raft) (raft.ApplyFuture, error) {
	if !b.prepare(bt) {
		return nil, ErrNotLeader
	}
	if len(bt.body.Commands) == 0 {
		return nil, nil
	}
	buf, err := store.EncodeBatch(b.scratch[:0], &bt.body)
	if err != nil {
		return nil, err
	}
	if cap(buf) <= 4*b.node.cfg.MaxBatchBytes { // a rare giant is not kept
		b.scratch = buf
	}
	data := append([]byte(nil), buf...)
	b.mu.Lock()
	bt.data = data
	b.mu.Unlock()
	return r.ApplyLog(raft.Log{Data: data, Extensions: checksum(data)}, 0), nil
}

// prepare stamps an entry and lets the host complete it. It reports false if the
// node does not lead any more: then Prepare must not be called. A panic of
// Prepare parks the node.
func (b *batcher) prepare(bt *batch) (leading bool) {
	n := b.node
	n.mu.RLock()
	defer n.mu.RUnlock()
	defer n.contain("prepare", &leading)
	if !n.leading.Load() {
		return false
	}
	bt.body.Level = n.state.Meta().Level
	bt.body.Wall, bt.body.Elapsed = n.clocks.now(true)
	if n.cfg.Prepare != nil {
		n.cfg.Prepare(&bt.body, n.state)
	}
	return true
}

// outcomeOf waits for the fate of an entry.
func outcomeOf(fate raft.ApplyFuture) error {
	if err := fate.Error(); err != nil {
		return err
	}
	if err, refused := fate.Response().(error); refused {
		return err
	}
	return nil
}
