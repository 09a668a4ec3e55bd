package cluster_test

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/store/memstore"
)

// follower is a node that hears from a leader who is played by the test.
type follower struct {
	*cluster.Node
	t    *testing.T
	cfg  cluster.Setup
	log  cluster.LogStore
	term uint64
}

// played runs a test of a node that has n runs, and hears from a leader of the next
// term from now on.
func played(t *testing.T, kind cluster.LogKind, n int, run func(t *testing.T, f *follower)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := &follower{t: t, cfg: cluster.Setup{ID: "one", Dir: dir, Log: kind, Storage: keep{memstore.New(memstore.Options{})}}}
		cluster.WrapLog(&f.cfg, func(l cluster.LogStore) cluster.LogStore { f.log = l; return l })
		f.Node = start(t, f.cfg)
		if err := f.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		session(t, f.Node)
		for i := range n {
			if _, err := f.Propose(t.Context(), enqueue(i, 10)); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.term = f.Status().Term
		run(t, f)
		shutdown(t, f.Node)
		time.Sleep(time.Minute) // raft's goroutines that nobody waits for
	})
}

func (f *follower) header() raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("two"), Addr: []byte("two")}
}

// append sends entries that change nothing, after the entry prev of prevTerm.
func (f *follower) append(prev, prevTerm uint64, n int, commit uint64) {
	f.t.Helper()
	req := &raft.AppendEntriesRequest{
		RPCHeader: f.header(), Term: f.term, PrevLogEntry: prev, PrevLogTerm: prevTerm, LeaderCommitIndex: commit,
	}
	for i := range n {
		req.Entries = append(req.Entries, &raft.Log{Index: prev + 1 + uint64(i), Term: f.term, Type: raft.LogNoop})
	}
	a, err := f.Deliver(req, nil)
	if err != nil || !a.(*raft.AppendEntriesResponse).Success {
		f.t.Fatalf("append after %d: got %+v, %v, want success", prev, a, err)
	}
}

// copied sends a copy, and checks that its body was read.
func (f *follower) copied(meta *raft.SnapshotMeta, body []byte) {
	f.t.Helper()
	from := bytes.NewReader(body)
	a, err := f.Deliver(&raft.InstallSnapshotRequest{
		RPCHeader: f.header(), SnapshotVersion: meta.Version, Term: f.term , Size: int64(len(body)),
		LastLogIndex: meta.Index, LastLogTerm: meta.Term, ConfigurationIndex: meta.ConfigurationIndex,
		Configuration: raft.EncodeConfiguration(meta.Configuration),
	}, from)
	if err != nil || !a.(*raft.InstallSnapshotResponse).Success {
		f.t.Fatalf("copy up to %d: got %+v, %v, want success", meta.Index, a, err)
	}
	if from.Len() > 0 {
		f.t.Errorf("copy up to %d: %d bytes were left on the connection", meta.Index, from.Len())
	}
}

func (f *follower) end() uint64 {
	f.t.Helper()
	last, err := f.log.LastIndex()
	if err != nil {
		f.t.Fatal(err)
	}
	return last
}

// snapshot returns a copy of what n has flushed.
func snapshot(t *testing.T, n *cluster.Node) (*raft.SnapshotMeta, []byte) {
	t.Helper()
	meta, r, err := n.Snapshots().Open("")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	body, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return meta, body
}

// Raft would go back to the copy, delete the entries that come after it, and panic
// when it is to apply the next: "log not found".
func TestNode_a_copy_that_comes_late_changes_nothing(t *testing.T) {
	played(t, cluster.LogSegments, 20, func(t *testing.T, f *follower) {
		t.Helper()
		meta, body := snapshot(t, f.Node)
		for i := range 10 {
			if _, err := f.Propose(t.Context(), enqueue(100+i, 10)); err != nil {
				t.Fatal(err)
			}
		}
		before, last := digest(f.Node), f.end()
		f.term++
		f.copied(meta, body)
		if got := f.end(); got != last {
			t.Errorf("the log ends at %d, want %d", got, last)
		}
		f.append(last, f.term-1, 3, last+3)
		synctest.Wait()
		if got := digest(f.Node); got != before {
			t.Error("the state is another one")
		}
	})
}

// The leader may send a copy to who has more: it does not know, and has not kept
// what is before. What was acknowledged must stay.
func TestNode_a_copy_of_what_the_log_has_changes_nothing(t *testing.T) {
	played(t, cluster.LogSegments, 20, func(t *testing.T, f *follower) {
		t.Helper()
		last := f.end()
		f.term++
		f.append(last, f.term-1, 6, last) // none of them is known to be committed
		meta, body := snapshot(t, f.Node)
		meta.Index, meta.Term = last+2, f.term
		f.copied(meta, body)
		if got := f.end(); got != last+6 {
			t.Errorf("the log ends at %d, want %d", got, last+6)
		}
		f.append(last+6, f.term, 1, last+7)
	})
}

// A copy takes the place of entries that never came to be. Raft would go on as if
// they were there, and take no other's until the leader's log is longer.
func TestNode_a_copy_takes_the_place_of_a_longer_log(t *testing.T) {
	replaced(t, 100, func(t *testing.T, f *follower, meta *raft.SnapshotMeta, body []byte) {
		t.Helper()
		f.copied(meta, body)
	})
}

// A process may end after the copy has taken the place of the state, and before raft
// has emptied the log.
func TestNode_a_crash_leaves_a_log_beside_a_copy(t *testing.T) {
	for name, tail := range map[string]int{"shorter": 0, "longer": 100} {
		t.Run(name, func(t *testing.T) {
			replaced(t, tail, func(t *testing.T, f *follower, meta *raft.SnapshotMeta, body []byte) {
				t.Helper()
				meta.Size = int64(len(body))
				install(t, f.Node, meta, io.NopCloser(bytes.NewReader(body)))
				shutdown(t, f.Node)
				f.Node = start(t, f.cfg)
			})
		})
	}
}

// replaced has the state of a node, whose log goes on with tail entries of another
// term, replaced by a copy of one that has gone farther.
func replaced(t *testing.T, tail int, replace func(t *testing.T, f *follower, meta *raft.SnapshotMeta, body []byte)) {
	t.Helper()
	for name, kind := range map[string]cluster.LogKind{"segments": cluster.LogSegments, "bolt": cluster.LogBolt} {
		t.Run(name, func(t *testing.T) {
			var meta *raft.SnapshotMeta
			var body []byte
			var want uint64
			played(t, kind, 40, func(t *testing.T, f *follower) {
				t.Helper()
				meta, body = snapshot(t, f.Node)
				want = digest(f.Node)
			})
			played(t, kind, 10, func(t *testing.T, f *follower) {
				t.Helper()
				last := f.end()
				f.term += 5
				f.append(last, f.term-5, tail, last)
				f.term += 5
				meta.Term = f.term
				replace(t, f, meta, body)
				if s := f.Status(); s.Applied != meta.Index || digest(f.Node) != want {
					t.Fatalf("after the copy: applied %d, want %d and its state", s.Applied, meta.Index)
				}
				session(t, f.Node)
				if _, err := f.Call(deadline(t), enqueue(500, 10)); err != nil { // it goes on alone
					t.Fatal(err)
				}
				if first, err := f.log.FirstIndex(); err != nil || first != meta.Index+1 {
					t.Errorf("the log begins at %d, %v, want %d", first, err, meta.Index+1)
				}
			})
		})
	}
}

// What the filter has let through may have become old before raft takes it up.
func TestNode_refuses_a_copy_that_has_become_old(t *testing.T) {
	played(t, cluster.LogSegments, 20, func(t *testing.T, f *follower) {
		t.Helper()
		meta, body := snapshot(t, f.Node)
		sink, err := f.Snapshots().Create(meta.Version, meta.Index, meta.Term, meta.Configuration, meta.ConfigurationIndex, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sink.Write(body); err != nil {
			t.Fatal(err)
		}
		if err := sink.Close(); err == nil {
			t.Error("an old copy is taken in")
		}
		left, err := filepath.Glob(filepath.Join(f.cfg.Dir, "*.tmp"))
		if err != nil || len(left) > 0 {
			t.Errorf("it leaves %v, %v", left, err)
		}
	})
}
