package cluster_test

import (
	"errors"
	"io"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/store/memstore"
)

// A snapshot goes through the hands of raft as the body of one node's snapshot
// store, into a sink of another's, and from there into its state machine.
func TestNode_installs_the_body_of_another_node(t *testing.T) {
	from := open(t, cluster.Setup{})
	session(t, from)
	for i := range 50 {
		if _, err := from.Propose(t.Context(), enqueue(i, 10)); err != nil {
			t.Fatal(err)
		}
	}
	if err := from.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := from.Snapshots().List()
	if err != nil {
		t.Fatal(err)
	}
	meta, body, err := from.Snapshots().Open(list[0].ID)
	if err != nil {
		t.Fatal(err)
	}

	log := cluster.NewMemLog()
	cfg := cluster.Setup{Storage: keep{memstore.New(memstore.Options{})}}
	cluster.WrapLog(&cfg, func(cluster.LogStore) cluster.LogStore { return log })
	to := open(t, cfg)
	install(t, to, meta, body)
	if got, want := digest(to), digest(from); got != want {
		t.Errorf("digest: got %x, want %x", got, want)
	}
	if s := to.Status(); s.Applied != meta.Index || s.Flushed != meta.Index {
		t.Errorf("after the installation: applied %d, flushed %d, want %d", s.Applied, s.Flushed, meta.Index)
	}
	shutdown(t, to)

	// Now storage is ahead of the log, and may be.
	to = open(t, cfg)
	to.View(func(st *store.State) {
		if st.Live() != 50 {
			t.Errorf("live runs after a restart: got %d, want 50", st.Live())
		}
	})
}

func install(t *testing.T, n *cluster.Node, meta *raft.SnapshotMeta, body io.ReadCloser) {
	t.Helper()
	sink, err := n.Snapshots().Create(meta.Version, meta.Index, meta.Term, meta.Configuration, meta.ConfigurationIndex, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(sink, body)
	if err = errors.Join(err, body.Close(), sink.Close()); err != nil {
		t.Fatal(err)
	}
	got, received, err := n.Snapshots().Open(sink.ID())
	if err != nil {
		t.Fatal(err)
	}
	if got.Index != meta.Index || got.Term != meta.Term || got.Size != meta.Size {
		t.Errorf("received: got %+v, want %+v", got, meta)
	}
	if err := n.Install(received); err != nil {
		t.Fatal(err)
	}
}
