package sim

import (
	"context"
	"slices"
	"time"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/store"
)

// removeWithin is how long a node may take to be removed before it is let go.
const removeWithin = 10 * time.Second

// hitMember takes a node out of the cluster, in order or not, and its disk away. It
// comes back as one that the cluster has to let in.
func (w *world) hitMember(ctx context.Context, n *node, b blow) (cure func(), ill bool) {
	odd := b.lasts%2 == 1
	switch l := n.live; {
	case b.fault == Wipe:
	case b.fault == Leave:
		w.remove(ctx, n, n)
		_, _ = w.shutdown(n, 5*time.Second) //nolint:contextcheck // a process has a context of its own; it is out, or may be
	default: // Expel
		l.leaving.Store(true)
		if odd {
			w.crash(n, false) //nolint:contextcheck // a process has a context of its own
			sleep(ctx, 4*time.Second)
		}
		w.remove(ctx, w.leader(), n)
		if !odd {
			sleep(ctx, b.lasts) // it learns that it is out
		}
	}
	w.crash(n, true) //nolint:contextcheck // a process has a context of its own
	n.disk.Wipe()
	n.joins = odd
	n.returns = true
	w.rec.say(n.id, "--- its disk is gone")
	return func() { w.start(ctx, n) }, true
}

// remove has one node take another out, or itself. Whether it has worked is the
// other's to find out.
func (w *world) remove(ctx context.Context, by, n *node) {
	var l *life
	if by != nil {
		l = by.current()
	}
	if l == nil {
		return
	}
	if own := n.current(); own != nil {
		own.leaving.Store(true)
	}
	ctx, cancel := context.WithTimeout(ctx, removeWithin)
	defer cancel()
	err := l.s.RemoveNode(ctx, n.id)
	w.rec.say(by.id, "--- removes %s: %v", n.id, err)
	if err == nil {
		w.removals++
	}
}

// sick reports whether a node does not count for a majority: something about it
// fails, or it has not been let in again as one that votes.
func (w *world) sick(n *node) bool {
	if n.returns && n.ills == 0 && w.votes(n) {
		n.returns = false
		w.joins++
	}
	return n.ills > 0 || n.returns
}

// votes reports whether a node has started, and votes, by the leader's word.
func (w *world) votes(n *node) bool {
	leader := w.leader()
	if leader == nil || n.current() == nil {
		return false
	}
	return slices.ContainsFunc(w.o.Inside(leader.current().s).Members(), func(m cluster.Member) bool {
		return m.ID == n.id && m.Voter && m.Contact >= 0 && m.Contact < time.Second
	})
}

// checkSessions: no lease is given to a session that is over, because its node has
// begun another life or was taken out of the cluster.
func checkSessions(s *Story) (b Breaches) {
	open := make(map[uint64]string) // node by session
	end := func(node string) {
		for id, of := range open {
			if of == node {
				delete(open, id)
			}
		}
	}
	for i := range s.Applied {
		a := &s.Applied[i]
		for j := range a.Batch.Commands {
			switch c := &a.Batch.Commands[j]; c.Kind {
			case store.KindOpenSession:
				if a.Results[j].Code == store.OK {
					end(c.Open.Node)
					open[a.Results[j].N] = c.Open.Node
				}
			case store.KindSetCluster:
				for _, node := range c.Cluster.Remove {
					end(node)
				}
			case store.KindLease:
				if _, ok := open[c.Lease.Session]; ok {
					continue
				}
				for _, run := range c.Lease.Runs {
					if leases(a, run) {
						b.add("entry %d leases run %v to session %d, which is over", a.Index, run, c.Lease.Session)
					}
				}
			default: // has to do with no session
			}
		}
	}
	return b
}

// leases reports whether an entry leases a run.
func leases(a *Applied, run store.RunID) bool {
	return slices.ContainsFunc(a.Events, func(e store.Event) bool { return e.Kind == store.EventLeased && e.Run.ID == run })
}
