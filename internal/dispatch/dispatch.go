package dispatch

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/escapement-go/scheduler/engine"
	"github.com/escapement-go/scheduler/store"
)

// The keys of log lines.
const (
	keyBy       = "by" // a duration
	keyError    = "error"
	keySchedule = "schedule_id"
	keyTrigger  = "trigger"
)

// A Rule gives meaning to a schedule's trigger. Times are ns on the trigger's
// clock.
type Rule interface {
	// Next returns the first tick strictly after the given time, 0 if there is
	// none.
	Next(after int64) int64
	// Last returns the latest tick that is not after at. armed is a tick that is
	// not after at either.
	Last(armed, at int64) int64
}

// A Grant is a lease on its way to the worker that holds it.
type Grant struct {
	Run *store.Run
	In  time.Duration // until it is due; ≤ 0 if it is
}

// A Worker receives what it is granted. Its methods are called under locks: they
// must be quick and must not call back.
type Worker interface {
	// Assign gives the worker its grants. One may come again, when it is not sure
	// that the worker has it; a run is executed once under each fence.
	Assign(grants []Grant)
	// Cancel tells that a granted run has been taken back, final or not.
	Cancel(run *store.Run, fence uint64)
}

// Alarm is the timer the dispatcher sleeps on. Reset must leave nothing stale in
// the channel.
type Alarm interface {
	Reset(d time.Duration)
	C() <-chan time.Time
}

// Config is what a dispatcher needs from its surroundings.
type Config struct {
	// Kick asks for a batch to be proposed soon, even if nobody has a command for
	// it. It must not block.
	Kick func()
	// Now returns the leader's clocks as a batch would be stamped with now, ns.
	Now func() (wall, elapsed int64)
	// Compile gives meaning to a schedule's trigger.
	Compile func(*store.State, *store.Schedule) (Rule, error)
	// Ask takes a question about a schedule with a Go trigger to where it can be
	// answered, and has [Dispatcher.Told] called in the end, whatever comes of it. It is
	// called under locks and must not block. nil: such triggers are given meaning by
	// Compile, as the others are.
	Ask func(*Question)
	// Random returns 64 uniform random bits; safe for concurrent use.
	Random func() uint64

	Alarm     Alarm
	Logger    *slog.Logger
	Retention Retention
	// LostAfter is how long a worker that is not attached may keep its leases.
	LostAfter time.Duration
}

// Retention bounds the history. A bound of 0 is none. What it keeps it keeps at
// least: history is dropped a segment at a time, once all of it is over a bound.
type Retention struct {
	MaxAge   time.Duration
	MaxRuns  int64
	MaxTicks int64 // rows of the ledger
	MaxBytes int64
}

// A Dispatcher decides on the leader. Safe for concurrent use.
type Dispatcher struct {
	cfg  Config
	wake chan struct{} // 1: a wake-up that is pending is as good as two

	mu      sync.Mutex // guards all below
	leading bool
	timers  [2]*engine.Wheel[timer] // by store.Clock
	stale   int                     // timers of runs that no longer want them
	held    []heldTick              // ticks that may not be decided before they are due
	rearm   []uint64                // numbers of schedules to arm anew: the wall clock was set back
	armed   map[uint64]int64        // schedule number → armed tick with a timer
	ids     map[uint64]string       // schedule number → ID
	rules   map[uint64]compiled     // by schedule number
	recount []uint64                // numbers of schedules whose next tick is to be found anew: a calendar was changed

	questions map[askKey]*ask // about schedules with Go triggers
	askAt     int64           // ns elapsed at which the first of them is to be asked again

	waits map[uint64]int64 // schedule number → ns elapsed at which the first of its waiting starts is looked at

	lanes    map[laneKey]*lane // those that are not empty
	crews    []*crew
	crewOf   map[string]*crew // by task
	queues   map[string]*queue
	expiries map[store.RunID]engine.Handle // timers of waiting runs that may expire
	leases   map[store.RunID]lease
	workers  map[uint64]*worker // by session
	orphans  []orphan           // leases of sessions that have no worker
	dead     map[uint64]bool    // ended sessions to be forgotten
	back     map[uint64]bool    // sessions whose worker is to be told again what it holds

	specs     store.Specs
	offset    int64 // wall - elapsed, as last seen
	nextPrune int64 // ns elapsed
}

// timer is what a timing wheel holds: a run that becomes due or expires, or a
// schedule's tick (its number is in the ID's first eight bytes).
type timer struct {
	id   store.RunID
	kind timerKind
}

type timerKind uint8

const (
	runDue timerKind = iota
	runExpires
	tickDue
	startDue
)

// compiled is a schedule's rule at a version of the schedule. err tells that
// this build cannot give the trigger meaning.
type compiled struct {
	version uint64
	rule    Rule
	err     error
}

type heldTick struct {
	clock    store.Clock
	due      int64
	schedule string
}

type lease struct {
	session uint64
	fence   uint64 // 0 while the grant is being proposed
	queue   string
}

type orphan struct {
	run     store.RunID
	fence   uint64
	session uint64
	due     int64 // ns elapsed at which the worker is given up
}

// New returns a dispatcher that leads nothing yet.
func New(cfg Config) *Dispatcher {
	d := &Dispatcher{cfg: cfg, wake: make(chan struct{}, 1), workers: make(map[uint64]*worker)}
	d.reset()
	return d
}

// reset forgets everything but the workers.
func (d *Dispatcher) reset() {
	d.timers = [2]*engine.Wheel[timer]{}
	d.stale, d.held, d.rearm, d.recount, d.orphans = 0, nil, nil, nil, nil
	d.armed = make(map[uint64]int64)
	d.ids = make(map[uint64]string)
	d.rules = make(map[uint64]compiled)
	d.questions, d.askAt = make(map[askKey]*ask), math.MaxInt64
	d.waits = make(map[uint64]int64)
	d.lanes = make(map[laneKey]*lane)
	d.queues = make(map[string]*queue)
	d.expiries = make(map[store.RunID]engine.Handle)
	d.leases = make(map[store.RunID]lease)
	d.dead = make(map[uint64]bool)
	d.back = make(map[uint64]bool)
	for _, w := range d.workers {
		w.held, w.early = 0, nil
	}
	d.muster()
}

// Lead starts leading from what the state holds, or stops. Called under the
// state's lock.
func (d *Dispatcher) Lead(st *store.State, leading bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reset()
	d.leading = leading
	if !leading {
		return
	}
	wall, elapsed := d.cfg.Now()
	// The first batch sees what the wall clock did while nobody led.
	d.offset = st.Meta().Wall - st.Meta().Elapsed
	d.timers[store.Elapsed] = engine.New[timer](elapsed)
	d.timers[store.Wall] = engine.New[timer](wall)
	d.nextPrune = elapsed + int64(pruneEvery)
	for _, q := range st.Queues() {
		d.queues[q.Name] = &queue{limit: q.Limit, paused: q.Paused}
	}
	for r := range st.LiveRuns() {
		if r.State == store.Running {
			d.adopt(st, r, elapsed)
		} else {
			d.arm(r, wall, elapsed)
		}
	}
	// A lease that was applied while nobody led is one that no worker knows of.
	for session := range d.workers {
		d.assignAgain(st, session)
	}
	d.armAll(st, elapsed)
	for _, c := range st.Calendars() {
		if c.Changed > st.Meta().Wall-justNow { // the leader before may not have come to it
			d.calendarSet(st, c.Name)
		}
	}
	for ses := range st.Sessions() {
		if ses.Ended {
			d.dead[ses.ID] = true
		}
	}
	d.poke()
}

// adopt takes over a lease that an earlier leader granted.
func (d *Dispatcher) adopt(st *store.State, r *store.Run, elapsed int64) {
	d.leases[r.ID] = lease{session: r.Session, fence: r.Fence, queue: r.Spec.Queue}
	d.queue(r.Spec.Queue).leased++
	if w := d.workers[r.Session]; w != nil {
		w.held++
		return
	}
	d.orphan(st, r, elapsed)
}

// orphan notes a lease whose session has no worker.
func (d *Dispatcher) orphan(st *store.State, r *store.Run, elapsed int64) {
	due := elapsed + int64(d.cfg.LostAfter)
	if ses, ok := st.Session(r.Session); !ok || ses.Ended {
		due = elapsed
	}
	d.orphans = append(d.orphans, orphan{r.ID, r.Fence, r.Session, due})
}

// assignAgain gives a session's worker all that it holds.
func (d *Dispatcher) assignAgain(st *store.State, session uint64) {
	w := d.workers[session]
	if w == nil {
		return
	}
	var grants []Grant
	for id, l := range d.leases {
		if l.session != session || l.fence == 0 {
			continue
		}
		if r := st.LiveRun(id); r != nil && r.State == store.Running && r.Fence == l.fence {
			grants = append(grants, Grant{Run: r, In: d.untilDue(r)})
		}
	}
	if len(grants) > 0 {
		w.Assign(grants)
	}
}

// Attach gives a session a worker that can do the named tasks, slots of them at a
// time; it wants nothing until [Dispatcher.SetCapacity]. Leases the session holds stay its own.
func (d *Dispatcher) Attach(session uint64, w Worker, tasks []string, slots int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := make(map[string]bool, len(tasks))
	for _, name := range tasks {
		known[name] = true
	}
	held := 0
	for _, l := range d.leases {
		if l.session == session {
			held++
		}
	}
	if held > 0 {
		d.back[session] = true
	}
	d.workers[session] = &worker{Worker: w, session: session, tasks: known, slots: slots, held: held}
	d.muster()
	d.poke()
}

// Detach takes a session's worker away. Leases it still holds are given up once
// LostAfter is over, unless it is attached again.
func (d *Dispatcher) Detach(session uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.workers, session)
	d.muster()
	_, elapsed := d.cfg.Now()
	for id, l := range d.leases {
		if l.session == session && l.fence != 0 {
			d.orphans = append(d.orphans, orphan{id, l.fence, session, elapsed + int64(d.cfg.LostAfter)})
		}
	}
	d.poke()
}

// Retire ends the granting to a session's worker for good. What it has been
// granted stays its own.
func (d *Dispatcher) Retire(session uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.workers[session]; w != nil {
		w.retired = true
	}
}

// SetCapacity changes how many grants a session's worker wants to hold, and how
// many of class Critical beyond that.
func (d *Dispatcher) SetCapacity(session uint64, capacity, reserved int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.workers[session]
	if w == nil {
		return
	}
	grown := capacity > w.capacity || reserved > w.reserved
	w.capacity, w.reserved = capacity, reserved
	if grown {
		d.poke()
	}
}

// poke makes the loop look at what to do next.
func (d *Dispatcher) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run sleeps until the next thing that can happen and asks for a batch then. It
// returns when ctx ends.
func (d *Dispatcher) Run(ctx context.Context) {
	for {
		sleep := d.next()
		if sleep <= 0 {
			d.cfg.Kick()
			sleep = watchClock // Prepare pokes when it is done
		}
		d.cfg.Alarm.Reset(sleep)
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		case <-d.cfg.Alarm.C():
		}
	}
}

// What is due later is released when the earliest of it is less than releaseAhead
// less gather away, and then everything due within releaseAhead: so what is due
// close together shares an entry of the log, and each has gather at least for its
// commit (ns).
const (
	releaseAhead = int64(100 * time.Millisecond)
	gather       = int64(25 * time.Millisecond)
)

// watchClock is how often the wall clock is compared with the elapsed one: a
// step of the wall clock makes no timer fire by itself.
const watchClock = time.Second

// next returns how long nothing can be decided, at most watchClock while
// leading; zero or less if something can be now.
func (d *Dispatcher) next() time.Duration {
	wall, elapsed := d.cfg.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.leading {
		return time.Hour
	}
	if stepped(wall-elapsed, d.offset) || d.mayRearm() || len(d.back) > 0 {
		return 0
	}
	sleep := int64(watchClock)
	soon := func(clock store.Clock, t int64) {
		left := t - wall
		if clock == store.Elapsed {
			left = t - elapsed
		}
		sleep = min(sleep, left)
	}
	for clock, wheel := range d.timers {
		if t, ok := wheel.Next(); ok {
			soon(store.Clock(clock), t-releaseAhead+gather)
		}
	}
	for _, h := range d.held {
		soon(h.clock, h.due)
	}
	for _, o := range d.orphans {
		soon(store.Elapsed, o.due)
	}
	soon(store.Elapsed, d.nextPrune)
	soon(store.Elapsed, d.askAt)
	if sleep > 0 {
		sleep = min(sleep, d.laneWait(wall, elapsed))
	}
	return time.Duration(sleep)
}
