package scheduler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/cluster"
)

// several is a cluster of schedulers on loopback ports.
type several struct {
	t     *testing.T
	peers []cluster.Peer
	dirs  map[string]string
	nodes map[string]*scheduler.Scheduler
	opts  func(id string) []scheduler.Option
}

// hang is how long a test waits for what must happen.
const hang = 60 * time.Second

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	t.Cleanup(cancel)
	return ctx
}

func startSeveral(t *testing.T, opts func(id string) []scheduler.Option) *several {
	t.Helper()
	c := &several{t: t, dirs: make(map[string]string), nodes: make(map[string]*scheduler.Scheduler), opts: opts}
	for _, id := range []string{"a", "b", "c"} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		c.peers = append(c.peers, cluster.Peer{ID: id, Address: ln.Addr().String()})
		c.dirs[id] = t.TempDir()
		_ = ln.Close()
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, p := range c.peers {
		all.Go(func() {
			if s := c.start(p); s != nil {
				mu.Lock()
				c.nodes[p.ID] = s
				mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Cleanup(func() {
		for id := range c.nodes {
			c.stop(id)
		}
	})
	return c
}

func (c *several) start(p cluster.Peer) *scheduler.Scheduler {
	s := c.make(p)
	if s == nil {
		return nil
	}
	if err := s.Start(within(c.t)); err != nil {
		c.t.Errorf("start %s: %v", p.ID, err)
	}
	return s
}

func (c *several) make(p cluster.Peer) *scheduler.Scheduler {
	s, err := scheduler.New(append(c.opts(p.ID),
		scheduler.WithDataDir(c.dirs[p.ID]),
		scheduler.WithCluster(cluster.Config{
			ID: p.ID, Bind: p.Address, Peers: c.peers,
			Heartbeat: 150 * time.Millisecond, Election: 150 * time.Millisecond, Lease: 100 * time.Millisecond,
		}))...)
	if err != nil {
		c.t.Errorf("new %s: %v", p.ID, err)
		return nil
	}
	return s
}

func (c *several) stop(id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.t.Context()), hang)
	defer cancel()
	if err := c.nodes[id].Shutdown(ctx); err != nil {
		c.t.Errorf("shutdown %s: %v", id, err)
	}
	delete(c.nodes, id)
}

func (c *several) leader() string {
	c.t.Helper()
	ctx := within(c.t)
	for {
		for id, s := range c.nodes {
			if s.Health(ctx).Role == "leader" {
				return id
			}
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			c.t.Fatal("nobody leads")
		}
	}
}

var square = scheduler.NewTask[int, int]("square")

func TestSeveral_runs_are_done_by_every_node(t *testing.T) {
	var done [3]atomic.Int64
	c := startSeveral(t, func(id string) []scheduler.Option {
		return []scheduler.Option{scheduler.WithConcurrency(4), scheduler.WithHandler(square, func(_ context.Context, n int) (int, error) {
			done[id[0]-'a'].Add(1)
			time.Sleep(time.Millisecond)
			return n * n, nil
		})}
	})
	ctx := within(t)
	for id, s := range c.nodes {
		futures, err := square.EnqueueMany(ctx, s, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
		if err != nil {
			t.Fatalf("node %s: %v", id, err)
		}
		for i, f := range futures {
			if got, err := f.Wait(ctx); err != nil || got != (i+1)*(i+1) {
				t.Errorf("node %s: run %d: %d, %v", id, i+1, got, err)
			}
		}
	}
	for i := range done {
		if done[i].Load() == 0 {
			t.Errorf("node %c has executed nothing: %v %v %v", 'a'+i, done[0].Load(), done[1].Load(), done[2].Load())
		}
	}
}

func TestSeveral_a_node_gets_only_what_it_has_a_handler_for(t *testing.T) {
	c := startSeveral(t, func(id string) []scheduler.Option {
		if id != "b" {
			return nil
		}
		return []scheduler.Option{scheduler.WithHandler(square, func(_ context.Context, n int) (int, error) { return n * n, nil })}
	})
	ctx := within(t)
	for id, s := range c.nodes {
		f, err := square.Enqueue(ctx, s, 7)
		if err != nil {
			t.Fatalf("node %s: %v", id, err)
		}
		if got, err := f.Wait(ctx); got != 49 || err != nil {
			t.Errorf("node %s: %d, %v", id, got, err)
		}
	}
}

func TestSeveral_a_rolling_restart_under_load_loses_nothing(t *testing.T) {
	var starts sync.Map // runs by input
	c := startSeveral(t, func(string) []scheduler.Option {
		return []scheduler.Option{scheduler.WithConcurrency(8), scheduler.WithHandler(square, func(_ context.Context, n int) (int, error) {
			if _, twice := starts.LoadOrStore(n, true); twice {
				return 0, scheduler.Permanent(fmt.Errorf("run %d has been executed before", n))
			}
			return n * n, nil
		})}
	})
	ctx := within(t)
	var asked []scheduler.Future[int] // for the square of their place, from 1
	stop := make(chan struct{})
	var load sync.WaitGroup
	var mu sync.Mutex // guards c.nodes and asked
	load.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			mu.Lock()
			for _, s := range c.nodes {
				f, err := square.Enqueue(ctx, s, len(asked)+1)
				if err != nil {
					t.Errorf("enqueue: %v", err)
					mu.Unlock()
					return
				}
				asked = append(asked, f)
			}
			mu.Unlock()
		}
	})
	for range 2 {
		for _, p := range c.peers {
			mu.Lock()
			s := c.nodes[p.ID]
			delete(c.nodes, p.ID)
			mu.Unlock()
			if err := s.Shutdown(ctx); err != nil {
				t.Errorf("shutdown %s: %v", p.ID, err)
			}
			s = c.start(p)
			mu.Lock()
			c.nodes[p.ID] = s
			mu.Unlock()
		}
	}
	close(stop)
	load.Wait()
	if len(asked) < 2*len(c.peers) {
		t.Fatalf("only %d runs were asked for", len(asked))
	}
	for i, f := range asked {
		got, err := square.Future(c.nodes["a"], f.ID()).Wait(scheduler.Linearizable(ctx))
		if want := (i + 1) * (i + 1); err != nil || got != want {
			t.Fatalf("run %v: %d, %v, want %d", f.ID(), got, err, want)
		}
	}
}

func TestSeveral_a_tick_has_one_outcome_when_the_leader_goes(t *testing.T) {
	var mu sync.Mutex
	ran := make(map[time.Time]int)
	task := scheduler.NewJob[int]("tick")
	c := startSeveral(t, func(string) []scheduler.Option {
		return []scheduler.Option{
			scheduler.WithFunc(task, func(ctx context.Context, _ int) error {
				mu.Lock()
				defer mu.Unlock()
				ran[scheduler.Current(ctx).ScheduledAt().UTC()]++
				return nil
			}),
			scheduler.WithSchedule("each", scheduler.Every(100*time.Millisecond), task.With(1)),
		}
	})
	ctx := within(t)
	for range 3 {
		id := c.leader()
		c.stop(id)
		for _, p := range c.peers {
			if p.ID == id {
				c.nodes[id] = c.start(p)
			}
		}
	}
	s := c.nodes[c.leader()]
	if err := s.PauseSchedule(ctx, "each"); err != nil {
		t.Fatal(err)
	}
	for {
		st, err := s.Stats(scheduler.Linearizable(ctx))
		if err != nil {
			t.Fatal(err)
		}
		if st.Live == 0 {
			break
		}
		<-time.After(time.Millisecond)
	}
	ticks := collect(t, s.Ticks(scheduler.Linearizable(ctx), "each", time.Time{}, time.Now().Add(time.Hour)))
	if len(ticks) == 0 {
		t.Fatal("the ledger is empty")
	}
	mu.Lock()
	defer mu.Unlock()
	next := ticks[0].Nominal
	for _, tick := range ticks {
		at := tick.Nominal.UTC()
		if !tick.Nominal.Equal(next) {
			t.Errorf("after the tick before %v comes that of %v", next, at)
		}
		if want := map[bool]int{true: 1}[tick.Outcome == scheduler.TickRan]; ran[at] != want {
			t.Errorf("tick %v is %v and was executed %d times", at, tick.Outcome, ran[at])
		}
		delete(ran, at)
		if next = tick.Nominal; !tick.Until.IsZero() {
			next = tick.Until
		}
		next = next.Add(100 * time.Millisecond)
	}
	for at := range ran {
		t.Errorf("tick %v was executed and is not in the ledger", at)
	}
}

func TestSeveral_any_node_explains_a_waiting_run(t *testing.T) {
	c := startSeveral(t, func(string) []scheduler.Option {
		return []scheduler.Option{
			scheduler.WithFunc(scheduler.NewJob[int]("other"), func(context.Context, int) error { return nil }),
			scheduler.WithTasks("square"),
		}
	})
	ctx := within(t)
	for id, s := range c.nodes {
		f, err := square.Enqueue(ctx, s, 7)
		if err != nil {
			t.Fatalf("node %s: %v", id, err)
		}
		for other, s := range c.nodes {
			e, err := s.Explain(scheduler.Linearizable(ctx), f.ID())
			if err != nil || e.Gate != "handler" {
				t.Errorf("node %s of a run of node %s: %+v, %v", other, id, e, err)
			}
		}
	}
}

func TestSeveral_a_backup_begins_a_cluster_of_its_own(t *testing.T) {
	c := startSeveral(t, func(string) []scheduler.Option {
		return []scheduler.Option{scheduler.WithHandler(square, func(_ context.Context, n int) (int, error) { return n * n, nil })}
	})
	ctx := within(t)
	done, err := square.Enqueue(ctx, c.nodes["b"], 7)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := done.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	later, err := square.Enqueue(ctx, c.nodes["b"], 8, scheduler.In(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	var backup bytes.Buffer
	if err := c.nodes["b"].Backup(ctx, &backup); err != nil {
		t.Fatal(err)
	}

	dir := filepath.Join(t.TempDir(), "restored")
	if err := scheduler.Restore(dir, &backup); err != nil {
		t.Fatal(err)
	}
	start := func(dir string, config cluster.Config) *scheduler.Scheduler {
		s, err := scheduler.New(scheduler.WithDataDir(dir), scheduler.WithCluster(config),
			scheduler.WithHandler(square, func(_ context.Context, n int) (int, error) { return n * n, nil }))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(ctx); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Shutdown(context.WithoutCancel(ctx)) })
		return s
	}
	first := start(dir, cluster.Config{Bind: "127.0.0.1:0"})
	nodes, err := first.Nodes(ctx)
	if err != nil || len(nodes) != 1 {
		t.Fatalf("nodes of the restored cluster: %+v, %v", nodes, err)
	}
	second := start(t.TempDir(), cluster.Config{ID: "second", Bind: "127.0.0.1:0", Join: []string{nodes[0].Address}})
	if run, err := second.Get(scheduler.Linearizable(ctx), done.ID()); err != nil || run.State != scheduler.Succeeded {
		t.Errorf("the ended run: %+v, %v", run, err)
	}
	if err := second.RetryNow(ctx, later.ID()); err != nil {
		t.Fatal(err)
	}
	if got, err := square.Future(second, later.ID()).Wait(ctx); got != 64 || err != nil {
		t.Errorf("the waiting run: %d, %v", got, err)
	}
}

func TestSeveral_options_are_checked(t *testing.T) {
	_, err := scheduler.New(scheduler.WithCluster(cluster.Config{ID: "a", Bind: "127.0.0.1:0"}))
	if !errors.Is(err, scheduler.ErrInvalid) {
		t.Errorf("without a folder: %v", err)
	}
	_, err = scheduler.New(scheduler.WithNodeID("b"), scheduler.WithDataDir(t.TempDir()), scheduler.WithCluster(cluster.Config{ID: "a", Bind: "127.0.0.1:0"}))
	if !errors.Is(err, scheduler.ErrInvalid) {
		t.Errorf("with two IDs: %v", err)
	}
}

// A node that was given the wrong ID has not taken the folder.
func TestSeveral_a_faulty_configuration_touches_nothing(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]cluster.Config{
		"no address":     {ID: "a"},
		"not a peer":     {ID: "zz", Bind: "127.0.0.1:0", Peers: []cluster.Peer{{ID: "a", Address: "127.0.0.1:1"}}},
		"open to all":    {ID: "a", Bind: "192.0.2.1:7400"},
		"timers":         {ID: "a", Bind: "127.0.0.1:0", Heartbeat: 100 * time.Millisecond},
		"peers and join": {ID: "a", Bind: "127.0.0.1:0", Peers: []cluster.Peer{{ID: "a", Address: "127.0.0.1:1"}}, Join: []string{"127.0.0.1:2"}},
	} {
		if _, err := scheduler.New(scheduler.WithDataDir(dir), scheduler.WithCluster(c)); !errors.Is(err, scheduler.ErrInvalid) {
			t.Errorf("%s: got %v, want %v", name, err, scheduler.ErrInvalid)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("folder: got %v, %v, want nothing in it", files, err)
	}
}

func TestSeveral_a_start_that_finds_nobody_can_be_ended(t *testing.T) {
	s, err := scheduler.New(scheduler.WithDataDir(t.TempDir()), scheduler.WithCluster(cluster.Config{
		ID: "a", Bind: "127.0.0.1:0", Peers: []cluster.Peer{{ID: "a", Address: "127.0.0.1:1"}, {ID: "b", Address: "127.0.0.1:1"}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error)
	go func() { started <- s.Start(t.Context()) }()
	if err := s.Shutdown(within(t)); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if err := <-started; !errors.Is(err, scheduler.ErrClosed) {
		t.Errorf("start: %v, want %v", err, scheduler.ErrClosed)
	}
}

func TestSeveral_a_start_that_finds_nobody_says_whom_it_waits_for(t *testing.T) {
	s, err := scheduler.New(scheduler.WithDataDir(t.TempDir()), scheduler.WithCluster(cluster.Config{
		ID: "a", Bind: "127.0.0.1:0", Peers: []cluster.Peer{{ID: "a", Address: "127.0.0.1:1"}, {ID: "b", Address: "127.0.0.1:1"}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err = s.Start(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "waiting for 127.0.0.1:1") {
		t.Errorf("start: %v", err)
	}
}

func TestSeveral_a_removed_node_comes_back_with_an_empty_folder(t *testing.T) {
	c := startSeveral(t, func(string) []scheduler.Option {
		return []scheduler.Option{scheduler.WithHandler(square, func(_ context.Context, n int) (int, error) { return n * n, nil })}
	})
	ctx := within(t)
	id := "a"
	if c.leader() == id {
		id = "b"
	}
	if err := c.nodes[c.leader()].RemoveNode(ctx, id); err != nil {
		t.Fatal(err)
	}
	for { // until it has heard of it
		_, err := square.Enqueue(ctx, c.nodes[id], 1)
		if errors.Is(err, scheduler.ErrParked) {
			break
		}
		if err != nil && !errors.Is(err, scheduler.ErrOutcomeUnknown) {
			t.Fatalf("a call of the removed node: %v", err)
		}
		if ctx.Err() != nil {
			t.Fatal("the removed node goes on as if it were none")
		}
	}
	if err := c.nodes[c.leader()].RemoveNode(ctx, id); !errors.Is(err, scheduler.ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
	c.stop(id)
	peer := c.peers[slices.IndexFunc(c.peers, func(p cluster.Peer) bool { return p.ID == id })]
	again := c.make(peer)
	if err := again.Start(ctx); !errors.Is(err, cluster.ErrNotMember) || errors.Is(err, scheduler.ErrCorrupt) {
		t.Errorf("start with the old folder: got %v, want %v", err, cluster.ErrNotMember)
	}
	if err := again.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	c.dirs[id] = t.TempDir()
	c.nodes[id] = c.start(peer)
	f, err := square.Enqueue(ctx, c.nodes[id], 9)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.Wait(ctx); got != 81 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
}

func TestSeveral_a_call_without_a_majority_says_that_there_is_no_leader(t *testing.T) {
	c := startSeveral(t, func(string) []scheduler.Option { return nil })
	for _, id := range []string{"b", "c"} {
		c.stop(id)
	}
	s := c.nodes["a"]
	for ctx := within(t); s.Health(ctx).Role == "leader"; {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			t.Fatal("it leads alone")
		}
	}
	for patience := within(t); ; {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := s.Enqueue(ctx, scheduler.NewJob[int]("job").With(1))
		cancel()
		if errors.Is(err, scheduler.ErrOutcomeUnknown) && patience.Err() == nil {
			continue // it was sent to a leader that was about to go
		}
		if !errors.Is(err, scheduler.ErrNoLeader) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("enqueue: %v", err)
		}
		break
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := s.Stats(scheduler.Linearizable(ctx)); !errors.Is(err, scheduler.ErrNoLeader) {
		t.Errorf("a linearizable read: %v", err)
	}
	if _, err := s.Stats(t.Context()); err != nil {
		t.Errorf("a local read: %v", err)
	}
}
