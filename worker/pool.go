package worker

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// An Assignment is a leased run to execute.
type Assignment struct {
	Run   *store.Run    // immutable
	Fence uint64        // of the lease
	In    time.Duration // until it is due, counted from the call of Assign; now if it is not positive
}

// A Pool executes the attempts it is assigned. Its methods are safe for concurrent use.
//
//	fresh ── Run ──▶ open ── Drain ──▶ draining ──▶ closed
//	  └────────────────────── Drain ──────────────────┘
type Pool struct {
	cfg      Config
	epoch    time.Time // of the pool's clock, which is monotonic
	reserved int       // slots kept for critical runs

	poke     chan struct{} // capacity 1, a token: something for the keeper to look at
	reported chan struct{} // capacity 1, a token: out is no longer empty
	closed   chan struct{} // closed when nothing will be delivered any more
	silent   chan struct{} // closed when the reporter has ended
	ended    chan struct{} // closed when drainErr is set

	base   context.Context //nolint:containedctx // the values of Run's context, for handlers; set by Run, never ends
	writes context.Context //nolint:containedctx // of Report and Checkpoint; ends when the pool gives up
	cut    context.CancelCauseFunc

	mu      sync.Mutex // guards what follows
	state   poolState
	changed chan struct{} // closed and made anew by what Drain waits for; nil while nobody waits

	live     map[key]*Execution // assigned, and not yet acked
	seen     seen
	waiting  waiting
	ready    ready
	running  list  // those with a handler running, with a slot or without
	slots    slots // who may run
	prefetch prefetch
	chores   chores         // what the keeper has to do when
	bound    int64          // ns on the pool's clock: nothing starts later
	out      []store.Report // ended, for the reporter
	spare    []store.Report // an empty slice to collect the next batch in
	inFlight []store.Report // what the reporter is delivering
	drainErr error
}

type poolState uint8

const (
	fresh poolState = iota
	open
	draining
	closed
)

// New returns a pool that does nothing until it is run; assignments are kept until then. It reports all faults of the
// configuration at once.
func New(cfg Config) (*Pool, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	p := &Pool{
		cfg:      cfg,
		epoch:    time.Now(),
		reserved: reservedOf(cfg.Slots),
		poke:     make(chan struct{}, 1),
		reported: make(chan struct{}, 1),
		closed:   make(chan struct{}),
		silent:   make(chan struct{}),
		ended:    make(chan struct{}),
		live:     make(map[key]*Execution),
		bound:    math.MaxInt64,
	}
	p.running.init()
	p.prefetch.slots = cfg.Slots
	p.prefetch.told = cfg.Slots - p.reserved
	p.chores = chores{alarmAt: never, lineAt: never, patrolAt: never}
	return p, nil
}

// Run executes what is assigned until the pool is drained. If ctx ends first, it drains at once: handlers are told to
// stop. It returns what Drain returns, when everything the pool has started has ended, save for handlers that a
// [*DrainError] names. Handlers see the values of ctx. A pool runs once: the second call returns [ErrStarted].
func (p *Pool) Run(ctx context.Context) error {
	p.mu.Lock()
	if p.state == closed && p.base == nil {
		p.mu.Unlock()
		return p.drainErr
	}
	if p.state != fresh {
		p.mu.Unlock()
		return ErrStarted
	}
	p.base = context.WithoutCancel(ctx)
	p.writes, p.cut = context.WithCancelCause(p.base)
	p.state = open
	p.kickLocked(p.now().at) //nolint:contextcheck // handlers get contexts of their own, which Drain ends
	p.mu.Unlock()

	var own sync.WaitGroup
	own.Go(p.keep)   // ends with p.closed
	own.Go(p.report) // ends with p.closed
	select {
	case <-ctx.Done():
		_ = p.Drain(ctx) // the same error as below
	case <-p.ended:
	}
	<-p.ended
	own.Wait()
	p.awaitSlots()
	return p.drainErr
}

// A moment is one reading of both clocks, ns.
type moment struct {
	at   int64 // the pool's: monotonic, since it was made
	wall int64 // the time of day
}

func (p *Pool) now() moment {
	t := time.Now()
	m := moment{at: int64(t.Sub(p.epoch))}
	if p.cfg.Now != nil {
		t = p.cfg.Now()
	}
	m.wall = t.UnixNano()
	return m
}

// Assign takes over leased runs. It never blocks. An assignment that the pool has, or has lately executed, is ignored.
// While the pool is draining what it gets is handed back; once it has been drained nothing is accepted, and the lease
// must end by the end of its session.
func (p *Pool) Assign(as []Assignment) {
	now := p.now()
	for part := range slices.Chunk(as, atOnce) {
		p.assign(part, now)
	}
}

// atOnce is how many attempts are worked on under the lock before others get it: an attempt that is due at this moment
// must not wait for thousands that come or go.
const atOnce = 128

func (p *Pool) assign(as []Assignment, now moment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == closed {
		return
	}
	for i := range as {
		a := &as[i]
		k := key{a.Run.ID, a.Fence}
		if _, ok := p.live[k]; ok || p.seen.has(k) {
			continue
		}
		x := newExecution(p, a, now.at)
		p.live[k] = x
		switch {
		case p.state == draining:
			p.dropLocked(x, store.OutcomeReleased, now)
		case a.In > 0:
			p.waiting.push(x)
		default:
			p.ready.push(x)
		}
	}
	p.kickLocked(now.at)
	if due, ok := p.waiting.next(); ok && due < p.chores.alarmAt {
		p.chores.alarmAt = due // the keeper sets the alarm
		p.pokeKeeper()
	}
}

// Cancel ends the context of a running attempt with the given cause. One that has not started never will: it is reported
// as canceled, as released if the cause is [ErrPreempted] or [ErrShutdown], and not at all if it is [ErrLeaseLost]. What
// the pool does not have is ignored. A cause that is none of this package's, or nil, counts as [ErrCanceled]. It does not
// wait for the handler.
func (p *Pool) Cancel(run store.RunID, fence uint64, cause error) {
	if cause == nil {
		cause = ErrCanceled
	}
	now := p.now()
	p.mu.Lock()
	x := p.live[key{run, fence}]
	if x == nil || x.state == stateDone {
		p.mu.Unlock()
		return
	}
	if x.state != stateRunning {
		p.dropLocked(x, unstarted(cause), now)
		p.mu.Unlock()
		return
	}
	p.patrolLocked(x, now.at)
	if !x.lost && !errors.Is(cause, ErrPreempted) && !errors.Is(cause, ErrShutdown) {
		x.lost = true
		p.slots.lost++
		p.tellLocked()
	}
	p.mu.Unlock()
	x.end(cause) // runs what the handler has hung on its context: not under the lock
}

// StartUntil forbids starting anything after t, by the monotonic clock; later calls replace earlier ones, and the zero
// time lifts the bound. A session calls it at each contact with its scheduler: when contact is lost for too long, the
// scheduler will give the runs to others. An attempt that comes up for starting too late is handed back, with all
// others that have not started.
func (p *Pool) StartUntil(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bound = math.MaxInt64
	if !t.IsZero() {
		p.bound = int64(t.Sub(p.epoch))
	}
}

// dropLocked ends an attempt that has not started. With no outcome nothing is reported.
func (p *Pool) dropLocked(x *Execution, outcome store.Outcome, now moment) {
	x.state = stateDone
	if outcome == 0 {
		p.forgetLocked(key{x.run.ID, x.fence})
		return
	}
	p.sendLocked(store.Report{Run: x.run.ID, Fence: x.fence, Outcome: outcome, Finished: now.wall})
	p.notifyLocked()
}

// dropAllLocked hands back everything that has not started.
func (p *Pool) dropAllLocked(now moment) {
	for _, x := range p.live {
		if x.state == stateWaiting {
			p.dropLocked(x, store.OutcomeReleased, now)
		}
	}
	p.waiting, p.ready = waiting{}, ready{}
}

// forgetLocked ends the care for an attempt: only that it was here is remembered.
func (p *Pool) forgetLocked(k key) {
	delete(p.live, k)
	p.seen.add(k)
}

// Running returns the number of handlers that run, those included that have given their slot back.
func (p *Pool) Running() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running.n
}
