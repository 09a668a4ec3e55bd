package cluster

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// transport stands between raft and the network, and withholds what would harm
// the cluster:
//
//   - no heartbeat fast path: it changes raft's state behind raft's back (raft
//     issue 695);
//   - no pipelining: one error parks a replicator for ever (611, 612);
//   - nothing is sent while our own log write is overdue (503) or after the log
//     has latched: the others then elect;
//   - entries for a peer that cannot be reached wait until a heartbeat reaches it.
//     Raft would try in ever longer intervals, in the end of 10 s, and for as long
//     a peer that has come back would not count;
//   - a copy of the state that holds nothing new is not shown to raft, see inbound.
//
// RequestPreVote stays visible; a wrapper that hides it turns pre-votes off.
type transport struct {
	raft.Transport
	guard   *guard
	lease   time.Duration
	applied func() uint64 // index of the state
	done    chan struct{} // closed by Close

	mu      sync.Mutex // guards all below
	closed  bool
	lost    map[raft.ServerID]chan struct{} // of peers that cannot be reached; closed when they are
	answers map[raft.ServerID]answer
}

// answer is the newest of a peer that took this node for the leader of a term.
type answer struct {
	term uint64
	sent time.Time // when what it answers to was
}

var errWithheld = errors.New("cluster: withheld, this node must not lead now")

func (t *transport) withheld() bool {
	return t.guard.dead.Load() || t.guard.stalled(t.lease)
}

// SetHeartbeatHandler implements [raft.Transport] by leaving heartbeats to raft's
// main loop. It is the last that raft calls before its own goroutines start: from
// here on an error of the log would be raised there.
func (t *transport) SetHeartbeatHandler(func(raft.RPC)) { t.guard.opened.Store(true) }

// AppendEntriesPipeline implements [raft.Transport].
func (t *transport) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// AppendEntries implements [raft.Transport].
func (t *transport) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	beats := len(args.Entries) == 0 && args.PrevLogEntry == 0 && args.LeaderCommitIndex == 0
	if !beats {
		t.awaitPeer(id)
	}
	if t.withheld() {
		return errWithheld
	}
	sent := time.Now()
	err := t.Transport.AppendEntries(id, to, args, resp)
	t.note(id, err == nil)
	if err == nil && resp.Term == args.Term {
		t.answered(id, answer{args.Term, sent})
	}
	return err
}

func (t *transport) answered(id raft.ServerID, a answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.answers == nil {
		t.answers = make(map[raft.ServerID]answer)
	}
	if last := t.answers[id]; a.term > last.term || a.sent.After(last.sent) {
		t.answers[id] = a
	}
}

// heeds reports whether a peer has answered to the leader of a term what was sent to it
// since.
func (t *transport) heeds(id raft.ServerID, term uint64, since time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, ok := t.answers[id]
	return ok && a.term == term && !a.sent.Before(since)
}

// lostTime bounds how long entries for a peer are held back: it is not known here
// whether raft still wants to send them.
const lostTime = time.Minute

// tell sends what needs no answer, to a peer that can be reached.
func (t *transport) tell(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest) (taken bool, err error) {
	t.mu.Lock()
	lost := t.lost[id] != nil
	t.mu.Unlock()
	if lost || t.withheld() {
		return false, errWithheld
	}
	var resp raft.AppendEntriesResponse
	err = t.Transport.AppendEntries(id, to, args, &resp)
	return resp.Success, err
}

// awaitPeer waits while a peer cannot be reached.
func (t *transport) awaitPeer(id raft.ServerID) {
	t.mu.Lock()
	back := t.lost[id]
	t.mu.Unlock()
	if back == nil {
		return
	}
	timer := time.NewTimer(lostTime)
	defer timer.Stop()
	select {
	case <-back:
	case <-timer.C:
	}
}

// note tells whether a peer was reached.
func (t *transport) note(id raft.ServerID, reached bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch back := t.lost[id]; {
	case reached && back != nil:
		close(back)
		delete(t.lost, id)
	case !reached && back == nil && !t.closed:
		if t.lost == nil {
			t.lost = make(map[raft.ServerID]chan struct{})
		}
		t.lost[id] = make(chan struct{})
	}
}

// InstallSnapshot implements [raft.Transport].
func (t *transport) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	if t.withheld() {
		return errWithheld
	}
	return t.Transport.InstallSnapshot(id, to, args, resp, data)
}

// RequestVote implements [raft.Transport].
func (t *transport) RequestVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if t.withheld() {
		return errWithheld
	}
	return t.Transport.RequestVote(id, to, args, resp)
}

// RequestPreVote implements [raft.WithPreVote].
func (t *transport) RequestPreVote(id raft.ServerID, to raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	inner, ok := t.Transport.(raft.WithPreVote)
	if !ok || t.withheld() {
		return errWithheld
	}
	return inner.RequestPreVote(id, to, args, resp)
}

// Close implements [raft.WithClose].
func (t *transport) Close() error {
	t.mu.Lock()
	if !t.closed {
		t.closed = true
		close(t.done)
	}
	for id, back := range t.lost {
		close(back)
		delete(t.lost, id)
	}
	t.mu.Unlock()
	if inner, ok := t.Transport.(raft.WithClose); ok {
		return inner.Close()
	}
	return nil
}

// elect makes raft begin an election at once. It is for a sole voter, which need
// not wait to see whether somebody else leads.
func (t *transport) elect(id raft.ServerID) {
	req := &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{
		ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(id), Addr: []byte(id),
	}}
	if l, lone := t.Transport.(*loopback); lone {
		l.rpcs <- raft.RPC{Command: req, RespChan: make(chan raft.RPCResponse, 1)}
		return
	}
	// Through its own port. If that fails, raft's timeout will do.
	go func() { _ = t.TimeoutNow(id, raft.ServerAddress(id), req, new(raft.TimeoutNowResponse)) }() // ends by its timeout
}

// loopback is the transport of a node without peers: no port, no goroutine.
type loopback struct {
	addr raft.ServerAddress
	rpcs chan raft.RPC
}

var errNoPeers = errors.New("cluster: a lone node has no peers")

func newLoopback(addr raft.ServerAddress) *loopback {
	return &loopback{addr: addr, rpcs: make(chan raft.RPC, 1)} // 1: elect must not wait for raft
}

func (l *loopback) Consumer() <-chan raft.RPC          { return l.rpcs }
func (l *loopback) LocalAddr() raft.ServerAddress      { return l.addr }
func (l *loopback) SetHeartbeatHandler(func(raft.RPC)) {}

// EncodePeer implements [raft.Transport].
func (l *loopback) EncodePeer(_ raft.ServerID, addr raft.ServerAddress) []byte { return []byte(addr) }

// DecodePeer implements [raft.Transport].
func (l *loopback) DecodePeer(b []byte) raft.ServerAddress { return raft.ServerAddress(b) }

func (l *loopback) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, errNoPeers
}

func (l *loopback) AppendEntries(raft.ServerID, raft.ServerAddress, *raft.AppendEntriesRequest, *raft.AppendEntriesResponse) error {
	return errNoPeers
}

func (l *loopback) RequestVote(raft.ServerID, raft.ServerAddress, *raft.RequestVoteRequest, *raft.RequestVoteResponse) error {
	return errNoPeers
}

func (l *loopback) RequestPreVote(raft.ServerID, raft.ServerAddress, *raft.RequestPreVoteRequest, *raft.RequestPreVoteResponse) error {
	return errNoPeers
}

func (l *loopback) InstallSnapshot(raft.ServerID, raft.ServerAddress, *raft.InstallSnapshotRequest, *raft.InstallSnapshotResponse, io.Reader) error {
	return errNoPeers
}

func (l *loopback) TimeoutNow(raft.ServerID, raft.ServerAddress, *raft.TimeoutNowRequest, *raft.TimeoutNowResponse) error {
	return errNoPeers
}
