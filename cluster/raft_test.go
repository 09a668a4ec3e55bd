package cluster_test

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/store/memstore"
)

// A sole voter need not wait to hear of a leader: whatever its timers, no time
// passes until it leads, the first time or a later one.
func TestNode_sole_voter_leads_without_waiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := cluster.NewMemLog()
		cfg := cluster.Setup{
			Storage:   keep{memstore.New(memstore.Options{})},
			Heartbeat: time.Hour, Election: time.Hour, Lease: time.Hour,
		}
		cluster.WrapLog(&cfg, func(cluster.LogStore) cluster.LogStore { return log })
		for range 3 {
			began := time.Now()
			n := start(t, cfg)
			for n.Status().Role != cluster.Leader {
				synctest.Wait()
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("time until it leads: got %v, want 0", took)
			}
			session(t, n)
			shutdown(t, n)
		}
		time.Sleep(3 * time.Hour) // raft leaves timers behind
	})
}

// RestoreCommittedLogs would hang on more than 8,192 entries; what storage lacks
// is replayed another way.
func TestNode_replays_more_entries_than_raft_buffers(t *testing.T) {
	const runs = 8400
	log := preloaded(t, memstore.New(memstore.Options{}), runs)
	cfg := cluster.Setup{} // with an empty storage
	cluster.WrapLog(&cfg, func(cluster.LogStore) cluster.LogStore { return log })
	replayed := 0
	cfg.OnApply = func(*store.State, uint64, *store.Batch, []store.Result, []store.Event) { replayed++ }
	atLead := 0
	cfg.OnLead = func(st *store.State, leading bool) {
		if leading {
			atLead = st.Live()
		}
	}
	n := open(t, cfg)
	n.View(func(st *store.State) {
		if replayed < runs || st.Live() != runs || atLead != runs {
			t.Errorf("replayed %d entries to %d live runs, %d when it began to lead; want %d", replayed, st.Live(), atLead, runs)
		}
	})
}

// raft.InmemStore takes its last index below zero when it is emptied.
func TestMemLog_can_be_emptied(t *testing.T) {
	log := cluster.NewMemLog()
	fill := func(from, to uint64) {
		for i := from; i <= to; i++ {
			if err := log.StoreLog(&raft.Log{Index: i, Term: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(what string, first, last uint64) {
		t.Helper()
		gotFirst, _ := log.FirstIndex()
		gotLast, _ := log.LastIndex()
		if gotFirst != first || gotLast != last {
			t.Errorf("%s: got %d to %d, want %d to %d", what, gotFirst, gotLast, first, last)
		}
		for i := uint64(0); i <= last+2; i++ {
			var l raft.Log
			err := log.GetLog(i, &l)
			if inside := i >= first && i <= last && i > 0; (err == nil) != inside || inside && l.Index != i {
				t.Errorf("%s: entry %d: got %d, %v", what, i, l.Index, err)
			}
		}
	}
	remove := func(lo, hi uint64) {
		if err := log.DeleteRange(lo, hi); err != nil {
			t.Fatal(err)
		}
	}
	check("new", 0, 0)
	fill(1, 10)
	check("filled", 1, 10)
	remove(1, 4)
	check("without its beginning", 5, 10)
	remove(8, 20)
	check("without its end", 5, 7)
	remove(1, 4)
	check("deleting what is gone", 5, 7)
	remove(1, 7)
	check("emptied", 0, 0)
	fill(8, 9)
	check("filled again", 8, 9)
	fill(20, 22)
	check("begun anew after a gap", 20, 22)
	fill(21, 21)
	check("overwritten", 20, 21)
}

// A lone node opens no port: nothing of it is a listener.
func TestNode_lone_node_has_no_address(t *testing.T) {
	n := open(t, cluster.Setup{})
	leader, id := n.Raft().LeaderWithID()
	if id != "one" || leader != "one" {
		t.Errorf("leader: got %q at %q, want the ID in both", id, leader)
	}
	if _, _, err := net.SplitHostPort(string(leader)); err == nil {
		t.Errorf("address %q has a port", leader)
	}
}
