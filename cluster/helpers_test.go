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

func deadline(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), hang)
	tb.Cleanup(cancel)
	return ctx
}

func logger() *slog.Logger {
	if os.Getenv("CLUSTER_LOG") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// open starts a node and waits until it leads; it is shut down with the test.
func open(tb testing.TB, cfg cluster.Setup) *cluster.Node {
	tb.Helper()
	n := start(tb, cfg)
	if err := n.Ready(deadline(tb)); err != nil {
		tb.Fatalf("node does not get ready: %v", err)
	}
	return n
}

// start starts a node; it is shut down with the test.
func start(tb testing.TB, cfg cluster.Setup) *cluster.Node {
	tb.Helper()
	if cfg.ID == "" {
		cfg.ID = "one"
	}
	if cfg.Storage == nil {
		cfg.Storage = storage(tb, cfg.Dir)
	}
	cfg.Logger = logger()
	n, err := cluster.Open(deadline(tb), cfg)
	if err != nil {
		tb.Fatalf("open: %v", err)
	}
	tb.Cleanup(func() { shutdown(tb, n) })
	return n
}

// shutdown may be called more than once.
func shutdown(tb testing.TB, n *cluster.Node) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), hang)
	defer cancel()
	if err := n.Shutdown(ctx); err != nil {
		tb.Errorf("shutdown: %v", err)
	}
}

// storage opens the storage of a folder, or one in memory.
func storage(tb testing.TB, dir string) cluster.Storage {
	tb.Helper()
	if dir == "" {
		return memstore.New(memstore.Options{})
	}
	s, err := boltstore.Open(dir, boltstore.Options{})
	if err != nil {
		tb.Fatalf("open storage: %v", err)
	}
	return s
}

// session opens a session that knows the task of enqueue.
func session(tb testing.TB, n *cluster.Node) uint64 {
	tb.Helper()
	id, err := n.OpenSession(deadline(tb), store.OpenSession{Node: "worker", Tasks: []string{"test"}})
	if err != nil {
		tb.Fatalf("open session: %v", err)
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
