package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/store"
)

// incarnationKey is the stable key of a random name that a folder has for life: a
// node that comes back with another one has lost its memory, and must not vote as
// if it had not.
var incarnationKey = []byte("escapement.incarnation")

// settle reads, or makes, the folder's incarnation, and reports whether the log
// is empty.
func (n *Node) settle() (empty bool, err error) {
	log, err := n.openLog()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if empty, err = isEmpty(log); err != nil {
		return false, err
	}
	empty = empty && n.state.Meta().Index == 0
	if n.state.Meta().Cluster == "" {
		if err := n.readFounders(log); err != nil {
			return false, err
		}
	}
	n.begun.Store(!empty)
	kept, err := log.Get(incarnationKey)
	if err != nil && !isNotFound(err) {
		return false, damaged("read incarnation: %v", err)
	}
	if len(kept) > 0 {
		n.incarnation = string(kept)
		return empty, nil
	}
	n.incarnation = uuid.NewString()
	if err := log.Set(incarnationKey, []byte(n.incarnation)); err != nil {
		return false, fmt.Errorf("cluster: write incarnation: %w", err)
	}
	return empty, nil
}

func isEmpty(log LogStore) (bool, error) {
	last, err := log.LastIndex()
	if err != nil {
		return false, damaged("read last index of the log: %v", err)
	}
	term, err := log.GetUint64(termKey)
	if err != nil && !isNotFound(err) {
		return false, damaged("read term of the log: %v", err)
	}
	return last == 0 && term == 0, nil // raft writes the key before it does anything
}

// isNotFound reports whether a stable store has no such key. Raft goes by the text
// too.
func isNotFound(err error) bool { return err.Error() == "not found" }

// foundPause is between two rounds of asking who is there.
const foundPause = 200 * time.Millisecond

// found finds out how an empty node begins: as one of the founders of a cluster,
// which then have to be in its first configuration, or as one that the cluster
// will take in, for which founders is nil.
//
// Only the lowest ID founds, and only after it has seen all the others, each as
// empty as itself: a node that has lost its folder can therefore not make a second
// cluster of those that are left.
func (n *Node) found(ctx context.Context) (founders []store.NodeRecord, err error) {
	cfg := n.cfg.Cluster
	if len(cfg.Peers) == 0 && len(cfg.Join) == 0 {
		return []store.NodeRecord{n.record()}, nil
	}
	for said := ""; ; {
		founders, waits, err := n.foundOnce(ctx)
		switch {
		case errors.Is(err, ErrDuplicateID), errors.Is(err, ErrOtherCluster):
			return nil, err
		case waits == "":
			return founders, nil
		case waits != said:
			said = waits
			n.waits.Store(&said)
			n.log.Info("not in a cluster yet", keyReason, waits)
			n.changes.fire()
		}
		timer := time.NewTimer(foundPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

// greeting is what came of dialing one of those who are asked.
type greeting struct {
	of   int
	conn net.Conn // nil after an error
	w    welcome
	err  error
}

// greet dials all at once, for some may be mute: a greeting comes of each. The
// returned function ends those whose greetings were not taken.
func (n *Node) greet(ctx context.Context, asked []Peer) (come <-chan greeting, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var dialing sync.WaitGroup
	out := make(chan greeting, len(asked)) // one of each
	for i, p := range asked {
		dialing.Go(func() { // ends with ctx
			conn, w, err := n.links.dialAddress(ctx, p.Address, p.ID, streamJoin)
			out <- greeting{i, conn, w, err}
		})
	}
	return out, func() {
		cancel()
		dialing.Wait()
		close(out)
		for g := range out {
			if g.conn != nil {
				_ = g.conn.Close() // nothing was asked by it
			}
		}
	}
}

// foundOnce asks everybody once. It returns what it waits for, "" if it is done.
func (n *Node) foundOnce(ctx context.Context) (founders []store.NodeRecord, waits string, err error) {
	cfg := n.cfg.Cluster
	asked := slices.DeleteFunc(slices.Clone(cfg.Peers), func(p Peer) bool { return p.ID == n.cfg.ID })
	for _, address := range cfg.Join {
		asked = append(asked, Peer{Address: address})
	}
	founders = []store.NodeRecord{n.record()}
	missing := make([]string, len(asked)) // in their order, whoever answers first
	come, end := n.greet(ctx, asked)
	defer end()
	for range asked {
		g := <-come
		address := asked[g.of].Address
		switch {
		case g.err != nil:
			missing[g.of] = fmt.Sprintf("%s (%v)", address, g.err)
			if errors.Is(g.err, ErrDuplicateID) || errors.Is(g.err, ErrOtherCluster) {
				err = g.err
			}
			continue
		case !g.w.Founded && !g.w.Member:
			founders = append(founders, store.NodeRecord{ID: g.w.From, Incarnation: g.w.Incarnation, Address: address, Level: g.w.Level})
			_ = g.conn.Close() // nothing was asked by it
			continue
		}
		text, done := "", g.w.Member
		if !done {
			text, done = n.askToJoin(ctx, g.conn, &g.w)
		}
		_ = g.conn.Close() // nothing is written any more
		if done {
			return nil, "", nil
		}
		missing[g.of] = fmt.Sprintf("%s (%s)", address, text)
	}
	if err != nil {
		return nil, err.Error(), err
	}
	if missing = slices.DeleteFunc(missing, func(m string) bool { return m == "" }); len(missing) > 0 {
		return nil, "waiting for " + strings.Join(missing, ", "), nil
	}
	if len(cfg.Join) > 0 {
		return nil, "nobody at the Join addresses is in a cluster", nil
	}
	lowest := slices.MinFunc(cfg.Peers, func(a, b Peer) int { return strings.Compare(a.ID, b.ID) })
	if lowest.ID != n.cfg.ID {
		return nil, fmt.Sprintf("node %q founds the cluster", lowest.ID), nil
	}
	return founders, "", nil
}

// askToJoin asks for membership over conn, which leads to the node of w, or at
// the leader that this node names.
func (n *Node) askToJoin(ctx context.Context, conn net.Conn, w *welcome) (text string, done bool) {
	if w.Leader == "" {
		return "it knows no leader", false
	}
	if w.Leader != w.From {
		to, _, err := n.links.dialAddress(ctx, w.LeaderAddress, w.Leader, streamJoin)
		if err != nil {
			return err.Error(), false
		}
		defer to.Close() //nolint:errcheck // nothing is written any more
		conn = to
	}
	reply, err := request(ctx, conn, &joinRequest{Level: store.FormatLevel, Observer: n.cfg.Cluster.Observer})
	if err != nil {
		return err.Error(), false
	}
	return reply.Text, reply.Done
}

// request asks the leader at the other end of conn.
func request(ctx context.Context, conn net.Conn, req *joinRequest) (joinReply, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	release := boundBy(ctx, conn)
	defer release()
	var reply joinReply
	if _, err := conn.Write(appendFrame(nil, frameJoin, req)); err != nil {
		return reply, err
	}
	return reply, expectFrame(conn, maxHello, frameJoined, &reply)
}

// joinTime bounds the leader's work for one that joins.
const joinTime = 10 * time.Second

// record is what the cluster is to know of this node.
func (n *Node) record() store.NodeRecord {
	return store.NodeRecord{
		ID: n.cfg.ID, Incarnation: n.incarnation, Address: n.links.address, Level: store.FormatLevel, Observer: n.cfg.Cluster.Observer,
	}
}

// begin opens the log of a node that was empty, once it knows how. It returns nil
// if the node ends before, or parks it if it can never be.
func (n *Node) begin() *instance {
	founders, err := n.found(n.life)
	if err == nil {
		n.founders = founders
		n.begun.Store(true)
		n.waits.Store(nil)
		var inst *instance
		if inst, err = n.open(); err == nil {
			return inst
		}
	}
	if !n.ending() {
		n.standDown(n.park(err))
	}
	return nil
}

// foundersKey is the stable key of the founders' records, kept by the one that
// founds until the state has them.
var foundersKey = []byte("escapement.founders")

// keepFounders makes the records durable before the log has its first entry.
func (n *Node) keepFounders(log LogStore) error {
	b, err := (&store.SetCluster{Put: n.founders}).MarshalMsg(nil)
	if err == nil {
		err = log.Set(foundersKey, b)
	}
	if err != nil {
		return fmt.Errorf("cluster: write founders: %w", err)
	}
	return nil
}

// readFounders reads them again after a restart.
func (n *Node) readFounders(log LogStore) error {
	var set store.SetCluster
	b, err := log.Get(foundersKey)
	switch {
	case err != nil && !isNotFound(err):
		return damaged("read founders: %v", err)
	case len(b) == 0:
		return nil
	}
	if _, err := set.UnmarshalMsg(b); err != nil {
		return damaged("read founders: %v", err)
	}
	n.founders = set.Put
	return nil
}

// knows reports whether a node is a member under the incarnation it has now.
func (n *Node) knows(meta *store.Meta, h *hello) bool {
	if rec, ok := meta.Node(h.From); ok {
		return rec.Incarnation == h.Incarnation
	}
	if meta.Cluster != "" || !n.begun.Load() {
		return false
	}
	return slices.ContainsFunc(n.founders, func(f store.NodeRecord) bool {
		return f.ID == h.From && f.Incarnation == h.Incarnation
	})
}

// expelled reports whether this node leads, and the other is not in the cluster, or
// not with the memory that it has.
func (n *Node) expelled(meta *store.Meta, h *hello) bool {
	inst := n.inst.Load()
	if inst == nil || !n.Leading() {
		return false
	}
	rec, known := meta.Node(h.From)
	return known && rec.Incarnation != h.Incarnation || !isMember(inst.raft.GetConfiguration().Configuration(), h.From)
}

// serveJoin answers one that asks to be let in. A connection that asks for
// nothing only wanted to know who is here.
func (n *Node) serveJoin(conn net.Conn, h *hello) {
	_ = conn.SetDeadline(time.Now().Add(joinTime)) // a failing deadline shows as a failing read
	var req joinRequest
	if err := expectFrame(conn, maxHello, frameJoin, &req); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(n.links.ctx, joinTime)
	defer cancel()
	var err error
	if req.Remove != "" {
		err = n.expel(ctx, req.Remove)
	} else {
		err = n.admit(ctx, store.NodeRecord{
			ID: h.From, Incarnation: h.Incarnation, Address: h.Address, Level: req.Level, Observer: req.Observer,
		})
	}
	reply := joinReply{Done: err == nil, Unknown: errors.Is(err, ErrNotMember)}
	if err != nil {
		reply.Text = err.Error()
	}
	_, _ = conn.Write(appendFrame(nil, frameJoined, &reply)) // the asker asks again
}

// admit makes a node a member that does not vote yet. One that is a member under
// another incarnation has lost what it knew: it is taken out first.
func (n *Node) admit(ctx context.Context, rec store.NodeRecord) error {
	if err := n.joining.enter(ctx); err != nil {
		return err
	}
	defer n.joining.leave()
	inst, meta := n.inst.Load(), n.meta()
	switch {
	case inst == nil || !n.Leading():
		return ErrNotLeader
	case meta.Cluster == "":
		return errors.New("cluster: it is being founded")
	case rec.Level < meta.Level:
		return fmt.Errorf("cluster: node %q reads format level %d, the cluster is at %d", rec.ID, rec.Level, meta.Level)
	}
	known, ok := meta.Node(rec.ID)
	members := inst.raft.GetConfiguration().Configuration()
	member := isMember(members, rec.ID)
	if ok && member && known.Incarnation == rec.Incarnation {
		return nil
	}
	if member {
		n.log.Warn("node comes back without its memory, it is taken in anew", keyPeer, rec.ID)
		if err := inst.remove(ctx, rec.ID); err != nil {
			return err
		}
	}
	if err := n.setCluster(ctx, &store.SetCluster{Remove: []string{rec.ID}}); err != nil {
		return err
	}
	err := inst.await(ctx, func() raft.Future {
		return inst.raft.AddNonvoter(raft.ServerID(rec.ID), raft.ServerAddress(rec.ID), 0, joinTime)
	})
	if err != nil {
		return fmt.Errorf("cluster: add node %q: %w", rec.ID, err)
	}
	// Last: whom the state knows takes part.
	if err := n.setCluster(ctx, &store.SetCluster{Put: []store.NodeRecord{rec}}); err != nil {
		return err
	}
	n.log.Info("node joins", keyPeer, rec.ID)
	return nil
}

func (n *Node) setCluster(ctx context.Context, set *store.SetCluster) error {
	res, err := n.Propose(ctx, store.Command{Kind: store.KindSetCluster, Cluster: set})
	if err == nil && res.Code != store.OK {
		err = fmt.Errorf("cluster: set cluster: %s", res.Text)
	}
	return err
}
