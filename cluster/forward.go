package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// remote is a follower's connection to the leader, through which its callers'
// commands go. A lost connection leaves what was asked for in the dark.
type remote struct {
	node   *Node
	conn   net.Conn
	leader string
	closed chan struct{} // closed once err is set

	out *frames

	mu      sync.Mutex // guards all below
	err     error
	next    uint64
	pending map[uint64]chan *callsReply

	clock offset // of this node's wall clock against the leader's
}

func newRemote(n *Node, conn net.Conn, leader string) *remote {
	return &remote{
		node: n, conn: conn, leader: leader, out: newFrames(conn), closed: make(chan struct{}), pending: make(map[uint64]chan *callsReply),
	}
}

// fail ends the connection; all that is pending gets no answer.
func (r *remote) fail(err error) {
	r.mu.Lock()
	first := r.err == nil
	if first {
		r.err = err
		close(r.closed)
	}
	r.mu.Unlock()
	if first {
		_ = r.conn.Close() // both its users find out
	}
}

// send writes a frame.
func (r *remote) send(kind frameKind, body marshaler) error {
	err := r.out.send(kind, body)
	if err != nil {
		r.fail(err)
	}
	return err
}

// ask sends a request. Its answer comes by the channel, unless r is closed before.
func (r *remote) ask(req *callsRequest) (<-chan *callsReply, error) {
	answer := make(chan *callsReply, 1)
	r.mu.Lock()
	if r.err != nil {
		defer r.mu.Unlock()
		return nil, r.err
	}
	r.next++
	req.ID = r.next
	r.pending[req.ID] = answer
	r.mu.Unlock()
	return answer, r.send(frameCalls, req)
}

// silence is how long nothing may come from a node that sends its status, or answers
// to one, several times a second.
const silence = 10 * time.Second

// hearFrame reads a frame from such a node.
func hearFrame(conn net.Conn) (frameKind, []byte, error) {
	_ = conn.SetReadDeadline(time.Now().Add(silence)) // a failing deadline shows as a failing read
	return readFrame(conn, maxFrame)
}

// read takes answers until the connection ends.
func (r *remote) read() {
	for {
		kind, body, err := hearFrame(r.conn)
		if err != nil {
			r.fail(err)
			return
		}
		switch kind {
		case frameAnswers:
			reply := new(callsReply)
			if err = parseFrame(body, reply); err == nil {
				r.mu.Lock()
				answer := r.pending[reply.ID]
				delete(r.pending, reply.ID)
				r.mu.Unlock()
				if answer != nil {
					answer <- reply
				}
			}
		case frameStatusReply:
			var s statusReply
			if err = parseFrame(body, &s); err == nil {
				r.clock.add(s.Sent, s.Now, r.node.cfg.Clock.Now().UnixNano())
			}
		default:
			err = fmt.Errorf("%w: of kind %d", errFrame, kind)
		}
		if err != nil {
			r.fail(err)
			return
		}
	}
}

// tellEvery is how often a node tells the leader of itself, at least: well within
// fresh and silence, however slow the heartbeats are.
const tellEvery = time.Second

// tell sends this node's status until the connection ends.
func (r *remote) tell() {
	ticker := time.NewTicker(min(r.node.cfg.Heartbeat, tellEvery))
	defer ticker.Stop()
	for {
		offset, bound := r.clock.best()
		me := r.node.record()
		s := peerStatus{
			Incarnation: me.Incarnation, Applied: r.node.applied.Load(), Level: me.Level, Address: me.Address, Observer: me.Observer,
			Sent: r.node.cfg.Clock.Now().UnixNano(), Offset: offset, Error: bound, Drift: r.clock.drift(time.Now()),
		}
		if r.send(frameStatus, &s) != nil {
			return
		}
		select {
		case <-ticker.C:
		case <-r.closed:
			return
		}
	}
}

// follow keeps a connection to whoever leads, as long as that is another node.
func (n *Node) follow() {
	for {
		changed := n.changes.wait()
		if n.ending() {
			return
		}
		leader, _ := n.leader()
		if leader == "" || leader == n.cfg.ID {
			timer := time.NewTimer(lonely)
			select {
			case <-changed:
			case <-timer.C:
				if leader == "" && n.begun.Load() {
					n.refused(n.askAround())
				}
			case <-n.stop:
			case <-n.parked:
			}
			timer.Stop()
			continue
		}
		conn, err := n.links.dial(n.life, leader, streamCalls)
		if err != nil {
			n.refused(err)
			_ = pause(n.life, changed) // its end is seen above
			continue
		}
		n.refused(nil)
		n.through(newRemote(n, conn, leader))
	}
}

// through sends this node's calls through r as long as its node leads. While nobody
// is known to, none are sent, but those that were sent may still be answered.
func (n *Node) through(r *remote) {
	var own sync.WaitGroup
	own.Go(r.read)
	own.Go(r.tell)
	for over := false; !over; {
		changed := n.changes.wait()
		switch leader, _ := n.leader(); {
		case n.ending() || leader != "" && leader != r.leader:
			over = true
			continue
		case leader == "":
			n.batcher.follow(nil)
		case n.batcher.follow(r):
			n.changes.fire() // calls that wait for a leader may come
		}
		timer := time.NewTimer(lonely)
		select {
		case <-changed:
		case <-r.closed:
			over = true
		case <-timer.C: // of one that was removed nothing changes
			leader, _ := n.leader()
			over = leader == ""
		case <-n.stop:
		case <-n.parked:
		}
		timer.Stop()
	}
	n.batcher.follow(nil)
	r.fail(errors.New("cluster: another node leads"))
	own.Wait()
}

// lonely is after how long without a leader the others are asked whether this node is
// still one of them: nobody calls on one that was removed.
const lonely = 2 * time.Second

// askAround returns why this node is not in the cluster, if somebody knows.
func (n *Node) askAround() error {
	inst := n.inst.Load()
	if inst == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(n.life, handshakeTime)
	defer cancel()
	var asked sync.WaitGroup
	servers := inst.raft.GetConfiguration().Configuration().Servers
	answers := make([]error, len(servers))
	for i, s := range servers {
		if string(s.ID) != n.cfg.ID {
			asked.Go(func() { answers[i] = n.ask(ctx, string(s.ID)) })
		}
	}
	asked.Wait()
	return cmp.Or(answers...)
}

// ask asks a node, and the one that leads by its word, whether this one is expelled.
// It asks as one that joins does, so that they hear where this node is: one that has
// moved, and never votes, would wait for a leader who looks for it elsewhere.
func (n *Node) ask(ctx context.Context, id string) error {
	for _, address := range n.links.addresses(id) {
		conn, w, err := n.links.dialAddress(ctx, address, id, streamJoin)
		if errors.Is(err, ErrDuplicateID) {
			return err
		} else if err != nil {
			continue
		}
		_ = conn.Close() // it has said what there is to say
		if w.Leader != w.From && w.Leader != "" {
			if conn, w, err = n.links.dialAddress(ctx, w.LeaderAddress, w.Leader, streamJoin); err != nil {
				continue
			}
			_ = conn.Close()
		}
		if cluster := n.meta().Cluster; w.Stranger && w.Cluster == cluster {
			return fmt.Errorf("%w: it was removed from cluster %s, and can come back with an empty folder", ErrNotMember, cluster)
		}
		return nil
	}
	return nil
}

// refused notes why the others do not talk to this node.
func (n *Node) refused(err error) {
	switch {
	case errors.Is(err, ErrDuplicateID), errors.Is(err, ErrNotMember):
		n.standDown(n.park(err))
	case errors.Is(err, ErrOtherCluster):
		text := err.Error()
		n.waits.Store(&text)
	case err == nil:
		n.waits.Store(nil)
	}
}

// follow makes r the way of calls while this node does not lead; nil is none. It
// reports whether that is news.
func (b *batcher) follow(r *remote) (news bool) {
	b.mu.Lock()
	news = b.remote != r
	b.remote = r
	var waiting []*waiter
	if r == nil && b.raft == nil {
		waiting = append(b.reports.empty(), b.adding.empty()...)
	}
	b.mu.Unlock()
	for _, w := range waiting {
		w.done <- outcome{err: ErrNotLeader}
	}
	if news {
		b.poke()
	}
	return news
}

// forward sends an entry's calls to the leader; the turn is held. The returned
// function waits for the answer and hands it out.
func (b *batcher) forward(bt *batch, r *remote) (settle func()) {
	req := &callsRequest{Calls: make([][]byte, len(bt.waiters))}
	at := 0
	var fault error
	level := b.node.meta().Level // the leader's build may read no higher one
	for i, w := range bt.waiters {
		body := store.Batch{Level: level, Commands: bt.body.Commands[at : at+len(w.cmds)]}
		at += len(w.cmds)
		if req.Calls[i], fault = store.EncodeBatch(make([]byte, 0, w.size+64), &body); fault != nil {
			break
		}
	}
	var answer <-chan *callsReply
	if fault == nil {
		answer, fault = r.ask(req)
	}
	if fault != nil {
		return func() { b.settle(bt, unknown(fault)) }
	}
	return func() {
		select {
		case reply := <-answer:
			b.give(bt, reply)
		case <-r.closed:
			select { // the answer may have come just before
			case reply := <-answer:
				b.give(bt, reply)
			default:
				b.settle(bt, unknown(r.err))
			}
		}
	}
}

// give hands the leader's answers to the callers of a forwarded entry.
func (b *batcher) give(bt *batch, reply *callsReply) {
	if len(reply.Outcomes) != len(bt.waiters) {
		b.settle(bt, unknown(errFrame))
		return
	}
	raise(&b.node.promised, reply.Index)
	b.mu.Lock()
	bt.claimed = true // settle answers nobody
	b.mu.Unlock()
	for i, w := range bt.waiters {
		out := &reply.Outcomes[i]
		err := out.err()
		if err == nil && len(out.Results) != len(w.cmds) {
			err = unknown(errFrame)
		}
		w.done <- outcome{results: out.Results, err: err}
	}
	b.settle(bt, nil)
}

// raise makes v at least n.
func raise(v *atomic.Uint64, n uint64) {
	for {
		have := v.Load()
		if have >= n || v.CompareAndSwap(have, n) {
			return
		}
	}
}
