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
		scheduler.WithDisk(l.OpenLog, func() (scheduler.Storage, error) { return l.OpenStorage(), nil }),
	}, l.Options...)
	if len(l.Peers) > 1 {
		c := cluster.Config{ID: l.ID, Bind: l.Addr, Network: l.Host}
		for _, id := range slices.Sorted(maps.Keys(l.Peers)) {
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
	calls := 0
	if r.History != nil {
		calls = len(r.History.Calls)
	}
	t.Logf("seed %d: %v in %v (%.0f times as fast), %d calls, %d lives, %d changes of leader, %d torn writes", o.Seed,
		r.Virtual.Round(time.Second), r.Real.Round(time.Millisecond), r.Virtual.Seconds()/r.Real.Seconds(), calls, r.Lives, r.Leaders, r.Tears)
	return r
}

// seeds returns the seeds to simulate: SEED if it is set, or the first n.
func seeds(t *testing.T, n uint64) []uint64 {
	t.Helper()
	if s := os.Getenv("SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("SEED: %v", err)
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
	for _, seed := range seeds(t, 3) {
		simulate(t, sim.Options{Seed: seed})
	}
}

func TestSim_three_nodes(t *testing.T) {
	for _, seed := range seeds(t, 2) {
		simulate(t, sim.Options{Seed: seed, Nodes: 3})
	}
}

// Whatever strikes the leader, for minutes without a rest, no tick is lost and none
// is doubled.
func TestSim_leaders_fall_one_after_the_other(t *testing.T) {
	minutes := time.Duration(1)
	if m, err := strconv.Atoi(os.Getenv("MINUTES")); err == nil {
		minutes = time.Duration(m)
	}
	for _, seed := range seeds(t, 1) {
		r := simulate(t, sim.Options{
			Seed: seed, Nodes: 3, Pace: 2 * time.Second, Faulty: minutes * time.Minute,
			Faults: sim.Faults{
				Every: time.Second, Lasts: time.Second, Leader: true,
				Kinds: []sim.Fault{sim.Crash, sim.PowerCut, sim.Restart, sim.CutOff, sim.OneWay, sim.Freeze, sim.DiskHang},
			},
		})
		if want := 4 * int(minutes); r.Leaders < want {
			t.Errorf("changes of leader: got %d, want at least %d", r.Leaders, want)
		}
	}
}

// How fast simulated time goes by, without faults.
func TestSim_speed(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		for _, o := range []sim.Options{
			{Idle: true, Calm: time.Hour},
			{Pace: 4 * 100 * time.Millisecond * time.Duration(nodes), Calm: 10 * time.Minute}, // ten calls a second in all
		} {
			if testing.Short() || os.Getenv("SPEED") == "" {
				t.Skip("SPEED is not set")
			}
			o.Nodes, o.Faults.Every, o.Faulty = nodes, -1, time.Second
			simulate(t, o)
		}
	}
}
