package cluster

import (
	"io"

	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/store"
)

// WrapLog puts wrap between raft and every log that a node of c opens.
func WrapLog(c *Setup, wrap func(LogStore) LogStore) { c.wrapLog = wrap }

// NewMemLog returns the log of nodes without a folder.
func NewMemLog() LogStore { return newMemLog() }

// OpenLog opens the log of a folder as a node does.
func OpenLog(dir string, kind LogKind) (LogStore, error) { return openFolderLog(dir, kind) }

// Raft returns the running instance's raft.
func (n *Node) Raft() *raft.Raft { return n.inst.Load().raft }

// Snapshots returns the node as raft's snapshot store.
func (n *Node) Snapshots() raft.SnapshotStore { return n.snaps }

// AsDecoded reports whether a node would apply b without decoding it.
func AsDecoded(b *store.Batch) bool { return asDecoded(b) }

// Install makes raft's state machine restore a snapshot.
func (n *Node) Install(body io.ReadCloser) error {
	return (&fsm{n, n.inst.Load().guard}).Restore(body)
}

// Entry reads an entry of the log as raft does.
func (n *Node) Entry(index uint64) error { return n.inst.Load().guard.GetLog(index, new(raft.Log)) }

// Deliver gives the raft of a lone node what a peer might send, and returns the answer.
func (n *Node) Deliver(command any, body io.Reader) (any, error) {
	answer := make(chan raft.RPCResponse, 1)
	n.inst.Load().trans.Transport.(*loopback).rpcs <- raft.RPC{Command: command, Reader: body, RespChan: answer}
	a := <-answer
	return a.Response, a.Error
}

// KeepFounders makes a log that of a node that founds a cluster.
func KeepFounders(log LogStore, founders ...store.NodeRecord) error {
	return (&Node{founders: founders}).keepFounders(log)
}
