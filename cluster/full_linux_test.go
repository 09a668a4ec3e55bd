package cluster_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/store"
)

// A file system that is really full: the node refuses calls, goes on by itself
// when there is room, and has everything it acknowledged.
func TestNode_survives_a_full_disk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 48<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := cluster.Setup{Dir: filepath.Join(dir, "node")}
	n := open(t, cfg)
	session(t, n)

	acked := make(map[int]bool)
	var err error
	for i := 0; !errors.Is(err, cluster.ErrStorage); i++ {
		var res store.Result
		if res, err = n.Propose(deadline(t), enqueue(i, 32<<10)); err == nil && res.Code == store.OK {
			acked[i] = true
		}
		if i > 5000 {
			t.Fatalf("the disk does not get full: %v", err)
		}
	}
	if fault := n.Status().Fault; !errors.Is(fault, syscall.ENOSPC) {
		t.Errorf("fault: got %v, want %v", fault, syscall.ENOSPC)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := n.Call(deadline(t), enqueue(10_000, 10)); err == nil {
			break
		} else if !errors.Is(err, cluster.ErrStorage) && !errors.Is(err, cluster.ErrOutcomeUnknown) {
			t.Fatalf("call: %v", err)
		}
		<-tick()
	}
	check := func(n *cluster.Node) {
		t.Helper()
		n.View(func(st *store.State) {
			for i := range acked {
				if st.LiveRun(runID(i)) == nil {
					t.Fatalf("run %d was acknowledged and is lost", i)
				}
			}
		})
	}
	check(n)
	before := digest(n)
	shutdown(t, n)
	n = open(t, cfg)
	check(n)
	if got := digest(n); got != before {
		t.Errorf("digest after a restart: got %x, want %x", got, before)
	}
	shutdown(t, n)
}
