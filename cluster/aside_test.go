package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/internal/sim"
	"github.com/escapement-go/scheduler/store/memstore"
)

func TestNode_AskNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &world{several: &several{t: t, nodes: make(map[string]*cluster.Node)}, net: sim.NewNetwork(1, sim.Path{Latency: time.Millisecond})}
		ids := []string{"a", "b", "c"}
		var asked atomic.Int32
		for _, id := range ids {
			c.peers = append(c.peers, cluster.Peer{ID: id, Address: id + ":1"})
		}
		for _, id := range ids {
			cfg := cluster.Config{Peers: c.peers, Bind: id + ":1", Network: c.net.Host(id)}
			c.nodes[id] = start(t, cluster.Setup{
				ID: id, Storage: memstore.New(memstore.Options{}), Cluster: &cfg,
				OnAsk: func(question []byte) ([]byte, error) {
					asked.Add(1)
					switch string(question) {
					case "slow":
						time.Sleep(3 * time.Second)
					case "too much":
						return nil, &cluster.OverloadedError{What: "questions"}
					}
					return fmt.Appendf(nil, "%s to %s", id, question), nil
				},
			})
		}
		c.ready(ids...)
		ask := func(from, to, question string) {
			t.Helper()
			got, err := c.nodes[from].AskNode(t.Context(), to, []byte(question))
			if want := to + " to " + question; err != nil || string(got) != want {
				t.Errorf("%s asks %s: got %q, %v; want %q", from, to, got, err, want)
			}
		}
		for _, from := range ids { // whoever leads
			for _, to := range ids {
				ask(from, to, "x")
			}
		}
		time.Sleep(time.Hour) // the connections have ended by then
		ask("a", "b", "y")

		var slow sync.WaitGroup // questions that take their time hold nobody up
		for range 20 {
			slow.Go(func() { ask("a", "b", "slow") })
		}
		began := time.Now()
		ask("a", "b", "z")
		if took := time.Since(began); took > time.Second {
			t.Errorf("a question beside slow ones took %v", took)
		}
		slow.Wait()

		ask("a", "b", "w")
		time.Sleep(9 * time.Second) // the connection is about to end
		asked.Store(0)
		ask("a", "b", "slow")
		if _, err := c.nodes["a"].AskNode(t.Context(), "b", []byte("too much")); !errors.Is(err, cluster.ErrOverloaded) {
			t.Errorf("a host that is overloaded: %v", err)
		}
		if n := asked.Load(); n != 2 {
			t.Errorf("two questions were asked %d times", n)
		}

		c.cut("b", true)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		if _, err := c.nodes["a"].AskNode(ctx, "b", []byte("x")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a node that is cut off: %v", err)
		}
		cancel()
		if _, err := c.nodes["a"].AskNode(t.Context(), "d", []byte("x")); !errors.Is(err, cluster.ErrNotMember) {
			t.Errorf("a node that is not there: %v", err)
		}
		c.net.Heal()
		ask("a", "b", "after the cut")
		c.stop("b")
		if _, err := c.nodes["a"].AskNode(t.Context(), "b", []byte("x")); err == nil {
			t.Error("an answer of a node that is down")
		}
		for id := range c.nodes {
			c.stop(id)
		}
		time.Sleep(time.Minute) // raft's goroutines that nobody waits for
	})
}
