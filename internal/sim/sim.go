package sim

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime/pprof"
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

	// Trailing is about how many bytes of the log a node keeps for those that fell
	// behind; default: as usual. Few let a node that was away for long come back by a
	// copy of the leader's state, see [Absence].
	Trailing int64

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
	Join    []string          // the node enters by these addresses, not by its Peers; empty: it is a founder
	Clock   *Clock
	Host    *Host
	Logger  *slog.Logger
	Options []scheduler.Option // handlers, schedules, queues

	Trailing int64 // Options.Trailing

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
	Faults  map[Fault]int // how often each struck
	Virtual time.Duration // that it was about
	Real    time.Duration // that it took, without the checks

	Calls, Acks int // of clients, and those that were carried out for sure
	Ticks       int // that were decided
	Entries     int // of the log
	Installs    int // copies of a leader's state that took the place of a node's
	Severed     int // connections that died with what was under way
	Removals    int // nodes that were taken out of the cluster
	Joins       int // nodes that came back with an empty disk, and voted
}

// Run simulates a cluster and fails the test, with the seed and a timeline, if it
// breaks a promise.
func Run(t *testing.T, o Options) Report {
	t.Helper()
	o = o.withDefaults()
	w := &world{o: o, leaders: make(map[uint64]string), struck: make(map[Fault]int)}
	dog := time.AfterFunc(watchdog+(o.Faulty+o.Calm)/4, func() {
		fmt.Fprintf(os.Stderr, "timeline of seed %d:\n%s\n", o.Seed, w.rec.timeline())
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2) // where it hangs
		panic(fmt.Sprintf("sim: seed %d hangs", o.Seed))
	})
	defer dog.Stop()
	began := time.Now()
	synctest.Test(t, func(t *testing.T) { w.run(t.Context()) })
	took := time.Since(began)
	broken := w.rec.faults
	r := w.report(took)
	if w.history != nil {
		broken = append(broken, Check(w.history)...)
		broken = append(broken, r.nothing(o)...)
	}
	if len(broken) > 0 {
		t.Logf("timeline of seed %d:\n%s", o.Seed, w.rec.timeline())
		t.Errorf("seed %d breaks promises:", o.Seed) // the end of the output is what is read first
		for _, b := range broken {
			t.Errorf("  %s", b)
		}
	}
	return r
}

// report counts what has happened.
func (w *world) report(took time.Duration) Report {
	r := Report{
		History: w.history, Leaders: max(len(w.leaders)-1, 0), Faults: w.struck, Virtual: w.took, Real: took,
		Installs: w.rec.installs, Severed: w.net.Severed(), Removals: w.removals, Joins: w.joins,
	}
	for _, n := range w.nodes {
		r.Lives += n.lives
		r.Tears += n.disk.Tears()
	}
	if w.history != nil {
		r.Entries = len(w.history.Log)
		for _, st := range w.history.Stores {
			r.Ticks = max(r.Ticks, len(st.Ticks))
		}
	}
	for i := range w.rec.calls {
		r.Calls++
		if w.rec.calls[i].Answer == Done {
			r.Acks++
		}
	}
	return r
}

// nothing tells what a simulation that proves something cannot have been without. One
// fault alone may come to nothing.
func (r *Report) nothing(o Options) (b Breaches) {
	faulty := o.Faults.Every > 0 && len(o.Faults.Kinds) > 0
	struck := 0
	for _, n := range r.Faults {
		struck += n
	}
	for _, c := range []struct {
		what    string
		n       int
		present bool
	}{
		{"call was made", r.Calls, !o.Idle},
		{"call was acknowledged", r.Acks, !o.Idle},
		{"tick was decided", r.Ticks, !o.NoSchedules},
		{"fault struck", struck, faulty},
		{"copy of a state was installed", r.Installs, r.Faults[Absence] >= 2},
		{"node was taken out", r.Removals, r.Faults[Leave]+r.Faults[Expel] >= 3},
		{"node came back with an empty disk", r.Joins, r.Faults[Leave]+r.Faults[Expel]+r.Faults[Wipe] > 0},
		{"connection died with an answer", r.Severed, r.Faults[LostAnswers]+r.Faults[Stragglers] >= 5},
	} {
		if c.present && c.n == 0 {
			b.add("the simulation is empty: no %s", c.what)
		}
	}
	return b
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
	struck  map[Fault]int
	history *History

	installed chan struct{} // 1: a copy was installed

	removals, joins int

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
	ills  int        // of its faults that last, those with which it may not count for a majority

	returns bool // it was taken out, or its disk was, and it does not vote again yet
	joins   bool // it comes back by Life.Join
}

const usualLatency = 500 * time.Microsecond

func (w *world) run(ctx context.Context) {
	w.rng = rand.New(rand.NewPCG(w.o.Seed, 0x73696d))
	w.rec.began = time.Now()
	w.installed = make(chan struct{}, 1)
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
