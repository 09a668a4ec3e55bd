package cluster

import (
	"context"

	"github.com/hashicorp/raft"
)

// Role is what a node is in its cluster.
type Role uint8

// The roles.
const (
	Down      Role = iota // raft does not run: the log has failed, or the node is parked or closed
	Follower              //
	Candidate             //
	Elected               // won an election, entries of earlier leaders are being applied
	Leader                // proposes
)

var roleNames = [...]string{"down", "follower", "candidate", "elected", "leader"}

// String returns the role's word.
func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return "unknown"
}

// Status is a picture of a node.
type Status struct {
	ID        string
	Role      Role
	LeaderID  string // "" if none is known
	Term      uint64
	Applied   uint64 // index of the state
	Last      uint64 // index of the log's end
	Flushed   uint64 // index of Storage
	Unflushed int    // rows that Storage lacks
	Waiting   int    // calls that wait for an entry
	InFlight  int    // entries on their way
	Fault     error  // why the log or Storage cannot be written, the first reason; nil once they could for 5 s
	Waits     string // why the node is in no cluster yet, or is not let in; "" if it is
	Skewed    bool   // as the leader it found its wall clock to be off the others'
	Parked    error  // why the node has stopped for good; nil if it has not
}

// Status returns a picture of the node. Its fields may be an instant apart.
func (n *Node) Status() Status {
	s := Status{
		ID: n.cfg.ID, Applied: n.applied.Load(), Flushed: n.flusher.position().index,
		Unflushed: int(n.flusher.rows.Load()), Parked: n.parkedBy(),
	}
	if waits := n.waits.Load(); waits != nil {
		s.Waits = *waits
	}
	s.Skewed = n.skewed.Load()
	n.batcher.mu.Lock()
	s.Waiting = len(n.batcher.adding.waiters) + len(n.batcher.reports.waiters)
	s.InFlight = len(n.batcher.inflight)
	n.batcher.mu.Unlock()
	if fault := n.ailment.now(); fault != nil {
		s.Fault = fault
	}
	inst := n.inst.Load()
	if inst == nil {
		return s
	}
	_, id := inst.raft.LeaderWithID()
	s.LeaderID, s.Term, s.Last = string(id), inst.raft.CurrentTerm(), inst.raft.LastIndex()
	s.Role = n.role(inst)
	return s
}

func (n *Node) role(inst *instance) Role {
	switch inst.raft.State() {
	case raft.Follower:
		return Follower
	case raft.Candidate:
		return Candidate
	case raft.Leader:
		if n.Leading() {
			return Leader
		}
		return Elected
	default:
		return Down
	}
}

// Term returns the term in which the node leads, or led last; 0 if it never did.
func (n *Node) Term() uint64 { return n.term.Load() }

// Leading reports whether the node leads: whether it takes proposals.
func (n *Node) Leading() bool { return n.leading.Load() }

// Ready waits until a leader is known and the state has all that was committed
// when it was found. Errors: [ErrParked], [ErrClosed], and that of ctx.
func (n *Node) Ready(ctx context.Context) error {
	for {
		changed := n.changes.wait()
		if err := n.parkedBy(); err != nil {
			return err
		}
		select {
		case <-n.stop:
			return ErrClosed
		default:
		}
		if n.Leading() {
			return nil
		}
		if n.follows() {
			return nil
		}
		if err := pause(ctx, changed); err != nil {
			return err
		}
	}
}

// follows reports whether another node leads and the state has all that was
// committed here.
func (n *Node) follows() bool {
	inst := n.inst.Load()
	if inst == nil || inst.raft.State() != raft.Follower {
		return false
	}
	_, leader := inst.raft.LeaderWithID()
	return leader != "" && string(leader) != n.cfg.ID && n.has(inst.guard.inner, inst.raft.CommitIndex())
}

// has reports whether the state shows all entries up to index, which is that of
// none if it is 0. Raft's own applied index tells what is queued for the state, and
// what raft keeps to itself, such as a new leader's first entry, never comes to it.
func (n *Node) has(log LogStore, index uint64) bool {
	if index == 0 {
		return false
	}
	for ; index > n.applied.Load(); index-- {
		var l raft.Log
		if log.GetLog(index, &l) != nil || l.Type == raft.LogCommand || l.Type == raft.LogConfiguration {
			return false
		}
	}
	return true
}
