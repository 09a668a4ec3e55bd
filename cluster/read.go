package cluster

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

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
		if ended := pause(ctx, changed); ended != nil {
			return n.leaderless(ended)
		}
	}
}

func (n *Node) confirmed(ctx context.Context) (uint64, error) {
	if n.Leading() {
		return n.confirm(ctx)
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
		if ended := pause(ctx, changed); ended != nil {
			return nil, n.leaderless(ended)
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
	reply, err := r.await(ctx, req)
	if err != nil {
		return nil, cmp.Or(ctx.Err(), ErrNotLeader)
	}
	return reply, nil
}

// confirm makes sure that this node leads, and returns the index of all that was
// acknowledged before.
func (n *Node) confirm(ctx context.Context) (uint64, error) {
	inst, term := n.inst.Load(), n.Term()
	if inst == nil || !n.Leading() {
		return 0, ErrNotLeader
	}
	index, since := n.applied.Load(), time.Now()
	for {
		if err := inst.await(ctx, inst.raft.VerifyLeader); err != nil {
			return 0, cmp.Or(ctx.Err(), ErrNotLeader)
		}
		if inst.raft.CurrentTerm() != term { // it led once more; what others led to meanwhile may not be applied
			return 0, ErrNotLeader
		}
		if inst.heeded(n.cfg.ID, term, since) {
			return index, nil
		}
	}
}

// heeded reports whether a majority of the voters has taken this node for the leader of a
// term since. Raft also counts answers that were on their way before it was asked, which
// may be old if this process stood still, and those of nodes that have no vote.
func (inst *instance) heeded(id string, term uint64, since time.Time) bool {
	heed, voters := 0, 0
	for _, s := range inst.raft.GetConfiguration().Configuration().Servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if string(s.ID) == id || inst.trans.heeds(s.ID, term, since) {
			heed++
		}
	}
	return 2*heed > voters
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
