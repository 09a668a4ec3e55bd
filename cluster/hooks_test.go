package cluster_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/internal/clock"
	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/store/memstore"
)

func TestNode_Prepare_adds_to_the_entry_and_is_not_answered(t *testing.T) {
	var entries [][]store.Kind
	n := open(t, cluster.Setup{
		Prepare: func(b *store.Batch, _ *store.State) {
			if len(b.Commands) > 0 && b.Commands[0].Kind == store.KindEnqueue {
				b.Commands = append(b.Commands, store.Command{Kind: store.KindEndSession, End: &store.EndSession{ID: 99}})
			}
		},
		OnApply: func(_ *store.State, _ uint64, b *store.Batch, _ []store.Result, _ []store.Event) {
			var kinds []store.Kind
			for i := range b.Commands {
				kinds = append(kinds, b.Commands[i].Kind)
			}
			entries = append(entries, kinds)
		},
	})
	session(t, n)
	res, err := n.Propose(t.Context(), enqueue(1, 10))
	if err != nil || res.Code != store.OK {
		t.Errorf("propose: got %+v, %v", res, err)
	}
	shutdown(t, n)
	last := entries[len(entries)-1]
	if len(last) != 2 || last[1] != store.KindEndSession {
		t.Errorf("commands of the entry: got %v, want the caller's and the prepared one", last)
	}
}

func TestNode_Kick_makes_an_entry_of_what_Prepare_adds(t *testing.T) {
	var due atomic.Bool
	prepared, applied := make(chan struct{}, 100), make(chan struct{}, 100)
	n := open(t, cluster.Setup{
		Prepare: func(b *store.Batch, _ *store.State) {
			if due.Swap(false) {
				b.Commands = append(b.Commands, store.Command{Kind: store.KindPrune, Prune: &store.Prune{}})
			}
			prepared <- struct{}{}
		},
		OnApply: func(*store.State, uint64, *store.Batch, []store.Result, []store.Event) { applied <- struct{}{} },
	})
	<-prepared // a new leader is asked at once
	n.Kick()
	<-prepared
	due.Store(true)
	n.Kick()
	<-prepared
	<-applied
	shutdown(t, n)
	if len(applied) != 0 {
		t.Errorf("entries beyond the one that was not empty: %d", len(applied))
	}
}

func TestNode_OnLead_comes_in_pairs_around_Prepare(t *testing.T) {
	var mu sync.Mutex
	var story []string
	tell := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		if len(story) == 0 || story[len(story)-1] != s {
			story = append(story, s)
		}
	}
	cfg := cluster.Setup{
		Prepare: func(*store.Batch, *store.State) { tell("prepare") },
		OnLead: func(_ *store.State, leading bool) {
			if leading {
				tell("lead")
			} else {
				tell("rest")
			}
		},
		OnDrop: func(*store.State) { tell("drop") },
	}
	log := faulty(&cfg)
	n := open(t, cfg)
	session(t, n)
	log.onStore(func([]*raft.Log, func() error) error {
		log.heal()
		return errFull
	})
	if _, err := n.Call(deadline(t), enqueue(1, 1)); err != nil {
		t.Fatal(err)
	}
	shutdown(t, n)
	var got []string
	for _, s := range story {
		if s != "drop" { // told if the node had not yet noticed that it leads no more
			got = append(got, s)
		}
	}
	want := []string{"lead", "prepare", "rest", "lead", "prepare", "rest"}
	if len(got) != len(want) {
		t.Fatalf("hooks: got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("hooks: got %v, want %v", got, want)
		}
	}
}

func TestNode_stamps_two_clocks(t *testing.T) {
	skewed := clock.NewSkewed(clock.System, 0)
	log := cluster.NewMemLog()
	cfg := cluster.Setup{Clock: skewed, Storage: keep{memstore.New(memstore.Options{})}}
	cluster.WrapLog(&cfg, func(cluster.LogStore) cluster.LogStore { return log })
	var stamps []store.Meta
	cfg.OnApply = func(st *store.State, _ uint64, b *store.Batch, _ []store.Result, _ []store.Event) {
		stamps = append(stamps, store.Meta{Wall: b.Wall, Elapsed: b.Elapsed})
	}
	const year = 365 * 24 * time.Hour
	propose := func(n *cluster.Node) store.Meta {
		t.Helper()
		if _, err := n.Propose(t.Context(), command(1)); err != nil {
			t.Fatal(err)
		}
		var last store.Meta
		n.View(func(*store.State) { last = stamps[len(stamps)-1] })
		return last
	}
	n := open(t, cfg)
	first := propose(n)
	if d := time.Duration(first.Elapsed - first.Wall).Abs(); d > time.Minute {
		t.Errorf("first entry: elapsed %d, want about wall %d", first.Elapsed, first.Wall)
	}
	for _, step := range []time.Duration{50 * year, -100 * year} {
		skewed.Step(step)
		next := propose(n)
		if d := next.Elapsed - first.Elapsed; d <= 0 || d > int64(time.Minute) {
			t.Errorf("elapsed after a step of the wall clock by %v: moved by %v", step, time.Duration(d))
		}
		if wall, elapsed := n.Now(); elapsed < next.Elapsed || wall < next.Wall {
			t.Errorf("now: got %d, %d, want at least what was stamped", wall, elapsed)
		}
		first = next
	}
	shutdown(t, n)

	skewed.Step(-year) // the clock was set back while the node was down
	n = open(t, cfg)
	again := propose(n)
	if d := again.Elapsed - first.Elapsed; d < 0 || d > int64(time.Minute) {
		t.Errorf("elapsed over a restart with the clock set back: moved by %v", time.Duration(d))
	}
	shutdown(t, n)

	skewed.Step(time.Hour)
	n = open(t, cfg)
	later := propose(n)
	if d := later.Elapsed - again.Elapsed; d < int64(time.Hour) || d > int64(time.Hour+time.Minute) {
		t.Errorf("elapsed over an hour of rest: moved by %v", time.Duration(d))
	}
}

func TestNode_refuses_more_calls_than_may_wait(t *testing.T) {
	cfg := cluster.Setup{Depth: 1, MaxWaiting: 2}
	log := faulty(&cfg)
	n := open(t, cfg)
	session(t, n)
	entered, release := log.hold()
	answers := make(chan error, 3)
	propose := func(i int) {
		_, err := n.Propose(t.Context(), enqueue(i, 10))
		answers <- err
	}
	go propose(1)
	<-entered
	go propose(2)
	go propose(3)
	for n.Status().Waiting < 2 {
		<-tick()
	}
	_, err := n.Propose(t.Context(), enqueue(4, 10))
	var over *cluster.OverloadedError
	if !errors.As(err, &over) || over.RetryAfter <= 0 {
		t.Errorf("propose: got %v, want %v with a time to retry after", err, cluster.ErrOverloaded)
	}
	release()
	for range 3 {
		if err := <-answers; err != nil {
			t.Errorf("propose: %v", err)
		}
	}
}

func TestNode_large_calls_make_entries_of_their_own(t *testing.T) {
	type entry struct{ commands, bytes int }
	var seen []entry
	cfg := cluster.Setup{Depth: 1, Observe: cluster.Observe{
		Batch: func(commands, bytes int, _ time.Duration) { seen = append(seen, entry{commands, bytes}) },
	}}
	log := faulty(&cfg)
	n := open(t, cfg)
	session(t, n)
	entered, release := log.hold()
	var wg sync.WaitGroup
	propose := func(i, bytes int) {
		wg.Go(func() {
			if _, err := n.Propose(t.Context(), enqueue(i, bytes)); err != nil {
				t.Errorf("propose: %v", err)
			}
		})
	}
	propose(1, 10)
	<-entered
	for i, bytes := range []int{30 << 10, 20 << 10, 1 << 20, 10} {
		propose(2+i, bytes)
		for n.Status().Waiting <= i { // in this order
			<-tick()
		}
	}
	release()
	wg.Wait()
	shutdown(t, n)
	var got []int
	for _, e := range seen[1:] { // after the session
		got = append(got, e.commands)
	}
	want := []int{1, 2, 1, 1}
	if len(got) != len(want) {
		t.Fatalf("commands of the entries: got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("commands of the entries: got %v, want %v", got, want)
		}
	}
}

func TestNode_too_large_a_call_is_refused(t *testing.T) {
	n := open(t, cluster.Setup{})
	_, err := n.Propose(t.Context(), enqueue(1, cluster.MaxEntryBytes))
	var large *cluster.TooLargeError
	if !errors.As(err, &large) || !errors.Is(err, cluster.ErrTooLarge) || large.Bytes <= large.Limit {
		t.Errorf("propose: got %v, want %v with its sizes", err, cluster.ErrTooLarge)
	}
}

func TestNode_Shutdown_ends_what_waits(t *testing.T) {
	cfg := cluster.Setup{Depth: 1}
	log := faulty(&cfg)
	n := open(t, cfg)
	session(t, n)
	entered, release := log.hold()
	first, second := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := n.Propose(t.Context(), enqueue(1, 10))
		first <- err
	}()
	<-entered
	go func() {
		_, err := n.Call(t.Context(), enqueue(2, 10))
		second <- err
	}()
	for n.Status().Waiting == 0 {
		<-tick()
	}
	hung, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Shutdown(hung); !errors.Is(err, context.Canceled) {
		t.Errorf("shutdown while a write hangs: got %v, want %v", err, context.Canceled)
	}
	if err := <-second; !errors.Is(err, cluster.ErrClosed) {
		t.Errorf("call that waited: got %v, want %v", err, cluster.ErrClosed)
	}
	release()
	if err := <-first; err != nil {
		t.Errorf("propose whose write was under way: %v", err)
	}
	shutdown(t, n)
	shutdown(t, n)
	if _, err := n.Propose(t.Context(), enqueue(3, 10)); !errors.Is(err, cluster.ErrClosed) {
		t.Errorf("propose after shutdown: got %v, want %v", err, cluster.ErrClosed)
	}
	if err := n.Ready(t.Context()); !errors.Is(err, cluster.ErrClosed) {
		t.Errorf("ready after shutdown: got %v, want %v", err, cluster.ErrClosed)
	}
	if s := n.Status(); s.Role != cluster.Down || s.Flushed != s.Applied {
		t.Errorf("status after shutdown: %+v", s)
	}
}

func TestNode_Call_needs_a_session(t *testing.T) {
	n := open(t, cluster.Setup{})
	if _, err := n.Call(t.Context(), enqueue(1, 1)); !errors.Is(err, cluster.ErrNoSession) {
		t.Errorf("call: got %v, want %v", err, cluster.ErrNoSession)
	}
}

func TestOpen_names_all_faults_of_a_configuration(t *testing.T) {
	_, err := cluster.Open(t.Context(), cluster.Setup{Depth: 9, Heartbeat: time.Hour})
	type joined interface{ Unwrap() []error }
	all, ok := err.(joined)
	if !ok || len(all.Unwrap()) != 4 { // ID, Storage, Depth, Heartbeat over Election
		t.Errorf("open: got %v, want four faults", err)
	}
}
