package cluster

import (
	"io"
	"slices"

	"github.com/hashicorp/raft"
)

// Consumer implements [raft.Transport]; raft calls it once. What comes passes through
// a goroutine that ends with Close.
//
// A copy of the state that holds nothing which is not here is read over, and raft gets
// the heartbeat that its sender might have sent as well, for it to judge the term; what
// it says to that is the answer. The copy may be late, or its sender did not know better:
// a new leader begins at the end of its own log, and sends a copy if that has not kept
// what is before. Raft would go back to such a copy, delete all entries after it, those
// that it has acknowledged included, and go on as if they were there (issue 697, and what
// is said there of logs that are emptied). A success is true: up to the copy's index this
// node has what the leader has.
func (t *transport) Consumer() <-chan raft.RPC {
	out := make(chan raft.RPC)
	go t.relay(t.Transport.Consumer(), out) // ends with Close
	return out
}

func (t *transport) relay(in <-chan raft.RPC, out chan<- raft.RPC) {
	for {
		select {
		case rpc := <-in:
			switch req := rpc.Command.(type) {
			case *raft.InstallSnapshotRequest:
				if t.has(req.LastLogIndex, req.LastLogTerm) {
					go t.skip(rpc, req, out) // ends with the body, or the connection
					continue
				}
			case *raft.AppendEntriesRequest:
				t.mend(req)
			}
			select {
			case out <- rpc:
			case <-t.done:
				return
			}
		case <-t.done:
			return
		}
	}
}

// has reports whether the node has all that a copy up to an entry holds.
func (t *transport) has(index, term uint64) bool {
	return index <= t.applied() || t.guard.has(index, term)
}

// skip reads over the body of a copy, so that the connection can go on, and answers as
// raft does to a heartbeat of the same sender. That comes last: a success also tells a
// leader that it still leads.
func (t *transport) skip(rpc raft.RPC, copied *raft.InstallSnapshotRequest, out chan<- raft.RPC) {
	if _, err := io.Copy(io.Discard, rpc.Reader); err != nil {
		rpc.Respond(nil, err)
		return
	}
	answer := make(chan raft.RPCResponse, 1)
	beat := &raft.AppendEntriesRequest{RPCHeader: copied.RPCHeader, Term: copied.Term}
	select {
	case out <- raft.RPC{Command: beat, RespChan: answer}:
	case <-t.done:
		return
	}
	select {
	case a := <-answer:
		if said, ok := a.Response.(*raft.AppendEntriesResponse); ok {
			a.Response = &raft.InstallSnapshotResponse{RPCHeader: said.RPCHeader, Term: said.Term, Success: said.Success}
		}
		rpc.Respond(a.Response, a.Error)
	case <-t.done:
	}
}

// mend puts right what raft would make of entries that go on from one that this node has
// applied and its log has not, for it begins later, after a copy. Raft knows nothing of
// that entry once others come after it: it would refuse them for ever, and the copies
// that a leader then sends have nothing new. What is applied is in the log of every
// leader to come, so nothing needs to be compared; whether the sender is one is for raft
// to say, by the term.
//
// Nor may raft take more for committed than the message vouches for. It would all that
// the log has, though it may go on with entries of another leader.
func (t *transport) mend(req *raft.AppendEntriesRequest) {
	req.LeaderCommitIndex = min(req.LeaderCommitIndex, req.PrevLogEntry+uint64(len(req.Entries)))
	applied := t.applied()
	if req.PrevLogEntry == 0 || req.PrevLogEntry > applied || t.guard.reachesBack(req.PrevLogEntry) {
		return
	}
	req.PrevLogEntry, req.PrevLogTerm = 0, 0 // raft compares nothing
	req.Entries = slices.DeleteFunc(req.Entries, func(l *raft.Log) bool { return l.Index <= applied })
}
