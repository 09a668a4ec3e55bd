package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// identity tells two processes apart that have one node ID, and two folders.
type identity struct{ process, incarnation string }

// judge decides whether to take a connection.
func (l *links) judge(h *hello) welcome {
	n := l.node
	meta := n.meta()
	cluster := meta.Cluster
	w := welcome{
		Cluster: cluster, From: n.cfg.ID, Incarnation: n.incarnation, Process: l.process, Level: store.FormatLevel,
		Founded: n.begun.Load(), Member: n.knows(meta, h), Stranger: n.expelled(meta, h),
	}
	w.Leader, w.LeaderAddress = n.leader()
	refuse := func(why uint8, format string, args ...any) {
		w.Refusal, w.Text = why, fmt.Sprintf(format, args...)
	}
	kind := streamKind(h.Stream)
	ofLeader := kind == streamCalls || kind == streamSession
	switch {
	case h.To != "" && h.To != n.cfg.ID:
		refuse(refusedNode, "this is node %q, not %q", n.cfg.ID, h.To)
	case kind == streamProbe:
	case h.From == n.cfg.ID && h.Process != l.process:
		refuse(refusedDuplicate, "node ID %q is in use by the process at %s", h.From, l.address)
	case h.Cluster != "" && cluster != "" && h.Cluster != cluster:
		refuse(refusedCluster, "node %q is in cluster %s, node %q in %s", n.cfg.ID, cluster, h.From, h.Cluster)
	case kind == streamRaft && cluster != "" && h.Cluster == "" && !w.Member:
		// Raft itself would follow whoever comes with a higher term.
		refuse(refusedCluster, "node %q is in cluster %s, node %q in none that has a name yet", n.cfg.ID, cluster, h.From)
	case ofLeader && !n.Leading():
		refuse(refusedNotLeader, "node %q does not lead", n.cfg.ID)
	case !l.only(meta, h):
		refuse(refusedDuplicate, "node ID %q is in use by another process", h.From)
	case (ofLeader || kind == streamAside) && w.Stranger:
		refuse(refusedStranger, "node %q is not in the cluster, or was before it lost its folder", h.From)
	}
	return w
}

// only reports whether h comes from the process that has its node ID by right: the
// one whose folder the state knows or, of two that have the same claim, the one that
// was there first and still is. From then on it is the one that was there.
func (l *links) only(meta *store.Meta, h *hello) bool {
	if h.From == l.node.cfg.ID {
		return true
	}
	l.mu.Lock()
	last := l.processes[h.From]
	l.mu.Unlock()
	rec, known := meta.Node(h.From)
	rightful := known && rec.Incarnation == h.Incarnation
	switch {
	case last.process == h.Process:
		return true
	case rightful && last.incarnation != h.Incarnation, !known && last.process == "":
	case l.taken(h, rec.Incarnation, rightful):
		return false
	}
	l.mu.Lock()
	l.processes[h.From] = identity{h.Process, h.Incarnation}
	if rightful || !known {
		l.heard[h.From] = h.Address
	}
	l.mu.Unlock()
	return true
}

// taken looks for another process that has the node ID of h. That has it by right
// unless h has and it has not.
func (l *links) taken(h *hello, incarnation string, rightful bool) bool {
	ctx, cancel := context.WithTimeout(l.ctx, probeTime)
	defer cancel()
	for _, address := range l.addresses(h.From) {
		if address == h.Address {
			continue
		}
		conn, w, err := l.dialAddress(ctx, address, h.From, streamProbe)
		if err != nil {
			continue
		}
		_ = conn.Close() // it has said what there is to say
		if w.Process != h.Process && (!rightful || w.Incarnation == incarnation) {
			return true
		}
	}
	return false
}

// probeTime bounds the search for another process.
const probeTime = time.Second

// refusal makes an error of a welcome that refuses.
func (w *welcome) refusal(address string) error {
	switch w.Refusal {
	case accepted:
		return nil
	case refusedDuplicate:
		return fmt.Errorf("%w: %s", ErrDuplicateID, w.Text)
	case refusedCluster:
		return fmt.Errorf("%w: %s", ErrOtherCluster, w.Text)
	case refusedNotLeader:
		return ErrNotLeader
	case refusedStranger:
		return fmt.Errorf("%w: %s", ErrNotMember, w.Text)
	}
	return fmt.Errorf("cluster: refused by %s: %s", address, w.Text)
}
