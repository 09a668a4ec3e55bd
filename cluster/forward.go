package cluster

import (
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

	wmu sync.Mutex // serialises frames
	buf []byte     // guarded by wmu

	mu      sync.Mutex // guards all below
	err     error
	next    uint64
	pending map[uint64]chan *callsReply

	clock offset // of this node's wall clock against the leader's
}

// writeTime bounds the writing of a frame: a peer that takes nothing for that long
// is given up.
const writeTime = 10 * time.Second

func newRemote(n *Node, conn net.Conn, leader string) *remote {
	return &remote{node: n, conn: conn, leader: leader, closed: make(chan struct{}), pending: make(map[uint64]chan *callsReply)}
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
	r.wmu.Lock()
	defer r.wmu.Unlock()
	r.buf = appendFrame(r.buf[:0], kind, body)
	_ = r.conn.SetWriteDeadline(time.Now().Add(writeTime)) // a failing deadline shows as a failing write
	_, err := r.conn.Write(r.buf)
	if cap(r.buf) > maxKeptFrame {
		r.buf = nil
	}
	if err != nil {
		r.fail(err)
	}
	return err
}

// maxKeptFrame is how large a buffer is kept for the next frame.
const maxKeptFrame = 256 << 10

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

// read takes answers until the connection ends.
func (r *remote) read() {
	for {
		kind, body, err := readFrame(r.conn, maxFrame)
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

// tell sends this node's status until the connection ends.
func (r *remote) tell() {
	ticker := time.NewTicker(r.node.cfg.Heartbeat)
	defer ticker.Stop()
	for {
		offset, bound := r.clock.best()
		s := peerStatus{
			Applied: r.node.applied.Load(), Level: store.FormatLevel, Address: r.node.links.address,
			Sent: r.node.cfg.Clock.Now().UnixNano(), Offset: offset, Error: bound,
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
			select {
			case <-changed:
			case <-n.stop:
			case <-n.parked:
			}
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

// through sends this node's calls through r for as long as its node leads.
func (n *Node) through(r *remote) {
	n.batcher.follow(r)
	n.changes.fire()
	var own sync.WaitGroup
	own.Go(r.read)
	own.Go(r.tell)
	for over := false; !over; {
		changed := n.changes.wait()
		leader, _ := n.leader()
		if over = leader != "" && leader != r.leader || n.ending(); over {
			break
		}
		select {
		case <-changed:
		case <-r.closed:
			over = true
		case <-n.stop:
			over = true
		case <-n.parked:
			over = true
		}
	}
	n.batcher.follow(nil)
	r.fail(errors.New("cluster: another node leads"))
	own.Wait()
}

// refused notes why the others do not talk to this node.
func (n *Node) refused(err error) {
	switch {
	case errors.Is(err, ErrDuplicateID):
		n.standDown(n.park(err))
	case errors.Is(err, ErrOtherCluster):
		text := err.Error()
		n.waits.Store(&text)
	case err == nil:
		n.waits.Store(nil)
	}
}

// follow makes r the way of calls while this node does not lead; nil is none.
func (b *batcher) follow(r *remote) {
	b.mu.Lock()
	b.remote = r
	var waiting []*waiter
	if r == nil && b.raft == nil {
		waiting = append(b.reports.empty(), b.adding.empty()...)
	}
	b.mu.Unlock()
	for _, w := range waiting {
		w.done <- outcome{err: ErrNotLeader}
	}
	b.poke()
}

// forward sends an entry's calls to the leader; the turn is held. The returned
// function waits for the answer and hands it out.
func (b *batcher) forward(bt *batch, r *remote) (settle func()) {
	req := &callsRequest{Calls: make([][]byte, len(bt.waiters))}
	at := 0
	var fault error
	for i, w := range bt.waiters {
		body := store.Batch{Level: store.FormatLevel, Commands: bt.body.Commands[at : at+len(w.cmds)]}
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

// maxServing bounds the requests of one follower that the leader works on at a time.
const maxServing = 8

// serveCalls answers a follower until its connection ends.
func (n *Node) serveCalls(conn net.Conn, from string) {
	var (
		wmu  sync.Mutex
		work sync.WaitGroup
		slot = make(chan struct{}, maxServing)
	)
	reply := func(kind frameKind, body marshaler) {
		b := appendFrame(nil, kind, body)
		wmu.Lock()
		defer wmu.Unlock()
		_ = conn.SetWriteDeadline(time.Now().Add(writeTime)) // a failing deadline shows as a failing write
		if _, err := conn.Write(b); err != nil {
			_ = conn.Close() // the reading below ends
		}
	}
	for {
		kind, body, err := readFrame(conn, maxFrame)
		if err != nil {
			break
		}
		switch kind {
		case frameStatus:
			var s peerStatus
			if err = parseFrame(body, &s); err == nil {
				n.members.note(from, &s)
				n.links.hear(from, s.Address)
				reply(frameStatusReply, &statusReply{Sent: s.Sent, Now: n.cfg.Clock.Now().UnixNano()})
			}
		case frameCalls:
			req := new(callsRequest)
			if err = parseFrame(body, req); err == nil {
				slot <- struct{}{}
				work.Go(func() {
					reply(frameAnswers, n.serveRequest(req))
					<-slot
				})
			}
		default:
			err = fmt.Errorf("%w: of kind %d", errFrame, kind)
		}
		if err != nil {
			n.log.Warn("connection of a node ends", keyPeer, from, keyError, err)
			break
		}
	}
	_ = conn.Close() // ends what is still being written
	work.Wait()
}

// serveRequest commits a follower's calls, each as a call of its own.
func (n *Node) serveRequest(req *callsRequest) *callsReply {
	reply := &callsReply{ID: req.ID, Outcomes: make([]callOutcome, len(req.Calls))}
	if req.Read {
		index, err := n.confirm()
		reply.Index, reply.Failure = index, failureOf(err)
		return reply
	}
	if len(req.Ask) > 0 {
		answer, err := n.answer(req.Ask)
		reply.Answer, reply.Failure = answer, failureOf(err)
		return reply
	}
	waiters := make([]*waiter, len(req.Calls))
	for i, call := range req.Calls {
		body, err := store.DecodeBatch(call)
		if err == nil {
			w := n.batcher.pool.Get().(*waiter)
			w.cmds = body.Commands
			if err = n.batcher.enqueue(w, true); err == nil {
				waiters[i] = w
			}
		}
		reply.Outcomes[i].fail(err)
	}
	for i, w := range waiters {
		if w == nil {
			continue
		}
		out := <-w.done // it comes: every entry has its fate, and those that wait are refused
		n.batcher.release(w)
		reply.Outcomes[i].Results = out.results
		reply.Outcomes[i].fail(out.err)
	}
	reply.Index = n.applied.Load()
	return reply
}

// The errors of calls as they are sent.
const (
	failNone uint8 = iota
	failUnknown
	failNotLeader
	failOverloaded
	failTooLarge
	failStorage
	failOther // nothing happened, and trying again is of no use
)

func failureOf(err error) uint8 {
	switch {
	case err == nil:
		return failNone
	case errors.Is(err, ErrOutcomeUnknown):
		return failUnknown
	case errors.Is(err, ErrNotLeader), errors.Is(err, ErrClosed), errors.Is(err, ErrParked):
		return failNotLeader // another node will lead
	case errors.Is(err, ErrOverloaded):
		return failOverloaded
	case errors.Is(err, ErrTooLarge):
		return failTooLarge
	case errors.Is(err, ErrStorage):
		return failStorage
	default:
		return failOther
	}
}

func (o *callOutcome) fail(err error) {
	o.Failure = failureOf(err)
	if err == nil {
		return
	}
	o.Text = err.Error()
	var over *OverloadedError
	var large *TooLargeError
	switch {
	case errors.As(err, &over):
		o.Text, o.Retry = over.What, int64(over.RetryAfter)
	case errors.As(err, &large):
		o.Retry = int64(large.Bytes)
	}
}

// err makes the error again.
func (o *callOutcome) err() error {
	switch o.Failure {
	case failNone:
		return nil
	case failUnknown:
		return unknown(errors.New(o.Text))
	case failNotLeader:
		return ErrNotLeader
	case failOverloaded:
		return &OverloadedError{o.Text, time.Duration(o.Retry)}
	case failTooLarge:
		return &TooLargeError{int(o.Retry), MaxEntryBytes}
	case failStorage:
		return &StorageError{errors.New(o.Text)}
	default:
		return fmt.Errorf("cluster: the leader refuses: %s", o.Text)
	}
}

// Promised waits until this node's state shows everything that its own calls have
// been answered for. Errors: those of [Node.reach].
func (n *Node) Promised(ctx context.Context) error { return n.reach(ctx, n.promised.Load()) }

// Confirmed waits until this node's state shows everything that was acknowledged
// anywhere before the call: reading after it is linearizable.
// Errors: [ErrNotLeader] if no leader confirms that it leads, [ErrParked],
// [ErrClosed], that of ctx.
func (n *Node) Confirmed(ctx context.Context) error {
	for {
		changed := n.changes.wait()
		if err := n.down(); err != nil {
			return err
		}
		index, err := n.confirmed(ctx)
		if err == nil {
			return n.reach(ctx, index)
		}
		if !errors.Is(err, ErrNotLeader) {
			return err
		}
		if pause(ctx, changed) != nil {
			return err
		}
	}
}

func (n *Node) confirmed(ctx context.Context) (uint64, error) {
	if n.Leading() {
		return n.confirm()
	}
	reply, err := n.question(ctx, &callsRequest{Read: true})
	if err != nil {
		return 0, err
	}
	return reply.Index, nil
}

// Ask puts a question of the host's to the node that leads, this one included,
// where OnAsk answers it. It is asked again while leadership changes.
// Errors: [ErrNotLeader], [ErrParked], [ErrClosed], that of ctx.
func (n *Node) Ask(ctx context.Context, question []byte) ([]byte, error) {
	for {
		changed := n.changes.wait()
		if err := n.down(); err != nil {
			return nil, err
		}
		answer, err := n.askOnce(ctx, question)
		if err == nil || !errors.Is(err, ErrNotLeader) {
			return answer, err
		}
		if pause(ctx, changed) != nil {
			return nil, err
		}
	}
}

func (n *Node) askOnce(ctx context.Context, question []byte) ([]byte, error) {
	if n.Leading() {
		return n.answer(question)
	}
	reply, err := n.question(ctx, &callsRequest{Ask: question})
	if err != nil {
		return nil, err
	}
	return reply.Answer, nil
}

func (n *Node) answer(question []byte) ([]byte, error) {
	if n.cfg.OnAsk == nil || !n.Leading() {
		return nil, ErrNotLeader
	}
	return n.cfg.OnAsk(question)
}

// question sends a request that changes nothing. Errors: [ErrNotLeader], that of
// ctx.
func (n *Node) question(ctx context.Context, req *callsRequest) (*callsReply, error) {
	n.batcher.mu.Lock()
	r := n.batcher.remote
	n.batcher.mu.Unlock()
	if r == nil {
		return nil, ErrNotLeader
	}
	answer, err := r.ask(req)
	if err != nil {
		return nil, ErrNotLeader
	}
	select {
	case reply := <-answer:
		if reply.Failure != failNone {
			return nil, ErrNotLeader
		}
		return reply, nil
	case <-r.closed:
		return nil, ErrNotLeader
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// confirm makes sure that this node leads, and returns the index of all that was
// acknowledged before.
func (n *Node) confirm() (uint64, error) {
	inst := n.inst.Load()
	if inst == nil || !n.Leading() {
		return 0, ErrNotLeader
	}
	index := n.applied.Load()
	if inst.raft.VerifyLeader().Error() != nil {
		return 0, ErrNotLeader
	}
	return index, nil
}

// reach waits until the state is at index.
// Errors: [ErrParked], [ErrClosed], that of ctx.
func (n *Node) reach(ctx context.Context, index uint64) error {
	if n.applied.Load() >= index {
		return nil
	}
	n.watchers.Add(1)
	defer n.watchers.Add(-1)
	for {
		moved := n.moved.wait()
		if n.applied.Load() >= index {
			return nil
		}
		if err := n.down(); err != nil {
			return err
		}
		select {
		case <-moved:
		case <-n.stop:
		case <-n.parked:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// down returns why the node does nothing any more, or nil.
func (n *Node) down() error {
	select {
	case <-n.stop:
		return ErrClosed
	default:
		return n.parkedBy()
	}
}
