package worker

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// An Execution is one attempt at a run, as its handler sees it. Its methods are safe for concurrent use. It must not be
// used once the handler has returned.
type Execution struct {
	pool    *Pool
	run     *store.Run
	handler Handler
	fence   uint64
	due     int64 // ns on the pool's clock
	class   store.Priority

	// Guarded by pool.mu, or written before the handler is called and not again.
	state    executionState
	hasSlot  bool
	lost     bool     // its lease is gone: the scheduler does not count it any more
	yields   int32    // calls of Yield that have not resumed
	resumer  *resumer // in line for a slot
	readyAt  int64    // ns on the pool's clock
	started  moment
	deadline int64 // ns on the pool's clock; 0 if it has no timeout
	awayAt   int64 // since when it has no slot
	awayFor  int64 // how long it had none, before that
	stuckAt  int64 // when to tell of it as stuck; 0 while there is no reason
	told     bool  // that was done
	g        *goroutine
	prev     *Execution // in pool.running
	next     *Execution

	progress   atomic.Pointer[progress]
	checkpoint atomic.Pointer[[]byte] // the last one committed by this attempt

	inner atomic.Pointer[inner] // set once, under mu
	over  atomic.Bool           // cause is set; written under mu

	mu      sync.Mutex // guards what follows
	cause   error      // why its context has ended: the first reason
	verdict error      // of all reasons, the one that decides the outcome
}

type executionState uint8

const (
	stateWaiting executionState = iota // not started
	stateRunning
	stateDone // ended, or dropped before it started
)

type progress struct {
	fraction float64
	note     string
}

func newExecution(p *Pool, a *Assignment, now int64) *Execution {
	due := now + int64(a.In)
	if a.In > 0 && due < now { // beyond the clock's range
		due = 1<<63 - 1
	}
	return &Execution{
		pool: p, run: a.Run, handler: p.cfg.Handlers[a.Run.Spec.Task], fence: a.Fence,
		due: due, readyAt: max(due, now), class: min(a.Run.Spec.Priority, store.Critical),
	}
}

// begin is called with pool.mu held, by the goroutine that will call the handler.
func (x *Execution) begin(g *goroutine, now moment) {
	x.state, x.started, x.g = stateRunning, now, g
	if t := x.run.Spec.Timeout; t > 0 && now.at+t > 0 {
		x.deadline = now.at + t
		x.stuckAt = x.deadline + int64(x.pool.cfg.StuckAfter)
	}
}

// call calls the handler and makes an error of its panic. It does not return if the handler ends its goroutine.
func (x *Execution) call() (result []byte, err error) {
	if x.handler == nil {
		return nil, ErrNoHandler
	}
	returned := false
	defer func() {
		if returned {
			return
		}
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: panicStack(debug.Stack())}
		}
	}()
	result, err = x.handler((*handlerContext)(x), x)
	returned = true
	return result, err
}

// InHandler reports whether its caller is on the goroutine of a handler, of whatever pool. It walks the stack.
func InHandler() bool {
	call := runtime.FuncForPC(reflect.ValueOf((*Execution).call).Pointer()).Name()
	pcs := make([]uintptr, 64)
	n := runtime.Callers(1, pcs)
	for n == len(pcs) {
		pcs = make([]uintptr, 2*len(pcs))
		n = runtime.Callers(1, pcs)
	}
	frames := runtime.CallersFrames(pcs[:n])
	for more := n > 0; more; {
		var f runtime.Frame
		if f, more = frames.Next(); f.Function == call {
			return true
		}
	}
	return false
}

// executionKey is the context key of the Execution.
type executionKey struct{}

// Current returns the Execution of the handler that ctx was given to, or nil outside of one.
func Current(ctx context.Context) *Execution {
	x, _ := ctx.Value(executionKey{}).(*Execution)
	return x
}

// ID returns the run's ID.
func (x *Execution) ID() store.RunID { return x.run.ID }

// Task returns the name of the run's task.
func (x *Execution) Task() string { return x.run.Spec.Task }

// Run returns the run as it was leased. It must not be modified.
func (x *Execution) Run() *store.Run { return x.run }

// Attempt returns the number of this attempt, from 1.
func (x *Execution) Attempt() int { return int(x.run.Attempt) }

// Fence returns the number of this attempt's lease. It is higher than that of any lease granted before, of this run or
// another: a side effect that is guarded by it ("not if a higher fence was here") happens in order, and not twice.
func (x *Execution) Fence() uint64 { return x.fence }

// Schedule returns the ID of the schedule that made the run, "" if none did.
func (x *Execution) Schedule() string {
	if m := x.run.More; m != nil {
		return m.Schedule
	}
	return ""
}

// ScheduledAt returns the nominal time of a schedule's run, which is the same for all its attempts; of another run, the
// time for which this attempt was due.
func (x *Execution) ScheduledAt() time.Time {
	if m := x.run.More; m != nil && m.Schedule != "" && m.Nominal != 0 {
		return time.Unix(0, m.Nominal).UTC()
	}
	return time.Unix(0, x.run.Due).UTC()
}

// String names the run and the attempt.
func (x *Execution) String() string { return fmt.Sprintf("run %v, attempt %d", x.ID(), x.Attempt()) }

// Progress notes how far the handler is, from 0 to 1, and what it is doing. It is kept in memory until the attempt ends,
// and seen in [Pool.Snapshot].
func (x *Execution) Progress(fraction float64, note string) {
	if !(fraction >= 0) { // NaN too
		fraction = 0
	}
	x.progress.Store(&progress{min(fraction, 1), note})
}

// Logger returns the pool's logger with the attributes run_id, task, attempt and fence.
func (x *Execution) Logger() *slog.Logger {
	return x.pool.cfg.Logger.With(slog.String(keyRun, x.run.ID.String()), slog.String(keyTask, x.Task()),
		slog.Int(keyAttempt, x.Attempt()), slog.Uint64(keyFence, x.fence))
}

// list is the executions that run, doubly linked in the order of their start.
type list struct {
	root Execution // before the first and after the last
	n    int
}

func (l *list) init() { l.root.next, l.root.prev = &l.root, &l.root }

func (l *list) push(x *Execution) {
	x.prev, x.next = l.root.prev, &l.root
	x.prev.next, x.next.prev = x, x
	l.n++
}

func (l *list) remove(x *Execution) {
	x.prev.next, x.next.prev = x.next, x.prev
	x.prev, x.next = nil, nil
	l.n--
}

// all calls f for each, the oldest first.
func (l *list) all(f func(*Execution)) {
	for x := l.root.next; x != &l.root; x = x.next {
		f(x)
	}
}
