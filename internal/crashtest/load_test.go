//go:build unix

package crashtest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/internal/crashtest"
	"github.com/escapement-go/scheduler/store"
)

// facts are what handlers write to a file: one write each, so that they are
// whole, and there when the process is killed.
type facts struct{ f *os.File }

func openFacts(path string) (*facts, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return &facts{f}, err
}

func (w *facts) add(f crashtest.Fact) {
	line, err := json.Marshal(f)
	if err == nil {
		_, err = w.f.Write(append(line, '\n'))
	}
	if err != nil {
		panic(err)
	}
}

func readFacts(t *testing.T, path string) (all []crashtest.Fact) {
	t.Helper()
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for in := bufio.NewReader(f); ; {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all
		}
		var fact crashtest.Fact
		if err == nil {
			err = json.Unmarshal(line, &fact)
		}
		if err != nil {
			t.Fatalf("fact %q: %v", line, err)
		}
		all = append(all, fact)
	}
}

// loadArgs are what the children of one test have in common, and the life.
type loadArgs struct {
	Dir, Facts string
	Life       int
	Seed       uint64
	Log        scheduler.LogKind
}

// A load is one life of the scheduler under test.
type load struct {
	loadArgs
	facts *facts
	s     *scheduler.Scheduler
	say   func(any)

	held    chan struct{} // receives from each handler that is held
	release chan struct{} // closed: they go on
}

const (
	narrowQueue = "narrow"
	narrowLimit = 2
)

var job = scheduler.NewTask[crashtest.Work, crashtest.Done]("job",
	scheduler.Retry(scheduler.Backoff{Initial: 5 * time.Millisecond, Max: 50 * time.Millisecond, Attempts: 10}))

func newLoad(a loadArgs, say func(any)) (l *load, err error) {
	l = &load{loadArgs: a, say: say, held: make(chan struct{}), release: make(chan struct{})}
	if l.facts, err = openFacts(a.Facts); err != nil {
		return nil, err
	}
	second := func() scheduler.Trigger { return scheduler.Cron("* * * * * *") }
	l.s, err = scheduler.New(
		scheduler.WithDataDir(a.Dir),
		scheduler.WithLog(a.Log),
		scheduler.WithHandler(job, l.handle),
		scheduler.WithQueue(narrowQueue, scheduler.QueueLimit(narrowLimit)),
		scheduler.WithConcurrency(16),
		scheduler.WithSchedule("second", second(), tickOf(crashtest.Plain, 1), scheduler.Overlap(scheduler.OverlapAllow)),
		scheduler.WithSchedule("slow", scheduler.Every(200*time.Millisecond), tickOf(crashtest.Slow, 2)),
		scheduler.WithSchedule("none", second(), tickOf(crashtest.Slow, 3), scheduler.Misfire(scheduler.CatchUp{Policy: scheduler.CatchUpNone})),
		scheduler.WithSchedule("young", second(), tickOf(crashtest.Flaky, 4), scheduler.Misfire(scheduler.CatchUp{MaxAge: 300 * time.Millisecond})),
		scheduler.WithSchedule("narrow", scheduler.Every(70*time.Millisecond),
			job.With(crashtest.Work{Kind: crashtest.Plain, N: 5}, scheduler.InQueue(narrowQueue)), scheduler.Overlap(scheduler.OverlapAllow)),
		scheduler.WithSchedule("paused", second(), tickOf(crashtest.Plain, 6)),
		scheduler.WithSchedule("edited", scheduler.Every(300*time.Millisecond), tickOf(crashtest.Plain, 7)),
	)
	return l, err
}

func tickOf(k crashtest.Kind, n int) scheduler.Call { return job.With(crashtest.Work{N: n, Kind: k}) }

// handle does the work of all runs.
func (l *load) handle(ctx context.Context, w crashtest.Work) (crashtest.Done, error) {
	x := scheduler.Current(ctx)
	f := crashtest.Fact{
		What: crashtest.Began, Run: x.ID(), Attempt: x.Attempt(), Fence: x.Fence(), Queue: x.Run().Spec.Queue,
		Life: l.Life, At: time.Now().UnixNano(),
	}
	if x.Run().Clock == store.Wall {
		f.Due = x.Run().Due
	}
	if !x.Resume(&f.Step) {
		f.Step = 0
	}
	l.facts.add(f)
	err := l.work(ctx, x, w, f)
	f.Step, f.Due, f.At = 0, 0, time.Now().UnixNano()
	if f.What = crashtest.Ended; err != nil {
		f.What = crashtest.Gave
	}
	l.facts.add(f)
	return crashtest.Done{N: w.N, Fence: x.Fence()}, err
}

func (l *load) work(ctx context.Context, x *scheduler.Execution, w crashtest.Work, f crashtest.Fact) error {
	switch w.Kind {
	case crashtest.Plain:
	case crashtest.Flaky:
		if x.Attempt() <= 2 {
			return errors.New("not yet")
		}
	case crashtest.Doomed:
		return scheduler.Permanent(errors.New("never"))
	case crashtest.Slow:
		return pause(ctx, time.Duration(20+10*(w.N%9))*time.Millisecond)
	case crashtest.Held:
		select {
		case l.held <- struct{}{}:
		case <-l.release:
		}
		<-l.release
	case crashtest.Victim:
		return pause(ctx, time.Second)
	case crashtest.Steps:
		for f.Step++; f.Step <= 5; f.Step++ {
			if err := x.Checkpoint(f.Step); err != nil {
				return err
			}
			f.What = crashtest.Saved
			l.facts.add(f)
			if err := pause(ctx, 5*time.Millisecond); err != nil {
				return err
			}
		}
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

// loadRole is a life: it makes calls until it is killed, or drained by SIGTERM.
func loadRole(c *child) error {
	var a loadArgs
	if err := c.parse(&a); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	l, err := newLoad(a, c.say)
	if err != nil {
		return err
	}
	if err := l.s.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	c.say(crashtest.Ack{Op: crashtest.OpStarted, Round: a.Life})
	if err := l.look(context.WithoutCancel(ctx), 300); err != nil {
		return err
	}
	l.drive(ctx)
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 100*time.Millisecond)
	defer cancel()
	return l.s.Shutdown(drain)
}

// look tells of the newest n runs that have ended.
func (l *load) look(ctx context.Context, n int) error {
	ended := []scheduler.RunState{scheduler.Succeeded, scheduler.Failed, scheduler.Canceled, scheduler.Expired}
	for r, err := range l.s.Runs(ctx, scheduler.RunFilter{States: ended}) {
		if err != nil {
			return fmt.Errorf("look: %w", err)
		}
		l.ended(&r)
		if n--; n == 0 {
			break
		}
	}
	return nil
}

func (l *load) ended(r *scheduler.Run) {
	brief := scheduler.Run{
		ID: r.ID, State: r.State, Fence: r.Fence, Result: r.Result, Error: r.Error, Finished: r.Finished,
	}
	l.say(crashtest.Ack{Op: crashtest.OpEnded, Round: l.Life, Run: r.ID, Ended: &brief})
}

// drive makes calls of all kinds at the same time, until ctx ends.
func (l *load) drive(ctx context.Context) {
	var callers sync.WaitGroup
	for i, call := range []func(context.Context, *rand.Rand, int){
		l.single, l.single, l.many, l.unique, l.canceled, l.narrow, l.pausing, l.editing,
	} {
		rnd := rand.New(rand.NewPCG(l.Seed, uint64(l.Life*100+i)))
		callers.Go(func() { // ends with ctx
			for n := 0; pause(ctx, time.Duration(rnd.IntN(8000))*time.Microsecond) == nil; n++ {
				call(ctx, rnd, l.Life*1_000_000+n)
			}
		})
	}
	callers.Wait()
}

// enqueue asks for a run and tells of it if the call returns without an error.
func (l *load) enqueue(ctx context.Context, w crashtest.Work, delay time.Duration, key, queue string) (id scheduler.RunID, ok bool) {
	var opts []scheduler.RunOption
	if delay > 0 {
		opts = append(opts, scheduler.In(delay))
	}
	if key != "" {
		opts = append(opts, scheduler.Unique(key))
	}
	if queue != "" {
		opts = append(opts, scheduler.InQueue(queue))
	}
	begun := time.Now().UnixNano()
	f, err := job.Enqueue(ctx, l.s, w, opts...)
	if err != nil {
		l.expect(ctx, err)
		return f.ID(), false
	}
	l.say(crashtest.Ack{Op: crashtest.OpEnqueue, Round: l.Life, Run: f.ID(), Work: w, Begun: begun, Delay: delay, Key: key, Queue: queue})
	return f.ID(), true
}

// expect ends the process for an error that a call must not have.
func (l *load) expect(ctx context.Context, err error, also ...error) {
	if ctx.Err() != nil {
		return
	}
	if _, held := errors.AsType[*scheduler.UniqueError](err); held {
		return
	}
	for _, e := range also {
		if errors.Is(err, e) {
			return
		}
	}
	panic(err)
}

func (l *load) single(ctx context.Context, rnd *rand.Rand, n int) {
	kinds := []crashtest.Kind{crashtest.Plain, crashtest.Plain, crashtest.Flaky, crashtest.Doomed, crashtest.Slow, crashtest.Steps}
	w := crashtest.Work{N: n, Kind: kinds[rnd.IntN(len(kinds))]}
	var delay time.Duration
	if rnd.IntN(3) == 0 {
		delay = time.Duration(rnd.IntN(int(500 * time.Millisecond)))
	}
	id, ok := l.enqueue(ctx, w, delay, "", "")
	if !ok || rnd.IntN(2) == 0 {
		return
	}
	wait, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if r, err := l.s.Await(wait, id); err == nil {
		l.ended(&r)
	}
}

func (l *load) many(ctx context.Context, rnd *rand.Rand, n int) {
	calls := make([]scheduler.Call, 5+rnd.IntN(20))
	for i := range calls {
		calls[i] = job.With(crashtest.Work{N: 100*n + i, Kind: crashtest.Plain})
	}
	ids, err := l.s.EnqueueMany(ctx, calls)
	if err != nil {
		l.expect(ctx, err)
		return
	}
	for i, id := range ids {
		l.say(crashtest.Ack{Op: crashtest.OpEnqueue, Round: l.Life, Run: id, Work: crashtest.Work{N: 100*n + i, Kind: crashtest.Plain}})
	}
	_ = pause(ctx, 20*time.Millisecond)
}

func (l *load) unique(ctx context.Context, rnd *rand.Rand, n int) {
	l.enqueue(ctx, crashtest.Work{N: n, Kind: crashtest.Slow}, 0, fmt.Sprint("key", rnd.IntN(3)), "")
}

func (l *load) narrow(ctx context.Context, rnd *rand.Rand, n int) {
	l.enqueue(ctx, crashtest.Work{N: rnd.IntN(n + 1), Kind: crashtest.Slow}, 0, "", narrowQueue)
	_ = pause(ctx, 40*time.Millisecond)
}

func (l *load) canceled(ctx context.Context, rnd *rand.Rand, n int) {
	var delay time.Duration
	if rnd.IntN(2) == 0 {
		delay = time.Second
	}
	id, ok := l.enqueue(ctx, crashtest.Work{N: n, Kind: crashtest.Victim}, delay, "", "")
	if !ok {
		return
	}
	_ = pause(ctx, time.Duration(rnd.IntN(30))*time.Millisecond)
	if err := l.s.Cancel(ctx, id); err != nil {
		l.expect(ctx, err, scheduler.ErrConflict)
		return
	}
	l.say(crashtest.Ack{Op: crashtest.OpCancel, Round: l.Life, Run: id})
}

func (l *load) pausing(ctx context.Context, rnd *rand.Rand, _ int) {
	if err := l.s.PauseSchedule(ctx, "paused"); err != nil {
		l.expect(ctx, err)
	}
	_ = pause(ctx, time.Duration(rnd.IntN(1500))*time.Millisecond)
	if err := l.s.ResumeSchedule(ctx, "paused"); err != nil {
		l.expect(ctx, err)
	}
	_ = pause(ctx, time.Duration(rnd.IntN(1500))*time.Millisecond)
}

func (l *load) editing(ctx context.Context, rnd *rand.Rand, n int) {
	if err := l.s.Schedule(ctx, "edited", scheduler.Every(300*time.Millisecond), tickOf(crashtest.Plain, n)); err != nil {
		l.expect(ctx, err)
	}
	_ = pause(ctx, time.Duration(rnd.IntN(100))*time.Millisecond)
}
