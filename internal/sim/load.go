package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/store"
)

// Output is the result of a run.
type Output struct {
	N     int    `json:"n"`
	Fence uint64 `json:"fence"`
}

var job = scheduler.NewTask[Work, Output]("job", scheduler.Retry(scheduler.Backoff{
	Initial: 100 * time.Millisecond, Max: 5 * time.Second,
}))

// handle does the work of all runs.
func (l *life) handle(ctx context.Context, w Work) (Output, error) {
	x := scheduler.Current(ctx)
	f := Fact{What: Began, Node: l.node.id, Run: x.ID(), Attempt: x.Attempt(), Fence: x.Fence()}
	l.fact(f)
	err := work(ctx, x, w)
	if f.What = Ended; err != nil {
		f.Error = err.Error()
	}
	l.fact(f)
	return Output{w.N, x.Fence()}, err
}

// fact notes what a handler does, unless its process is dead.
func (l *life) fact(f Fact) {
	if f.At = time.Now(); !l.dead.Load() {
		l.world.rec.fact(f)
	}
}

func work(ctx context.Context, x *scheduler.Execution, w Work) error {
	switch w.Kind {
	case Slow:
		return pause(ctx, w.For)
	case Stubborn:
		return pause(context.WithoutCancel(ctx), w.For)
	case Flaky:
		if x.Attempt() <= 2 {
			return errors.New("not yet")
		}
	case Doomed:
		return scheduler.Permanent(errors.New("never"))
	case Snooze:
		if x.Run().Snoozes == 0 {
			return scheduler.Snooze(w.For)
		}
	case Steps:
		var step int
		if !x.Resume(&step) {
			if err := x.Checkpoint(1); err != nil {
				return err
			}
			return pause(ctx, w.For)
		}
	case Plain:
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	if !sleep(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}

// clients is how many clients live in each process.
const clients = 4

// load begins the clients of the process; they end with ctx.
func (l *life) load(ctx context.Context) {
	if l.world.o.Idle {
		return
	}
	for i := range clients {
		c := &client{life: l, rng: rand.New(rand.NewPCG(l.world.o.Seed, uint64(l.node.lives)<<20|uint64(i)<<16|uint64(l.node.id[1])))}
		l.clients.Go(func() { // ends with ctx
			for sleep(ctx, time.Duration(c.rng.Int64N(int64(2*l.world.o.Pace)))) {
				c.call(ctx)
			}
		})
	}
}

// client makes calls, one after the other.
type client struct {
	life *life
	rng  *rand.Rand
	n    int
}

// call makes one call of a random kind.
func (c *client) call(ctx context.Context) {
	patience := 20 * time.Second
	if c.rng.IntN(10) == 0 {
		patience = time.Duration(c.rng.Int64N(int64(20 * time.Millisecond))) // its outcome will often not be known
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer c.heeded(time.Now().Add(patience))
	switch k := c.rng.IntN(100); {
	case k < 30:
		c.enqueue(ctx, 1)
	case k < 42:
		c.enqueue(ctx, 1, scheduler.In(time.Duration(c.rng.Int64N(int64(10*time.Second)))))
	case k < 47:
		c.enqueue(ctx, 1, scheduler.At(time.Now().Add(time.Duration(c.rng.Int64N(int64(10*time.Second))))))
	case k < 52:
		c.enqueue(ctx, 1, scheduler.InQueue(narrow))
	case k < 57:
		c.enqueue(ctx, 2+c.rng.IntN(10))
	case k < 66:
		c.unique(ctx)
	case k < 78:
		c.get(ctx)
	case k < 85:
		c.onRun(ctx, OpCancel, c.life.s.Cancel)
	case k < 89:
		c.onRun(ctx, OpRetry, c.life.s.RetryNow)
	default:
		c.control(ctx)
	}
}

// heed is how long a call may go on after its context has ended.
const heed = time.Second

// heeded notes a call that has just ended, if it was to end long before. Whatever fails,
// a call heeds its context.
func (c *client) heeded(deadline time.Time) {
	if late := time.Since(deadline); late > heed && !c.life.dead.Load() {
		c.life.world.rec.wrong(c.life.node.id, "a call went on for %v after its context had ended", late)
	}
}

// work draws what a run's handler is to do.
func (c *client) work() Work {
	kinds := []Kind{Plain, Plain, Plain, Slow, Slow, Stubborn, Flaky, Doomed, Snooze, Steps}
	c.n++
	w := Work{Kind: kinds[c.rng.IntN(len(kinds))], N: c.n}
	if w.Kind == Slow || w.Kind == Stubborn || w.Kind == Snooze || w.Kind == Steps {
		w.For = time.Duration(c.rng.Int64N(int64(2 * time.Second)))
	}
	return w
}

func (c *client) enqueue(ctx context.Context, n int, opts ...scheduler.RunOption) {
	call := Call{Op: OpEnqueue, Work: c.work()}
	calls := make([]scheduler.Call, n)
	minted := c.rng.IntN(3) > 0
	for i := range calls {
		with := opts
		if minted { // by the client: so that it can be found whatever becomes of the call
			id := c.mint()
			call.Runs = append(call.Runs, id)
			with = append([]scheduler.RunOption{scheduler.WithID(id)}, opts...)
		}
		calls[i] = job.With(call.Work, with...)
	}
	c.ask(ctx, call, calls)
}

// unique asks for a run with a unique key, or for several with one each, all or none.
func (c *client) unique(ctx context.Context) {
	const keys = 4
	call := Call{Op: OpEnqueue, Work: c.work()}
	first, n := c.rng.IntN(keys), 1
	if c.rng.IntN(3) == 0 {
		n = 2
	}
	var calls []scheduler.Call
	for i := range n {
		id := c.mint()
		call.Runs = append(call.Runs, id)
		opts := []scheduler.RunOption{scheduler.WithID(id), scheduler.Unique(fmt.Sprintf("key%d", (first+i)%keys))}
		if c.rng.IntN(2) == 0 {
			opts = append(opts, scheduler.UniqueFor(time.Duration(1+c.rng.Int64N(int64(5*time.Second)))))
		}
		calls = append(calls, job.With(call.Work, opts...))
	}
	c.ask(ctx, call, calls)
}

// ask enqueues.
func (c *client) ask(ctx context.Context, call Call, calls []scheduler.Call) {
	var ids []scheduler.RunID
	answered := c.do(call, func() (err error) {
		if len(calls) == 1 {
			var id scheduler.RunID
			id, err = c.life.s.Enqueue(ctx, calls[0])
			ids = []scheduler.RunID{id}
			return err
		}
		ids, err = c.life.s.EnqueueMany(ctx, calls)
		return err
	})
	if answered.number >= 0 && answered.err == nil {
		c.life.world.rec.end(answered.number, func(k *Call) { k.Runs = ids })
	}
	if answered.err == nil || errors.Is(answered.err, scheduler.ErrOutcomeUnknown) {
		c.life.world.remember(ids)
	}
}

// mint makes a run ID out of the client's own randomness.
func (c *client) mint() store.RunID {
	var entropy [10]byte
	binary.BigEndian.PutUint64(entropy[:], c.rng.Uint64())
	binary.BigEndian.PutUint16(entropy[8:], uint16(c.rng.Uint32()))
	return store.NewRunID(c.life.node.clock.Now(), entropy)
}

func (c *client) get(ctx context.Context) {
	id, ok := c.life.world.pick(c.rng)
	if !ok {
		return
	}
	var r scheduler.Run
	ctx, atomic := c.atomic(ctx)
	answered := c.do(Call{Op: OpGet, Runs: []store.RunID{id}, Atomic: atomic}, func() (err error) {
		r, err = c.life.s.Get(ctx, id)
		return err
	})
	if answered.number >= 0 && answered.err == nil {
		c.life.world.rec.end(answered.number, func(k *Call) { k.State = r.State })
	}
}

func (c *client) onRun(ctx context.Context, op Op, do func(context.Context, scheduler.RunID) error) {
	if id, ok := c.life.world.pick(c.rng); ok {
		ctx, atomic := c.atomic(ctx)
		c.do(Call{Op: op, Runs: []store.RunID{id}, Atomic: atomic}, func() error { return do(ctx, id) })
	}
}

// atomic draws whether what is read on the way must be up to date.
func (c *client) atomic(ctx context.Context) (context.Context, bool) {
	if len(c.life.world.nodes) == 1 {
		return ctx, true
	}
	if c.rng.IntN(2) == 0 {
		return ctx, false
	}
	return scheduler.Linearizable(ctx), true
}

// answered is how a call ended; its number is negative if nobody may know.
type answered struct {
	number int
	err    error
}

// do makes a call and notes how it ends, unless its process is killed meanwhile.
func (c *client) do(call Call, do func() error) answered {
	l := c.life
	call.Node = l.node.id
	if l.dead.Load() {
		return answered{number: -1}
	}
	number := l.world.rec.begin(call)
	err := do()
	if l.dead.Load() {
		return answered{-1, err}
	}
	answer, expected := classify(call.Op, err)
	if !expected && !(l.leaving.Load() && errors.Is(err, scheduler.ErrParked)) {
		l.world.rec.wrong(l.node.id, "%s %s %v: %v", call.Op, call.Target, call.Runs, err)
	}
	l.world.rec.end(number, func(k *Call) {
		if k.Answer = answer; err != nil {
			k.Err = err.Error()
		}
	})
	return answered{number, err}
}

// classify says what an error of a call means, and whether a call may have it.
func classify(op Op, err error) (a Answer, expected bool) {
	var unique *scheduler.UniqueError
	switch {
	case err == nil:
		return Done, true
	case errors.Is(err, scheduler.ErrOutcomeUnknown):
		return Unknown, true
	case errors.As(err, &unique):
		return Refused, op == OpEnqueue || op == OpRetry
	case errors.Is(err, scheduler.ErrNotFound):
		return Missing, op != OpEnqueue
	case errors.Is(err, scheduler.ErrConflict):
		return Conflict, op == OpCancel || op == OpRetry || op == OpTrigger || op == OpRollback || op == OpBackfill
	case errors.Is(err, scheduler.ErrOverloaded), errors.Is(err, scheduler.ErrStorage), errors.Is(err, scheduler.ErrNoLeader),
		errors.Is(err, scheduler.ErrClosed), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return Refused, true
	default:
		return Unknown, false
	}
}

// kept is how many of the newest runs clients ask about.
const kept = 100

func (w *world) remember(ids []scheduler.RunID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs = append(w.runs, ids...)
	if n := len(w.runs) - kept; n > 0 {
		w.runs = w.runs[n:]
	}
}

func (w *world) pick(rng *rand.Rand) (id scheduler.RunID, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.runs) == 0 {
		return id, false
	}
	return w.runs[rng.IntN(len(w.runs))], true
}
