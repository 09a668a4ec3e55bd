package cluster_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/store/memstore"
)

// Calls go on while the log and storage fail at random: each call is applied
// once, and what was acknowledged is there after a restart.
func TestNode_storm_of_faults_loses_and_doubles_nothing(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) { storm(t, seed) })
	}
}

func storm(t *testing.T, seed uint64) {
	t.Helper()
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 1))
	chance := func(n int) bool {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(n) == 0
	}
	log := &faultyLog{cluster.NewMemLog(), new(faults)}
	storage := newFaultyStorage()
	var cfg cluster.Setup
	cfg.Storage = keep{storage}
	cluster.WrapLog(&cfg, func(cluster.LogStore) cluster.LogStore { return log })
	n := open(t, cfg)
	session(t, n)
	log.onStore(func(_ []*raft.Log, store func() error) error {
		time.Sleep(time.Millisecond)
		switch {
		case chance(30):
			return errFull
		case chance(30):
			return errors.Join(store(), errors.New("fsync failed"))
		}
		return store()
	})
	storage.onCommit(func(_ *store.Flush, commit func() error) error {
		time.Sleep(10 * time.Millisecond)
		if chance(5) {
			return errFull
		}
		return commit()
	})
	const callers, calls = 8, 150
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range calls {
				call(t, n, enqueue(c*calls+i, 100))
			}
		})
	}
	wg.Wait()
	if got := live(n); got != callers*calls {
		t.Errorf("seed %d: live runs: got %d, want %d", seed, got, callers*calls)
	}
	log.heal()
	storage.commit.Store(nil)
	if err := n.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := digest(n)
	shutdown(t, n)
	n = open(t, cfg)
	if got := digest(n); got != before {
		t.Errorf("seed %d: digest after a restart: got %x, want %x", seed, got, before)
	}
	shutdown(t, n)

	cfg.Storage = memstore.New(memstore.Options{}) // all of the log once more
	n = open(t, cfg)
	if got := digest(n); got != before {
		t.Errorf("seed %d: digest of the replayed log: got %x, want %x", seed, got, before)
	}
	shutdown(t, n)
	time.Sleep(time.Minute) // raft leaves timers behind
}

// call repeats a call that was refused.
func call(t *testing.T, n *cluster.Node, cmd store.Command) {
	t.Helper()
	for {
		res, err := n.Call(t.Context(), cmd)
		switch {
		case err == nil && res.Code == store.OK:
			return
		case err == nil:
			t.Errorf("call: got %+v, want it to be applied once", res)
			return
		case !errors.Is(err, cluster.ErrStorage):
			t.Errorf("call: %v", err)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}
