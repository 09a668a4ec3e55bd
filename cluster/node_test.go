package cluster_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/store"
)

// kinds runs a test on a node in memory and on one with a folder.
func kinds(t *testing.T, test func(t *testing.T, cfg cluster.Setup)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { test(t, cluster.Setup{}) })
	t.Run("folder", func(t *testing.T) { test(t, cluster.Setup{Dir: t.TempDir()}) })
}

func TestNode_Propose_answers_each_caller_with_its_own_result(t *testing.T) {
	kinds(t, func(t *testing.T, cfg cluster.Setup) {
		t.Helper()
		n := open(t, cfg)
		session(t, n)
		const callers, calls = 64, 32
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				for i := range calls {
					id := c*calls + i
					cmd := enqueue(id, 100)
					if i%4 == 3 { // refused, and the answer names the run
						cmd = enqueue(id-1, 100)
					}
					res, err := n.Propose(t.Context(), cmd)
					want := store.Result{}
					if i%4 == 3 {
						want = store.Result{Code: store.CodeConflict, Run: runID(id - 1)}
					}
					if err != nil || res.Code != want.Code || res.Run != want.Run {
						t.Errorf("call %d of caller %d: got %+v, %v, want %+v", i, c, res, err, want)
					}
				}
			})
		}
		wg.Wait()
		if got, want := live(n), callers*calls*3/4; got != want {
			t.Errorf("live runs: got %d, want %d", got, want)
		}
	})
}

func TestNode_ProposeMany_is_one_entry(t *testing.T) {
	var sizes []int
	n := open(t, cluster.Setup{OnApply: func(_ *store.State, _ uint64, b *store.Batch, _ []store.Result, _ []store.Event) {
		sizes = append(sizes, len(b.Commands))
	}})
	session(t, n)
	results, err := n.ProposeMany(t.Context(), []store.Command{enqueue(1, 1), enqueue(1, 1), enqueue(2, 1)})
	if err != nil {
		t.Fatal(err)
	}
	got := []store.Code{results[0].Code, results[1].Code, results[2].Code}
	want := []store.Code{store.OK, store.CodeConflict, store.OK}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("codes: got %v, want %v", got, want)
			break
		}
	}
	shutdown(t, n)
	if last := sizes[len(sizes)-1]; last != 3 {
		t.Errorf("commands of the last entry: got %d, want 3", last)
	}
}

func TestNode_restart_loads_storage_and_skips_what_it_has(t *testing.T) {
	cfg := cluster.Setup{Dir: t.TempDir()}
	n := open(t, cfg)
	session(t, n)
	for i := range 100 {
		if _, err := n.Propose(t.Context(), enqueue(i, 50)); err != nil {
			t.Fatal(err)
		}
	}
	before := digest(n)
	shutdown(t, n)

	replayed := 0
	cfg.OnApply = func(*store.State, uint64, *store.Batch, []store.Result, []store.Event) { replayed++ }
	n = open(t, cfg)
	if got := digest(n); got != before {
		t.Errorf("digest after a restart: got %x, want %x", got, before)
	}
	if replayed != 0 {
		t.Errorf("entries applied again: got %d, want 0", replayed)
	}
	if res, err := n.Propose(t.Context(), enqueue(100, 50)); err != nil || res.Code != store.OK {
		t.Errorf("propose after a restart: %+v, %v", res, err)
	}
}

func TestNode_folder_in_use_is_a_named_error(t *testing.T) {
	cfg := cluster.Setup{Dir: t.TempDir()}
	open(t, cfg)
	_, err := cluster.Open(deadline(t), cluster.Setup{ID: "one", Dir: cfg.Dir, Storage: storage(t, "")})
	if !errors.Is(err, cluster.ErrFolderInUse) {
		t.Errorf("open of a folder in use: got %v, want %v", err, cluster.ErrFolderInUse)
	}
}
