package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// nudger tells followers at once that an entry is committed. Raft tells them with
// the next entry or, if there is none, up to 100 ms later; until then their reads,
// and their callers that wait for a run's end, would see the past.
//
// What it sends is an AppendEntries without entries, in the term of an entry of this
// node's own that is committed: a message that raft itself might have sent, however
// late it comes. (Raft's current term would not do: it may be another leader's.)
type nudger struct {
	node *Node
	inst *instance

	mu   sync.Mutex // guards busy
	busy map[raft.ServerID]bool
}

// run sends until ctx ends.
func (d *nudger) run(ctx context.Context) {
	for {
		select {
		case <-d.node.nudges:
			d.nudge()
		case <-ctx.Done():
			return
		}
	}
}

// nudge tells those who are not being told already; these are told again when a
// next entry is applied.
func (d *nudger) nudge() {
	at := d.node.committed.Load()
	r := d.inst.raft
	if at == nil || r.LastIndex() != at.index {
		return // raft has an entry to send, which says the same
	}
	for _, s := range r.GetConfiguration().Configuration().Servers {
		if string(s.ID) == d.node.cfg.ID {
			continue
		}
		d.mu.Lock()
		free := !d.busy[s.ID]
		d.busy[s.ID] = true
		d.mu.Unlock()
		if !free {
			continue
		}
		d.inst.nudges.Go(func() {
			d.tell(s, at)
			d.mu.Lock()
			d.busy[s.ID] = false
			d.mu.Unlock()
			if now := d.node.committed.Load(); now != at {
				d.node.poke()
			}
		})
	}
}

// One that has not stored the entry yet, for a majority did without it, is told
// again a few times.
const (
	tellAgain = 5 * time.Millisecond
	tellMost  = 10
)

// tell sends one follower where the log is committed. If that fails raft will tell
// it in its own time.
func (d *nudger) tell(s raft.Server, at *logPosition) {
	self := []byte(d.node.cfg.ID)
	for range tellMost {
		taken, err := d.inst.trans.tell(s.ID, s.Address, &raft.AppendEntriesRequest{
			RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: self, Addr: self},
			Term:      at.term, PrevLogEntry: at.index, PrevLogTerm: at.term, LeaderCommitIndex: at.index,
		})
		if taken || err != nil || d.node.committed.Load() != at {
			return
		}
		timer := time.NewTimer(tellAgain)
		<-timer.C
	}
}

// nudge has the followers told of an entry of this node's.
func (n *Node) nudge(index, term uint64) {
	if n.links == nil {
		return
	}
	n.committed.Store(&logPosition{index, term})
	n.poke()
}

// poke asks the nudger, if one runs, to look.
func (n *Node) poke() {
	select {
	case n.nudges <- struct{}{}:
	default:
	}
}

// logPosition is where the log is.
type logPosition struct{ index, term uint64 }

// lead runs what a leader of several nodes does besides proposing, until the
// returned function is called.
func (n *Node) lead(inst *instance) (end func()) {
	if n.links == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(n.links.ctx)
	d := &nudger{node: n, inst: inst, busy: make(map[raft.ServerID]bool)}
	n.members.forget() // who was silent in an earlier reign is not dead in this one
	var work sync.WaitGroup
	work.Go(func() { d.run(ctx) })
	work.Go(func() { n.tend(ctx, inst) })
	return func() {
		cancel()
		work.Wait()
	}
}

// ledFor is since when this node has led.
func (n *Node) ledFor() time.Duration { return time.Since(*n.ledSince.Load()) }
