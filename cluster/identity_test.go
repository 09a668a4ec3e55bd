package cluster_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/store"
)

// quick are timeouts of tests.
func quick(c cluster.Config) *cluster.Config {
	c.Heartbeat, c.Election, c.Lease = 100*time.Millisecond, 100*time.Millisecond, 80*time.Millisecond
	return &c
}

// waits returns once a node says of why it is in no cluster what contains all the words.
func waits(t *testing.T, n *cluster.Node, words ...string) {
	t.Helper()
	ctx := deadline(t)
	for {
		s := n.Status()
		found := true
		for _, w := range words {
			found = found && strings.Contains(s.Waits, w)
		}
		switch {
		case found:
			return
		case s.Role != cluster.Down:
			t.Fatalf("the node has begun: %+v", s)
		}
		select {
		case <-tick():
		case <-ctx.Done():
			t.Fatalf("it waits because %q, want %q", s.Waits, words)
		}
	}
}

// parkedWith waits until a node is parked, for one of the reasons.
func parkedWith(t *testing.T, n *cluster.Node, want ...error) {
	t.Helper()
	ctx := deadline(t)
	for n.Status().Parked == nil {
		select {
		case <-tick():
		case <-ctx.Done():
			t.Fatalf("the node is not parked: %+v", n.Status())
		}
	}
	err := n.Status().Parked
	if !slices.ContainsFunc(want, func(w error) bool { return errors.Is(err, w) }) {
		t.Errorf("parked with %v, want %v", err, want)
	}
}

func TestSeveral_a_majority_without_memory_founds_no_other_cluster(t *testing.T) {
	c := founded(t, "a", "b", "c")
	sessionOf(c, "a")
	c.call(c.nodes["a"], enqueue(1, 10))
	c.agree(1)
	for _, p := range c.peers {
		c.stop(p.ID)
	}
	for _, p := range c.peers[:2] { // the one that founded among them
		c.dirs[p.ID] = t.TempDir()
		c.start(p.ID, cluster.Config{Bind: p.Address, Peers: c.peers})
	}
	waits(t, c.nodes["a"], c.peers[2].Address)
	waits(t, c.nodes["b"], c.peers[2].Address)
	kept := c.start("c", cluster.Config{Bind: c.peers[2].Address, Peers: c.peers})
	waits(t, c.nodes["a"], "knows no leader")
	waits(t, c.nodes["b"], "knows no leader")
	if kept.Leading() || live(kept) != 1 {
		t.Errorf("the one that remembers leads: %v, and has %d runs, want 1", kept.Leading(), live(kept))
	}
}

func TestSeveral_the_one_whose_folder_is_known_has_the_ID(t *testing.T) {
	c := founded(t, "a", "b", "c")
	sessionOf(c, "a")
	c.call(c.nodes["a"], enqueue(1, 10))
	c.agree(1)

	// The second is there before the first is back.
	c.stop("c")
	second := start(t, cluster.Setup{ID: "c", Dir: t.TempDir(), Cluster: quick(cluster.Config{Bind: "127.0.0.1:0", Join: []string{c.peers[0].Address}})})
	if err := second.Ready(deadline(t)); err != nil {
		t.Fatalf("an empty folder under the ID of a dead node: %v", err)
	}
	c.nodes["c2"] = second
	c.voters(3)
	first := c.start("c", cluster.Config{Bind: c.peers[2].Address, Peers: c.peers})
	parkedWith(t, first, cluster.ErrDuplicateID, cluster.ErrNotMember) // by whichever it hears of first
	shutdown(t, first)
	c.nodes["c"] = second
	delete(c.nodes, "c2")
	c.agree(1)
}

func TestSeveral_a_removed_node_is_told_when_it_comes_back(t *testing.T) {
	c := founded(t, "a", "b", "c")
	sessionOf(c, "a")
	for _, name := range []string{"b", "c"} { // with both away there would be no majority
		stopped := name == "b"
		if stopped {
			c.stop(name)
		}
		asker := c.leader()
		if asker.Status().ID == name {
			asker = c.nodes["a"]
		}
		if err := asker.Remove(deadline(t), name); err != nil {
			t.Fatalf("remove %s: %v", name, err)
		}
		if !stopped {
			parkedWith(t, c.nodes[name], cluster.ErrNotMember)
			c.stop(name)
		}
		for _, p := range c.peers {
			if p.ID != name {
				continue
			}
			st := storage(t, c.dirs[name])
			n, err := cluster.Open(deadline(t), cluster.Setup{ID: name, Dir: c.dirs[name], Storage: st, Cluster: quick(cluster.Config{Bind: p.Address, Peers: c.peers})})
			if err != nil { // it has heard of its removal
				_ = st.Close()
				if !errors.Is(err, cluster.ErrNotMember) {
					t.Errorf("open %s: %v", name, err)
				}
				continue
			}
			parkedWith(t, n, cluster.ErrNotMember)
			shutdown(t, n)
		}
	}
	// With an empty folder it may come back.
	c.dirs["b"] = t.TempDir()
	c.start("b", cluster.Config{Bind: c.peers[1].Address, Peers: c.peers})
	c.ready("b")
	c.voters(2)
}

func TestSeveral_the_leader_can_be_removed(t *testing.T) {
	c := founded(t, "a", "b", "c")
	lead := c.leader()
	id := lead.Status().ID
	if err := lead.Remove(deadline(t), id); err != nil {
		t.Fatal(err)
	}
	parkedWith(t, lead, cluster.ErrNotMember)
	c.stop(id)
	c.voters(2)
	known := 0
	c.leader().View(func(st *store.State) { m := st.Meta(); known = len(m.Nodes) })
	if known != 2 {
		t.Errorf("the state knows %d nodes, want 2", known)
	}
}

func TestSeveral_the_last_voter_stays(t *testing.T) {
	c := founded(t, "a")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := c.nodes["a"].Remove(ctx, "a"); err == nil {
		t.Error("the last voter was removed")
	}
	c.voters(1)
}

func TestSeveral_garbage_on_the_port_harms_nobody(t *testing.T) {
	c := founded(t, "a", "b")
	for _, garbage := range []string{
		"", "\x00", "GET / HTTP/1.1\r\n\r\n", "ESC\x02\x00\x00\x00\x01\x01", "ESC\x01\xff\xff\xff\xff\x01",
		"ESC\x01\x00\x00\x00\x00", "ESC\x01\x00\x00\x10\x00\x01\x8a", "ESC\x01\x00\x00\x00\x03\x01\xdf\xff", "RESC", strings.Repeat("\xff", 1<<16),
	} {
		conn, err := net.Dial("tcp", c.peers[0].Address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, garbage)
		_ = conn.(*net.TCPConn).CloseWrite()
		_ = conn.SetReadDeadline(time.Now().Add(hang))
		if b, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%.20q: still open; it answered %q", garbage, b)
		}
		_ = conn.Close()
	}
	sessionOf(c, "b")
	c.call(c.nodes["b"], enqueue(1, 10))
	c.agree(1)
}

func TestSeveral_a_node_with_a_folder_of_several_needs_its_port(t *testing.T) {
	c := founded(t, "a", "b")
	c.stop("a")
	st := storage(t, c.dirs["a"])
	n, err := cluster.Open(deadline(t), cluster.Setup{ID: "a", Dir: c.dirs["a"], Storage: st})
	if err == nil {
		shutdown(t, n)
		t.Fatal("it opens as a lone node")
	}
	_ = st.Close()
	if !errors.Is(err, cluster.ErrConflict) {
		t.Errorf("%v, want %v", err, cluster.ErrConflict)
	}
}

func TestNode_a_crash_between_the_first_two_writes_of_a_log(t *testing.T) {
	for name, several := range map[string]bool{"lone": false, "of several": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			log, err := cluster.OpenLog(dir, cluster.LogSegments)
			if err != nil {
				t.Fatal(err)
			}
			if several {
				err = cluster.KeepFounders(log, store.NodeRecord{ID: "one", Address: "127.0.0.1:1"})
			}
			if err = errors.Join(err, log.SetUint64([]byte("CurrentTerm"), 1), log.Close()); err != nil {
				t.Fatal(err)
			}
			setup := cluster.Setup{Dir: dir}
			if several {
				setup.Cluster = quick(cluster.Config{Bind: "127.0.0.1:0"})
			}
			n := open(t, setup)
			session(t, n)
		})
	}
}

func TestSeveral_a_follower_whose_log_failed_takes_calls_again(t *testing.T) {
	c := &several{t: t, dirs: make(map[string]string), nodes: make(map[string]*cluster.Node)}
	for _, id := range []string{"a", "b", "c"} {
		c.peers = append(c.peers, cluster.Peer{ID: id, Address: freeAddress(t)})
	}
	logs := make(map[string]*faults)
	for _, p := range c.peers {
		c.dirs[p.ID] = t.TempDir()
		setup := cluster.Setup{ID: p.ID, Dir: c.dirs[p.ID], Cluster: quick(cluster.Config{Bind: p.Address, Peers: c.peers})}
		logs[p.ID] = faulty(&setup)
		c.nodes[p.ID] = start(t, setup)
	}
	c.ready("a", "b", "c")
	for _, p := range c.peers {
		sessionOf(c, p.ID)
	}
	lead := c.leader()
	id := "a"
	if lead.Status().ID == "a" {
		id = "b"
	}
	fails := func([]*raft.Log, func() error) error { return errors.New("switched off") }
	logs[id].store.Store(&fails)
	c.call(lead, enqueue(1, 10))
	ctx := deadline(t)
	for c.nodes[id].Status().Fault == nil {
		select {
		case <-tick():
		case <-ctx.Done():
			t.Fatal("the log did not fail")
		}
	}
	logs[id].store.Store(nil)
	for {
		res, err := c.nodes[id].Call(ctx, enqueue(2, 10))
		if err == nil && res.Code == store.OK {
			break
		}
		if !errors.Is(err, cluster.ErrStorage) || ctx.Err() != nil {
			t.Fatalf("call: %+v, %v", res, err)
		}
		<-tick()
	}
	c.agree(2)
}

func TestSeveral_calls_near_the_limit_are_forwarded(t *testing.T) {
	c := &several{t: t, dirs: make(map[string]string), nodes: make(map[string]*cluster.Node)}
	for _, id := range []string{"a", "b", "c"} {
		c.peers = append(c.peers, cluster.Peer{ID: id, Address: freeAddress(t)})
	}
	for _, p := range c.peers {
		c.dirs[p.ID] = t.TempDir()
		const late = 3 * time.Second // under the race detector an entry of this size holds a node up for more than one
		slow := &cluster.Config{Bind: p.Address, Peers: c.peers, Heartbeat: late, Election: late, Lease: late}
		c.nodes[p.ID] = start(t, cluster.Setup{ID: p.ID, Dir: c.dirs[p.ID], Cluster: slow})
	}
	c.ready("a", "b", "c")
	lead := c.leader().Status().ID
	for _, p := range c.peers {
		sessionOf(c, p.ID)
	}
	id := "a"
	if lead == id {
		id = "b"
	}
	n := c.nodes[id]
	const many = 3000
	cmds := make([]store.Command, many)
	for i := range cmds {
		cmds[i] = enqueue(i, 1200)
	}
	results, err := n.ProposeMany(deadline(t), cmds)
	if err != nil || len(results) != many {
		t.Fatalf("%d results, %v", len(results), err)
	}
	c.call(n, enqueue(many, cluster.MaxEntryBytes-1000))
	_, err = n.Call(deadline(t), enqueue(many+1, cluster.MaxEntryBytes))
	if !errors.Is(err, cluster.ErrTooLarge) {
		t.Errorf("a larger one: %v", err)
	}
	small := make([]store.Command, 120_000) // whose results are larger than they are
	for i := range small {
		small[i] = store.Command{Kind: store.KindExpire, Expire: new(store.Expire)}
	}
	if results, err = n.ProposeMany(deadline(t), small); err != nil || len(results) != len(small) {
		t.Errorf("%d results of small ones, %v", len(results), err)
	}
	c.agree(many + 1)
}

func TestSeveral_an_observer_never_votes(t *testing.T) {
	c := founded(t, "a", "b")
	c.start("o", cluster.Config{Bind: "127.0.0.1:0", Join: []string{c.peers[0].Address}, Observer: true})
	c.ready("o")
	sessionOf(c, "o")
	c.call(c.nodes["o"], enqueue(1, 10))
	c.agree(1)
	c.dirs["v"] = filepath.Join(t.TempDir())
	c.start("v", cluster.Config{Bind: "127.0.0.1:0", Join: []string{c.peers[0].Address}})
	c.ready("v")
	ctx := deadline(t)
	for voters := 0; voters != 3; {
		voters = 0
		for _, m := range c.leader().Members() {
			if m.Voter {
				voters++
			}
			if m.ID == "o" && (m.Voter || !m.Observer) {
				t.Fatalf("the observer became %+v", m)
			}
		}
		select {
		case <-tick():
		case <-ctx.Done():
			t.Fatalf("%d voters", voters)
		}
	}
}

func TestSeveral_a_copy_is_installed_under_load(t *testing.T) {
	c := &several{t: t, dirs: make(map[string]string), nodes: make(map[string]*cluster.Node)}
	for _, id := range []string{"a", "b", "c"} {
		c.peers = append(c.peers, cluster.Peer{ID: id, Address: freeAddress(t)})
	}
	replaced := make(chan string, 16) // more than there can be
	small := func(p cluster.Peer) {
		if c.dirs[p.ID] == "" {
			c.dirs[p.ID] = t.TempDir()
		}
		c.nodes[p.ID] = start(t, cluster.Setup{
			ID: p.ID, Dir: c.dirs[p.ID], TrailingBytes: 64 << 10, Cluster: quick(cluster.Config{Bind: p.Address, Peers: c.peers}),
			OnReplace: func() { replaced <- p.ID },
		})
	}
	for _, p := range c.peers {
		small(p)
	}
	c.ready("a", "b", "c")
	lead := c.leader()
	sessionOf(c, lead.Status().ID)
	away := c.peers[0]
	if lead.Status().ID == away.ID {
		away = c.peers[1]
	}
	c.stop(away.ID) // it comes back with its folder, which is behind the others' logs
	for i := range 1500 {
		c.call(lead, enqueue(i, 100))
	}
	if err := lead.Flush(deadline(t)); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	runs := 1500
	var load sync.WaitGroup
	load.Go(func() {
		for ; ; runs++ {
			select {
			case <-stop:
				return
			default:
				c.call(lead, enqueue(runs, 100))
			}
		}
	})
	small(away)
	select {
	case id := <-replaced:
		if id != away.ID {
			t.Errorf("the state of %s was replaced, that of %s is behind", id, away.ID)
		}
	case <-deadline(t).Done():
		t.Error("no copy was installed")
	}
	c.ready(away.ID)
	close(stop)
	load.Wait()
	c.agree(runs)
}
