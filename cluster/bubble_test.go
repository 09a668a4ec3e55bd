package cluster_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/internal/sim"
	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/store/memstore"
)

// world is a cluster without folders in virtual time.
type world struct {
	*several
	net *sim.Network
}

// inBubble runs a test of a cluster of so many nodes that has been founded.
func inBubble(t *testing.T, run func(t *testing.T, c *world), ids ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &world{
			several: &several{t: t, nodes: make(map[string]*cluster.Node)},
			net:     sim.NewNetwork(1, sim.Path{Latency: time.Millisecond}),
		}
		for _, id := range ids {
			c.peers = append(c.peers, cluster.Peer{ID: id, Address: id + ":1"})
		}
		for _, id := range ids {
			c.start(id, cluster.Config{Peers: c.peers})
		}
		c.ready(ids...)
		run(t, c)
		c.net.Heal()
		for id := range c.nodes {
			c.stop(id)
		}
		time.Sleep(time.Minute) // raft's goroutines that nobody waits for
	})
}

func (c *world) start(id string, cfg cluster.Config) *cluster.Node {
	return c.startOn(id, cfg, nil)
}

func (c *world) startOn(id string, cfg cluster.Config, clock cluster.Clock) *cluster.Node {
	c.t.Helper()
	cfg.Bind, cfg.Network = id+":1", c.net.Host(id)
	n := start(c.t, cluster.Setup{ID: id, Storage: memstore.New(memstore.Options{}), Clock: clock, Cluster: &cfg})
	c.nodes[id] = n
	return n
}

// cut cuts a node off from all others, or ends that.
func (c *world) cut(id string, cut bool) {
	for other := range c.nodes {
		if other != id {
			c.net.SetCut(id, other, cut)
			c.net.SetCut(other, id, cut)
		}
	}
}

// followers returns who does not lead.
func (c *world) followers() (ids []string) {
	lead := c.leader().Status().ID
	for _, p := range c.peers {
		if p.ID != lead {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// stopsWithin shuts a node down and fails if that takes longer, in virtual time.
func (c *world) stopsWithin(id string, most time.Duration) {
	c.t.Helper()
	began := time.Now()
	c.stop(id)
	if took := time.Since(began); took > most {
		c.t.Errorf("shutdown of %s took %v, want at most %v", id, took, most)
	}
}

// mute has a host accept connections and say nothing, until the returned function is
// called.
func (c *world) mute(host string) (end func()) {
	c.t.Helper()
	ln, err := c.net.Host(host).Listen(host + ":1")
	if err != nil {
		c.t.Fatal(err)
	}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for err := error(nil); err == nil; {
			_, err = ln.Accept()
		}
	})
	return func() {
		_ = ln.Close()
		accepting.Wait()
	}
}

func TestBubble_shutdown_while_founding(t *testing.T) {
	for name, answers := range map[string]bool{"others are away": false, "others are mute": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &world{several: &several{t: t, nodes: make(map[string]*cluster.Node)}, net: sim.NewNetwork(1, sim.Path{Latency: time.Millisecond})}
				for _, id := range []string{"a", "b", "c"} {
					c.peers = append(c.peers, cluster.Peer{ID: id, Address: id + ":1"})
				}
				for _, p := range c.peers[1:] {
					if answers {
						defer c.mute(p.ID)()
					}
				}
				c.start("a", cluster.Config{Peers: c.peers})
				time.Sleep(time.Second)
				c.stopsWithin("a", 100*time.Millisecond)
			})
		})
	}
}

// Each of them is given time to answer.
func TestBubble_mute_nodes_hold_up_nobody_who_joins(t *testing.T) {
	inBubble(t, func(t *testing.T, c *world) {
		t.Helper()
		defer c.mute("x")()
		defer c.mute("y")()
		began := time.Now()
		c.start("n", cluster.Config{Join: []string{"x:1", "y:1", "a:1"}})
		c.ready("n")
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it takes %v to join", took)
		}
	}, "a")
}

func TestBubble_shutdown_while_joining_a_mute_cluster(t *testing.T) {
	inBubble(t, func(t *testing.T, c *world) {
		t.Helper()
		c.start("n", cluster.Config{Join: []string{"a:1"}})
		c.cut("a", true) // its request is on its way
		time.Sleep(time.Second)
		c.stopsWithin("n", 100*time.Millisecond)
	}, "a")
}

func TestBubble_shutdown_of_a_leader_that_is_cut_off(t *testing.T) {
	inBubble(t, func(t *testing.T, c *world) {
		t.Helper()
		lead := c.leader()
		id := lead.Status().ID
		sessionOf(c.several, id)
		c.cut(id, true)
		var calls sync.WaitGroup
		for i := range 10 {
			calls.Go(func() { _, _ = lead.Call(t.Context(), enqueue(i, 10)) })
			calls.Go(func() { _ = lead.Confirmed(t.Context()) })
		}
		time.Sleep(10 * time.Millisecond)
		c.stopsWithin(id, 2*time.Second)
		calls.Wait()
		c.leader()
	}, "a", "b", "c")
}

func TestBubble_shutdown_of_a_follower_that_is_cut_off(t *testing.T) {
	inBubble(t, func(t *testing.T, c *world) {
		t.Helper()
		id := c.followers()[0]
		n := c.nodes[id]
		sessionOf(c.several, id)
		c.cut(id, true)
		var calls sync.WaitGroup
		for i := range 10 {
			calls.Go(func() {
				if _, err := n.Call(t.Context(), enqueue(i, 10)); err == nil {
					t.Error("a call was answered by nobody")
				}
			})
			calls.Go(func() { _ = n.Confirmed(t.Context()) })
		}
		time.Sleep(10 * time.Millisecond)
		c.stopsWithin(id, 2*time.Second)
		calls.Wait()
	}, "a", "b", "c")
}

func TestBubble_a_frozen_follower_does_not_hold_up_the_next_reign(t *testing.T) {
	inBubble(t, func(t *testing.T, c *world) {
		t.Helper()
		lead := c.leader()
		frozen := c.followers()[0]
		for _, p := range c.peers {
			sessionOf(c.several, p.ID)
		}
		c.cut(frozen, true)
		c.call(lead, enqueue(1, 10)) // the frozen one is nudged about this
		began := time.Now()
		if err := lead.StepAside(deadline(t)); err != nil {
			t.Logf("step aside: %v", err) // raft may have picked the frozen one
		}
		c.leader()
		c.call(c.leader(), store.Command{Kind: store.KindExpire, Expire: new(store.Expire)})
		if took := time.Since(began); took > 7*time.Second {
			t.Errorf("the cluster took calls again after %v", took)
		}
	}, "a", "b", "c")
}

func TestBubble_many_join_at_once(t *testing.T) {
	inBubble(t, func(t *testing.T, c *world) {
		t.Helper()
		for _, id := range []string{"b", "c", "d", "e"} {
			c.start(id, cluster.Config{Join: []string{"a:1"}})
		}
		c.ready("b", "c", "d", "e")
		c.voters(5)
	}, "a")
}

// Who takes one node's folder away once another one votes must not do so before that
// is committed: with the first one gone it never would be.
func TestBubble_a_node_is_called_a_voter_once_that_is_committed(t *testing.T) {
	inBubble(t, func(t *testing.T, c *world) {
		t.Helper()
		for _, p := range c.peers {
			for _, q := range c.peers {
				c.net.SetPath(p.ID, q.ID, sim.Path{Latency: 20 * time.Millisecond})
			}
		}
		c.start("n", cluster.Config{Join: []string{"a:1", "b:1", "c:1"}})
		for said := 0; said < len(c.nodes) && t.Context().Err() == nil; time.Sleep(time.Millisecond) {
			wrote := 0
			said = 0
			for _, node := range c.nodes {
				if node.Members() == nil {
					continue // it has not joined yet
				}
				for _, s := range node.Raft().GetConfiguration().Configuration().Servers {
					if s.ID == "n" && s.Suffrage == raft.Voter {
						wrote++
					}
				}
				for _, m := range node.Members() {
					if m.ID == "n" && m.Voter {
						said++
					}
				}
			}
			if said > 0 && wrote < 3 {
				t.Fatalf("%d nodes call it a voter when it is one in the logs of %d of four", said, wrote)
			}
		}
	}, "a", "b", "c")
}

// It calls no election, so nobody hears of it before it asks.
func TestBubble_an_observer_comes_back_at_another_address(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, func(t *testing.T, c *world) {
		t.Helper()
		storage := keep{memstore.New(memstore.Options{})}
		at := func(address string) {
			c.nodes["o"] = start(t, cluster.Setup{ID: "o", Dir: dir, Storage: storage, Cluster: &cluster.Config{
				Bind: address, Network: c.net.Host("o"), Join: []string{"a:1"}, Observer: true,
			}})
			c.ready("o")
		}
		at("o:1")
		c.stop("o")
		at("o:2")
		sessionOf(c.several, "o")
		time.Sleep(time.Second)
		c.leader().View(func(st *store.State) {
			meta := st.Meta()
			if rec, _ := meta.Node("o"); rec.Address != "o:2" {
				t.Errorf("the state has it at %q, want %q", rec.Address, "o:2")
			}
		})
	}, "a", "b", "c")
}

func TestBubble_a_call_without_a_leader_says_so(t *testing.T) {
	inBubble(t, func(t *testing.T, c *world) {
		t.Helper()
		id := c.followers()[0]
		n := c.nodes[id]
		sessionOf(c.several, id)
		c.cut(id, true)
		time.Sleep(5 * time.Second)
		for name, ask := range map[string]func(context.Context) error{
			"call":  func(ctx context.Context) error { _, err := n.Call(ctx, enqueue(1, 10)); return err },
			"read":  n.Confirmed,
			"other": func(ctx context.Context) error { return n.Remove(ctx, "zz") },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := ask(ctx)
			cancel()
			if !errors.Is(err, cluster.ErrNotLeader) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v, want that there is no leader and that time is up", name, err)
			} else if !strings.Contains(err.Error(), "none is known in term") {
				t.Errorf("%s: %q does not say what is known", name, err)
			}
		}
	}, "a", "b", "c")
}

func TestBubble_a_deposed_leader_confirms_no_read(t *testing.T) {
	inBubble(t, func(t *testing.T, c *world) {
		t.Helper()
		old := c.leader()
		id := old.Status().ID
		for _, p := range c.peers {
			sessionOf(c.several, p.ID)
		}
		c.cut(id, true)
		other := c.nodes[c.followersOf(id)[0]]
		c.call(other, enqueue(1, 10)) // waits for the new leader
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := old.Confirmed(ctx); err == nil {
			t.Errorf("the deposed leader confirms; it shows %d runs", live(old))
		}
		c.cut(id, false)
		if err := old.Confirmed(deadline(t)); err != nil || live(old) != 1 {
			t.Errorf("after the cut: %v, %d runs", err, live(old))
		}
	}, "a", "b", "c")
}

// Raft counts the answers of those who have no vote too.
func TestBubble_observers_confirm_no_read(t *testing.T) {
	inBubble(t, func(t *testing.T, c *world) {
		t.Helper()
		for _, id := range []string{"o", "p"} {
			c.start(id, cluster.Config{Join: []string{"a:1"}, Observer: true})
			c.ready(id)
		}
		lead := c.leader()
		if err := lead.Confirmed(deadline(t)); err != nil {
			t.Fatal(err)
		}
		id := lead.Status().ID
		cut := func(cut bool) {
			for _, other := range c.followersOf(id) {
				c.net.SetCut(id, other, cut)
				c.net.SetCut(other, id, cut)
			}
		}
		cut(true)
		time.Sleep(10 * time.Millisecond) // what is on its way
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if err := lead.Confirmed(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without the other voters: got %v, want %v", err, context.DeadlineExceeded)
		}
		if !lead.Leading() {
			t.Error("the lease has ended, and the test says nothing")
		}
		cut(false)
		if err := lead.Confirmed(deadline(t)); err != nil {
			t.Errorf("with them: %v", err)
		}
	}, "a", "b", "c")
}

func (c *world) followersOf(id string) (ids []string) {
	for _, p := range c.peers {
		if p.ID != id {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// skewed is a clock that is wrong.
type skewed struct{ by time.Duration }

func (s skewed) Now() time.Time { return time.Now().Add(s.by) }

func TestBubble_a_leader_whose_clock_is_off_hands_over(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &world{several: &several{t: t, nodes: make(map[string]*cluster.Node)}, net: sim.NewNetwork(1, sim.Path{Latency: time.Millisecond})}
		for _, id := range []string{"a", "b", "c"} {
			c.peers = append(c.peers, cluster.Peer{ID: id, Address: id + ":1"})
		}
		for i, p := range c.peers {
			c.startOn(p.ID, cluster.Config{Peers: c.peers}, skewed{time.Duration(i/2) * 3 * time.Second}) // c is ahead
		}
		c.ready("a", "b", "c")
		for range 3 { // whoever leads, in the end it is not c for long
			time.Sleep(30 * time.Second)
			if lead := c.leader(); lead.Status().ID == "c" {
				time.Sleep(10 * time.Second)
				if c.nodes["c"].Leading() {
					t.Error("the node whose clock is off leads")
				}
				continue
			} else if err := lead.StepAside(deadline(t)); err != nil {
				t.Logf("step aside: %v", err)
			}
		}
		lead := c.leader()
		for _, m := range lead.Members() {
			if m.ID == "c" && lead.Status().ID != "c" && m.Error > 0 && (m.Offset-3*time.Second).Abs() > m.Error {
				t.Errorf("c is off by %v ± %v as the leader sees it, want 3s", m.Offset, m.Error)
			}
		}
		for id := range c.nodes {
			c.stop(id)
		}
		time.Sleep(time.Minute)
	})
}

func TestBubble_a_dead_node_is_taken_out_and_learns_of_it(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &world{several: &several{t: t, nodes: make(map[string]*cluster.Node)}, net: sim.NewNetwork(1, sim.Path{Latency: time.Millisecond})}
		for _, id := range []string{"a", "b", "c"} {
			c.peers = append(c.peers, cluster.Peer{ID: id, Address: id + ":1"})
		}
		for _, p := range c.peers {
			c.start(p.ID, cluster.Config{Peers: c.peers, RemoveDead: time.Minute})
		}
		c.ready("a", "b", "c")
		for range 3 { // a change of leaders alone kills nobody
			time.Sleep(2 * time.Minute)
			_ = c.leader().StepAside(deadline(t))
			c.voters(3)
		}
		dead := c.followers()[0]
		c.cut(dead, true)
		n := c.nodes[dead]
		delete(c.nodes, dead)
		time.Sleep(30 * time.Second)
		c.voters(3)
		time.Sleep(time.Minute)
		c.voters(2)
		c.nodes[dead] = n
		c.cut(dead, false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for n.Status().Parked == nil && ctx.Err() == nil {
			time.Sleep(time.Second)
		}
		if err := n.Status().Parked; !errors.Is(err, cluster.ErrNotMember) {
			t.Errorf("the removed node is parked with %v, want %v", err, cluster.ErrNotMember)
		}
		for id := range c.nodes {
			c.stop(id)
		}
		time.Sleep(time.Minute)
	})
}

func TestBubble_a_removal_that_would_end_the_majority_is_not_done(t *testing.T) {
	inBubble(t, func(t *testing.T, c *world) {
		t.Helper()
		lead := c.leader()
		id := lead.Status().ID
		others := c.followersOf(id)
		c.cut(others[0], true)
		time.Sleep(5 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.leader().Remove(ctx, others[1]); err == nil {
			t.Fatal("the living node was removed while another is dead")
		}
		if err := c.leader().Remove(deadline(t), others[0]); err != nil { // the dead one may go
			t.Fatal(err)
		}
		c.voters(2)
	}, "a", "b", "c")
}

func TestBubble_stepping_aside_under_load_loses_nothing(t *testing.T) {
	inBubble(t, func(t *testing.T, c *world) {
		t.Helper()
		for _, p := range c.peers {
			sessionOf(c.several, p.ID)
		}
		const each = 60
		var calls sync.WaitGroup
		for i, p := range c.peers {
			calls.Go(func() {
				for j := range each {
					c.call(c.nodes[p.ID], enqueue(1000*i+j, 10))
				}
			})
		}
		for range 5 {
			time.Sleep(50 * time.Millisecond)
			_ = c.leader().StepAside(deadline(t))
		}
		calls.Wait()
		c.agree(3 * each)
	}, "a", "b", "c")
}

func TestBubble_members_come_and_go_under_load(t *testing.T) {
	inBubble(t, func(t *testing.T, c *world) {
		t.Helper()
		for _, id := range []string{"a", "b", "c"} {
			sessionOf(c.several, id)
		}
		stop := make(chan struct{})
		counts := make([]int, len(c.peers))
		var calls sync.WaitGroup
		for i, p := range c.peers {
			n := c.nodes[p.ID]
			calls.Go(func() {
				for j := 0; ; j++ {
					select {
					case <-stop:
						return
					default:
						c.call(n, enqueue(10_000*i+j, 10))
						counts[i]++
					}
				}
			})
		}
		for _, id := range []string{"d", "e"} {
			c.start(id, cluster.Config{Join: []string{"b:1"}})
			c.ready(id)
		}
		c.voters(5)
		if err := c.nodes["d"].Remove(deadline(t), "e"); err != nil {
			t.Fatal(err)
		}
		c.voters(4)
		parkedWith(t, c.nodes["e"], cluster.ErrNotMember)
		c.stop("e")
		close(stop)
		calls.Wait()
		total := 0
		for _, n := range counts {
			total += n
		}
		c.agree(total)
	}, "a", "b", "c")
}

func TestBubble_reads_on_a_follower_show_its_own_writes(t *testing.T) {
	inBubble(t, func(t *testing.T, c *world) {
		t.Helper()
		slow := 0
		for i, id := range c.followers() {
			sessionOf(c.several, id)
			time.Sleep(time.Second) // the connections are there
			for j := range 20 {
				c.call(c.nodes[id], enqueue(100*i+j, 10))
				began := time.Now()
				if err := c.nodes[id].Promised(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := live(c.nodes[id]); got != 20*i+j+1 {
					t.Fatalf("node %s shows %d runs after its call of run %d", id, got, 20*i+j+1)
				}
				if time.Since(began) > 5*time.Millisecond { // a round trip takes 2 ms, raft alone up to 100
					slow++
				}
			}
		}
		if slow > 10 { // some meet another entry, or a connection that has to be made
			t.Errorf("after %d of 40 calls the state lagged by more than a round trip", slow)
		}
	}, "a", "b", "c")
}

// A log that was closed because a write failed, and cannot be read when it is opened
// again, parks the node. What raft had begun by then is gone: the bubble would tell.
func TestNode_a_start_of_raft_that_fails_leaves_nothing_behind(t *testing.T) {
	inBubble(t, func(t *testing.T, c *world) {
		t.Helper()
		cfg := cluster.Config{Join: []string{"a:1"}, Bind: "d:1", Network: c.net.Host("d")}
		setup := cluster.Setup{ID: "d", Storage: memstore.New(memstore.Options{}), Cluster: &cfg}
		f := faulty(&setup)
		n := start(t, setup)
		c.nodes["d"] = n
		c.ready("d")
		unreadable := func(uint64, *raft.Log, func() error) error { return syscall.EIO }
		f.get.Store(&unreadable)
		f.onStore(func([]*raft.Log, func() error) error { return syscall.EIO })
		session(t, c.nodes["a"])
		time.Sleep(30 * time.Second)
		if err := n.Status().Parked; !errors.Is(err, cluster.ErrDamaged) {
			t.Errorf("parked: got %v, want %v", err, cluster.ErrDamaged)
		}
	}, "a", "b", "c")
}
