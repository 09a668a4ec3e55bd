package cluster_test

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/store/memstore"
)

// faultyLog puts faults in front of a log.
type faultyLog struct {
	cluster.LogStore
	*faults
}

// faults may be replaced while the node runs; nil does what the log does.
type faults struct {
	store atomic.Pointer[func(logs []*raft.Log, store func() error) error]
	set   atomic.Pointer[func(key string, set func() error) error]
	get   atomic.Pointer[func(index uint64, log *raft.Log, get func() error) error]
}

// faulty makes every log that a node of cfg opens one with faults. The faults
// stay over a reopening; the log does too, if it is in memory.
func faulty(cfg *cluster.Setup) *faults {
	f := new(faults)
	cluster.WrapLog(cfg, func(inner cluster.LogStore) cluster.LogStore { return &faultyLog{inner, f} })
	return f
}

func (f *faultyLog) StoreLogs(logs []*raft.Log) error {
	do := func() error { return f.LogStore.StoreLogs(logs) }
	if hook := f.store.Load(); hook != nil {
		return (*hook)(logs, do)
	}
	return do()
}

func (f *faultyLog) StoreLog(log *raft.Log) error { return f.StoreLogs([]*raft.Log{log}) }

func (f *faultyLog) SetUint64(key []byte, n uint64) error {
	do := func() error { return f.LogStore.SetUint64(key, n) }
	if hook := f.set.Load(); hook != nil {
		return (*hook)(string(key), do)
	}
	return do()
}

func (f *faultyLog) GetLog(index uint64, log *raft.Log) error {
	do := func() error { return f.LogStore.GetLog(index, log) }
	if hook := f.get.Load(); hook != nil {
		return (*hook)(index, log, do)
	}
	return do()
}

// onStore replaces what happens when entries are written.
func (f *faults) onStore(hook func(logs []*raft.Log, store func() error) error) {
	f.store.Store(&hook)
}

func (f *faults) heal() {
	f.store.Store(nil)
	f.set.Store(nil)
	f.get.Store(nil)
}

// hold makes the next write wait. entered is closed when it begins.
func (f *faults) hold() (entered <-chan struct{}, release func()) {
	in, out := make(chan struct{}), make(chan struct{})
	f.onStore(func(_ []*raft.Log, store func() error) error {
		f.heal()
		close(in)
		<-out
		return store()
	})
	return in, func() { close(out) }
}

var errFull = syscall.ENOSPC

func TestNode_deadline_while_the_write_is_under_way_is_unknown(t *testing.T) {
	var cfg cluster.Setup
	log := faulty(&cfg)
	n := open(t, cfg)
	session(t, n)
	entered, release := log.hold()

	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() {
		_, err := n.Propose(ctx, enqueue(1, 10))
		answer <- err
	}()
	<-entered
	cancel()
	if err := <-answer; !errors.Is(err, cluster.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("propose: got %v, want %v and %v", err, cluster.ErrOutcomeUnknown, context.Canceled)
	}
	release()
	if _, err := n.Propose(t.Context(), enqueue(2, 10)); err != nil { // applied after the first
		t.Fatal(err)
	}
	if got := live(n); got != 2 {
		t.Errorf("live runs: got %d, want 2: the unknown one was committed", got)
	}
}

func TestNode_deadline_before_the_entry_is_formed_changes_nothing(t *testing.T) {
	cfg := cluster.Setup{Depth: 1}
	log := faulty(&cfg)
	n := open(t, cfg)
	session(t, n)
	entered, release := log.hold()
	first := make(chan error, 1)
	go func() {
		_, err := n.Propose(t.Context(), enqueue(1, 10))
		first <- err
	}()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() {
		_, err := n.Propose(ctx, enqueue(2, 10))
		second <- err
	}()
	for n.Status().Waiting == 0 {
		<-tick()
	}
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) || errors.Is(err, cluster.ErrOutcomeUnknown) {
		t.Errorf("propose: got %v, want %v alone", err, context.Canceled)
	}
	release()
	if err := <-first; err != nil {
		t.Errorf("first propose: %v", err)
	}
	if _, err := n.Propose(t.Context(), enqueue(3, 10)); err != nil {
		t.Fatal(err)
	}
	if got := live(n); got != 2 {
		t.Errorf("live runs: got %d, want 2: the withdrawn one must not appear", got)
	}
}

// Raft's own leader goes on after a failed write, and is elected again without
// ever having the entry (raft issue 614).
func TestNode_failed_write_latches_the_log_until_it_is_reopened(t *testing.T) {
	kinds(t, func(t *testing.T, cfg cluster.Setup) {
		t.Helper()
		log := faulty(&cfg)
		n := open(t, cfg)
		session(t, n)
		before := n.Status().Term
		tried := 0
		log.onStore(func([]*raft.Log, func() error) error {
			tried++
			return errFull
		})
		_, err := n.Propose(t.Context(), enqueue(1, 10))
		if !errors.Is(err, cluster.ErrOutcomeUnknown) || !errors.Is(err, errFull) {
			t.Errorf("propose on a full disk: got %v, want %v and %v", err, cluster.ErrOutcomeUnknown, errFull)
		}
		var refused error
		for !errors.Is(refused, cluster.ErrStorage) {
			<-tick()
			_, refused = n.Propose(t.Context(), enqueue(2, 10))
		}
		if s := n.Status(); !errors.Is(s.Fault, errFull) {
			t.Errorf("status: got fault %v, want %v", s.Fault, errFull)
		}
		log.heal()
		if err := n.Ready(deadline(t)); err != nil {
			t.Fatalf("node does not recover: %v", err)
		}
		if _, err := n.Propose(t.Context(), enqueue(3, 10)); err != nil {
			t.Errorf("propose after recovery: %v", err)
		}
		s := n.Status()
		if s.Term <= before {
			t.Errorf("term after recovery: got %d, want one after %d", s.Term, before)
		}
		if got := live(n); got != 1 {
			t.Errorf("live runs: got %d, want 1", got)
		}
	})
}

// An fsync that fails may have written: the entry is there after the reopening.
func TestNode_Call_finds_its_answer_after_a_lost_one(t *testing.T) {
	kinds(t, func(t *testing.T, cfg cluster.Setup) {
		t.Helper()
		log := faulty(&cfg)
		n := open(t, cfg)
		session(t, n)
		log.onStore(func(_ []*raft.Log, store func() error) error {
			log.heal()
			return errors.Join(store(), errors.New("fsync failed"))
		})
		applied := n.Status().Applied
		res, err := n.Call(deadline(t), enqueue(1, 10))
		if err != nil || res.Code != store.OK {
			t.Errorf("call: got %+v, %v, want the first try's answer", res, err)
		}
		if got := live(n); got != 1 {
			t.Errorf("live runs: got %d, want 1", got)
		}
		// The first try and its repetition are both in the log.
		if got := n.Status().Applied; got < applied+2 {
			t.Errorf("applied index: got %d, want at least %d", got, applied+2)
		}
	})
}

func TestNode_Call_repeats_what_was_not_written(t *testing.T) {
	kinds(t, func(t *testing.T, cfg cluster.Setup) {
		t.Helper()
		log := faulty(&cfg)
		n := open(t, cfg)
		session(t, n)
		log.onStore(func([]*raft.Log, func() error) error {
			log.heal()
			return errFull
		})
		res, err := n.Call(deadline(t), enqueue(1, 10))
		if err != nil || res.Code != store.OK {
			t.Errorf("call: got %+v, %v, want success", res, err)
		}
		if got := live(n); got != 1 {
			t.Errorf("live runs: got %d, want 1", got)
		}
	})
}

func TestNode_Call_is_unknown_when_its_time_ends_before_its_outcome(t *testing.T) {
	var cfg cluster.Setup
	log := faulty(&cfg)
	n := open(t, cfg)
	session(t, n)
	ctx, cancel := context.WithCancel(t.Context())
	log.onStore(func([]*raft.Log, func() error) error {
		cancel()
		return errFull
	})
	_, err := n.Call(ctx, enqueue(1, 10))
	if !errors.Is(err, cluster.ErrOutcomeUnknown) {
		t.Errorf("call: got %v, want %v", err, cluster.ErrOutcomeUnknown)
	}
	log.heal()
}

// Raft panics when its term cannot be saved, on a goroutine of its own.
func TestNode_term_that_cannot_be_saved_does_not_end_the_process(t *testing.T) {
	kinds(t, func(t *testing.T, cfg cluster.Setup) {
		t.Helper()
		log := faulty(&cfg)
		saves := 0
		failing := func(key string, set func() error) error {
			if key != "CurrentTerm" {
				return set()
			}
			saves++
			if saves == 1 || saves == 3 { // while raft starts, and in the election after it has
				return errFull
			}
			return set()
		}
		n := open(t, cfg)
		session(t, n)
		log.set.Store(&failing)
		log.onStore(func([]*raft.Log, func() error) error { // makes it start over
			log.store.Store(nil)
			return errFull
		})
		if _, err := n.Call(deadline(t), enqueue(1, 10)); err != nil {
			t.Errorf("call: %v", err)
		}
		shutdown(t, n)
		if saves != 5 {
			t.Errorf("saves of the term: got %d, want 5, two of them failing", saves)
		}
	})
}

// Nor may an entry that cannot be read take the process down.
func TestNode_unreadable_entry_parks(t *testing.T) {
	log := cluster.NewMemLog()
	cfg := cluster.Setup{Storage: memstore.New(memstore.Options{})}
	cluster.WrapLog(&cfg, func(cluster.LogStore) cluster.LogStore { return log })
	n := open(t, cfg)
	session(t, n)
	for i := range 10 {
		if _, err := n.Propose(t.Context(), enqueue(i, 10)); err != nil {
			t.Fatal(err)
		}
	}
	bad := n.Status().Applied - 3
	shutdown(t, n)

	cfg = cluster.Setup{Storage: memstore.New(memstore.Options{})} // everything is to be replayed
	unreadable := &faultyLog{log, new(faults)}
	reads := 0
	get := func(index uint64, _ *raft.Log, get func() error) error {
		if index == bad {
			if reads++; reads > 1 { // the first is raft's look at the whole log when it starts
				return syscall.EIO
			}
		}
		return get()
	}
	unreadable.get.Store(&get)
	cluster.WrapLog(&cfg, func(cluster.LogStore) cluster.LogStore { return unreadable })
	n = start(t, cfg)
	err := n.Ready(deadline(t))
	if !errors.Is(err, cluster.ErrParked) || !errors.Is(err, cluster.ErrDamaged) {
		t.Errorf("ready: got %v, want %v and %v", err, cluster.ErrParked, cluster.ErrDamaged)
	}
	if got := n.Status().Applied; got >= bad {
		t.Errorf("applied: got %d, want less than %d, the unreadable one", got, bad)
	}
}
