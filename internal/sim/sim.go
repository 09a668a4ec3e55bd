package sim

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/cluster"
)

// Options say what is simulated. Seed, New and Inside are required.
type Options struct {
	Seed  uint64
	Nodes int // default 1

	// Faulty is how long anything may fail, Calm how long the cluster must work
	// after that. Default: two minutes and half a minute. Recovery is what lies
	// between the two: default half a minute.
	Faulty, Recovery, Calm time.Duration

	Faults Faults
	Pace   time.Duration // a client's pause between two calls is up to twice as long; default 200 ms
	Idle   bool          // no clients

	NoSchedules bool

	// New makes the scheduler of one life of a node. It has to use everything that
	// the Life offers, and the options of it.
	New func(l Life) (*scheduler.Scheduler, error)

	// Inside returns the cluster's node in a scheduler that has started.
	Inside func(s *scheduler.Scheduler) *cluster.Node
}

// Faults say what may fail and how often.
type Faults struct {
	Every  time.Duration // on average, between two faults; default 3 s; none if it is negative
	Lasts  time.Duration // on average, a fault; default 3 s
	Kinds  []Fault       // default: all
	Leader bool          // what strikes one node strikes the leader
}

// A Life is one process of a node: what it has of the world.
type Life struct {
	ID      string
	Number  int // of the node's lives, from 0
	Addr    string
	Peers   map[string]string // the addresses of all nodes by ID, names that are looked up at each dial
	Clock   *Clock
	Host    *Host
	Logger  *slog.Logger
	Options []scheduler.Option // handlers, schedules, queues

	OpenLog     func() (cluster.LogStore, error)
	OpenStorage func() *Storage
}

func (o Options) withDefaults() Options {
	o.Nodes = max(o.Nodes, 1)
	for _, d := range []struct {
		have  *time.Duration
		usual time.Duration
	}{
		{&o.Faulty, 2 * time.Minute},
		{&o.Recovery, 30 * time.Second},
		{&o.Calm, 30 * time.Second},
		{&o.Pace, 200 * time.Millisecond},
		{&o.Faults.Every, 3 * time.Second},
		{&o.Faults.Lasts, 3 * time.Second},
	} {
		if *d.have == 0 {
			*d.have = d.usual
		}
	}
	if o.Faults.Kinds == nil {
		o.Faults.Kinds = AllFaults(o.Nodes)
	}
	return o
}

// watchdog is how long, in real time, a simulation may take beside a share of its
// virtual time: one that takes longer hangs, in a deadlock or a livelock.
const watchdog = 4 * time.Minute

// A Report says what a simulation was.
type Report struct {
	History *History
	Leaders int           // changes of leadership
	Lives   int           // of all nodes
	Tears   int           // crashes in the middle of a write
	Virtual time.Duration // that it was about
	Real    time.Duration // that it took, without the checks
}

// Run simulates a cluster and fails the test, with the seed and a timeline, if it
// breaks a promise.
func Run(t *testing.T, o Options) Report {
	t.Helper()
	o = o.withDefaults()
	w := &world{o: o, leaders: make(map[uint64]string)}
	dog := time.AfterFunc(watchdog+(o.Faulty+o.Calm)/4, func() {
		panic(fmt.Sprintf("sim: seed %d hangs\n%s", o.Seed, w.rec.timeline()))
	})
	defer dog.Stop()
	began := time.Now()
	synctest.Test(t, func(t *testing.T) { w.run(t.Context()) })
	took := time.Since(began)
	broken := w.rec.faults
	if w.history != nil {
		broken = append(broken, Check(w.history)...)
	}
	r := Report{History: w.history, Leaders: max(len(w.leaders)-1, 0), Virtual: w.took, Real: took}
	for _, n := range w.nodes {
		r.Lives += n.lives
		r.Tears += n.disk.Tears()
	}
	if len(broken) > 0 {
		t.Errorf("seed %d breaks promises:", o.Seed)
		for _, b := range broken {
			t.Errorf("  %s", b)
		}
		t.Logf("timeline of seed %d:\n%s", o.Seed, w.rec.timeline())
	}
	return r
}

// world is one simulation, inside its bubble.
type world struct {
	o       Options
	rng     *rand.Rand
	rec     recorder
	net     *Network
	nodes   []*node
	zombies sync.WaitGroup // processes that were killed and are still unwinding
	took    time.Duration
	history *History

	mu      sync.Mutex // guards all below
	leaders map[uint64]string
	runs    []scheduler.RunID // that were asked for
}

// node is a member through all its lives. Its fields belong to the goroutine that
// drives the simulation, but those of the life.
type node struct {
	id    string
	disk  *Disk
	clock *Clock
	lives int
	mu    sync.Mutex // held by the driver to set live, and by others to read it
	live  *life      // nil while it is down
	ill   bool       // something about it fails, so that it may not count for a majority
}

const usualLatency = 500 * time.Microsecond

func (w *world) run(ctx context.Context) {
	w.rng = rand.New(rand.NewPCG(w.o.Seed, 0x73696d))
	w.rec.began = time.Now()
	w.net = NewNetwork(w.o.Seed, Path{Latency: usualLatency, Jitter: usualLatency})
	for i := range w.o.Nodes {
		w.nodes = append(w.nodes, &node{
			id: fmt.Sprintf("n%d", i+1), clock: NewClock(),
			disk: NewDisk(w.o.Seed*31+uint64(i), 200*time.Microsecond, time.Millisecond),
		})
	}
	for _, n := range w.nodes {
		w.start(ctx, n)
	}
	began := time.Now()
	sampling, stop := context.WithCancel(ctx)
	var sampler sync.WaitGroup
	sampler.Go(func() { w.watch(sampling) }) // ends with sampling
	w.strike(ctx)
	w.rec.say("", "--- faults stop")
	w.heal(ctx)
	sleep(ctx, w.o.Recovery)
	w.rec.say("", "--- calm")
	calm := time.Now()
	sleep(ctx, w.o.Calm)
	end := time.Now()
	w.took = end.Sub(began)
	w.rec.say("", "--- end of load")
	stop()
	sampler.Wait()
	w.finish(ctx, calm, end)
	// What sleeps when a bubble ends counts as hanging.
	w.zombies.Wait()
	time.Sleep(time.Hour)
}

// sleep returns early if ctx ends.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// watch looks at the nodes every now and then: at their digests, and at who
// leads.
func (w *world) watch(ctx context.Context) {
	for sleep(ctx, 500*time.Millisecond) {
		w.look()
	}
}

func (w *world) look() {
	for _, n := range w.nodes {
		if l := n.current(); l != nil {
			l.look()
		}
	}
}
