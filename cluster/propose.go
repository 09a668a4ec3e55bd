package cluster

import (
	"context"

	"github.com/escapement-go/scheduler/store"
)

// Propose commits a command and returns what applying it answered. It joins the
// entry that is being gathered; on an idle node it is an entry at once. While
// Storage lags by more than it may, it waits, unless it is a worker's report.
//
// The node takes the command over: its body must not be changed any more, not
// even after an error. If ctx ends before the command is in an entry, the error
// is that of ctx and nothing happened; after that it is [ErrOutcomeUnknown].
//
// Errors: [ErrNotLeader], [ErrOverloaded], [ErrTooLarge], [ErrStorage],
// [ErrParked], [ErrClosed]: nothing happened; [ErrOutcomeUnknown].
func (n *Node) Propose(ctx context.Context, cmd store.Command) (store.Result, error) {
	w := n.batcher.pool.Get().(*waiter)
	w.one[0] = cmd
	w.cmds = w.one[:]
	results, err := n.batcher.do(ctx, w)
	if err != nil {
		return store.Result{}, err
	}
	return results[0], nil
}

// ProposeMany is Propose for commands that go into one entry, in order, and are
// applied one right after the other. Each has its own result; one that is
// refused does not undo the others.
func (n *Node) ProposeMany(ctx context.Context, cmds []store.Command) ([]store.Result, error) {
	if len(cmds) == 0 {
		return nil, nil
	}
	w := n.batcher.pool.Get().(*waiter)
	w.cmds = cmds
	return n.batcher.do(ctx, w)
}
