//go:build unix

package crashtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/internal/crashtest"
)

// A rowArgs is a life of a process in a test after a bug from the field.
type rowArgs struct {
	loadArgs
	Row    string
	Die    string    // when the process kills itself: "before", "after" the handler
	At     time.Time // of Times
	MaxAge time.Duration
}

const short = 10 * time.Millisecond // the period of row 22

func newRow(a rowArgs, say func(any)) (l *load, err error) {
	l = &load{loadArgs: a.loadArgs, say: say, held: make(chan struct{}), release: make(chan struct{})}
	if l.facts, err = openFacts(a.Facts); err != nil {
		return nil, err
	}
	opts := []scheduler.Option{scheduler.WithDataDir(a.Dir), scheduler.WithHandler(job, l.handle)}
	add := func(o scheduler.Option) { opts = append(opts, o) }
	switch a.Row {
	case "5":
		add(scheduler.WithSchedule("each", scheduler.Every(200*time.Millisecond), tickOf(crashtest.Held, 0)))
	case "9":
		add(scheduler.WithSchedule("each", scheduler.Every(1500*time.Millisecond), tickOf(crashtest.Plain, 0), scheduler.Overlap(scheduler.OverlapAllow)))
	case "9 noon":
		add(scheduler.WithSchedule("each", scheduler.Times(a.At), tickOf(crashtest.Plain, 0),
			scheduler.Misfire(scheduler.CatchUp{MaxAge: a.MaxAge})))
	case "22":
		add(scheduler.WithSchedule("each", scheduler.Every(short), tickOf(crashtest.Plain, 0), scheduler.Overlap(scheduler.OverlapAllow)))
	}
	if a.Die != "" {
		add(scheduler.WithTracerProvider(deadlyProvider{when: a.Die}))
	}
	l.s, err = scheduler.New(opts...)
	return l, err
}

// A deadlyProvider kills its process where an attempt's span begins, which is
// before the first line of the handler, or where it ends, which is after the last
// and before the result is stored.
type deadlyProvider struct {
	noop.TracerProvider
	when string
}

func (p deadlyProvider) Tracer(string, ...trace.TracerOption) trace.Tracer {
	return deadlyTracer{when: p.when}
}

type deadlyTracer struct {
	noop.Tracer
	when string
}

func (t deadlyTracer) Start(ctx context.Context, name string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	if !strings.HasPrefix(name, "run ") {
		return ctx, noop.Span{}
	}
	if t.when == "before" {
		die()
	}
	return ctx, deadlySpan{}
}

type deadlySpan struct{ noop.Span }

func (deadlySpan) End(...trace.SpanEndOption) { die() }

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// rowRole lives, and does what its parent tells it.
func rowRole(c *child) error {
	var a rowArgs
	if err := c.parse(&a); err != nil {
		return err
	}
	l, err := newRow(a, c.say)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := l.s.Start(ctx); err != nil {
		return err
	}
	c.say("started")
	go func() { // ends with the process
		<-l.held
		c.say("held")
	}()
	for c.in.Scan() {
		switch verb, arg, _ := strings.Cut(c.in.Text(), " "); verb {
		case "enqueue":
			id, err := l.s.Enqueue(ctx, job.With(crashtest.Work{Kind: crashtest.Kind(arg)}, scheduler.In(100*time.Millisecond)))
			if err != nil {
				return err
			}
			c.say(id)
		case "pause":
			c.say(fmt.Sprint(l.s.PauseSchedule(ctx, arg)))
		case "resume":
			c.say(fmt.Sprint(l.s.ResumeSchedule(ctx, arg)))
		case "stop":
			return l.s.Shutdown(ctx)
		}
	}
	return c.in.Err()
}

// lives makes the arguments of a row's first life, and next those of the one
// after it.
func lives(t *testing.T, row string) rowArgs {
	t.Helper()
	work := t.TempDir()
	return rowArgs{Row: row, loadArgs: loadArgs{Dir: filepath.Join(work, "data"), Facts: filepath.Join(work, "facts"), Life: 1}}
}

func (a rowArgs) next() rowArgs {
	a.Life++
	a.Die = ""
	return a
}

// spawnRow starts a life in a process of its own, and waits until it has started.
func spawnRow(t *testing.T, a rowArgs) *process {
	t.Helper()
	p := spawn(t, "rows", a)
	p.expect("started")
	return p
}

func (p *process) expect(want string) {
	p.t.Helper()
	var got string
	if p.must(&got); got != want {
		p.t.Fatalf("child %s: got %q, want %q", p.name, got, want)
	}
}

// lastLife is a life in this process; no handler is held in it.
func lastLife(t *testing.T, a rowArgs) *load {
	t.Helper()
	l, err := newRow(a, func(any) {})
	if err != nil {
		t.Fatal(err)
	}
	close(l.release)
	if err := l.s.Start(guarded(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.s.Shutdown(context.WithoutCancel(t.Context()))
		l.facts.f.Close()
	})
	return l
}

// soon waits until a condition holds.
func soon(t *testing.T, what string, ok func(ctx context.Context) bool) {
	t.Helper()
	ctx := guarded(t)
	for !ok(ctx) {
		if pause(ctx, 10*time.Millisecond) != nil {
			t.Fatalf("it does not come to be that %s", what)
		}
	}
}

func began(t *testing.T, a rowArgs, id scheduler.RunID) (n int) {
	t.Helper()
	for _, f := range readFacts(t, a.Facts) {
		if f.Run == id && f.What == crashtest.Began {
			n++
		}
	}
	return n
}

// Variant C: all nodes are killed.
func TestFieldBug05_StuckRunning(t *testing.T) {
	t.Parallel()
	a := lives(t, "5")
	p := spawnRow(t, a)
	p.expect("held")
	p.kill()
	l := lastLife(t, a.next())
	ctx := guarded(t)
	first := ticks(ctx, t, l.s, "each")[0]
	r, err := l.s.Await(ctx, first.Run)
	if err != nil || r.State != scheduler.Succeeded || r.Crashes != 1 || r.Attempt != 2 {
		t.Errorf("the run whose node was killed: got %v in attempt %d after %d crashes, %v, want %v in the second after one",
			r.State, r.Attempt, r.Crashes, err, scheduler.Succeeded)
	}
	soon(t, "a later tick runs", func(ctx context.Context) bool {
		n := 0
		for _, tick := range ticks(ctx, t, l.s, "each") {
			if tick.Outcome == scheduler.TickRan {
				n++
			}
		}
		return n > 1
	})
}

func TestFieldBug10_WorkerKilledWithATaskInHand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, die string
		kind      crashtest.Kind
		begun     int // how many times the handler began in all
	}{
		{"in_the_middle", "", crashtest.Held, 2},
		{"before_the_first_line", "before", crashtest.Plain, 1},
		{"before_the_result_is_stored", "after", crashtest.Plain, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := lives(t, "10")
			a.Die = c.die
			p := spawnRow(t, a)
			p.tell("enqueue " + string(c.kind))
			var id scheduler.RunID
			p.must(&id)
			if c.die == "" {
				p.expect("held")
				p.kill()
			} else if err := p.ends(); err == nil {
				t.Fatal("the process did not kill itself")
			}
			l := lastLife(t, a.next())
			r, err := l.s.Await(guarded(t), id)
			if err != nil || r.State != scheduler.Succeeded || r.Attempt != 2 || r.Crashes != 1 {
				t.Errorf("run: got %v in attempt %d after %d crashes, %v, want %v in the second after one",
					r.State, r.Attempt, r.Crashes, err, scheduler.Succeeded)
			}
			if got := began(t, a, id); got != c.begun {
				t.Errorf("the handler began %d times, want %d", got, c.begun)
			}
			want := string(mustJSON(crashtest.Done{Fence: r.Fence}))
			if string(r.Result) != want {
				t.Errorf("result: got %s, want %s", r.Result, want)
			}
		})
	}
}

// The week is shortened to a second and a half, and its days to a seventh.
func TestFieldBug09_LostOnRestart(t *testing.T) {
	t.Parallel()
	a := lives(t, "9")
	for n := 0; ; n++ {
		p := spawnRow(t, a)
		timer := time.NewTimer(200 * time.Millisecond)
		<-timer.C
		if n%2 == 0 {
			p.kill()
		} else {
			p.tell("stop")
			if err := p.ends(); err != nil {
				t.Errorf("drain: %v\n%s", err, p.tail())
			}
		}
		a = a.next()
		ran := make(map[scheduler.RunID]bool)
		for _, f := range readFacts(t, a.Facts) {
			if f.What == crashtest.Ended {
				ran[f.Run] = true
			}
		}
		if len(ran) >= 3 {
			break
		}
		if n > 300 {
			t.Fatal("the schedule does not fire")
		}
	}
	l := lastLife(t, a)
	ctx := guarded(t)
	checkLedger(ctx, t, l)
	all := ticks(ctx, t, l.s, "each")
	checkMadeUp(t, all) // on a slow machine more than one is due by the time it is up again
	for _, tick := range all {
		if tick.Outcome != scheduler.TickRan {
			continue
		}
		if r, err := l.s.Await(ctx, tick.Run); err != nil || r.State != scheduler.Succeeded {
			t.Errorf("run of %v: got %v, %v, want %v", tick.Nominal, r.State, err, scheduler.Succeeded)
		}
	}
}

// checkMadeUp wants each tick to have run, to be of a pause, or to be merged into a later
// one that ran.
func checkMadeUp(t *testing.T, all []scheduler.Tick) {
	t.Helper()
	owed := false
	for _, tick := range all {
		switch tick.Outcome {
		case scheduler.TickMerged:
			owed = true
		case scheduler.TickRan:
			owed = false
		case scheduler.TickPaused:
		default:
			t.Errorf("tick %v: got %v, want it to run, or to be merged or paused", tick.Nominal, tick.Outcome)
		}
	}
	if owed {
		t.Error("ticks were merged, and none ran for them")
	}
}

// checkLedger wants each tick of the schedule to have one outcome.
func checkLedger(ctx context.Context, t *testing.T, l *load) {
	t.Helper()
	h := new(crashtest.History)
	collect(ctx, t, l.s, h)
	broken := (&crashtest.History{Ledgers: h.Ledgers, Runs: ended(h.Runs)}).Check()
	for _, b := range broken {
		if strings.Contains(b, "schedule") && !strings.Contains(b, "is lost") {
			t.Error(b)
		}
	}
}

// ended are the runs that have ended.
func ended(runs map[scheduler.RunID]scheduler.Run) map[scheduler.RunID]scheduler.Run {
	some := make(map[scheduler.RunID]scheduler.Run)
	for id, r := range runs {
		if r.State.Final() {
			some[id] = r
		}
	}
	return some
}

// Everything is down at the one time at which a job is to run.
func TestFieldBug09_DownAtNoon(t *testing.T) {
	t.Parallel()
	for name, maxAge := range map[string]time.Duration{"runs_late": 0, "is_recorded_as_missed": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := lives(t, "9 noon")
			a.At, a.MaxAge = time.Now().Add(3*time.Second).Truncate(time.Millisecond), maxAge
			spawnRow(t, a).kill()
			if !time.Now().Before(a.At) {
				t.Skip("this machine is too slow: the process was not gone in time")
			}
			timer := time.NewTimer(time.Until(a.At) + 100*time.Millisecond)
			<-timer.C
			l := lastLife(t, a.next())
			var all []scheduler.Tick
			soon(t, "the tick is decided", func(ctx context.Context) bool {
				all = ticks(ctx, t, l.s, "each")
				return len(all) > 0
			})
			if len(all) != 1 || !all[0].Nominal.Equal(a.At) {
				t.Fatalf("ledger: got %+v, want one tick at %v", all, a.At)
			}
			if maxAge > 0 {
				if all[0].Outcome != scheduler.TickMissed || all[0].Reason == "" {
					t.Errorf("tick: got %v because of %q, want %v and a reason", all[0].Outcome, all[0].Reason, scheduler.TickMissed)
				}
				return
			}
			r, err := l.s.Await(guarded(t), all[0].Run)
			if err != nil || r.State != scheduler.Succeeded || !r.Nominal.Equal(a.At) {
				t.Errorf("run: got %v of %v, %v, want %v of %v", r.State, r.Nominal, err, scheduler.Succeeded, a.At)
			}
			if got := began(t, a, r.ID); got != 1 {
				t.Errorf("the handler began %d times, want once", got)
			}
		})
	}
}

// More than a hundred ticks are missed, first by a pause and then because all
// nodes are down.
func TestFieldBug22_PauseAndResume(t *testing.T) {
	t.Parallel()
	a := lives(t, "22")
	p := spawnRow(t, a)
	wait := func() {
		timer := time.NewTimer(150 * short)
		<-timer.C
	}
	p.tell("pause each")
	p.expect("<nil>")
	wait()
	p.tell("resume each")
	p.expect("<nil>")
	soon(t, "it runs after the resumption", func(context.Context) bool { return len(readFacts(t, a.Facts)) > 20 })
	p.kill()
	wait()
	before := len(readFacts(t, a.Facts))
	l := lastLife(t, a.next())
	soon(t, "it runs after the outage", func(context.Context) bool { return len(readFacts(t, a.Facts)) > before+20 })
	ctx := guarded(t)
	if err := l.s.PauseSchedule(ctx, "each"); err != nil {
		t.Fatal(err)
	}
	drained(ctx, t, l.s)
	checkLedger(ctx, t, l)
	count := make(map[scheduler.TickOutcome]int)
	all := ticks(ctx, t, l.s, "each")
	checkMadeUp(t, all)
	for _, tick := range all {
		count[tick.Outcome]++
	}
	if count[scheduler.TickPaused] < 100 || count[scheduler.TickMerged] < 100 {
		t.Errorf("outcomes: got %v, want at least 100 paused and 100 merged", count)
	}
}

// poisonArgs are of a job that takes its process down.
type poisonArgs struct {
	loadArgs
	Attempts uint32
	Slots    int
}

const healthyRuns = 10

var poison = scheduler.NewJob[string]("poison")

// poisonRole starts, and on its first life asks for a poisoned run in the midst of
// healthy ones. It ends by itself once all have ended.
func poisonRole(c *child) error {
	var a poisonArgs
	if err := c.parse(&a); err != nil {
		return err
	}
	w, err := openFacts(a.Facts)
	if err != nil {
		return err
	}
	s, err := scheduler.New(
		scheduler.WithDataDir(a.Dir),
		scheduler.WithConcurrency(a.Slots),
		scheduler.WithHandler(echo, echoing),
		scheduler.WithFunc(poison, func(ctx context.Context, _ string) error {
			x := scheduler.Current(ctx)
			w.add(crashtest.Fact{What: crashtest.Began, Run: x.ID(), Attempt: x.Attempt(), Fence: x.Fence(), Life: a.Life})
			os.Exit(3)
			return nil
		}),
	)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := s.Start(ctx); err != nil {
		return err
	}
	if a.Life == 1 {
		retry := scheduler.Retry(scheduler.Backoff{Initial: short, Max: short, Attempts: a.Attempts})
		var calls []scheduler.Call
		for n := range healthyRuns + 1 {
			if n == healthyRuns/2 {
				calls = append(calls, poison.With("", retry))
			} else {
				// With one slot, none of them runs beside the poison: they must all survive,
				// however few attempts they have and however early they were assigned.
				opts := []scheduler.RunOption{retry}
				if a.Slots > 1 {
					opts = []scheduler.RunOption{scheduler.In(short)}
				}
				calls = append(calls, echo.With("well", opts...))
			}
		}
		if _, err := s.EnqueueMany(ctx, calls); err != nil {
			return err
		}
	}
	for {
		st, err := s.Stats(ctx)
		if err != nil {
			return err
		}
		if st.Live == 0 {
			return s.Shutdown(ctx)
		}
		_ = pause(ctx, time.Millisecond)
	}
}

func TestFieldBug16_PoisonJob(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		attempts uint32
		slots    int
	}{{1, 4}, {3, 4}, {1, 1}, {3, 1}} {
		attempts := c.attempts
		t.Run(fmt.Sprintf("attempts_%d_slots_%d", attempts, c.slots), func(t *testing.T) {
			t.Parallel()
			work := t.TempDir()
			a := poisonArgs{Attempts: attempts, Slots: c.slots, loadArgs: loadArgs{Dir: filepath.Join(work, "data"), Facts: filepath.Join(work, "facts"), Life: 1}}
			for ; ; a.Life++ {
				p := spawn(t, "poison", a)
				if p.ends() == nil {
					break
				}
				if code := p.cmd.ProcessState.ExitCode(); code != 3 {
					t.Fatalf("life %d: got exit code %d, want that of the poison\n%s", a.Life, code, p.tail())
				}
				if a.Life > 20 {
					t.Fatal("the poison is taken again and again")
				}
			}
			if got := len(readFacts(t, a.Facts)); got != int(attempts) {
				t.Errorf("starts of the poison: got %d, want %d", got, attempts)
			}
			s := started(t, a.Dir)
			ctx := guarded(t)
			well := 0
			for r, err := range s.Runs(ctx, scheduler.RunFilter{}) {
				switch {
				case err != nil:
					t.Fatal(err)
				case r.Task == echo.Name() && r.State == scheduler.Succeeded:
					well++
				case r.Task == poison.Name():
					_, err := poison.Future(s, r.ID).Wait(ctx)
					if r.State != scheduler.Failed || !errors.Is(err, scheduler.ErrWorkerLost) || r.Crashes != int(attempts) {
						t.Errorf("the poison: got %v after %d crashes, %v, want %v and %v", r.State, r.Crashes, err, scheduler.Failed, scheduler.ErrWorkerLost)
					}
				}
			}
			if well != healthyRuns {
				t.Errorf("healthy runs that succeeded: got %d, want %d", well, healthyRuns)
			}
		})
	}
}
