package cluster

import (
	"io"

	"github.com/hashicorp/raft"
)

// Consumer implements [raft.Transport]; raft calls it once. What comes passes through
// a goroutine that ends with Close.
//
// A copy of the state that holds nothing which is not here is answered with success
// and kept from raft. It may be late, or its sender did not know better: a new leader
// begins at the end of its own log, and sends a copy if that has not kept what is
// before. Raft would go back to such a copy, delete all entries after it, those that
// it has acknowledged included, and go on as if they were there (issue 697, and what
// is said there of logs that are emptied). The success is true: up to the copy's
// index this node has what the leader has.
func (t *transport) Consumer() <-chan raft.RPC {
	out := make(chan raft.RPC)
	go t.relay(t.Transport.Consumer(), out) // ends with Close
	return out
}

func (t *transport) relay(in <-chan raft.RPC, out chan<- raft.RPC) {
	for {
		select {
		case rpc := <-in:
			if copied, ok := rpc.Command.(*raft.InstallSnapshotRequest); ok && t.has(copied.LastLogIndex, copied.LastLogTerm) {
				go skip(rpc, copied) // ends with the body, or the connection
				continue
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

// skip reads over the body of a copy, so that the connection can go on, and answers.
func skip(rpc raft.RPC, copied *raft.InstallSnapshotRequest) {
	_, err := io.Copy(io.Discard, rpc.Reader)
	rpc.Respond(&raft.InstallSnapshotResponse{Term: copied.Term, Success: err == nil}, err)
}
