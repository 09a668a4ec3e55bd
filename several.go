package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/internal/session"
	"github.com/escapement-go/scheduler/internal/telemetry"
	"github.com/escapement-go/scheduler/store"
)

// WithCluster makes the scheduler one node of several, which share one state and
// all work: any of them takes any call, each of them executes runs of the tasks it
// has handlers for, and every acknowledged call outlives the loss of a minority of
// them. It needs [WithDataDir]. All nodes of a cluster should declare the same
// schedules and queues.
//
// The ID of c may be left out if [WithNodeID] or the folder says it.
func WithCluster(c cluster.Config) Option {
	return option(func(o *config) {
		if c.ID != "" {
			o.fault(checkName("scheduler: node ID", c.ID))
		}
		o.cluster = &c
	})
}

// checkCluster settles what other options say of the cluster too.
func (c *config) checkCluster() {
	if c.cluster == nil {
		return
	}
	switch {
	case c.nodeID == "":
		c.nodeID = c.cluster.ID
	case c.cluster.ID != "" && c.cluster.ID != c.nodeID:
		c.fault(fmt.Errorf("scheduler: node ID is %q and, by WithCluster, %q: %w", c.nodeID, c.cluster.ID, ErrInvalid))
	}
	if err := c.cluster.Validate(c.nodeID); err != nil {
		c.fault(fmt.Errorf("scheduler: %w: %w", ErrInvalid, err))
	}
	if c.dir == "" && c.disk.log == nil {
		c.fault(fmt.Errorf("scheduler: a node of several needs WithDataDir: one that forgets could undo what the others have promised: %w", ErrInvalid))
	}
}

// A Node is a member of the cluster, as the node that is asked knows it.
type Node struct {
	ID       string
	Address  string // "" if unknown, and on a lone node
	Voter    bool   // it counts for the majority; false while it catches up, and for an observer
	Leader   bool
	Observer bool

	// Contact is since when the leader has heard of it, negative if it never has.
	// ClockOffset is how far its wall clock is ahead of the leader's, give or take
	// ClockError, which is 0 if it is unknown, and ClockDrift by how many seconds a
	// second that grows, 0 in the first minute. Only the leader knows these.
	Contact     time.Duration
	ClockOffset time.Duration
	ClockError  time.Duration
	ClockDrift  float64
}

// Nodes returns the nodes of the cluster, by ID.
func (s *Scheduler) Nodes(ctx context.Context) ([]Node, error) {
	if err := s.reading(ctx); err != nil {
		return nil, err
	}
	var list []Node
	for _, m := range s.node.Members() {
		list = append(list, Node{
			ID: m.ID, Address: m.Address, Voter: m.Voter, Leader: m.Leader, Observer: m.Observer,
			Contact: m.Contact, ClockOffset: m.Offset, ClockError: m.Error, ClockDrift: m.Drift,
		})
	}
	return list, nil
}

// nodeGauges tells what the leader knows of the others.
func (s *Scheduler) nodeGauges() []telemetry.NodeGauge {
	if !s.node.Leading() {
		return nil
	}
	var gauges []telemetry.NodeGauge
	for _, m := range s.node.Members() {
		if m.ID != s.cfg.nodeID && m.Contact >= 0 {
			gauges = append(gauges, telemetry.NodeGauge{Node: m.ID, Contact: m.Contact, Offset: m.Offset, Drift: m.Drift, Clock: m.Error > 0})
		}
	}
	return gauges
}

// RemoveNode takes a node out of the cluster for good, dead or alive; the runs it
// holds are given to others. It can come back with an empty folder.
//
// Errors: [ErrNotFound]; [ErrNoLeader]; that of ctx.
func (s *Scheduler) RemoveNode(ctx context.Context, id string) error {
	if err := s.check(); err != nil {
		return err
	}
	err := s.node.Remove(ctx, id)
	if errors.Is(err, cluster.ErrNotMember) {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("scheduler: remove node %q: %w", id, callError(err))
	}
	return nil
}

// contact keeps the pool of one node of several attached to whoever leads.
type contact struct {
	s      *Scheduler
	server *session.Server
	client *session.Client // nil on a node that executes nothing
	turned chan struct{}   // 1: the leader may have changed

	term atomic.Uint64 // in which this node leads; 0 if it does not

	mu    sync.Mutex         // guards both below
	reign context.Context    //nolint:containedctx // ends with this node's leadership
	end   context.CancelFunc // of reign; nil while this node does not lead
}

func (s *Scheduler) newContact() *contact {
	k := &contact{s: s, turned: make(chan struct{}, 1)}
	k.server = session.NewServer(session.ServerConfig{
		Dispatcher: s.dispatch, Term: k.term.Load, View: func(look func(*store.State)) { s.node.View(look) },
		Settle: s.settle, Now: s.cfg.clock.Now, Logger: s.cfg.logger,
	})
	return k
}

// lead follows this node's leadership, under the state's lock.
func (k *contact) lead(term uint64) {
	k.mu.Lock()
	if k.end != nil {
		k.end()
		k.reign, k.end = nil, nil
	}
	if term != 0 {
		k.reign, k.end = context.WithCancel(context.Background()) //nolint:forbidigo // ended by the next call at the latest: a node that closes leads no more
	}
	k.mu.Unlock()
	k.term.Store(term)
	k.turn()
}

func (k *contact) turn() {
	select {
	case k.turned <- struct{}{}:
	default:
	}
}

// serve is the leader's end of another node's worker session.
func (k *contact) serve(ctx context.Context, conn net.Conn, from string) {
	k.mu.Lock()
	reign := k.reign
	k.mu.Unlock()
	if reign == nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(reign, cancel) //nolint:contextcheck // it ends with either
	defer stop()
	if err := k.server.Serve(ctx, conn); err != nil {
		k.s.cfg.logger.Debug("worker session ends", keyPeer, from, keyError, err)
	}
}

// Keys of log lines.
const (
	keyPeer    = "peer"
	keyError   = "error"
	keyTrigger = "trigger"
)

// attend attaches the pool to the leader until ctx ends: to the dispatcher itself
// while this node leads.
func (k *contact) attend(ctx context.Context) {
	s := k.s
	for ctx.Err() == nil {
		if k.term.Load() == 0 {
			k.away(ctx)
			continue
		}
		s.pool.StartUntil(time.Time{})
		s.attachPool()
		for k.term.Load() != 0 && ctx.Err() == nil {
			select {
			case <-k.turned:
			case <-ctx.Done():
			}
		}
		s.dispatch.Detach(s.session)
	}
}

// away keeps the pool attached to another node for as long as this one does not
// lead.
func (k *contact) away(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var kept sync.WaitGroup
	kept.Go(func() { k.client.Keep(ctx) })
	for k.term.Load() == 0 && ctx.Err() == nil {
		select {
		case <-k.turned:
			k.client.Redial()
		case <-ctx.Done():
		}
	}
	cancel()
	kept.Wait()
}

// openContact makes the worker's end, once the pool and the session are there.
func (s *Scheduler) openContact() {
	s.contact.client = session.NewClient(session.ClientConfig{
		Dial:    s.node.DialLeader,
		Session: func() uint64 { return s.session },
		Pool:    s.pool,
		Tasks:   slices.Sorted(maps.Keys(s.cfg.handlers)),
		Slots:   s.cfg.slots - s.pool.Reserved(),
		Now:     s.cfg.clock.Now,
		Logger:  s.cfg.logger,
	})
}

// stepAside ends the granting of runs to this node's pool and hands leadership
// over, so that the others go on without a pause while this node drains.
func (s *Scheduler) stepAside(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
	defer cancel()
	if k := s.contact; k.client != nil {
		retired := make(chan struct{})
		go func() { // ends with ctx, awaited below
			defer close(retired)
			_ = k.client.Retire(ctx) // what it is granted nevertheless, the pool hands back
		}()
		defer func() { cancel(); <-retired }()
		if k.term.Load() == 0 {
			<-retired
		} else {
			s.dispatch.Retire(s.session)
			s.awaitGrants(ctx)
		}
	}
	if err := s.node.StepAside(ctx); err != nil {
		s.cfg.logger.Warn("leadership is not handed over", keyError, err)
	}
}

// undeliverable is how long a node that stops waits for somebody to take the last
// reports.
const undeliverable = 10 * time.Second

// drain ends the pool. Results that nobody has taken, because there is no leader, are
// given up once no handler runs any more: of nodes that all stop, the last ones find no
// majority. Their runs are executed again.
func (s *Scheduler) drain(ctx context.Context) error {
	if s.contact == nil {
		return s.pool.Drain(ctx)
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { // ends with ctx, awaited below
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for since := time.Now(); ; {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			if s.node.Status().LeaderID != "" || s.pool.Running() > 0 {
				since = time.Now()
			}
			if time.Since(since) >= undeliverable {
				giveUp(ErrNoLeader)
			}
		}
	})
	err := s.pool.Drain(ctx)
	giveUp(nil)
	watching.Wait()
	return err
}

// stepTimeout bounds what a node that stops does before it drains.
const stepTimeout = 2 * time.Second

// reading returns an error unless this node may be asked; the state then shows
// everything that the node's own calls have been answered for, or, if ctx asks for
// it, that any node's have.
func (s *Scheduler) reading(ctx context.Context) error {
	if err := s.check(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if ctx.Value(linearizable{}) != nil {
		return callError(s.node.Confirmed(ctx))
	}
	return callError(s.node.Promised(ctx))
}

type linearizable struct{}

// Linearizable returns a context with which queries of any node show everything
// that was acknowledged by any node before. They need a leader and cost a round
// trip to it and from it to a majority. Otherwise queries are answered from the
// node's own state, which shows all that its own calls were acknowledged for and
// may lag behind what others' were.
func Linearizable(ctx context.Context) context.Context {
	return context.WithValue(ctx, linearizable{}, true)
}
