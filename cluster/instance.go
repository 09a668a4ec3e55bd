package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// instance is one life of raft over one opening of the log. A log that has
// latched ends it; the node goes on with another.
type instance struct {
	raft    *raft.Raft
	guard   *guard
	trans   *transport
	leaders chan raft.Observation // 1: the leader changed, see raft.LeaderWithID
	watch   *raft.Observer
	asked   *usage         // what raft has been asked for and has not answered
	nudges  sync.WaitGroup // that are being sent
}

// await asks raft for something and waits for the answer until ctx ends. Raft does
// not answer what it is asked for while it shuts down; so that waits for this.
func (inst *instance) await(ctx context.Context, ask func() raft.Future) error {
	if !inst.asked.begin() {
		return raft.ErrRaftShutdown
	}
	answer := make(chan error, 1) // 1: raft's answer is taken even if nobody waits
	go func() {                   // ends with raft's answer, which closeInstance awaits
		defer inst.asked.end()
		answer <- ask().Error()
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// open opens the log, checks that it fits the state, and starts raft on it.
func (n *Node) open() (*instance, error) {
	log, err := n.openLog()
	if err != nil {
		return nil, err
	}
	inst, err := n.start(log)
	if err != nil {
		_ = log.Close() // the error that led here says more
		return nil, err
	}
	n.inst.Store(inst)
	return inst, nil
}

func (n *Node) openLog() (log LogStore, err error) {
	switch {
	case n.cfg.OpenLog != nil:
		log, err = n.cfg.OpenLog()
	case n.mem != nil:
		log = n.mem
	default:
		log, err = openFolderLog(n.cfg.Dir, n.cfg.Log)
	}
	if err != nil {
		return nil, err
	}
	if n.cfg.wrapLog != nil {
		log = n.cfg.wrapLog(log)
	}
	return log, nil
}

func (n *Node) start(log LogStore) (inst *instance, err error) {
	g, err := newGuard(log, n.cfg.TrailingBytes)
	if err != nil {
		return nil, err
	}
	at := n.flusher.position()
	if err := g.check(at.index, at.term); err != nil {
		return nil, err
	}
	if err := g.reaches(n.applied.Load(), at.index); err != nil {
		return nil, err
	}
	trans := &transport{guard: g, lease: n.cfg.Lease, applied: n.applied.Load, done: make(chan struct{})}
	defer func() { // raft panics on what it cannot read or write
		if r := recover(); r != nil {
			inst, err = nil, fmt.Errorf("%w: start raft: %v", ErrDamaged, r)
		}
		if err != nil {
			_ = trans.Close() // it cannot fail; it has a goroutine
		}
		if cause := errors.Join(g.failed(), g.unread); err != nil && cause != nil {
			err = fmt.Errorf("cluster: start raft: %w", cause)
		}
	}()
	if n.links == nil {
		trans.Transport = newLoopback(raft.ServerAddress(n.cfg.ID))
	} else {
		trans.Transport = n.networkTransport()
	}
	conf := n.raftConfig()
	if err := n.bootstrap(g); err != nil {
		return nil, err
	}
	r, err := raft.NewRaft(conf, &fsm{n, g}, g, g, n.snaps, trans)
	if err != nil {
		return nil, fmt.Errorf("cluster: start raft: %w", err)
	}
	// What is not committed may be gone before raft has told its replicators.
	expects := func(index uint64) bool { return index > r.AppliedIndex() && index <= r.CommitIndex() }
	g.expects.Store(&expects)
	members := r.GetConfiguration().Configuration()
	if err := n.fits(members); err != nil {
		_ = r.Shutdown().Error() // it cannot fail
		return nil, err
	}
	inst = &instance{raft: r, guard: g, trans: trans, leaders: make(chan raft.Observation, 1), asked: newUsage()}
	inst.watch = raft.NewObserver(inst.leaders, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	})
	r.RegisterObserver(inst.watch)
	if soleVoter(members, n.cfg.ID) {
		trans.elect(conf.LocalID)
	}
	return inst, nil
}

// fits reports whether this node can be one of those that the log knows.
func (n *Node) fits(members raft.Configuration) error {
	switch {
	case n.links != nil && len(members.Servers) == 0: // they will come from a leader
		return nil
	case n.links == nil && !isMember(members, n.cfg.ID):
		return damaged("the files are not of one node: %q is not among %v", n.cfg.ID, members.Servers)
	case !isMember(members, n.cfg.ID):
		return fmt.Errorf("%w: %q is not among %v", ErrNotMember, n.cfg.ID, members.Servers)
	case n.links == nil && len(members.Servers) > 1:
		return fmt.Errorf("%w: the folder is of one node of %d, which does nothing without the others", ErrConflict, len(members.Servers))
	}
	return nil
}

// networkTransport is raft's own, over the links.
func (n *Node) networkTransport() raft.Transport {
	return raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: n.links.newLayer(), MaxPool: 3, MaxRPCsInFlight: 1, Timeout: 10 * n.cfg.Heartbeat,
		Logger: newRaftLogger(n.log), MsgpackUseNewTimeFormat: true,
	})
}

// bootstrap gives an empty log its first configuration: a lone node itself, one
// that founds a cluster all the founders. Others get theirs from a leader.
//
// It does what raft.BootstrapCluster does, which would refuse to go on where a crash
// has ended it after the first of its two writes.
func (n *Node) bootstrap(g *guard) error {
	last, err := g.LastIndex()
	if err != nil {
		return damaged("look for a log: %v", err)
	}
	if last > 0 || n.flusher.position().index > 0 || n.links != nil && len(n.founders) == 0 {
		return nil
	}
	members := []string{n.cfg.ID}
	if n.links != nil {
		members = members[:0]
		for _, f := range n.founders {
			members = append(members, f.ID)
		}
		if err := n.keepFounders(g.inner); err != nil {
			return err
		}
	}
	var first raft.Configuration
	for _, id := range members {
		first.Servers = append(first.Servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id), Suffrage: raft.Voter})
	}
	term, err := g.GetUint64(termKey)
	if err != nil && !isNotFound(err) {
		return damaged("read term of the log: %v", err)
	}
	if term == 0 {
		term = 1
		if err := g.SetUint64(termKey, term); err != nil {
			return fmt.Errorf("cluster: bootstrap: %w", err)
		}
	}
	entry := &raft.Log{Index: 1, Term: term, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(first)}
	if err := g.StoreLog(entry); err != nil {
		return fmt.Errorf("cluster: bootstrap: %w", err)
	}
	return nil
}

func (n *Node) raftConfig() *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(n.cfg.ID)
	c.HeartbeatTimeout = n.cfg.Heartbeat
	c.ElectionTimeout = n.cfg.Election
	c.LeaderLeaseTimeout = n.cfg.Lease
	c.Logger = newRaftLogger(n.log)
	c.NoLegacyTelemetry = true
	c.MaxAppendEntries = 16 // an entry of ours holds a batch
	c.ShutdownOnRemove = false

	// Storage is the snapshot, and the flusher truncates the log: raft does
	// neither by itself.
	c.NoSnapshotRestoreOnStart = true
	c.SnapshotInterval = 365 * 24 * time.Hour
	c.SnapshotThreshold = math.MaxUint64
	c.TrailingLogs = math.MaxUint64
	return c
}

// reaches reports whether the log has what the state has applied. A log that was
// reopened after a fault may have lost its end only if the disk lied.
func (g *guard) reaches(applied, durable uint64) error {
	last, err := g.inner.LastIndex()
	if err != nil {
		return damaged("read last index of the log: %v", err)
	}
	if applied > max(last, durable) {
		return damaged("entries up to %d are applied, but the log ends at %d", applied, last)
	}
	return nil
}

// close waits for what is in flight, ends raft and closes the log. The batcher
// must refuse.
//
// raft forgets the entries whose turn to be applied had not come when it shuts
// down, and their senders would wait for ever: so they are waited for first.
// While raft runs each has its end, be it a lost leadership.
func (n *Node) closeInstance(inst *instance) error {
	<-n.batcher.idle()
	if n.links != nil {
		_ = inst.trans.Close() // it cannot fail; a frozen peer would hold up all that follows
	}
	<-inst.asked.close()
	inst.nudges.Wait()
	inst.raft.DeregisterObserver(inst.watch)
	_ = inst.raft.Shutdown().Error() // it cannot fail
	n.inst.Store(nil)
	if err := inst.guard.inner.Close(); err != nil {
		return fmt.Errorf("cluster: close log: %w", err)
	}
	return nil
}
