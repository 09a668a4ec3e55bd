package cluster_test

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/store/memstore"
)

// follower is a node that hears from a leader who is played by the test.
type follower struct {
	*cluster.Node
	t    *testing.T
	cfg  cluster.Setup
	log  cluster.LogStore
	term uint64
	*faults
}

// played runs a test of a node that has n runs, and hears from a leader of the next
// term from now on.
func played(t *testing.T, kind cluster.LogKind, n int, run func(t *testing.T, f *follower)) {
	t.Helper()
	playedBy(t, cluster.Setup{ID: "one", Dir: t.TempDir(), Log: kind, Storage: keep{memstore.New(memstore.Options{})}}, n, run)
}

func playedBy(t *testing.T, cfg cluster.Setup, n int, run func(t *testing.T, f *follower)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &follower{t: t, cfg: cfg, faults: new(faults)}
		cluster.WrapLog(&f.cfg, func(l cluster.LogStore) cluster.LogStore {
			f.log = l
			return &faultyLog{l, f.faults}
		})
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
	a, err := f.copy(meta, body)
	if err != nil || !a.Success {
		f.t.Fatalf("copy up to %d: got %+v, %v, want success", meta.Index, a, err)
	}
}

func (f *follower) copy(meta *raft.SnapshotMeta, body []byte) (*raft.InstallSnapshotResponse, error) {
	f.t.Helper()
	from := bytes.NewReader(body)
	a, err := f.Deliver(&raft.InstallSnapshotRequest{
		RPCHeader: f.header(), SnapshotVersion: meta.Version, Term: f.term, Size: int64(len(body)),
		LastLogIndex: meta.Index, LastLogTerm: meta.Term, ConfigurationIndex: meta.ConfigurationIndex,
		Configuration: raft.EncodeConfiguration(meta.Configuration),
	}, from)
	if from.Len() > 0 {
		f.t.Errorf("copy up to %d: %d bytes were left on the connection", meta.Index, from.Len())
	}
	return a.(*raft.InstallSnapshotResponse), err
}

func (f *follower) end() uint64 {
	f.t.Helper()
	last, err := f.log.LastIndex()
	if err != nil {
		f.t.Fatal(err)
	}
	return last
}

// farther returns a copy, and the digest of its state, of a node that has 40 runs.
func farther(t *testing.T) (meta *raft.SnapshotMeta, body []byte, sum uint64) {
	t.Helper()
	played(t, cluster.LogSegments, 40, func(t *testing.T, f *follower) {
		t.Helper()
		meta, body = snapshot(t, f.Node)
		sum = digest(f.Node)
	})
	return meta, body, sum
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

// A success tells the sender that it still leads, and so that what it shows is what
// there is.
func TestNode_answers_an_old_copy_in_its_own_term(t *testing.T) {
	played(t, cluster.LogSegments, 20, func(t *testing.T, f *follower) {
		t.Helper()
		meta, body := snapshot(t, f.Node)
		f.term += 5
		f.copied(meta, body)
		if got := f.Raft().CurrentTerm(); got != f.term {
			t.Errorf("after a copy in term %d the follower is in term %d", f.term, got)
		}
		now := f.term
		f.term--
		if a, err := f.copy(meta, body); err != nil || a.Success || a.Term != now {
			t.Errorf("copy from the leader of an earlier term: got %+v, %v, want to hear of term %d", a, err, now)
		}
	})
}

// Raft would take what it has of another leader's for committed.
func TestNode_commits_no_more_than_a_message_vouches_for(t *testing.T) {
	played(t, cluster.LogSegments, 20, func(t *testing.T, f *follower) {
		t.Helper()
		last, term := f.end(), f.term
		f.term++
		f.append(last, term, 6, last)
		f.term++
		f.append(last, term, 0, last+6)
		if got := f.Raft().CommitIndex(); got != last {
			t.Errorf("committed up to %d, the leader has compared what is up to %d", got, last)
		}
	})
}

// Of the copy's own entry raft knows nothing once others come after it. It would
// refuse for ever what a leader sends who has to go back that far.
func TestNode_takes_entries_that_go_on_from_its_copy(t *testing.T) {
	meta, body, _ := farther(t)
	played(t, cluster.LogSegments, 1, func(t *testing.T, f *follower) {
		t.Helper()
		f.term += 10
		meta.Term = f.term
		f.copied(meta, body)
		f.append(meta.Index, meta.Term, 3, meta.Index)
		f.append(meta.Index, meta.Term, 3, meta.Index) // the answer was lost
		f.term++
		f.append(meta.Index, meta.Term, 1, meta.Index) // another leader has others
		if got := f.end(); got != meta.Index+1 {
			t.Errorf("the log ends at %d, want %d", got, meta.Index+1)
		}
		f.append(meta.Index-2, meta.Term, 2, meta.Index) // late
		f.append(meta.Index-2, meta.Term, 5, meta.Index+3)
		if got := f.end(); got != meta.Index+3 || f.Raft().CommitIndex() != got {
			t.Errorf("the log ends at %d, committed is %d, want %d", got, f.Raft().CommitIndex(), meta.Index+3)
		}
	})
}

// While entries that were not committed make room for others, a replicator of the
// leader that this node was may look for one.
func TestNode_does_not_take_an_entry_that_made_room_for_a_lost_one(t *testing.T) {
	played(t, cluster.LogSegments, 20, func(t *testing.T, f *follower) {
		t.Helper()
		last, term := f.end(), f.term
		f.term++
		f.append(last, term, 6, last)
		f.onStore(func(_ []*raft.Log, store func() error) error {
			if err := f.Entry(last + 6); !errors.Is(err, raft.ErrLogNotFound) {
				t.Errorf("entry that is gone: got %v, want %v", err, raft.ErrLogNotFound)
			}
			return store()
		})
		f.term++
		f.append(last, term, 1, last)
		if fault := f.Status().Fault; fault != nil {
			t.Errorf("fault: %v", fault)
		}
	})
}

// brittle is a storage into which no copy can be brought.
type brittle struct {
	cluster.Storage
	err error
}

func (b *brittle) Close() error { return nil }

func (b *brittle) Restore(r io.Reader) error {
	if b.err != nil {
		return b.err
	}
	return b.Storage.Restore(r)
}

// A copy that could not be brought in has taken no place: the log goes on, and may be
// cut.
func TestNode_a_copy_that_fails_leaves_the_log_as_it_was(t *testing.T) {
	storage := &brittle{Storage: memstore.New(memstore.Options{})}
	playedBy(t, cluster.Setup{ID: "one", Dir: t.TempDir(), Storage: storage}, 20, func(t *testing.T, f *follower) {
		t.Helper()
		last, term, raftBefore := f.end(), f.term, f.Raft()
		f.term++
		f.append(last, term, 6, last)
		meta, body := snapshot(t, f.Node)
		storage.err = errFull
		f.term++
		meta.Index, meta.Term = last+3, f.term
		if a, err := f.copy(meta, body); err == nil || a.Success {
			t.Fatalf("copy: got %+v, %v, want an error", a, err)
		}
		f.append(last, term, 1, last+1) // cuts the log
		synctest.Wait()
		if f.Raft() != raftBefore {
			t.Error("raft began anew")
		}
		shutdown(t, f.Node)
		f.Node = start(t, f.cfg)
		if got := f.end(); got < last+1 {
			t.Errorf("after a restart the log ends at %d, want at least %d", got, last+1)
		}
	})
}

// A copy takes the place of entries that never came to be. Raft would go on as if
// they were there, take no other's until the leader's log is longer, and vote for who
// has less than the copy.
func TestNode_a_copy_takes_the_place_of_a_longer_log(t *testing.T) {
	for name, beyond := range map[string]int{"longer": 70, "as long": 0} {
		t.Run(name, func(t *testing.T) {
			replaced(t, beyond, func(t *testing.T, f *follower, meta *raft.SnapshotMeta, body []byte) {
				t.Helper()
				f.copied(meta, body)
				synctest.Wait() // raft may begin anew
				a, err := f.Deliver(&raft.RequestVoteRequest{
					RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, Addr: []byte("two")}, Term: f.term + 100,
					LastLogIndex: meta.Index, LastLogTerm: meta.Term - 1, LeadershipTransfer: true,
				}, nil)
				if err != nil || a.(*raft.RequestVoteResponse).Granted {
					t.Errorf("vote for who has less: got %+v, %v", a, err)
				}
			})
		})
	}
}

// The log may be out of reach when raft is to begin anew.
func TestNode_tells_if_raft_cannot_begin_anew(t *testing.T) {
	meta, body, _ := farther(t)
	log, broken := cluster.NewMemLog(), new(atomic.Bool)
	cfg := cluster.Setup{ID: "one", Storage: keep{memstore.New(memstore.Options{})}, OpenLog: func() (cluster.LogStore, error) {
		if broken.Load() {
			return nil, errFull
		}
		return log, nil
	}}
	playedBy(t, cfg, 1, func(t *testing.T, f *follower) {
		t.Helper()
		last := f.end()
		f.term++
		f.append(last, f.term-1, 100, last)
		f.term++
		meta.Term = f.term
		broken.Store(true)
		f.copied(meta, body)
		time.Sleep(time.Second)
		if fault := f.Status().Fault; !errors.Is(fault, errFull) {
			t.Errorf("fault: got %v, want %v", fault, errFull)
		}
		session := func() error {
			_, err := f.OpenSession(t.Context(), store.OpenSession{Node: "worker", Tasks: []string{"test"}})
			return err
		}
		if err := session(); !errors.Is(err, cluster.ErrStorage) {
			t.Errorf("call: got %v, want %v", err, cluster.ErrStorage)
		}
		broken.Store(false)
		time.Sleep(time.Minute)
		if err := session(); err != nil || f.Status().Fault != nil {
			t.Errorf("afterwards: %v, fault %v", err, f.Status().Fault)
		}
	})
}

// A process may end after the copy has taken the place of the state, and before raft
// has emptied the log.
func TestNode_a_crash_leaves_a_log_beside_a_copy(t *testing.T) {
	for name, beyond := range map[string]int{"shorter": -20, "as long": 0, "longer": 70} {
		t.Run(name, func(t *testing.T) {
			replaced(t, beyond, func(t *testing.T, f *follower, meta *raft.SnapshotMeta, body []byte) {
				t.Helper()
				meta.Size = int64(len(body))
				install(t, f.Node, meta, io.NopCloser(bytes.NewReader(body)))
				shutdown(t, f.Node)
				f.Node = start(t, f.cfg)
			})
		})
	}
}

// replaced has the state of a node, whose log goes on with entries of another term to
// beyond where the copy ends, replaced by a copy of one that has gone farther.
func replaced(t *testing.T, beyond int, replace func(t *testing.T, f *follower, meta *raft.SnapshotMeta, body []byte)) {
	t.Helper()
	for name, kind := range map[string]cluster.LogKind{"segments": cluster.LogSegments, "bolt": cluster.LogBolt} {
		t.Run(name, func(t *testing.T) {
			meta, body, want := farther(t)
			played(t, kind, 10, func(t *testing.T, f *follower) {
				t.Helper()
				last := f.end()
				f.term += 5
				f.append(last, f.term-5, int(meta.Index-last)+beyond, last)
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
