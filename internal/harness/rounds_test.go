//go:build unix

package harness_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/internal/crashtest"
	"github.com/escapement-go/scheduler/internal/harness"
)

// How often something is done to the cluster. make crash asks for a hundred.
var (
	rounds = flag.Int("rounds", number("ESCAPEMENT_CLUSTER_ROUNDS", 4), "how often something is done to the cluster")
	seed   = flag.Int("seed", number("ESCAPEMENT_CLUSTER_SEED", 0), "of the load and of what is done; 0 takes one from the clock")
	only   = flag.String("fault", "", "what is done, by its name; empty: anything")
)

func number(env string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(env)); err == nil {
		return n
	}
	return otherwise
}

func TestMain(m *testing.M) {
	harness.Main(map[string]harness.Role{"node": nodeRole})
	goleak.VerifyTestMain(m)
}

// hang is after how long something that should happen is taken not to happen.
// Nothing is measured by it.
const hang = 90 * time.Second

// Three nodes under load are killed, frozen, cut off, stopped, and brought back
// under other ports. After each round every acknowledged call is there and has
// ended as it should, each tick has one outcome, no run has two results, and the
// nodes agree.
func TestRounds_lose_nothing_and_double_nothing(t *testing.T) {
	chance := *seed
	if chance == 0 {
		chance = int(time.Now().UnixNano() % math.MaxInt32)
	}
	t.Logf("seed %d", chance)
	c := newTrial(t, uint64(chance))
	rnd := rand.New(rand.NewPCG(uint64(chance), 0))
	names := slices.Sorted(maps.Keys(faults))
	rnd.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	if *only != "" {
		names = []string{*only}
	}
	for round := range *rounds {
		name := names[round%len(names)]
		c.note("round %d: %s", round+1, name)
		c.order(order{Do: "load"}, c.ids...)
		c.sleep(rnd, 200, 700)
		faults[name](c, rnd)
		c.recover()
		c.sleep(rnd, 100, 500)
		acks, attempts, ticks := c.acked, c.attempts, c.ticked
		c.judge()
		if acks, attempts, ticks = c.acked-acks, c.attempts-attempts, c.ticked-ticks; min(acks, attempts, ticks) == 0 {
			t.Errorf("round %d is empty: %d calls acknowledged, %d attempts, %d ticks", round+1, acks, attempts, ticks)
		}
		if t.Failed() {
			return
		}
	}
	if *rounds < 1 {
		t.Errorf("%d rounds prove nothing", *rounds)
	}
	t.Logf("%d rounds: %d calls acknowledged, %d runs, %d attempts, %d ticks", *rounds, c.acked, len(c.known), c.attempts, c.ticked)
}

// faults are what is done to the cluster in a round, by name.
var faults = map[string]func(c *trial, rnd *rand.Rand){
	"kill leader": func(c *trial, rnd *rand.Rand) {
		c.kill(c.leader())
		c.sleep(rnd, 0, 2500)
	},
	"kill follower": func(c *trial, rnd *rand.Rand) {
		c.kill(c.follower(rnd))
		c.sleep(rnd, 0, 2000)
	},
	"kill majority": func(c *trial, rnd *rand.Rand) {
		c.kill(c.leader())
		c.sleep(rnd, 0, 300)
		c.kill(c.follower(rnd))
		c.sleep(rnd, 0, 2000)
	},
	"kill all, all addresses change": func(c *trial, rnd *rand.Rand) {
		for _, i := range rnd.Perm(len(c.ids)) {
			c.kill(c.ids[i])
		}
		if err := c.Between(); err != nil {
			c.t.Fatal(err)
		}
	},
	"freeze leader": func(c *trial, rnd *rand.Rand) {
		id := c.leader()
		c.Process(id).Signal(syscall.SIGSTOP)
		c.sleep(rnd, 100, 4000)
		c.Process(id).Signal(syscall.SIGCONT)
	},
	"freeze follower, kill leader": func(c *trial, rnd *rand.Rand) {
		id := c.follower(rnd)
		c.Process(id).Signal(syscall.SIGSTOP)
		c.sleep(rnd, 0, 1500)
		c.kill(c.leader())
		c.sleep(rnd, 0, 1000)
		c.Process(id).Signal(syscall.SIGCONT)
		c.sleep(rnd, 0, 1500)
	},
	"isolate leader": func(c *trial, rnd *rand.Rand) {
		c.Isolate(c.leader())
		c.sleep(rnd, 200, 4000)
	},
	"isolate follower": func(c *trial, rnd *rand.Rand) {
		c.Isolate(c.follower(rnd))
		c.sleep(rnd, 200, 4000)
	},
	"leader is not heard": func(c *trial, rnd *rand.Rand) {
		id := c.leader()
		for _, other := range c.others(id) {
			c.Cut(id, other)
		}
		c.sleep(rnd, 200, 4000)
	},
	"leader does not hear": func(c *trial, rnd *rand.Rand) {
		id := c.leader()
		for _, other := range c.others(id) {
			c.Cut(other, id)
		}
		c.sleep(rnd, 200, 4000)
	},
	"one direction of one pair": func(c *trial, rnd *rand.Rand) {
		i := rnd.Perm(len(c.ids))
		c.Cut(c.ids[i[0]], c.ids[i[1]])
		c.sleep(rnd, 200, 4000)
	},
	"connections break": func(c *trial, rnd *rand.Rand) {
		for range 1 + rnd.IntN(10) {
			c.Reset(c.ids[rnd.IntN(len(c.ids))])
			c.sleep(rnd, 0, 200)
		}
	},
	"leader stops": func(c *trial, rnd *rand.Rand) {
		c.stop(c.leader())
		c.sleep(rnd, 0, 1000)
	},
	"all stop, one by one": func(c *trial, rnd *rand.Rand) {
		for _, i := range rnd.Perm(len(c.ids)) {
			c.stop(c.ids[i])
			c.start(c.ids[i])
		}
	},
	"leader after leader": func(c *trial, rnd *rand.Rand) {
		for range 3 {
			id := c.leader()
			c.kill(id)
			c.start(id)
		}
	},
}

// A trial is the cluster under test, and what was heard of it.
type trial struct {
	*harness.Nodes
	t   *testing.T
	dir string
	ids []string

	mu     sync.Mutex // guards all up to the blank line
	more   chan struct{}
	did    map[string]map[string]int // by node and order: how often it was carried out
	leads  map[string]string         // as each node sees it
	acks   []crashtest.Ack
	seen   []scheduler.Run
	faulty map[string][]string // what a node has said that no node may

	story    []string // what was done, for who reads of a failure
	asked    map[string]map[string]int
	known    map[scheduler.RunID]scheduler.Run // of earlier rounds
	read     map[string]int64                  // how far a node's facts were read
	last     map[string]time.Time              // of each schedule, the last tick that was judged
	since    time.Time                         // when the last judgement began
	applied  uint64                            // the index that it saw
	acked    int
	attempts int
	ticked   int
}

func newTrial(t *testing.T, chance uint64) *trial {
	t.Helper()
	c := &trial{
		t: t, dir: t.TempDir(), ids: []string{"a", "b", "c"}, more: make(chan struct{}),
		faulty: make(map[string][]string),
		did:    make(map[string]map[string]int), asked: make(map[string]map[string]int), leads: make(map[string]string),
		known: make(map[scheduler.RunID]scheduler.Run), read: make(map[string]int64), last: make(map[string]time.Time),
	}
	for _, id := range c.ids {
		c.did[id], c.asked[id] = make(map[string]int), make(map[string]int)
	}
	var err error
	c.Nodes, err = harness.NewNodes(c.dir, "node", extra{chance, 300 * time.Millisecond}, c.hear, c.ids...)
	if err == nil {
		err = c.Between()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			c.tell()
		}
	})
	for _, id := range c.ids {
		c.launch(id)
	}
	c.done("start", c.ids...)
	return c
}

// tell prints what was done, what was wrong by the word of each node, and the nodes'
// logs.
func (c *trial) tell() {
	for _, line := range c.story {
		c.t.Log(line)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range c.ids {
		c.t.Logf("node %s has told of %d faults: %s", id, len(c.faulty[id]), strings.Join(c.faulty[id], "; "))
		if p := c.Process(id); p != nil {
			const most = 20_000
			log := p.Log()
			c.t.Logf("node %s:\n%s", id, log[max(0, len(log)-most):])
		}
	}
}

func (c *trial) note(format string, args ...any) {
	c.story = append(c.story, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (c *trial) hear(id string, _ int, line []byte) {
	var w word
	if err := json.Unmarshal(line, &w); err != nil {
		w.Fault = fmt.Sprintf("node %s says %q: %v", id, line, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case w.Fault != "":
		c.faulty[id] = append(c.faulty[id], w.Fault)
	case w.Did != "":
		c.did[id][w.Did]++
	case w.Leader != "":
		c.leads[id] = w.Leader
	case w.Ack.Op == crashtest.OpEnded:
		c.seen = append(c.seen, *w.Ack.Ended)
	default:
		c.acks = append(c.acks, *w.Ack)
	}
	close(c.more)
	c.more = make(chan struct{})
}

// await returns once is, called with what was heard, is true. The nodes whose part
// it is must not end before.
func (c *trial) await(what string, of []string, is func() bool) {
	c.t.Helper()
	timer := time.NewTimer(hang)
	defer timer.Stop()
	for {
		c.mu.Lock()
		ok, more := is(), c.more
		c.mu.Unlock()
		if ok {
			return
		}
		for _, id := range of {
			select {
			case <-c.Process(id).Over():
				c.t.Fatalf("%s: node %s has ended: %v", what, id, c.Process(id).Err())
			default:
			}
		}
		poll := time.NewTimer(100 * time.Millisecond)
		select {
		case <-more:
		case <-poll.C:
		case <-timer.C:
			for _, id := range c.ids {
				c.Process(id).Stacks()
			}
			c.t.Fatalf("%s: it takes longer than %v", what, hang)
		}
		poll.Stop()
	}
}

// order has nodes do something, and waits until they have.
func (c *trial) order(o order, ids ...string) {
	c.t.Helper()
	for _, id := range ids {
		if err := c.Process(id).Tell(o); err != nil {
			c.t.Fatalf("%s: node %s does not listen: %v", o.Do, id, err)
		}
	}
	c.done(o.Do, ids...)
}

// done waits until nodes have done what they were told to.
func (c *trial) done(what string, ids ...string) {
	c.t.Helper()
	for _, id := range ids {
		c.asked[id][what]++
	}
	c.await(what, ids, func() bool {
		return !slices.ContainsFunc(ids, func(id string) bool { return c.did[id][what] < c.asked[id][what] })
	})
}

func (c *trial) sleep(rnd *rand.Rand, from, to int) {
	c.t.Helper()
	if err := pause(c.t.Context(), time.Duration(from+rnd.IntN(to-from))*time.Millisecond); err != nil {
		c.t.Fatal(err)
	}
}

// leader waits until a majority follows one node, and returns it.
func (c *trial) leader() (id string) {
	c.t.Helper()
	c.await("a leader", nil, func() bool {
		for _, id = range c.ids {
			votes := 0
			for _, by := range c.ids {
				if c.leads[by] == id && (c.leads[id] == id || by == id) {
					votes++
				}
			}
			if votes >= 2 {
				return true
			}
		}
		return false
	})
	return id
}

func (c *trial) others(id string) []string {
	return slices.DeleteFunc(slices.Clone(c.ids), func(other string) bool { return other == id })
}

// follower returns any node that does not lead and runs.
func (c *trial) follower(rnd *rand.Rand) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []string
	for _, id := range c.ids {
		if c.leads[id] != id && c.runs(id) {
			list = append(list, id)
		}
	}
	return list[rnd.IntN(len(list))]
}

func (c *trial) runs(id string) bool {
	select {
	case <-c.Process(id).Over():
		return false
	default:
		return true
	}
}

func (c *trial) kill(id string) {
	c.t.Helper()
	c.note("kill %s", id)
	p := c.Process(id)
	p.Kill()
	if p.Panicked() {
		c.t.Fatalf("node %s panicked before it was killed", id)
	}
	c.gone(id)
}

func (c *trial) gone(id string) {
	c.mu.Lock()
	c.leads[id] = ""
	c.mu.Unlock()
}

func (c *trial) stop(id string) {
	c.t.Helper()
	c.note("stop %s", id)
	p := c.Process(id)
	if err := p.Tell(order{Do: "stop"}); err != nil {
		c.t.Fatal(err)
	}
	c.await("stop", nil, func() bool { return !c.runs(id) })
	if err := p.Err(); err != nil {
		c.t.Errorf("node %s stops: %v", id, err)
	}
	c.gone(id)
}

func (c *trial) launch(id string) {
	c.t.Helper()
	c.note("start %s", id)
	if _, err := c.Start(id); err != nil {
		c.t.Fatal(err)
	}
}

// start starts a node and waits until it is there; then it makes calls too.
func (c *trial) start(id string) {
	c.t.Helper()
	c.launch(id)
	c.done("start", id)
	c.order(order{Do: "load"}, id)
}

// recover undoes what was done.
func (c *trial) recover() {
	c.t.Helper()
	c.note("heal")
	c.Heal()
	var back []string
	for _, id := range c.ids {
		if !c.runs(id) {
			if p := c.Process(id); p.Panicked() {
				c.t.Fatalf("node %s has panicked", id)
			}
			c.launch(id)
			back = append(back, id)
		}
	}
	c.done("start", back...)
}
