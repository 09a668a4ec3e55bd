package cluster

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// The keys of log lines.
const (
	keyError    = "error"
	keyFailures = "failures"
	keyIndex    = "index"
	keyLevel    = "level"
	keyOffset   = "offset"
	keyBound    = "bound"
	keyNodeID   = "node_id"
	keyPeer     = "peer"
	keyReason   = "reason"
	keyTerm     = "term"
)

// Node is a member of the cluster: the one place where commands become entries
// of the log, and entries become state. Its methods are safe for concurrent use.
//
//	           ┌────────── log latched: probe, reopen ─────────┐
//	           ▼                                               │
//	Open ─▶ following ── elected, all applied ──▶ leading ─────┤
//	           ▲                                     │         │
//	           └────────── leadership lost ──────────┘         │
//	any ── an entry cannot be applied ──▶ parked               │
//	any ── Shutdown ──▶ closed  ◀──────────────────────────────┘
type Node struct {
	cfg     Setup
	log     *slog.Logger
	clocks  clocks
	batcher *batcher
	flusher *flusher
	snaps   *snapshots
	ailment ailment
	mem     *memLog // the log of a node without a folder

	links       *links // nil: a lone node without a port
	incarnation string
	founders    []store.NodeRecord // of the cluster that this node founds; set before begun
	begun       atomic.Bool        // it takes part in a cluster
	members     members
	waits       atomic.Pointer[string] // why it is in no cluster yet, or not let in
	skewed      atomic.Bool            // its clock is off, as it found while leading
	joining     gate                   // held to change the membership, or what the state says of it
	term        atomic.Uint64          // in which this node leads, or led last
	ledSince    atomic.Pointer[time.Time]

	promised  atomic.Uint64               // index that this node's callers were answered for
	committed atomic.Pointer[logPosition] // of the newest entry of this node's that was applied
	nudges    chan struct{}               // 1: committed has moved
	watchers  atomic.Int64                // who waits for moved
	moved     notice                      // the state has moved on

	inst    atomic.Pointer[instance] // nil while the log is closed
	session atomic.Pointer[session]
	applied atomic.Uint64 // index the state is at; written under mu
	leading atomic.Bool   // between OnLead(true) and OnLead(false); written under mu
	changes notice        // role, leader, fault or parking changed

	mu            sync.RWMutex // guards all below
	state         *store.State
	configuration []byte // who is in the cluster, as of the state

	parkMu sync.Mutex // guards reason
	reason error
	parked chan struct{} // closed once reason is set

	life    context.Context //nolint:containedctx // ends with stop
	end     context.CancelFunc
	stop    chan struct{} // closed by Shutdown
	stopped chan struct{} // closed once all is closed
	once    sync.Once
	closed  error          // of closing; set before stopped is closed
	workers sync.WaitGroup // supervisor and flusher
	senders sync.WaitGroup
}

// Open loads the state from cfg.Storage, opens the log and starts to take part
// in the cluster; on an empty folder the node becomes a cluster of one. It does
// not wait for a leader, see [Node.Ready]. ctx bounds the opening alone.
//
// After an error the Storage is still the caller's.
// Errors: [ErrFolderInUse], [ErrDamaged], and [ErrNotMember] of a node of several.
func Open(ctx context.Context, cfg Setup) (*Node, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, log: cfg.Logger.With(slog.String(keyNodeID, cfg.ID)),
		clocks: clocks{wall: cfg.Clock},
		parked: make(chan struct{}), stop: make(chan struct{}), stopped: make(chan struct{}),
		joining: newGate(), nudges: make(chan struct{}, 1),
	}
	n.life, n.end = context.WithCancel(context.WithoutCancel(ctx))
	n.batcher, n.flusher, n.snaps = newBatcher(n), newFlusher(n), &snapshots{node: n}
	if cfg.Dir == "" && cfg.OpenLog == nil {
		n.mem = newMemLog()
	}
	if n.state, n.configuration, err = load(cfg.Storage); err != nil {
		return nil, err
	}
	at := n.state.Meta()
	n.applied.Store(at.Index)
	n.clocks.applied(at.Wall, at.Elapsed)
	n.flusher.at.Store(&position{at.Index, at.Term, n.configuration})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if cfg.Opened != nil {
		cfg.Opened(n)
	}
	if err := n.take(); err != nil { //nolint:contextcheck // what it begins has the node's life
		return nil, err
	}
	n.workers.Go(n.flusher.run)
	for range cfg.Depth {
		n.senders.Go(n.batcher.run)
	}
	return n, nil
}

// take begins to take part: at once, or in the background if the node first has to
// find the others.
func (n *Node) take() error {
	if n.cfg.Cluster == nil {
		return n.takeUp()
	}
	empty, err := n.settle()
	if err != nil {
		return err
	}
	if err := n.listen(); err != nil {
		return err
	}
	if empty {
		n.workers.Go(func() { n.supervise(n.begin()) })
	} else if err := n.takeUp(); err != nil {
		return errors.Join(err, n.links.close())
	}
	n.workers.Go(n.follow)
	return nil
}

func (n *Node) takeUp() error {
	inst, err := n.open()
	if err != nil {
		return err
	}
	n.workers.Go(func() { n.supervise(inst) })
	return nil
}

// Shutdown stops taking calls, lets what is in flight end, writes what Storage
// lacks and closes raft, the log and Storage. It returns nil if nothing was lost
// or left behind. If ctx ends first, as it may when a disk hangs, closing goes on
// and a later Shutdown waits for it.
func (n *Node) Shutdown(ctx context.Context) error {
	n.once.Do(func() {
		close(n.stop)
		n.end()
		n.batcher.refuse(ErrClosed)
		go n.finish() // ends by closing stopped, which every Shutdown waits for
	})
	select {
	case <-n.stopped:
		return n.closed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (n *Node) finish() {
	defer close(n.stopped)
	close(n.flusher.quit)
	n.workers.Wait() // the supervisor closes raft and the log
	var unlinked error
	if n.links != nil {
		unlinked = n.links.close()
	}
	close(n.batcher.quit)
	n.senders.Wait()
	var flushed error
	if n.parkedBy() == nil {
		flushed = n.flusher.flush()
	}
	n.flusher.lock() // a flush may be under way whose caller has gone
	n.closed = errors.Join(flushed, unlinked, n.cfg.Storage.Close())
	n.flusher.unlock()
	n.changes.fire()
}

// View calls look with the state under the read lock. The records it finds are
// immutable and may be kept; st itself must not be.
func (n *Node) View(look func(st *store.State)) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	look(n.state)
}

// Now returns the wall and elapsed time, in ns, that the node would stamp as the
// leader now. On a node that does not lead elapsed is an estimate. It takes no
// lock, so that every hook may call it.
func (n *Node) Now() (wall, elapsed int64) { return n.clocks.now(n.leading.Load()) }

// Kick asks for an entry soon, for what Prepare has to decide, even if no call
// waits for one. It does not block, and does nothing on a node that does not
// lead. Nothing is committed if Prepare adds nothing. Every hook may call it.
func (n *Node) Kick() { n.batcher.nudge() }

// drop lets the host decide anew what it had reserved for an entry that failed.
func (n *Node) drop() {
	if n.cfg.OnDrop == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	ok := true
	defer n.contain("on drop", &ok)
	if n.leading.Load() {
		n.cfg.OnDrop(n.state)
	}
}

// Flush brings Storage up to what is applied now.
// Errors: [ErrStorage], [ErrParked], and that of ctx.
func (n *Node) Flush(ctx context.Context) error {
	return n.flusher.upTo(ctx, n.applied.Load())
}

// park stops applying for good and returns the error that tells of it.
func (n *Node) park(cause error) error {
	n.parkMu.Lock()
	defer n.parkMu.Unlock()
	if n.reason == nil {
		n.reason = parked(cause)
		close(n.parked)
		n.log.Error("node is parked", keyError, cause)
	}
	return n.reason
}

// parkedBy returns why the node is parked, or nil.
func (n *Node) parkedBy() error {
	select {
	case <-n.parked:
		n.parkMu.Lock()
		defer n.parkMu.Unlock()
		return n.reason
	default:
		return nil
	}
}

// notice wakes all who wait for a change.
type notice struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait returns a channel that is closed by the next fire.
func (c *notice) wait() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ch == nil {
		c.ch = make(chan struct{})
	}
	return c.ch
}

func (c *notice) fire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ch != nil {
		close(c.ch)
		c.ch = nil
	}
}
