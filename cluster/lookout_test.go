package cluster_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/cluster"
)

// A leader that falls silent is replaced when its time is over, at whatever point of
// raft's timers that happens. Now and then one of these has two nodes stand against
// each other.
func TestBubble_a_silent_leader_is_replaced_in_time(t *testing.T) {
	inBubble(t, func(t *testing.T, c *world) {
		t.Helper()
		const rounds, most = 40, 7 * cluster.DefaultHeartbeat / 4
		inTime := 0
		rnd := rand.New(rand.NewPCG(1, 1))
		for range rounds {
			time.Sleep(time.Duration(rnd.Int64N(int64(10 * time.Second))))
			old := c.leader().Status().ID
			others := c.followers()
			began := time.Now()
			c.cut(old, true)
			for led := false; !led; {
				time.Sleep(time.Millisecond)
				for _, id := range others {
					led = led || c.nodes[id].Leading()
				}
			}
			if time.Since(began) <= most {
				inTime++
			}
			c.cut(old, false)
			for c.nodes[old].Leading() {
				time.Sleep(time.Millisecond)
			}
		}
		if inTime < rounds*9/10 {
			t.Errorf("replaced within %v: %d of %d leaders", most, inTime, rounds)
		}
	}, "a", "b", "c")
}
