package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/store/memstore"
)

// faultyStorage puts a fault in front of commits.
type faultyStorage struct {
	cluster.Storage
	commit atomic.Pointer[func(f *store.Flush, commit func() error) error]
}

func (s *faultyStorage) Commit(f *store.Flush, configuration []byte) error {
	do := func() error { return s.Storage.Commit(f, configuration) }
	if hook := s.commit.Load(); hook != nil {
		return (*hook)(f, do)
	}
	return do()
}

func (s *faultyStorage) onCommit(hook func(f *store.Flush, commit func() error) error) {
	s.commit.Store(&hook)
}

// hang has commits wait until release is closed.
func (s *faultyStorage) hang() (release chan struct{}) {
	release = make(chan struct{})
	s.onCommit(func(_ *store.Flush, commit func() error) error {
		<-release
		return commit()
	})
	return release
}

func newFaultyStorage() *faultyStorage {
	return &faultyStorage{Storage: memstore.New(memstore.Options{})}
}

func TestNode_failing_storage_refuses_calls_until_it_works_again(t *testing.T) {
	s := newFaultyStorage()
	n := open(t, cluster.Setup{Storage: s})
	session(t, n)
	var failed *store.Flush
	s.onCommit(func(f *store.Flush, commit func() error) error {
		if failed != nil && f != failed {
			t.Errorf("another flush was committed than the one that failed")
		}
		failed = f
		return errFull
	})
	if _, err := n.Propose(t.Context(), enqueue(1, 10)); err != nil {
		t.Fatal(err)
	}
	if err := n.Flush(deadline(t)); !errors.Is(err, cluster.ErrStorage) || !errors.Is(err, errFull) {
		t.Errorf("flush: got %v, want %v and %v", err, cluster.ErrStorage, errFull)
	}
	if _, err := n.Propose(t.Context(), enqueue(2, 10)); !errors.Is(err, cluster.ErrStorage) {
		t.Errorf("propose: got %v, want %v", err, cluster.ErrStorage)
	}
	if _, err := n.Call(t.Context(), enqueue(2, 10)); !errors.Is(err, cluster.ErrStorage) {
		t.Errorf("call: got %v, want %v", err, cluster.ErrStorage)
	}
	if s := n.Status(); !errors.Is(s.Fault, errFull) || s.Role != cluster.Leader {
		t.Errorf("status: got %v with fault %v, want a leader with %v", s.Role, s.Fault, errFull)
	}
	s.onCommit(func(f *store.Flush, commit func() error) error {
		if f != failed {
			t.Errorf("another flush was committed than the one that failed")
		}
		s.commit.Store(nil)
		return commit()
	})
	res, err := n.Call(t.Context(), enqueue(2, 10))
	for errors.Is(err, cluster.ErrStorage) { // the flusher tries again by itself
		<-tick()
		res, err = n.Call(t.Context(), enqueue(2, 10))
	}
	if err != nil || res.Code != store.OK {
		t.Errorf("call after recovery: %+v, %v", res, err)
	}
}

// A disk that hangs must not hold those who wait for a flush beyond their contexts,
// neither the one for whom it was begun nor those behind him.
func TestNode_a_flush_heeds_its_context(t *testing.T) {
	s := newFaultyStorage()
	bubble(t, cluster.Setup{Storage: s}, func(t *testing.T, n *cluster.Node) {
		t.Helper()
		if err := n.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		release := s.hang()
		if _, err := n.Propose(t.Context(), enqueue(1, 10)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // before the flusher begins by itself
		defer cancel()
		answers := make(chan error, 3)
		for range cap(answers) {
			go func() { answers <- n.Flush(ctx) }()
		}
		for range cap(answers) {
			if err := <-answers; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("flush: got %v, want %v", err, context.DeadlineExceeded)
			}
		}
		if took := time.Since(began); took != 500*time.Millisecond {
			t.Errorf("they took %v, want 500ms", took)
		}
		close(release)
		if err := n.Flush(t.Context()); err != nil {
			t.Errorf("flush after the hang: %v", err)
		}
	})
}

// Storage is not called concurrently: it is not closed while it commits for somebody
// who has gone. A parked node flushes nothing at its end, which would wait for that.
func TestNode_storage_is_closed_after_its_last_commit(t *testing.T) {
	s := &closing{faultyStorage: newFaultyStorage()}
	armed := new(atomic.Bool)
	cfg := cluster.Setup{Storage: s, OnApply: func(*store.State, uint64, *store.Batch, []store.Result, []store.Event) {
		if armed.Load() {
			panic("a bug")
		}
	}}
	bubble(t, cfg, func(t *testing.T, n *cluster.Node) {
		t.Helper()
		release := make(chan struct{})
		s.onCommit(func(_ *store.Flush, commit func() error) error {
			<-release
			if s.closed.Load() {
				t.Error("closed while it commits")
			}
			return commit()
		})
		if _, err := n.Propose(t.Context(), enqueue(1, 10)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if err := n.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("flush: %v", err)
		}
		armed.Store(true)
		if _, err := n.Propose(t.Context(), enqueue(2, 10)); !errors.Is(err, cluster.ErrParked) {
			t.Fatalf("propose: %v", err)
		}
		ended := make(chan error)
		go func() { ended <- n.Shutdown(t.Context()) }()
		synctest.Wait()
		close(release)
		if err := <-ended; err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
}

type closing struct {
	*faultyStorage
	closed atomic.Bool
}

func (c *closing) Close() error {
	c.closed.Store(true)
	return c.faultyStorage.Close()
}

func TestNode_holds_back_calls_while_storage_lags(t *testing.T) {
	s := newFaultyStorage()
	bubble(t, cluster.Setup{Storage: s, MaxUnflushed: 50, MaxWaiting: 3}, func(t *testing.T, n *cluster.Node) {
		t.Helper()
		if err := n.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		release := s.hang()
		for i := 0; n.Status().Unflushed < 50; i++ {
			if _, err := n.Propose(t.Context(), enqueue(i, 10)); err != nil {
				t.Fatal(err)
			}
		}
		answers := make(chan error, 2)
		for i := range 2 {
			go func() {
				_, err := n.Propose(t.Context(), enqueue(100+i, 10))
				answers <- err
			}()
		}
		time.Sleep(time.Hour)
		if got := n.Status().Waiting; got != 2 {
			t.Fatalf("%d calls wait, want 2", got)
		}

		report := store.Command{Kind: store.KindComplete, Complete: &store.Complete{Session: 1}}
		if _, err := n.Propose(t.Context(), report); err != nil {
			t.Errorf("a worker's report: got %v, want that it is taken", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.Propose(ctx, enqueue(200, 10)); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, cluster.ErrOutcomeUnknown) {
			t.Errorf("a call with a deadline: got %v, want %v alone", err, context.DeadlineExceeded)
		}
		ctx, cancel = context.WithCancel(t.Context())
		go func() { _, _ = n.Propose(ctx, enqueue(300, 10)) }()
		synctest.Wait()
		var over *cluster.OverloadedError
		_, err := n.Propose(t.Context(), enqueue(400, 10))
		if !errors.As(err, &over) || !errors.Is(err, cluster.ErrOverloaded) || over.RetryAfter <= 0 {
			t.Errorf("one more than may wait: got %v, want %v with a time to retry after", err, cluster.ErrOverloaded)
		}
		cancel()

		close(release)
		for range 2 {
			if err := <-answers; err != nil {
				t.Errorf("a call that was held back: %v", err)
			}
		}
	})
}

func TestNode_refuses_calls_that_are_held_back_when_storage_fails(t *testing.T) {
	s := newFaultyStorage()
	bubble(t, cluster.Setup{Storage: s, MaxUnflushed: 10}, func(t *testing.T, n *cluster.Node) {
		t.Helper()
		if err := n.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		fail := make(chan struct{})
		s.onCommit(func(*store.Flush, func() error) error {
			<-fail
			return errFull
		})
		for i := 0; n.Status().Unflushed < 10; i++ {
			if _, err := n.Propose(t.Context(), enqueue(i, 10)); err != nil {
				t.Fatal(err)
			}
		}
		answer := make(chan error)
		go func() {
			_, err := n.Propose(t.Context(), enqueue(100, 10))
			answer <- err
		}()
		synctest.Wait()
		close(fail)
		if err := <-answer; !errors.Is(err, cluster.ErrStorage) {
			t.Errorf("a call that was held back: got %v, want %v", err, cluster.ErrStorage)
		}
		s.commit.Store(nil)
		time.Sleep(10 * time.Second)
		if _, err := n.Propose(t.Context(), enqueue(100, 10)); err != nil {
			t.Errorf("once storage works: %v", err)
		}
	})
}

// bubble runs a test of a node in virtual time.
func bubble(t *testing.T, cfg cluster.Setup, test func(t *testing.T, n *cluster.Node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := open(t, cfg)
		session(t, n)
		test(t, n)
		shutdown(t, n)
		time.Sleep(time.Minute) // raft leaves timers behind
	})
}

func TestNode_writes_behind_at_its_pace(t *testing.T) {
	s := newFaultyStorage()
	bubble(t, cluster.Setup{Storage: s}, func(t *testing.T, n *cluster.Node) {
		t.Helper()
		if err := n.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		var mu sync.Mutex
		var at []time.Duration
		began := time.Now()
		s.onCommit(func(_ *store.Flush, commit func() error) error {
			mu.Lock()
			at = append(at, time.Since(began))
			mu.Unlock()
			time.Sleep(600 * time.Millisecond)
			return commit()
		})
		for i := range 70 { // a change every 100 ms
			if _, err := n.Propose(t.Context(), enqueue(i, 10)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		mu.Lock()
		defer mu.Unlock()
		// A second after the first change; then a third of the time at most.
		want := []time.Duration{1000, 2800, 4600, 6400}
		for i := range want {
			want[i] *= time.Millisecond
		}
		if len(at) != len(want) {
			t.Fatalf("flushes began at %v, want %v", at, want)
		}
		for i := range want {
			if at[i] != want[i] {
				t.Errorf("flushes began at %v, want %v", at, want)
				break
			}
		}
	})
}

func TestNode_idle_node_writes_nothing(t *testing.T) {
	s := newFaultyStorage()
	bubble(t, cluster.Setup{Storage: s}, func(t *testing.T, n *cluster.Node) {
		t.Helper()
		time.Sleep(3 * time.Second)
		var flushes atomic.Int64
		s.onCommit(func(_ *store.Flush, commit func() error) error {
			flushes.Add(1)
			return commit()
		})
		time.Sleep(time.Hour)
		if got := flushes.Load(); got != 0 {
			t.Errorf("flushes in an idle hour: got %d, want 0", got)
		}
	})
}

// What changes while a flush fails is not part of it, and follows by itself.
func TestNode_flushes_what_changed_while_a_flush_failed(t *testing.T) {
	s := newFaultyStorage()
	bubble(t, cluster.Setup{Storage: s}, func(t *testing.T, n *cluster.Node) {
		t.Helper()
		if _, err := n.Propose(t.Context(), enqueue(1, 10)); err != nil {
			t.Fatal(err)
		}
		s.onCommit(func(*store.Flush, func() error) error {
			s.commit.Store(nil)
			if _, err := n.Propose(t.Context(), enqueue(2, 10)); err != nil {
				t.Error(err)
			}
			return errFull
		})
		time.Sleep(15 * time.Second)
		if st := n.Status(); st.Flushed != st.Applied {
			t.Errorf("flushed %d of %d", st.Flushed, st.Applied)
		}
	})
}

func TestNode_tries_a_failing_flush_less_and_less_often(t *testing.T) {
	s := newFaultyStorage()
	bubble(t, cluster.Setup{Storage: s}, func(t *testing.T, n *cluster.Node) {
		t.Helper()
		var tries atomic.Int64
		s.onCommit(func(_ *store.Flush, commit func() error) error {
			tries.Add(1)
			return errFull
		})
		if _, err := n.Propose(t.Context(), enqueue(1, 10)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := tries.Load(); got < 10 || got > 25 {
			t.Errorf("tries in a minute: got %d, want 10 to 25", got)
		}
		s.commit.Store(nil)
		time.Sleep(15 * time.Second)
		if st := n.Status(); st.Fault != nil || st.Flushed != st.Applied {
			t.Errorf("after the disk works: fault %v, flushed %d of %d", st.Fault, st.Flushed, st.Applied)
		}
	})
}

func TestNode_log_is_truncated_behind_storage(t *testing.T) {
	log := cluster.NewMemLog()
	cfg := cluster.Setup{Storage: keep{memstore.New(memstore.Options{})}, TrailingBytes: 64 << 10}
	cluster.WrapLog(&cfg, func(cluster.LogStore) cluster.LogStore { return log })
	n := open(t, cfg)
	session(t, n)
	for i := range 3000 {
		if _, err := n.Propose(t.Context(), enqueue(i, 200)); err != nil {
			t.Fatal(err)
		}
	}
	first := uint64(1)
	for end := n.Status().Applied - 1500; first < end; {
		<-tick()
		if _, err := n.Propose(t.Context(), command(10)); err != nil {
			t.Fatal(err)
		}
		var err error
		if first, err = log.FirstIndex(); err != nil {
			t.Fatal(err)
		}
	}
	if flushed := n.Status().Flushed; flushed-first < 1000 {
		t.Errorf("log begins at %d with storage at %d: too little is kept", first, flushed)
	}
	before := digest(n)
	shutdown(t, n)
	n = open(t, cfg)
	if got := digest(n); got != before {
		t.Errorf("digest after a restart: got %x, want %x", got, before)
	}
}

func TestNode_snapshot_is_the_storage_brought_up_to_date(t *testing.T) {
	n := open(t, cluster.Setup{})
	session(t, n)
	for i := range 20 {
		if _, err := n.Propose(t.Context(), enqueue(i, 10)); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Raft().Barrier(0).Error(); err != nil { // its entry holds no batch
		t.Fatal(err)
	}
	if err := n.Raft().Snapshot().Error(); err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	if s := n.Status(); s.Flushed != s.Last {
		t.Errorf("flushed: got %d, want %d, the index of the snapshot", s.Flushed, s.Last)
	}
	list, err := n.Snapshots().List()
	if err != nil || len(list) != 1 {
		t.Fatalf("snapshots: %v, %v", list, err)
	}
	meta, body, err := n.Snapshots().Open(list[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if meta.Index < list[0].Index || len(meta.Configuration.Servers) != 1 {
		t.Errorf("body: got index %d with %v, want at least %d and a server", meta.Index, meta.Configuration.Servers, list[0].Index)
	}
	data, err := io.ReadAll(body)
	if err != nil || int64(len(data)) != meta.Size {
		t.Fatalf("body: %d bytes, %v, want %d", len(data), err, meta.Size)
	}
	copied := memstore.New(memstore.Options{})
	if err := copied.Restore(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	img, err := copied.Image()
	if err != nil {
		t.Fatal(err)
	}
	state := store.NewState()
	if err := state.Load(img); err != nil {
		t.Fatal(err)
	}
	if got, want := state.Digest(), digest(n); got != want {
		t.Errorf("digest of the copy: got %x, want %x", got, want)
	}
}
