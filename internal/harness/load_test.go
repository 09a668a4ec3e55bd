//go:build unix

package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/internal/crashtest"
	"github.com/escapement-go/scheduler/internal/harness"
)

// extra is what a node is told beyond its place in the cluster.
type extra struct {
	Seed      uint64
	Heartbeat time.Duration
}

// A word is what a node says: one of its fields.
type word struct {
	Ack    *crashtest.Ack `json:",omitempty"` // a call that returned, or a run that was seen to have ended
	Did    string         `json:",omitempty"` // the order that has been carried out; "start" at first
	Leader string         `json:",omitempty"` // whom it sees lead; "none"
	Fault  string         `json:",omitempty"` // an error that no call may have
}

// An order is what a node is told to do.
type order struct {
	Do    string
	Path  string               // dump: to this file
	From  time.Time            // dump: runs whose IDs are not older
	After uint64               // dump: events of later entries
	Ticks map[string]time.Time // dump: of each schedule, ticks after this one
}

// A picture is what a node knows.
type picture struct {
	Applied uint64
	Level   int
	Runs    []scheduler.Run
	Ledgers map[string][]tick
	Ended   map[scheduler.RunID]int // how often, by the events
}

// A tick is one whose run may be none, which a RunID in JSON must not be.
type tick struct {
	scheduler.Tick
	Run scheduler.RunID `json:",omitzero"`
}

// beats are the schedules and the time from one tick to the next.
var beats = map[string]time.Duration{"fast": 100 * time.Millisecond, "slow": 150 * time.Millisecond, "second": time.Second}

var job = scheduler.NewTask[crashtest.Work, crashtest.Done]("job",
	scheduler.Retry(scheduler.Backoff{Initial: 5 * time.Millisecond, Max: 50 * time.Millisecond, Attempts: 10}))

// A node is one life of a node under test.
type node struct {
	harness.NodeArgs
	extra extra
	child *harness.Child
	s     *scheduler.Scheduler
	ends  atomic.Bool // it was told to stop

	mu    sync.Mutex // guards facts
	facts *os.File
}

// factsOf is the file to which the handlers of a node write what they do: one write
// each, so that they are whole, and there when the process is killed.
func factsOf(dir, id string) string { return filepath.Join(dir, id+".facts") }

func nodeRole(c *harness.Child) (err error) {
	n := &node{child: c}
	if err := errors.Join(c.Parse(&n.NodeArgs), json.Unmarshal(n.Extra, &n.extra)); err != nil {
		return err
	}
	n.facts, err = os.OpenFile(factsOf(filepath.Dir(n.Dir), n.ID), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	several := n.Config()
	several.Heartbeat, several.Election, several.Lease = n.extra.Heartbeat, n.extra.Heartbeat, n.extra.Heartbeat*4/5
	does := func(k crashtest.Kind, n int) scheduler.Call { return job.With(crashtest.Work{N: n, Kind: k}) }
	n.s, err = scheduler.New(
		scheduler.WithDataDir(n.Dir),
		scheduler.WithCluster(several),
		scheduler.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))),
		scheduler.WithConcurrency(8),
		scheduler.WithHandler(job, n.handle),
		scheduler.WithSchedule("fast", scheduler.Every(beats["fast"]), does(crashtest.Plain, 1), scheduler.Overlap(scheduler.OverlapAllow)),
		scheduler.WithSchedule("slow", scheduler.Every(beats["slow"]), does(crashtest.Slow, 2)),
		scheduler.WithSchedule("second", scheduler.Cron("* * * * * *"), does(crashtest.Flaky, 3), scheduler.Overlap(scheduler.OverlapAllow)),
	)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := n.s.Start(ctx); err != nil {
		return err
	}
	go n.watch(ctx) // ends with the process
	c.Say(word{Did: "start"})
	return n.obey(ctx)
}

// watch tells who leads, whenever that changes.
func (n *node) watch(ctx context.Context) {
	for seen := "?"; pause(ctx, 5*time.Millisecond) == nil; {
		h := n.s.Health(ctx)
		leader := h.Leader
		if h.Role != "leader" && leader == h.Node || leader == "" {
			leader = "none" // elected, and does not lead yet
		}
		if leader != seen {
			seen = leader
			n.child.Say(word{Leader: leader})
		}
	}
}

// obey carries out orders until it is told to stop, or there is no parent any more.
func (n *node) obey(ctx context.Context) error {
	var load sync.WaitGroup
	rest := func() {}
	defer func() { rest() }()
	for {
		var o order
		if !n.child.Hear(&o) {
			return nil
		}
		var err error
		switch o.Do {
		case "load":
			calls, cancel := context.WithCancel(ctx)
			rest = cancel
			n.load(calls, &load)
		case "rest":
			rest()
			load.Wait()
		case "settle":
			err = n.settle(ctx)
		case "resume":
			for id := range beats {
				err = errors.Join(err, n.s.ResumeSchedule(ctx, id))
			}
		case "dump":
			err = n.dump(scheduler.Linearizable(ctx), &o)
		case "stop":
			n.ends.Store(true)
			rest()
			return n.s.Shutdown(ctx)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", o.Do, err)
		}
		n.child.Say(word{Did: o.Do})
	}
}

// settle pauses the schedules and waits until no run is live.
func (n *node) settle(ctx context.Context) error {
	for id := range beats {
		if err := n.s.PauseSchedule(ctx, id); err != nil {
			return err
		}
	}
	for {
		st, err := n.s.Stats(scheduler.Linearizable(ctx))
		if err != nil || st.Live == 0 {
			return err
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

func (n *node) dump(ctx context.Context, o *order) error {
	p := picture{Ledgers: make(map[string][]tick), Ended: make(map[scheduler.RunID]int)}
	for r, err := range n.s.Runs(ctx, scheduler.RunFilter{From: o.From}) {
		if err != nil {
			return err
		}
		p.Runs = append(p.Runs, r)
	}
	h := n.s.Health(ctx)
	p.Applied, p.Level = h.Applied, h.Level
	for id := range beats {
		from := o.Ticks[id]
		if !from.IsZero() {
			from = from.Add(1)
		}
		for t, err := range n.s.Ticks(ctx, id, from, time.Unix(0, math.MaxInt64)) {
			if err != nil {
				return err
			}
			p.Ledgers[id] = append(p.Ledgers[id], tick{t, t.Run})
		}
	}
	for e, err := range n.s.Events(ctx, scheduler.EventFilter{After: o.After}) {
		if err != nil {
			return err
		}
		if e.Kind == "finished" {
			p.Ended[e.Run]++
		}
	}
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(o.Path, b, 0o600)
}

func (n *node) add(f crashtest.Fact) {
	f.At = time.Now().UnixNano()
	line, err := json.Marshal(f)
	if err == nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		_, err = n.facts.Write(append(line, '\n'))
	}
	if err != nil {
		panic(err)
	}
}

// handle does the work of all runs.
func (n *node) handle(ctx context.Context, w crashtest.Work) (crashtest.Done, error) {
	x := scheduler.Current(ctx)
	f := crashtest.Fact{What: crashtest.Began, Run: x.ID(), Attempt: x.Attempt(), Fence: x.Fence(), Life: n.Life}
	if !x.Resume(&f.Step) {
		f.Step = 0
	}
	n.add(f)
	err := n.work(ctx, x, w, f)
	f.Step = 0
	if f.What = crashtest.Ended; err != nil {
		f.What = crashtest.Gave
	}
	n.add(f)
	return crashtest.Done{N: w.N, Fence: x.Fence()}, err
}

func (n *node) work(ctx context.Context, x *scheduler.Execution, w crashtest.Work, f crashtest.Fact) error {
	switch w.Kind {
	case crashtest.Flaky:
		if x.Attempt() <= 2 {
			return errors.New("not yet")
		}
	case crashtest.Doomed:
		return scheduler.Permanent(errors.New("never"))
	case crashtest.Slow:
		return pause(ctx, time.Duration(20+10*(w.N%9))*time.Millisecond)
	case crashtest.Steps:
		for f.Step++; f.Step <= 5; f.Step++ {
			if err := x.Checkpoint(f.Step); err != nil {
				return err
			}
			f.What = crashtest.Saved
			n.add(f)
			if err := pause(ctx, 5*time.Millisecond); err != nil {
				return err
			}
		}
	default: // succeeds at once
	}
	return nil
}

// pause lets time pass; it is what work is made of here, and the pace of calls.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// load makes calls until ctx ends, those that are under way included.
func (n *node) load(ctx context.Context, callers *sync.WaitGroup) {
	for i := range 3 {
		rnd := rand.New(rand.NewPCG(n.extra.Seed, uint64(n.Life*100+i)))
		callers.Go(func() { // ends with ctx
			for c := 0; pause(ctx, time.Duration(rnd.IntN(120))*time.Millisecond) == nil; c++ {
				number := (n.Life*10+i)*1_000_000 + 100*c
				if i == 0 {
					n.many(context.WithoutCancel(ctx), rnd, number)
				} else {
					n.single(context.WithoutCancel(ctx), rnd, number)
				}
			}
		})
	}
}

// fault tells of an error that a call must not have: it has all the time there is.
func (n *node) fault(call string, err error) {
	if n.ends.Load() && errors.Is(err, scheduler.ErrClosed) {
		return
	}
	n.child.Say(word{Fault: fmt.Sprintf("node %s, %s: %v", n.ID, call, err)})
}

func (n *node) asked(id scheduler.RunID, w crashtest.Work, begun int64, delay time.Duration) {
	n.child.Say(word{Ack: &crashtest.Ack{Op: crashtest.OpEnqueue, Round: n.Life, Run: id, Work: w, Begun: begun, Delay: delay}})
}

func (n *node) single(ctx context.Context, rnd *rand.Rand, number int) {
	kinds := []crashtest.Kind{crashtest.Plain, crashtest.Flaky, crashtest.Doomed, crashtest.Slow, crashtest.Steps}
	w := crashtest.Work{N: number, Kind: kinds[rnd.IntN(len(kinds))]}
	var delay time.Duration
	var opts []scheduler.RunOption
	if rnd.IntN(3) == 0 {
		delay = time.Duration(rnd.IntN(int(500 * time.Millisecond)))
		opts = append(opts, scheduler.In(delay))
	}
	begun := time.Now().UnixNano()
	f, err := job.Enqueue(ctx, n.s, w, opts...)
	if err != nil {
		n.fault("enqueue", err)
		return
	}
	n.asked(f.ID(), w, begun, delay)
	if rnd.IntN(2) == 0 {
		return
	}
	wait, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if r, err := n.s.Await(wait, f.ID()); err == nil {
		n.child.Say(word{Ack: &crashtest.Ack{Op: crashtest.OpEnded, Round: n.Life, Run: r.ID, Ended: &r}})
	} else if wait.Err() == nil {
		n.fault("await", err)
	}
}

func (n *node) many(ctx context.Context, rnd *rand.Rand, number int) {
	calls := make([]scheduler.Call, 2+rnd.IntN(6))
	for i := range calls {
		calls[i] = job.With(crashtest.Work{N: number + i, Kind: crashtest.Plain})
	}
	ids, err := n.s.EnqueueMany(ctx, calls)
	if err != nil {
		n.fault("enqueue many", err)
		return
	}
	for i, id := range ids {
		n.asked(id, crashtest.Work{N: number + i, Kind: crashtest.Plain}, 0, 0)
	}
}
