package scheduler_test

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/internal/sim"
)

// newLife makes the scheduler of one life of a simulated node.
func newLife(l sim.Life) (*scheduler.Scheduler, error) {
	opts := append([]scheduler.Option{
		scheduler.WithPlainTimers(),
		scheduler.WithNodeID(l.ID),
		scheduler.WithClock(l.Clock),
		scheduler.WithLogger(l.Logger),
		scheduler.WithTrailing(l.Trailing),
		scheduler.WithDisk(l.OpenLog, func() (scheduler.Storage, error) { return l.OpenStorage(), nil }),
	}, l.Options...)
	if len(l.Peers) > 1 {
		c := cluster.Config{ID: l.ID, Bind: l.Addr, Network: l.Host}
		for _, id := range slices.Sorted(maps.Keys(l.Peers)) {
			if c.Join = l.Join; len(c.Join) > 0 {
				break
			}
			c.Peers = append(c.Peers, cluster.Peer{ID: id, Address: l.Peers[id]})
		}
		opts = append(opts, scheduler.WithCluster(c))
	}
	return scheduler.New(opts...)
}

func simulate(t *testing.T, o sim.Options) sim.Report {
	t.Helper()
	o.New, o.Inside = newLife, scheduler.NodeOf
	r := sim.Run(t, o)
	faults := 0
	for _, n := range r.Faults {
		faults += n
	}
	t.Logf("seed %d: %v in %v (%.0f times as fast), %d calls, %d acknowledged, %d ticks, %d entries, %d faults, %d lives, %d changes of leader, %d torn writes, %d copies installed, %d connections severed, %d removals, %d joins",
		o.Seed, r.Virtual.Round(time.Second), r.Real.Round(time.Millisecond), r.Virtual.Seconds()/r.Real.Seconds(),
		r.Calls, r.Acks, r.Ticks, r.Entries, faults, r.Lives, r.Leaders, r.Tears, r.Installs, r.Severed, r.Removals, r.Joins)
	return r
}

// seeds are those to simulate: ESCAPEMENT_SEED if it is set, or the first n.
func seeds(t *testing.T, n uint64) []uint64 {
	t.Helper()
	if s := os.Getenv("ESCAPEMENT_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("ESCAPEMENT_SEED: %v", err)
		}
		return []uint64{seed}
	}
	all := make([]uint64, n)
	for i := range all {
		all[i] = uint64(i) + 1
	}
	return all
}

func TestSim_one_node(t *testing.T) {
	for _, seed := range seeds(t, 2) {
		simulate(t, sim.Options{Seed: seed})
	}
}

func TestSim_three_nodes(t *testing.T) {
	for _, seed := range seeds(t, 1) {
		simulate(t, sim.Options{Seed: seed, Nodes: 3, Pace: time.Second})
	}
}

func TestSim_five_nodes(t *testing.T) {
	for _, seed := range seeds(t, 1) {
		simulate(t, sim.Options{Seed: seed, Nodes: 5, Pace: 4 * time.Second, Faulty: time.Minute})
	}
}

// Nodes that are cut off for longer than a worker may be out of contact come back
// with what their handlers have done meanwhile, under leases that are no longer
// theirs.
func TestSim_workers_are_given_up(t *testing.T) {
	for _, seed := range seeds(t, 1) {
		simulate(t, givenUp(seed))
	}
}

func givenUp(seed uint64) sim.Options {
	return sim.Options{
		Seed: seed, Nodes: 3, Pace: time.Second, Calm: 10 * time.Second,
		Faults: sim.Faults{
			Every: 4 * time.Second, Lasts: 12 * time.Second,
			Kinds: []sim.Fault{sim.CutOff, sim.OneWay, sim.Freeze, sim.DiskHang},
		},
	}
}

// Nodes leave, are taken out and lose their disks, and come back with empty ones, while
// faults and load go on.
func TestSim_members_come_and_go(t *testing.T) {
	for _, seed := range seeds(t, 1) {
		simulate(t, comeAndGo(seed))
	}
}

func comeAndGo(seed uint64) sim.Options {
	return sim.Options{
		Seed: seed, Nodes: 3, Pace: time.Second, Trailing: 1,
		Faults: sim.Faults{
			Kinds: []sim.Fault{sim.Leave, sim.Expel, sim.Wipe, sim.CutOff, sim.Crash, sim.Restart, sim.Stragglers, sim.DiskSlow},
		},
	}
}

// Connections die with the answers to what was carried out, and what was sent arrives
// when the caller has asked again and another node leads.
func TestSim_answers_are_lost(t *testing.T) {
	for _, seed := range seeds(t, 1) {
		simulate(t, lostAnswers(seed))
	}
}

func lostAnswers(seed uint64) sim.Options {
	return sim.Options{
		Seed: seed, Nodes: 3, Pace: time.Second,
		Faults: sim.Faults{
			Every: 2 * time.Second,
			Kinds: []sim.Fault{sim.LostAnswers, sim.Stragglers, sim.Stragglers, sim.CutOff, sim.Restart, sim.Crash},
		},
	}
}

// Nodes that were away for so long that nobody has kept what they lack come back by
// copies of the leader's state, while faults and load go on.
func TestSim_copies_are_installed(t *testing.T) {
	for _, seed := range seeds(t, 1) {
		simulate(t, leftBehind(seed))
	}
}

func leftBehind(seed uint64) sim.Options {
	return sim.Options{
		Seed: seed, Nodes: 3, Pace: 500 * time.Millisecond, Trailing: 1, Faulty: 3 * time.Minute,
		Faults: sim.Faults{Kinds: []sim.Fault{
			sim.Absence, sim.Absence, sim.Absence, sim.Crash, sim.Restart, sim.Resets, sim.CutOff, sim.DiskError, sim.SlowNet,
		}},
	}
}

// Whatever strikes the leader, without a rest, no tick is lost and none is doubled.
func TestSim_leaders_fall_one_after_the_other(t *testing.T) {
	minutes := time.Duration(envInt(t, "ESCAPEMENT_SIM_MINUTES", 1))
	for _, seed := range seeds(t, 1) {
		r := simulate(t, fallingLeaders(seed, minutes*time.Minute))
		if want := 5 * int(minutes); r.Leaders < want {
			t.Errorf("changes of leader: got %d, want at least %d", r.Leaders, want)
		}
	}
}

func fallingLeaders(seed uint64, faulty time.Duration) sim.Options {
	return sim.Options{
		Seed: seed, Nodes: 3, Pace: 2 * time.Second, Faulty: faulty,
		Faults: sim.Faults{
			Every: time.Second, Lasts: time.Second, Leader: true,
			Kinds: []sim.Fault{sim.Crash, sim.PowerCut, sim.Restart, sim.CutOff, sim.OneWay, sim.Freeze, sim.DiskHang},
		},
	}
}

func envInt(t *testing.T, name string, usual int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return usual
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// As many simulations of all kinds as fit into a time; see make sim.
func TestSim_for_long(t *testing.T) {
	minutes := envInt(t, "ESCAPEMENT_SIM_FOR_MINUTES", 0)
	if minutes == 0 {
		t.Skip("ESCAPEMENT_SIM_FOR_MINUTES is not set")
	}
	began := time.Now()
	seed := uint64(began.Unix()) // another one each time: a failure tells it
	if os.Getenv("ESCAPEMENT_SEED") != "" {
		seed = seeds(t, 1)[0]
	}
	for ; time.Since(began) < time.Duration(minutes)*time.Minute; seed++ {
		all := []sim.Options{
			{Seed: seed},
			{Seed: seed, Nodes: 3, Pace: time.Second},
			givenUp(seed),
			lostAnswers(seed),
			leftBehind(seed),
			fallingLeaders(seed, 2*time.Minute),
			{Seed: seed, Nodes: 5, Pace: 2 * time.Second},
			comeAndGo(seed),
		}
		for _, o := range all {
			if simulate(t, o); t.Failed() {
				return // what was found is the end of the output
			}
		}
	}
}

// How fast simulated time goes by, without faults.
func TestSim_speed(t *testing.T) {
	if os.Getenv("ESCAPEMENT_SIM_SPEED") == "" {
		t.Skip("ESCAPEMENT_SIM_SPEED is not set")
	}
	for _, nodes := range []int{1, 3} {
		const clients = 4 // of each node
		for _, o := range []sim.Options{
			{Idle: true, Calm: time.Hour},
			{Pace: time.Duration(nodes) * clients * 100 * time.Millisecond, Calm: 10 * time.Minute}, // ten calls a second in all
		} {
			o.Nodes, o.NoSchedules, o.Faults.Every, o.Faulty, o.Recovery = nodes, true, -1, time.Second, time.Second
			simulate(t, o)
		}
	}
}
