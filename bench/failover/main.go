//go:build unix

// Command failover measures how long no tick starts after the leader of three nodes is killed, and after it is stopped in
// good order: three processes on the loopback, each with a folder and fsync, with the default timers.
//
//	go run ./failover [-rounds n] [-stops n] [-interval d] [-overlap skip|allow] [-heartbeat d] [-v]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/bench/internal/program"
	"github.com/escapement-go/scheduler/bench/internal/spread"
	"github.com/escapement-go/scheduler/internal/harness"
)

var (
	rounds    = flag.Int("rounds", 20, "how often the leader is killed")
	stops     = flag.Int("stops", 5, "how often it is stopped in good order")
	interval  = flag.Duration("interval", 20*time.Millisecond, "between ticks")
	overlap   = flag.String("overlap", "allow", "of the schedule: allow; or skip, and ticks wait for a run that died with the leader")
	heartbeat = flag.Duration("heartbeat", 0, "raft's heartbeat and election timeout, the lease being 4/5 of it; 0: the defaults")
	verbose   = flag.Bool("v", false, "print each round, and the nodes' logs of the slowest")
)

func main() {
	harness.Main(map[string]harness.Role{"node": node})
	program.Main(run)
}

// extra is what a node is told beyond its place in the cluster.
type extra struct {
	Interval, Heartbeat time.Duration
	Skip                bool
}

// A word is what a node says: one of its fields.
type word struct {
	Started bool   `json:",omitempty"` // the scheduler
	Leader  string `json:",omitempty"` // whom it sees lead, itself included; "none"
	Ran     int64  `json:",omitempty"` // ns wall, when a tick's handler began
	Tick    int64  `json:",omitempty"` // its nominal time
	Ledger  *tally `json:",omitempty"`
}

// A tally is what the ledger says.
type tally struct {
	Ticks, Merged, Skipped, Other, Gaps int
	Ran                                 []int64 // nominal times
}

const schedule = "beat"

var beat = scheduler.NewJob[int]("beat")

// node is the role of the children.
func node(c *harness.Child) error {
	var a harness.NodeArgs
	var e extra
	if err := errors.Join(c.Parse(&a), json.Unmarshal(a.Extra, &e)); err != nil {
		return err
	}
	several := a.Config()
	several.Heartbeat, several.Election, several.Lease = e.Heartbeat, e.Heartbeat, e.Heartbeat*4/5
	policy := scheduler.OverlapAllow
	if e.Skip {
		policy = scheduler.OverlapSkip
	}
	s, err := scheduler.New(
		scheduler.WithDataDir(a.Dir),
		scheduler.WithCluster(several),
		scheduler.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))),
		scheduler.WithFunc(beat, func(ctx context.Context, _ int) error {
			c.Say(word{Ran: time.Now().UnixNano(), Tick: scheduler.Current(ctx).ScheduledAt().UnixNano()})
			return nil
		}),
		scheduler.WithSchedule(schedule, scheduler.Every(e.Interval), beat.With(0), scheduler.Overlap(policy)),
	)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := s.Start(ctx); err != nil {
		return err
	}
	c.Say(word{Started: true})
	go watch(ctx, s, c) // ends with the process
	for order := ""; c.Hear(&order); {
		switch order {
		case "ledger":
			t, err := count(ctx, s)
			if err != nil {
				return err
			}
			c.Say(word{Ledger: &t})
		case "stop":
			return s.Shutdown(ctx)
		}
	}
	return nil // and is killed so
}

// watch tells who leads, whenever that changes.
func watch(ctx context.Context, s *scheduler.Scheduler, c *harness.Child) {
	for seen := "?"; ; time.Sleep(5 * time.Millisecond) {
		h := s.Health(ctx)
		leader := h.Leader
		if h.Role != "leader" && leader == h.Node || leader == "" {
			leader = "none" // elected, and does not lead yet
		}
		if leader != seen {
			seen = leader
			c.Say(word{Leader: leader})
		}
	}
}

// count reads the ledger; a gap is a tick without an outcome, or one with two.
func count(ctx context.Context, s *scheduler.Scheduler) (t tally, err error) {
	var last time.Time
	for tick, err := range s.Ticks(scheduler.Linearizable(ctx), schedule, time.Time{}, time.Unix(0, math.MaxInt64)) {
		if err != nil {
			return t, err
		}
		t.Ticks++
		switch tick.Outcome {
		case scheduler.TickRan:
			t.Ran = append(t.Ran, tick.Nominal.UnixNano())
		case scheduler.TickMerged:
			t.Merged++
		case scheduler.TickSkipped:
			t.Skipped++
		default:
			t.Other++
		}
		if !last.IsZero() && tick.Nominal.Sub(last) != *interval {
			t.Gaps++
		}
		last = tick.Nominal
	}
	return t, nil
}

// A start is a tick whose handler began.
type start struct {
	node string
	at   time.Time
	tick int64
}

// A trial is the cluster under test, and what was heard of it.
type trial struct {
	*harness.Nodes
	ids []string

	mu      sync.Mutex // guards all below
	started map[string]bool
	leader  map[string]string // as each node sees it
	starts  []start
	ran     map[int64]int // how often each tick's handler began
	ledger  *tally
}

func (t *trial) hear(id string, _ int, line []byte) {
	var w word
	if json.Unmarshal(line, &w) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case w.Started:
		t.started[id] = true
	case w.Leader != "":
		t.leader[id] = w.Leader
	case w.Ran != 0:
		t.starts = append(t.starts, start{id, time.Unix(0, w.Ran), w.Tick})
		t.ran[w.Tick]++
	case w.Ledger != nil:
		t.ledger = w.Ledger
	}
}

// patience is how long something that must happen may take.
const patience = 60 * time.Second

// await returns once is, called with what was heard, is true.
func (t *trial) await(ctx context.Context, what string, is func() bool) error {
	for end := time.Now().Add(patience); ; {
		t.mu.Lock()
		ok := is()
		t.mu.Unlock()
		if ok {
			return nil
		}
		if time.Now().After(end) {
			for _, id := range t.ids {
				fmt.Fprintf(os.Stderr, "node %s:\n%s\n", id, t.Process(id).Log())
			}
			return fmt.Errorf("%s: it takes longer than %v", what, patience)
		}
		if err := program.Pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// steady waits until all nodes run and follow one leader, and returns it.
func (t *trial) steady(ctx context.Context) (leader string, err error) {
	err = t.await(ctx, "a cluster of three", func() bool {
		leader = t.leader[t.ids[0]]
		for _, id := range t.ids {
			if !t.started[id] || t.leader[id] != leader {
				return false
			}
		}
		return leader != "none"
	})
	return leader, err
}

func (t *trial) start(id string) error {
	t.mu.Lock()
	t.started[id] = false
	t.mu.Unlock()
	_, err := t.Start(id)
	return err
}

func run(ctx context.Context, p *program.Program) error {
	n, m := program.Pick(p, *rounds, 2), program.Pick(p, *stops, 1)
	t := &trial{ids: []string{"a", "b", "c"}, started: make(map[string]bool), leader: make(map[string]string), ran: make(map[int64]int)}
	var err error
	t.Nodes, err = harness.NewNodes(p.Dir, "node", extra{*interval, *heartbeat, *overlap == "skip"}, t.hear, t.ids...)
	if err != nil {
		return err
	}
	defer t.Close() // there is no network to close
	for _, id := range t.ids {
		if err := t.start(id); err != nil {
			return err
		}
	}
	var kills, stopped []time.Duration
	for i := range n + m {
		gap, err := t.round(ctx, i >= n)
		if err != nil {
			return err
		}
		if i < n {
			kills = append(kills, gap)
		} else {
			stopped = append(stopped, gap)
		}
	}
	fmt.Printf("kill -9 of the leader, until the next tick starts on a survivor: %v\n", spread.Of(kills))
	fmt.Printf("the leader stops in good order, longest time between two starts: %v\n", spread.Of(stopped))
	return t.judge(ctx)
}

// round ends the leader, measures, and starts it again.
func (t *trial) round(ctx context.Context, gracefully bool) (gap time.Duration, err error) {
	leader, err := t.steady(ctx)
	if err != nil {
		return 0, err
	}
	// Long enough for every timer of raft to be at any point of its course.
	if err := program.Pause(ctx, time.Second+time.Duration(rand.Int64N(int64(time.Second)))); err != nil {
		return 0, err
	}
	t.mu.Lock()
	t.starts = t.starts[:0]
	t.mu.Unlock()
	ended := time.Now()
	if victim := t.Process(leader); gracefully {
		err = victim.Tell("stop")
	} else {
		victim.Signal(syscall.SIGKILL)
	}
	if err != nil {
		return 0, err
	}
	// What was leased before still starts; the pause comes after that. It is over once ticks have started for a second.
	err = t.await(ctx, "the next tick", func() bool {
		gap = t.pause(leader, ended, gracefully)
		return gap != 0
	})
	if err != nil {
		return 0, err
	}
	<-t.Process(leader).Over()
	if gracefully {
		if err := t.Process(leader).Err(); err != nil {
			return 0, fmt.Errorf("shutdown: %w\n%s", err, t.Process(leader).Log())
		}
	}
	if *verbose {
		fmt.Printf("%s ms\n", spread.Ms(gap))
	}
	return gap, t.start(leader)
}

// pause returns the longest time without a start, and from when on it counts: from the kill; or, of a leader that stops in
// good order, from the start before. 0: it is too early to know.
func (t *trial) pause(leader string, ended time.Time, gracefully bool) (longest time.Duration) {
	var at []time.Time
	for _, s := range t.starts {
		if s.at.After(ended) && (gracefully || s.node != leader) {
			at = append(at, s.at)
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	last, until := ended, time.Time{}
	for _, s := range at {
		if d := s.Sub(last); d > longest {
			longest, until = d, s
		}
		last = s
	}
	if until.IsZero() || last.Sub(until) < time.Second || last.Sub(ended) < 2*time.Second {
		return 0
	}
	if gracefully {
		return longest
	}
	return until.Sub(ended)
}

// judge compares what ran with the ledger.
func (t *trial) judge(ctx context.Context) error {
	if _, err := t.steady(ctx); err != nil {
		return err
	}
	if err := t.Process(t.ids[0]).Tell("ledger"); err != nil {
		return err
	}
	if err := t.await(ctx, "the ledger", func() bool { return t.ledger != nil }); err != nil {
		return err
	}
	l := t.ledger
	t.mu.Lock()
	defer t.mu.Unlock()
	twice, wrongly := 0, 0
	for tick, n := range t.ran {
		if n > 1 {
			twice++
		}
		if _, is := slices.BinarySearch(l.Ran, tick); !is && tick <= l.Ran[len(l.Ran)-1] {
			wrongly++
		}
	}
	fmt.Printf("%d ticks: %d ran, %d merged, %d skipped, %d otherwise; handlers began %d, %d of them twice (their worker was killed)\n",
		l.Ticks, len(l.Ran), l.Merged, l.Skipped, l.Other, len(t.ran), twice)
	if l.Gaps > 0 {
		return fmt.Errorf("%d ticks have no outcome or two", l.Gaps)
	}
	if wrongly > 0 {
		return fmt.Errorf("%d ticks ran that have another outcome", wrongly)
	}
	return nil
}
