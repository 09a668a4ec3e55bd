package cluster

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// lookOut makes raft look after its leader when the leader has been silent for too
// long, until ctx ends. By itself raft looks every one to two heartbeat timeouts, at
// random, and a pre-vote is refused by whoever has not looked yet: a dead leader is
// replaced after two timeouts at the median, and three at times.
//
// Raft's randomness keeps voters from standing against each other. Here they look in
// the order of their IDs, a quarter of a timeout apart, which is more than the
// leader's last heartbeats to them are. The first that is not alone with what it has
// seen wins.
func (n *Node) lookOut(ctx context.Context, inst *instance) {
	timer := time.NewTimer(n.cfg.Heartbeat)
	defer timer.Stop()
	for due := time.Now().Add(n.cfg.Heartbeat); ; {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		again := n.cfg.Heartbeat / 10
		if time.Since(due) < again {
			again = n.look(inst.raft)
		} // else this process had no time itself, and heartbeats may wait to be read
		due = time.Now().Add(again)
		timer.Reset(again)
	}
}

// look makes raft look if it is time to, and returns when to look again.
func (n *Node) look(r *raft.Raft) time.Duration {
	_, leader := r.LeaderWithID()
	rank := rankOf(r.GetConfiguration().Configuration(), n.cfg.ID, string(leader))
	if leader == "" || rank < 0 || r.State() != raft.Follower {
		return n.cfg.Heartbeat
	}
	due := n.cfg.Heartbeat + time.Duration(rank+1)*n.cfg.Heartbeat/4
	if silent := time.Since(r.LastContact()); silent < due {
		return due - silent
	}
	hasten(r)
	return n.cfg.Heartbeat
}

// rankOf returns how many voters but the leader have lower IDs; -1 for one that does
// not vote.
func rankOf(members raft.Configuration, id, leader string) (rank int) {
	if !slices.ContainsFunc(members.Servers, func(s raft.Server) bool {
		return string(s.ID) == id && s.Suffrage == raft.Voter
	}) {
		return -1
	}
	for _, s := range members.Servers {
		if s.Suffrage == raft.Voter && string(s.ID) != leader && string(s.ID) < id {
			rank++
		}
	}
	return rank
}

// hasten makes raft compare the last contact with its heartbeat timeout now: it does
// when that becomes shorter.
func hasten(r *raft.Raft) {
	timers := r.ReloadableConfig()
	longer := timers
	longer.HeartbeatTimeout++
	longer.ElectionTimeout++ // never below the other
	for _, t := range []raft.ReloadableConfig{longer, timers} {
		_ = r.ReloadConfig(t) // it is valid
	}
}
