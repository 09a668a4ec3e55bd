package cluster_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/store"
)

// several is a cluster of nodes on loopback ports, with their folders.
type several struct {
	t     *testing.T
	peers []cluster.Peer
	dirs  map[string]string
	nodes map[string]*cluster.Node
}

// founded starts nodes that found a cluster together.
func founded(t *testing.T, ids ...string) *several {
	t.Helper()
	c := &several{t: t, dirs: make(map[string]string), nodes: make(map[string]*cluster.Node)}
	for _, id := range ids {
		c.peers = append(c.peers, cluster.Peer{ID: id, Address: freeAddress(t)})
	}
	for _, p := range c.peers {
		c.start(p.ID, cluster.Config{Bind: p.Address, Peers: c.peers})
	}
	c.ready(ids...)
	return c
}

func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// start starts a node on its folder.
func (c *several) start(id string, cfg cluster.Config) *cluster.Node {
	c.t.Helper()
	if c.dirs[id] == "" {
		c.dirs[id] = c.t.TempDir()
	}
	cfg.Heartbeat, cfg.Election, cfg.Lease = 100*time.Millisecond, 100*time.Millisecond, 80*time.Millisecond
	n := start(c.t, cluster.Setup{ID: id, Dir: c.dirs[id], Cluster: &cfg})
	c.nodes[id] = n
	return n
}

func (c *several) ready(ids ...string) {
	c.t.Helper()
	for _, id := range ids {
		if err := c.nodes[id].Ready(deadline(c.t)); err != nil {
			c.t.Fatalf("node %s does not get ready: %v; %+v", id, err, c.nodes[id].Status())
		}
	}
}

// leader waits for the node that leads.
func (c *several) leader() *cluster.Node {
	c.t.Helper()
	ctx := deadline(c.t)
	for {
		for _, n := range c.nodes {
			if n.Leading() {
				return n
			}
		}
		select {
		case <-tick():
		case <-ctx.Done():
			c.t.Fatal("nobody leads")
		}
	}
}

// stop shuts a node down.
func (c *several) stop(id string) {
	c.t.Helper()
	shutdown(c.t, c.nodes[id])
	delete(c.nodes, id)
}

// call commits a command through a node until it works.
func (c *several) call(n *cluster.Node, cmd store.Command) {
	c.t.Helper()
	res, err := n.Call(deadline(c.t), cmd)
	if err != nil || res.Code != store.OK {
		c.t.Fatalf("call: %+v, %v", res, err)
	}
}

// agree waits until all nodes have the same state, with so many live runs.
func (c *several) agree(runs int) {
	c.t.Helper()
	ctx := deadline(c.t)
	for {
		sums := make(map[uint64]bool)
		all := true
		for _, n := range c.nodes {
			sums[digest(n)] = true
			all = all && live(n) == runs
		}
		if all && len(sums) == 1 {
			return
		}
		select {
		case <-tick():
		case <-ctx.Done():
			for id, n := range c.nodes {
				c.t.Errorf("node %s: %d runs, digest %x, %+v", id, live(n), digest(n), n.Status())
			}
			c.t.Fatalf("the nodes do not agree on %d runs", runs)
		}
	}
}

func sessionOf(c *several, id string) {
	c.t.Helper()
	if _, err := c.nodes[id].OpenSession(deadline(c.t), store.OpenSession{Node: id, Tasks: []string{"test"}}); err != nil {
		c.t.Fatalf("open session of %s: %v", id, err)
	}
}

func TestSeveral_any_node_takes_calls_and_all_agree(t *testing.T) {
	c := founded(t, "a", "b", "c")
	for i, id := range []string{"a", "b", "c"} {
		sessionOf(c, id)
		for j := range 50 {
			c.call(c.nodes[id], enqueue(100*i+j, 10))
			if err := c.nodes[id].Promised(deadline(t)); err != nil {
				t.Fatal(err)
			}
			if got := live(c.nodes[id]); got != 50*i+j+1 {
				t.Fatalf("node %s shows %d runs after its call of run %d", id, got, 50*i+j+1)
			}
		}
	}
	c.agree(150)
	for id, n := range c.nodes {
		if err := n.Confirmed(deadline(t)); err != nil {
			t.Errorf("node %s: %v", id, err)
		}
	}
}

func TestSeveral_loses_no_call_when_the_leader_goes(t *testing.T) {
	c := founded(t, "a", "b", "c")
	for _, p := range c.peers {
		sessionOf(c, p.ID)
	}
	n := 0
	for range 3 {
		lead := c.leader().Status().ID
		for id := range c.nodes {
			c.call(c.nodes[id], enqueue(n, 10))
			n++
		}
		c.stop(lead)
		for id := range c.nodes {
			c.call(c.nodes[id], enqueue(n, 10))
			n++
		}
		for i, p := range c.peers {
			if p.ID == lead { // it comes back under another address
				c.peers[i].Address = freeAddress(t)
				c.start(lead, cluster.Config{Bind: c.peers[i].Address, Peers: c.peers})
			}
		}
		c.ready(lead)
		sessionOf(c, lead)
	}
	c.agree(n)
}

func TestSeveral_all_come_back_under_new_addresses(t *testing.T) {
	c := founded(t, "a", "b", "c")
	sessionOf(c, "a")
	c.call(c.nodes["a"], enqueue(1, 10))
	for _, p := range c.peers {
		c.stop(p.ID)
	}
	for i := range c.peers {
		c.peers[i].Address = freeAddress(t)
	}
	for _, p := range c.peers {
		c.start(p.ID, cluster.Config{Bind: p.Address, Peers: c.peers})
	}
	c.ready("a", "b", "c")
	sessionOf(c, "b")
	c.call(c.nodes["b"], enqueue(2, 10))
	c.agree(2)
}

func TestSeveral_grows_from_a_lone_node_and_shrinks(t *testing.T) {
	c := &several{t: t, dirs: map[string]string{"a": t.TempDir()}, nodes: make(map[string]*cluster.Node)}
	lone := open(t, cluster.Setup{ID: "a", Dir: c.dirs["a"]})
	c.nodes["a"] = lone
	sessionOf(c, "a")
	for i := range 20 {
		c.call(lone, enqueue(i, 10))
	}
	shutdown(t, lone)

	first := freeAddress(t)
	c.start("a", cluster.Config{Bind: first})
	c.ready("a")
	for _, id := range []string{"b", "c", "d", "e"} {
		c.start(id, cluster.Config{Bind: "127.0.0.1:0", Join: []string{first}})
		c.ready(id)
	}
	sessionOf(c, "e")
	c.call(c.nodes["e"], enqueue(100, 10))
	c.agree(21)
	c.voters(5)

	for _, id := range []string{"a", "b"} {
		if err := c.nodes["e"].Remove(deadline(t), id); err != nil {
			t.Fatalf("remove %s: %v", id, err)
		}
		c.stop(id)
	}
	c.voters(3)
	c.call(c.nodes["e"], enqueue(101, 10))
	c.agree(22)
	if err := c.nodes["e"].Remove(deadline(t), "zz"); !errors.Is(err, cluster.ErrNotMember) {
		t.Errorf("remove a stranger: %v", err)
	}
}

// voters waits until the leader knows so many voters.
func (c *several) voters(want int) {
	c.t.Helper()
	ctx := deadline(c.t)
	for {
		got := 0
		list := c.leader().Members()
		for _, m := range list {
			if m.Voter {
				got++
			}
		}
		if got == want && len(list) == want {
			return
		}
		select {
		case <-tick():
		case <-ctx.Done():
			c.t.Fatalf("want %d voters, have %+v", want, list)
		}
	}
}

func TestSeveral_a_node_without_its_folder_is_taken_in_anew(t *testing.T) {
	c := founded(t, "a", "b", "c")
	sessionOf(c, "a")
	c.call(c.nodes["a"], enqueue(1, 10))
	for _, p := range c.peers { // each once, so that the one that founded is among them
		c.stop(p.ID)
		c.dirs[p.ID] = t.TempDir()
		c.start(p.ID, cluster.Config{Bind: p.Address, Peers: c.peers})
		c.ready(p.ID)
		c.voters(3)
		c.agree(1)
	}
}

func TestSeveral_a_second_process_with_the_same_ID_is_refused(t *testing.T) {
	c := founded(t, "a", "b", "c")
	n := start(t, cluster.Setup{ID: "b", Dir: t.TempDir(), Cluster: &cluster.Config{Bind: "127.0.0.1:0", Peers: c.peers}})
	if err := n.Ready(deadline(t)); !errors.Is(err, cluster.ErrDuplicateID) {
		t.Errorf("the second process gets %v, want %v", err, cluster.ErrDuplicateID)
	}
	c.voters(3)
}

func TestSeveral_a_node_of_another_cluster_is_refused(t *testing.T) {
	c := founded(t, "a")
	other := founded(t, "b")
	c.leader()
	sessionOf(c, "a")
	sessionOf(other, "b")
	waitCluster(t, c.nodes["a"])
	waitCluster(t, other.nodes["b"])
	other.stop("b")
	n := start(t, cluster.Setup{ID: "b", Dir: other.dirs["b"], Cluster: &cluster.Config{
		Bind: "127.0.0.1:0", Peers: []cluster.Peer{{ID: "b", Address: "127.0.0.1:1"}, c.peers[0]},
	}})
	if err := n.Ready(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if got := len(n.Members()); got != 1 {
		t.Errorf("it has %d members, want itself alone", got)
	}
}

func waitCluster(t *testing.T, n *cluster.Node) {
	t.Helper()
	ctx := deadline(t)
	for {
		id := ""
		n.View(func(st *store.State) { m := st.Meta(); id = m.Cluster })
		if id != "" {
			return
		}
		select {
		case <-tick():
		case <-ctx.Done():
			t.Fatal("the cluster has no ID")
		}
	}
}

func TestSeveral_a_node_far_behind_gets_a_copy(t *testing.T) {
	c := &several{t: t, dirs: make(map[string]string), nodes: make(map[string]*cluster.Node)}
	for _, id := range []string{"a", "b", "c"} {
		c.peers = append(c.peers, cluster.Peer{ID: id, Address: freeAddress(t)})
	}
	small := func(id, address string) {
		c.dirs[id] = t.TempDir()
		c.nodes[id] = start(t, cluster.Setup{
			ID: id, Dir: c.dirs[id], TrailingBytes: 64 << 10,
			Cluster: &cluster.Config{Bind: address, Peers: c.peers, Heartbeat: 100 * time.Millisecond, Election: 100 * time.Millisecond, Lease: 80 * time.Millisecond},
		})
	}
	for _, p := range c.peers {
		small(p.ID, p.Address)
	}
	c.ready("a", "b", "c")
	lead := c.leader().Status().ID
	sessionOf(c, lead)
	away := "a"
	if lead == "a" {
		away = "b"
	}
	c.stop(away)
	for i := range 3000 {
		c.call(c.nodes[lead], enqueue(i, 100))
	}
	if err := c.nodes[lead].Flush(deadline(t)); err != nil {
		t.Fatal(err)
	}
	for i, p := range c.peers {
		if p.ID == away {
			c.dirs[away] = t.TempDir()
			small(away, c.peers[i].Address)
		}
	}
	c.ready(away)
	c.agree(3000)
	c.voters(3)
}

func TestConfig_refuses_what_cannot_work(t *testing.T) {
	for name, cfg := range map[string]cluster.Config{
		"no address":     {},
		"open port":      {Bind: "0.0.0.0:7000", Advertise: "host:7000"},
		"no host":        {Bind: ":7000", Insecure: true},
		"not its peer":   {Bind: "127.0.0.1:0", Peers: []cluster.Peer{{ID: "x", Address: "x:1"}}},
		"twice":          {Bind: "127.0.0.1:0", Peers: []cluster.Peer{{ID: "one", Address: "x:1"}, {ID: "one", Address: "x:2"}}},
		"slow election":  {Bind: "127.0.0.1:0", Heartbeat: time.Second},
		"long lease":     {Bind: "127.0.0.1:0", Lease: 600 * time.Millisecond},
		"negative":       {Bind: "127.0.0.1:0", Heartbeat: -time.Second, Election: -time.Second, Lease: -time.Second},
		"found and join": {Bind: "127.0.0.1:0", Peers: []cluster.Peer{{ID: "one", Address: "x:1"}}, Join: []string{"x:2"}},
	} {
		n, err := cluster.Open(t.Context(), cluster.Setup{ID: "one", Storage: storage(t, ""), Cluster: &cfg})
		if err == nil {
			t.Errorf("%s: accepted", name)
			shutdown(t, n)
		}
	}
}

// Host names are the same in any case.
func TestConfig_takes_what_works(t *testing.T) {
	for name, cfg := range map[string]cluster.Config{
		"loopback by name": {Bind: "LocalHost:7000"},
		"all timers":       {Bind: "127.0.0.1:0", Heartbeat: time.Second, Election: time.Second, Lease: time.Second},
	} {
		if err := cfg.Validate("one"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReady_of_a_follower_waits_for_its_state(t *testing.T) {
	c := founded(t, "a", "b", "c")
	lead := c.leader()
	sessionOf(c, lead.Status().ID)
	behind := "a"
	if lead.Status().ID == behind {
		behind = "b"
	}
	c.stop(behind)
	for i := range 50 {
		c.call(lead, enqueue(i, 10))
	}
	last := c.leader().Status().Applied
	reached, release := make(chan struct{}), make(chan struct{})
	cfg := cluster.Config{Peers: c.peers, Heartbeat: 100 * time.Millisecond, Election: 100 * time.Millisecond, Lease: 80 * time.Millisecond}
	for _, p := range c.peers {
		if p.ID == behind {
			cfg.Bind = p.Address
		}
	}
	n := start(t, cluster.Setup{
		ID: behind, Dir: c.dirs[behind], Cluster: &cfg,
		OnApply: func(_ *store.State, index uint64, _ *store.Batch, _ []store.Result, _ []store.Event) {
			if index == last {
				close(reached)
				<-release
			}
		},
	})
	select {
	case <-reached:
	case <-deadline(t).Done():
		t.Fatal("the last entry does not come")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := n.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ready while an entry is being applied: got %v, want %v", err, context.DeadlineExceeded)
	}
	close(release)
	if err := n.Ready(deadline(t)); err != nil {
		t.Error(err)
	}
}
