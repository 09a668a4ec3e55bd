package cluster

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/store"
)

// The pauses between two tries to open a log that has latched.
const (
	reopenFirst = 100 * time.Millisecond
	reopenMost  = 5 * time.Second
)

// supervise runs one instance of raft after the other until the node stops or
// is parked.
func (n *Node) supervise(inst *instance) {
	for inst != nil {
		n.serve(inst)
		fault := inst.guard.failed()
		renew := errors.Is(fault, errTail)
		if fault != nil && !renew {
			n.ailment.begin(&StorageError{fault})
		}
		n.standDown(n.why(inst))
		if err := n.closeInstance(inst); err != nil {
			n.log.Error("log does not close", keyError, err)
		}
		if fault == nil || n.ending() {
			return
		}
		if renew {
			n.log.Debug("raft begins anew", keyError, fault)
			if inst, fault = n.open(); fault == nil {
				continue
			}
			n.ailment.begin(&StorageError{fault})
			n.standDown(&StorageError{fault})
		}
		n.log.Error("log fails, it is opened anew once it can be written", keyError, fault)
		if inst = n.reopen(); inst != nil {
			n.log.Info("log works again")
			n.ailment.end()
			n.batcher.refuse(ErrNotLeader) // no longer for the log's sake
		}
	}
}

// ending reports whether the node is to run no more instances.
func (n *Node) ending() bool {
	select {
	case <-n.stop:
		return true
	case <-n.parked:
		return true
	default:
		return false
	}
}

// why returns what callers get after inst.
func (n *Node) why(inst *instance) error {
	select {
	case <-n.stop:
		return ErrClosed
	default:
	}
	if err := n.parkedBy(); err != nil {
		return err
	}
	fault := inst.guard.failed()
	if errors.Is(fault, errTail) {
		return ErrNotLeader
	}
	return &StorageError{fault}
}

// serve follows the leadership of inst until it is over.
func (n *Node) serve(inst *instance) {
	ends := func() {} // what leading began
	defer func() { ends() }()
	if n.links != nil {
		ctx, stop := context.WithCancel(n.links.ctx)
		var looking sync.WaitGroup
		looking.Go(func() { n.lookOut(ctx, inst) }) // ends with ctx
		defer looking.Wait()
		defer stop()
	}
	for {
		select {
		case leads := <-inst.raft.LeaderCh():
			// The channel keeps the newest word alone: a true after a true is a
			// leadership lost and won again.
			n.standDown(ErrNotLeader)
			ends()
			ends = func() {}
			if leads && n.takeLead(inst) {
				ends = n.lead(inst)
			}
		case <-inst.leaders:
			_, id := inst.raft.LeaderWithID()
			if seen := n.cfg.Observe.Leader; seen != nil {
				seen(string(id), inst.raft.CurrentTerm())
			}
			n.changes.fire()
		case <-inst.guard.faulted:
			return
		case <-n.parked:
			return
		case <-n.stop:
			return
		}
	}
}

// takeLead begins to lead once all entries of earlier leaders are applied. It
// reports whether the node leads.
func (n *Node) takeLead(inst *instance) bool {
	term := inst.raft.CurrentTerm()
	if err := inst.raft.Barrier(0).Error(); err != nil {
		if !errors.Is(err, raft.ErrLeadershipLost) && !errors.Is(err, raft.ErrNotLeader) {
			n.log.Warn("barrier failed", keyTerm, term, keyError, err)
		}
		return false // another word comes by LeaderCh
	}
	if n.ending() || inst.raft.State() != raft.Leader || inst.raft.CurrentTerm() != term {
		return false // of a leadership lost and won again word comes too
	}
	begin := func() {
		now := time.Now()
		n.term.Store(term)
		n.ledSince.Store(&now)
		n.clocks.start(n.state.Meta(), term)
	}
	if !n.turn(true, begin) {
		return false
	}
	n.batcher.lead(inst.raft)
	n.log.Info("leading", slog.Uint64(keyTerm, term), slog.Uint64(keyIndex, n.applied.Load()))
	n.changes.fire()
	if n.links == nil {
		n.workers.Go(n.raiseLevel)
	}
	return true
}

// raiseLevel brings the state of a lone node to the format level of its build; that
// of several is raised once all can read it, see tend.
func (n *Node) raiseLevel() {
	if n.meta().Level >= store.FormatLevel {
		return
	}
	if err := n.setCluster(n.life, &store.SetCluster{Level: store.FormatLevel}); err != nil {
		n.log.Debug("format level is not raised now", keyError, err) // the next time it leads
	}
}

// turn tells the host that the node begins or ends to lead, after first. It
// reports false if the host's hook panicked, which parks the node.
func (n *Node) turn(leading bool, first func()) (ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ok = true
	defer n.contain("on lead", &ok)
	first()
	if n.leading.Swap(leading) != leading && n.cfg.OnLead != nil {
		n.cfg.OnLead(n.state, leading)
	}
	return ok
}

// standDown ends leading; calls get err from now on.
func (n *Node) standDown(err error) {
	n.batcher.refuse(err)
	led := n.leading.Load()
	n.turn(false, func() {})
	if led {
		n.log.Info("no longer leading")
	}
	n.changes.fire()
}

// reopen waits until the folder takes writes again and starts another instance.
// It returns nil if the node ends before, or if the log turns out to be damaged.
func (n *Node) reopen() *instance {
	for wait := reopenFirst; ; wait = min(2*wait, reopenMost) {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-n.stop:
			timer.Stop()
			return nil
		}
		err := probe(n.cfg.Dir)
		if err == nil {
			var inst *instance
			if inst, err = n.open(); err == nil {
				return inst
			}
		}
		if errors.Is(err, ErrDamaged) {
			n.standDown(n.park(err))
			return nil
		}
		n.log.Debug("log still fails", keyError, err)
	}
}
