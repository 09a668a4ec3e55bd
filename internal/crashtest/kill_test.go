//go:build unix

package crashtest_test

import (
	"context"
	"encoding/json"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/internal/crashtest"
)

// How many times the process is killed. make crash asks for hundreds.
var (
	rounds = flag.Int("rounds", number("ESCAPEMENT_CRASH_ROUNDS", 8), "how many times the process is killed")
	seed   = flag.Int("seed", number("ESCAPEMENT_CRASH_SEED", 0), "of the load and of when it is killed; 0 takes one from the clock")
)

func number(env string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(env)); err == nil {
		return n
	}
	return otherwise
}

// A process under load is killed at random points, frozen, and drained, again
// and again; what it acknowledged holds.
func TestKill_keeps_what_was_acknowledged(t *testing.T) {
	t.Parallel()
	chance := *seed
	if chance == 0 {
		chance = int(time.Now().UnixNano() % math.MaxInt32)
	}
	t.Logf("seed %d", chance)
	rnd := rand.New(rand.NewPCG(uint64(chance), 0))
	work := t.ArtifactDir()
	args := loadArgs{Dir: filepath.Join(work, "data"), Facts: filepath.Join(work, "facts"), Seed: uint64(chance)}
	h := &crashtest.History{Limits: map[string]int{narrowQueue: narrowLimit}}
	for round := range *rounds {
		args.Life = round + 1
		live(t, rnd, args, h)
		if t.Failed() {
			return
		}
	}
	args.Life++
	settle(t, args, h)
	h.Facts = readFacts(t, args.Facts)
	report(t, h)
	args.Life++
	again(t, args, h)
	t.Logf("%d rounds: %d calls acknowledged, %d runs, %d facts", *rounds, len(h.Acks), len(h.Runs), len(h.Facts))
}

func report(t *testing.T, h *crashtest.History) {
	t.Helper()
	broken := h.Check()
	for i, b := range broken {
		if i == 50 {
			t.Errorf("… and %d more", len(broken)-i)
			return
		}
		t.Error(b)
	}
}

// live is a life of the process, with the end that chance has in store for it.
func live(t *testing.T, rnd *rand.Rand, args loadArgs, h *crashtest.History) {
	t.Helper()
	p := spawn(t, "load", args)
	switch rnd.IntN(8) {
	case 0: // at any time, also while it starts
		timer := time.NewTimer(time.Duration(rnd.IntN(int(400 * time.Millisecond))))
		<-timer.C
	case 1: // frozen for longer than a leader's lease
		p.heard(1+rnd.IntN(200), nil)
		p.signal(syscall.SIGSTOP)
		timer := time.NewTimer(time.Second + time.Duration(rnd.IntN(int(2*time.Second))))
		<-timer.C
		p.signal(syscall.SIGCONT)
		p.mu.Lock()
		n := len(p.lines)
		p.mu.Unlock()
		p.heard(n+1+rnd.IntN(200), nil)
	case 2: // drained
		p.heard(1+rnd.IntN(300), nil)
		p.signal(syscall.SIGTERM)
		if err := p.ends(); err != nil {
			t.Errorf("round %d: drain: %v\n%s", args.Life, err, p.tail())
		}
	default:
		p.heard(1+rnd.IntN(1000), nil)
	}
	if p.over() && p.cmd.ProcessState == nil {
		t.Errorf("round %d: the process has ended by itself: %v\n%s", args.Life, p.ends(), p.tail())
	}
	p.kill()
	for _, line := range p.lines {
		var a crashtest.Ack
		if err := json.Unmarshal(line, &a); err != nil {
			t.Fatalf("round %d: line %q: %v", args.Life, line, err)
		}
		if a.Op == crashtest.OpEnded {
			h.Seen = append(h.Seen, *a.Ended)
		} else {
			h.Acks = append(h.Acks, a)
		}
	}
}

// settle starts the scheduler a last time in this process, waits until every
// schedule goes on and every run has ended, and takes down what there is.
func settle(t *testing.T, args loadArgs, h *crashtest.History) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	l := begin(ctx, t, args)
	var ids []string
	for sc, err := range l.s.Schedules(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, sc.ID)
	}
	for _, id := range ids {
		if err := l.s.ResumeSchedule(ctx, id); err != nil {
			t.Fatal(err)
		}
		for before := len(ticks(ctx, t, l.s, id)); len(ticks(ctx, t, l.s, id)) == before; {
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				t.Fatalf("schedule %q stands still: %v", id, err)
			}
		}
	}
	for _, id := range ids {
		if err := l.s.PauseSchedule(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	drained(ctx, t, l.s)
	collect(ctx, t, l.s, h)
	shutdown(ctx, t, l)
}

// again starts the scheduler once more, after a shutdown in good order, and looks
// whether anything has changed by that.
func again(t *testing.T, args loadArgs, h *crashtest.History) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	l := begin(ctx, t, args)
	for _, r := range h.Runs {
		h.Seen = append(h.Seen, r)
	}
	runs := len(h.Runs)
	collect(ctx, t, l.s, h)
	if len(h.Runs) != runs {
		t.Errorf("runs after a restart in good order: got %d, want %d", len(h.Runs), runs)
	}
	report(t, h)
	shutdown(ctx, t, l)
}

func begin(ctx context.Context, t *testing.T, args loadArgs) *load {
	t.Helper()
	l, err := newLoad(args, func(any) {})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.s.Shutdown(context.WithoutCancel(t.Context())) })
	return l
}

func shutdown(ctx context.Context, t *testing.T, l *load) {
	t.Helper()
	if err := l.s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	l.facts.f.Close()
}

// drained waits until no run is live.
func drained(ctx context.Context, t *testing.T, s *scheduler.Scheduler) {
	t.Helper()
	for {
		st, err := s.Stats(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if st.Live == 0 {
			return
		}
		if pause(ctx, 20*time.Millisecond) != nil {
			for r, err := range s.Runs(t.Context(), scheduler.RunFilter{States: []scheduler.RunState{
				scheduler.Scheduled, scheduler.Ready, scheduler.Assigned, scheduler.Running,
			}}) {
				if err != nil {
					t.Fatal(err)
				}
				e, err := s.Explain(t.Context(), r.ID)
				t.Logf("run %v is %v: %q, %v", r.ID, r.State, e.Reason, err)
			}
			t.Fatalf("%d runs do not end", st.Live)
		}
	}
}

// ticks returns the whole ledger of a schedule.
func ticks(ctx context.Context, t *testing.T, s *scheduler.Scheduler, id string) (all []scheduler.Tick) {
	t.Helper()
	for tick, err := range s.Ticks(ctx, id, time.Unix(0, 0), time.Unix(0, math.MaxInt64)) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tick)
	}
	return all
}

// onWallClock are the schedules whose nominal times are times of day.
var onWallClock = map[string]bool{"second": true, "none": true, "young": true, "paused": true}

// collect takes down all runs, as listed and as found one by one, and all
// ledgers.
func collect(ctx context.Context, t *testing.T, s *scheduler.Scheduler, h *crashtest.History) {
	t.Helper()
	h.Runs, h.Ledgers = make(map[scheduler.RunID]scheduler.Run), nil
	for r, err := range s.Runs(ctx, scheduler.RunFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := h.Runs[r.ID]; twice {
			t.Errorf("run %v is listed twice", r.ID)
		}
		h.Runs[r.ID] = r
	}
	for _, a := range h.Acks {
		if a.Op != crashtest.OpEnqueue {
			continue
		}
		listed := h.Runs[a.Run]
		if r, err := s.Get(ctx, a.Run); err != nil || r.State != listed.State || r.Fence != listed.Fence {
			t.Errorf("get run %v: got %v under fence %d and %v; it is listed as %v under fence %d",
				a.Run, r.State, r.Fence, err, listed.State, listed.Fence)
		}
	}
	ended := make(map[scheduler.RunID]int)
	for e, err := range s.Events(ctx, scheduler.EventFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == "finished" {
			if ended[e.Run]++; ended[e.Run] > 1 {
				t.Errorf("run %v has ended %d times, by its events", e.Run, ended[e.Run])
			}
		}
	}
	for sc, err := range s.Schedules(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		l := crashtest.Ledger{Schedule: sc.ID, Ticks: ticks(ctx, t, s, sc.ID)}
		if onWallClock[sc.ID] {
			l.Created = sc.Created
		}
		trigger := sc.Trigger
		l.Next = func(after time.Time) time.Time {
			next, err := trigger.Next(after, 1)
			if err != nil || len(next) != 1 {
				t.Fatalf("schedule %q: next tick: %v", sc.ID, err)
			}
			return next[0]
		}
		h.Ledgers = append(h.Ledgers, l)
	}
}
