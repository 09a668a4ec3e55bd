package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/store"
)

// members are what this node has heard of the others lately.
type members struct {
	mu     sync.Mutex // guards seen
	seen   map[string]seen
	silent map[string]bool // those that the leader has told to be out of contact; its own
}

type seen struct {
	status peerStatus
	at     time.Time
}

func (m *members) note(id string, s *peerStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil {
		m.seen = make(map[string]seen)
	}
	m.seen[id] = seen{*s, time.Now()}
}

func (m *members) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = nil
}

func (m *members) of(id string) (seen, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.seen[id]
	return s, ok
}

// recent returns what was heard of a node within the last seconds.
func (m *members) recent(id string) (peerStatus, bool) {
	s, ok := m.of(id)
	return s.status, ok && time.Since(s.at) < fresh
}

// Member is a node of the cluster as another node knows it.
type Member struct {
	ID       string
	Address  string // "" if unknown
	Voter    bool   // for sure: false while it catches up, and for an observer
	Observer bool
	Leader   bool

	// The following is known to the leader alone, of the others.
	Contact time.Duration // since it was last heard of; negative if it never was
	Applied uint64        // index of its state
	Offset  time.Duration // its wall clock less the leader's
	Error   time.Duration // by how much Offset may be off; 0 if it is unknown
	Drift   float64       // how fast Offset grows, s/s; 0 in the first minute
}

// Members returns who is in the cluster, by ID.
func (n *Node) Members() []Member {
	inst := n.inst.Load()
	if inst == nil {
		return nil
	}
	leader, _ := n.leader()
	meta := n.meta()
	voters := n.voters()
	var list []Member
	for _, s := range inst.raft.GetConfiguration().Configuration().Servers {
		m := Member{ID: string(s.ID), Voter: s.Suffrage == raft.Voter && voters[string(s.ID)], Leader: string(s.ID) == leader, Contact: -1}
		rec, _ := meta.Node(m.ID)
		m.Observer = rec.Observer
		if n.links != nil && m.ID == n.cfg.ID {
			m.Address = n.links.address
		} else if n.links != nil {
			m.Address = n.links.lookUp(m.ID)
		}
		switch heard, ok := n.members.of(m.ID); {
		case m.ID == n.cfg.ID:
			m.Contact, m.Applied = 0, n.applied.Load()
		case ok && n.Leading():
			m.Contact, m.Applied = time.Since(heard.at), heard.status.Applied
			m.Offset, m.Error, m.Drift = time.Duration(heard.status.Offset), time.Duration(heard.status.Error), heard.status.Drift
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// voters returns who votes by what is committed and applied here. Raft tells of what it
// has in its log: who goes by that takes one node away before the next one counts.
func (n *Node) voters() map[string]bool {
	n.mu.RLock()
	stored := n.configuration
	n.mu.RUnlock()
	voters := make(map[string]bool)
	if len(stored) == 0 {
		return voters
	}
	if _, members, err := decodeConfiguration(stored); err == nil { // we have encoded or read it
		for _, s := range members.Servers {
			voters[string(s.ID)] = s.Suffrage == raft.Voter
		}
	}
	return voters
}

// Remove takes a node out of the cluster for good, dead or alive. Its leases end.
// To come back it has to join with an empty folder.
//
// It is not done as long as of the voters that are left no majority was heard of
// lately: the cluster could not go on.
//
// Errors: [ErrNotMember]; and when ctx ends, why it was not done: [ErrNotLeader] if
// no leader takes the request. After an error the node may be out nevertheless.
func (n *Node) Remove(ctx context.Context, id string) error {
	for {
		changed := n.changes.wait()
		err := n.remove(ctx, id)
		if err == nil || errors.Is(err, ErrNotMember) || n.down() != nil {
			return err
		}
		switch ended := pause(ctx, changed); {
		case ended != nil && errors.Is(err, ErrNotLeader):
			return n.leaderless(ended)
		case ended != nil:
			return fmt.Errorf("%w: %w", err, ended)
		}
	}
}

func (n *Node) remove(ctx context.Context, id string) error {
	if n.Leading() {
		return n.expel(ctx, id)
	}
	leader, _ := n.leader()
	if leader == "" || n.links == nil {
		return ErrNotLeader
	}
	conn, err := n.links.dial(ctx, leader, streamJoin)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing is written any more
	reply, err := request(ctx, conn, &joinRequest{Remove: id})
	switch {
	case err != nil:
		return err
	case reply.Unknown:
		return fmt.Errorf("%w: %q", ErrNotMember, id)
	case !reply.Done:
		return fmt.Errorf("cluster: remove node %q: %s", id, reply.Text)
	}
	return nil
}

// expel removes a node, on the leader.
func (n *Node) expel(ctx context.Context, id string) error {
	if err := n.joining.enter(ctx); err != nil {
		return err
	}
	defer n.joining.leave()
	return n.expelNow(ctx, id)
}

// expelNow is expel while joining is held.
func (n *Node) expelNow(ctx context.Context, id string) error {
	inst := n.inst.Load()
	if inst == nil || !n.Leading() {
		return ErrNotLeader
	}
	members := inst.raft.GetConfiguration().Configuration()
	_, known := n.meta().Node(id)
	if !known && !isMember(members, id) {
		return fmt.Errorf("%w: %q", ErrNotMember, id)
	}
	if alive, left := n.alive(members, id); 2*alive <= left {
		return fmt.Errorf("cluster: remove node %q: of the %d voters left, %d are in contact: no majority", id, left, alive)
	}
	// The state first: a leader that removes itself cannot do it afterwards.
	if err := n.setCluster(ctx, &store.SetCluster{Remove: []string{id}}); err != nil {
		return err
	}
	if err := inst.remove(ctx, id); err != nil {
		return err
	}
	n.log.Info("node removed", keyPeer, id)
	return nil
}

// alive counts the voters without a node, and those of them that this node is in
// contact with.
func (n *Node) alive(members raft.Configuration, without string) (alive, voters int) {
	for _, s := range members.Servers {
		if s.Suffrage != raft.Voter || string(s.ID) == without {
			continue
		}
		voters++
		if _, ok := n.members.recent(string(s.ID)); ok || string(s.ID) == n.cfg.ID {
			alive++
		}
	}
	return alive, voters
}

// remove has raft take a server out of its configuration.
func (inst *instance) remove(ctx context.Context, id string) error {
	err := inst.await(ctx, func() raft.Future { return inst.raft.RemoveServer(raft.ServerID(id), 0, joinTime) })
	if err != nil {
		return fmt.Errorf("cluster: remove node %q: %w", id, err)
	}
	return nil
}

// meta returns the head of the state.
func (n *Node) meta() *store.Meta {
	n.mu.RLock()
	defer n.mu.RUnlock()
	m := n.state.Meta()
	return &m
}

// tendEvery is how often the leader looks after the cluster.
const tendEvery = 500 * time.Millisecond

// tend looks after the cluster while this node leads.
func (n *Node) tend(ctx context.Context, inst *instance) {
	ticker := time.NewTicker(tendEvery)
	defer ticker.Stop()
	for {
		if err := n.tendOnce(ctx, inst); err != nil && ctx.Err() == nil {
			n.log.Debug("cluster is not looked after now", keyError, err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// tellContact logs which nodes are out of contact, once each time.
func (n *Node) tellContact(members raft.Configuration) {
	was := n.members.silent
	n.members.silent = make(map[string]bool)
	for _, s := range members.Servers {
		id := string(s.ID)
		heard, ok := n.members.of(id)
		silent := id != n.cfg.ID && (ok && time.Since(heard.at) > fresh || !ok && n.ledFor() > fresh)
		n.members.silent[id] = silent
		if silent && !was[id] {
			n.log.Warn("node is out of contact", keyPeer, id)
		} else if !silent && was[id] {
			n.log.Info("node is in contact again", keyPeer, id)
		}
	}
}

func (n *Node) tendOnce(ctx context.Context, inst *instance) error {
	if err := n.joining.enter(ctx); err != nil {
		return err
	}
	defer n.joining.leave()
	members := inst.raft.GetConfiguration().Configuration()
	meta := n.meta()
	if set := n.news(meta, members); set != nil {
		if err := n.setCluster(ctx, set); err != nil {
			return err
		}
	}
	n.tellContact(members)
	return errors.Join(n.promote(ctx, inst, meta, members), n.removeDead(ctx, members), n.watchClock(ctx, members))
}

// news returns what the state should know and does not, or nil.
func (n *Node) news(meta *store.Meta, members raft.Configuration) *store.SetCluster {
	set := new(store.SetCluster)
	if meta.Cluster == "" {
		set.ID = uuid.NewString()
		set.Put = append(set.Put, n.founders...)
	}
	level := uint16(store.FormatLevel)
	for _, s := range members.Servers {
		rec, known := meta.Node(string(s.ID))
		now := rec
		if string(s.ID) == n.cfg.ID {
			now = n.record()
		} else if heard, ok := n.members.recent(string(s.ID)); ok && (!known || heard.Incarnation == rec.Incarnation) {
			now = store.NodeRecord{
				ID: string(s.ID), Incarnation: heard.Incarnation, Address: heard.Address, Level: heard.Level, Observer: heard.Observer,
			}
		}
		if now != rec && !slices.ContainsFunc(set.Put, func(r store.NodeRecord) bool { return r.ID == now.ID }) {
			set.Put = append(set.Put, now)
		}
		level = min(level, now.Level) // 0 for one that nothing is known of
	}
	if level > meta.Level {
		set.Level = level
		n.log.Info("format level rises", slog.Int(keyLevel, int(level)))
	}
	if set.ID == "" && set.Level == 0 && len(set.Put) == 0 {
		return nil
	}
	return set
}

// caughtUp is how many entries a node may lack to become a voter, and fresh how
// old its word for it may be.
const (
	caughtUp = 1024
	fresh    = 3 * time.Second
)

// promote makes voters of those that have caught up.
func (n *Node) promote(ctx context.Context, inst *instance, meta *store.Meta, members raft.Configuration) error {
	for _, s := range members.Servers {
		rec, known := meta.Node(string(s.ID))
		heard, ok := n.members.recent(string(s.ID))
		if s.Suffrage == raft.Voter || !known || rec.Observer || !ok || heard.Incarnation != rec.Incarnation ||
			heard.Applied+caughtUp < n.applied.Load() || heard.Applied == 0 {
			continue
		}
		err := inst.await(ctx, func() raft.Future { return inst.raft.AddVoter(s.ID, s.Address, 0, joinTime) })
		if err != nil {
			return fmt.Errorf("cluster: make node %q a voter: %w", s.ID, err)
		}
		n.log.Info("node votes", keyPeer, s.ID)
	}
	return nil
}

// removeDead takes out one node that this leader has not heard of for too long.
func (n *Node) removeDead(ctx context.Context, members raft.Configuration) error {
	bound := n.cfg.Cluster.RemoveDead
	if bound == 0 {
		return nil
	}
	for _, s := range members.Servers {
		since := *n.ledSince.Load() // before, others heard of it
		if heard, ok := n.members.of(string(s.ID)); ok && heard.at.After(since) {
			since = heard.at
		}
		alive, left := n.alive(members, string(s.ID))
		if string(s.ID) == n.cfg.ID || time.Since(since) < bound || left < 2 || 2*alive <= left {
			continue
		}
		n.log.Warn("node is dead, it is taken out", keyPeer, s.ID, keyBound, bound)
		return n.expelNow(ctx, string(s.ID))
	}
	return nil
}

// StepAside hands leadership over if this node leads and another voter can take it.
// Calls are held up meanwhile, and go to the new leader then. It returns once this
// node does not lead any more, or with why it still does.
//
// Raft's transfer may leave a gap without a leader; it is for a node that stops, and
// for one whose clock is wrong.
func (n *Node) StepAside(ctx context.Context) error {
	inst := n.inst.Load()
	if inst == nil || !n.Leading() || soleVoter(inst.raft.GetConfiguration().Configuration(), n.cfg.ID) {
		return nil
	}
	n.log.Info("handing leadership over")
	if err := inst.await(ctx, inst.raft.LeadershipTransfer); err != nil {
		return fmt.Errorf("cluster: hand leadership over: %w", err)
	}
	return nil
}
