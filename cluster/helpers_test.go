package cluster_test

import (
	"context"
	"encoding/binary"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/store/boltstore"
	"github.com/escapement-go/scheduler/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hang is how long a test waits for what must happen before it calls it a hang.
const hang = 30 * time.Second

func deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	t.Cleanup(cancel)
	return ctx
}

func logger() *slog.Logger {
	if os.Getenv("CLUSTER_LOG") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// open starts a node and waits until it leads; it is shut down with the test.
func open(t testing.TB, cfg cluster.Config) *cluster.Node {
	t.Helper()
	n := start(t, cfg)
	if err := n.Ready(deadline(t)); err != nil {
		t.Fatalf("node does not get ready: %v", err)
	}
	return n
}

// start starts a node; it is shut down with the test.
func start(t testing.TB, cfg cluster.Config) *cluster.Node {
	t.Helper()
	if cfg.ID == "" {
		cfg.ID = "one"
	}
	if cfg.Storage == nil {
		cfg.Storage = storage(t, cfg.Dir)
	}
	cfg.Logger = logger()
	n, err := cluster.Open(deadline(t), cfg)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { shutdown(t, n) })
	return n
}

// shutdown may be called more than once.
func shutdown(t testing.TB, n *cluster.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	if err := n.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

// storage opens the storage of a folder, or one in memory.
func storage(t testing.TB, dir string) cluster.Storage {
	t.Helper()
	if dir == "" {
		return memstore.New(memstore.Options{})
	}
	s, err := boltstore.Open(dir, boltstore.Options{})
	if err != nil {
		t.Fatalf("open storage: %v", err)
	}
	return s
}

// session opens a session that knows the task of enqueue.
func session(t testing.TB, n *cluster.Node) uint64 {
	t.Helper()
	id, err := n.OpenSession(deadline(t), store.OpenSession{Node: "worker", Tasks: []string{"test"}})
	if err != nil {
		t.Fatalf("open session: %v", err)
	}
	return id
}

var spec = (&store.Spec{
	Task: "test", Queue: "default", Priority: store.Normal,
	Retry: store.Retry{Initial: 1e9, Max: 60e9, Factor: 2, Attempts: 5},
}).Encode()

// runID is the n-th run ID.
func runID(n int) store.RunID {
	var entropy [10]byte
	binary.BigEndian.PutUint64(entropy[2:], uint64(n))
	return store.NewRunID(time.UnixMilli(1_700_000_000_000+int64(n)), entropy)
}

// enqueue is the command that adds the n-th run.
func enqueue(n, bytes int) store.Command {
	return store.Command{Kind: store.KindEnqueue, Enqueue: &store.Enqueue{
		Specs: [][]byte{spec}, Runs: []store.NewRun{{ID: runID(n), Input: make([]byte, bytes)}},
	}}
}

func digest(n *cluster.Node) (sum uint64) {
	n.View(func(st *store.State) { sum = st.Digest() })
	return sum
}

func live(n *cluster.Node) (runs int) {
	n.View(func(st *store.State) { runs = st.Live() })
	return runs
}

// tick returns a channel that delivers soon: for waiting until another goroutine
// got where it is going.
func tick() <-chan time.Time { return time.After(time.Millisecond) }
