package cluster_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/store"
)

// A disk that takes a write now and then does not make a node look well in between.
func TestNode_Status_has_one_fault_until_writes_work(t *testing.T) {
	watch := func(t *testing.T, n *cluster.Node, heal func()) {
		t.Helper()
		var fault error
		for i := range 300 {
			_, _ = n.Propose(deadline(t), enqueue(i, 10)) // some go through
			switch got := n.Status().Fault; {
			case fault == nil:
				fault = got
			case got == nil || got.Error() != fault.Error():
				t.Fatalf("fault: got %v, want %v as before", got, fault)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if !errors.Is(fault, errFull) {
			t.Fatalf("fault: got %v, want %v", fault, errFull)
		}
		heal()
		time.Sleep(15 * time.Second)
		if got := n.Status().Fault; got != nil {
			t.Errorf("fault after the disk has worked for long: %v", got)
		}
	}
	t.Run("of the log, which is opened each time", func(t *testing.T) {
		var cfg cluster.Setup
		log := faulty(&cfg)
		bubble(t, cfg, func(t *testing.T, n *cluster.Node) {
			t.Helper()
			commands := 0
			log.onStore(func(logs []*raft.Log, store func() error) error {
				if logs[0].Type == raft.LogCommand {
					if commands++; commands%3 == 0 {
						return errFull
					}
				}
				return store()
			})
			watch(t, n, log.heal)
		})
	})
	t.Run("of the storage", func(t *testing.T) {
		s := newFaultyStorage()
		bubble(t, cluster.Setup{Storage: s}, func(t *testing.T, n *cluster.Node) {
			t.Helper()
			flushes := 0
			s.onCommit(func(_ *store.Flush, commit func() error) error {
				if flushes++; flushes%2 == 0 {
					return errFull
				}
				return commit()
			})
			watch(t, n, func() { s.commit.Store(nil) })
		})
	})
}
