package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/internal/ask"
	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/internal/precise"
	"github.com/escapement-go/scheduler/internal/telemetry"
	"github.com/escapement-go/scheduler/internal/trigger"
	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/worker"
)

// A Scheduler is a node: it keeps the state, decides what is due and executes
// runs. Make one with [New], start it with [Scheduler.Start] or [Scheduler.Run].
// Safe for concurrent use.
type Scheduler struct {
	cfg       *config
	tel       *telemetry.Telemetry
	waiters   waiters
	named     named
	calendars trigger.Cache
	asker     *ask.Asker
	fileFault atomic.Pointer[error] // of the files of schedules; nil while they are in force
	fileNames []string              // of the files that those name; of who follows them
	fileLater []*scheduleDef        // of the files, to be declared again; of who follows them
	filesHeld atomic.Pointer[error] // why some of the files' are not in force yet; nil if all are
	codeHeld  atomic.Pointer[error] // why some of the options' are not in force yet; nil if all are
	ready     chan struct{}
	minted    atomic.Uint64 // the newest run ID, see mintRunID

	// Set by Start before phase becomes running, then left alone.
	storage  storage
	node     *cluster.Node
	dispatch *dispatch.Dispatcher
	contact  *contact     // nil on a lone node
	pool     *worker.Pool // nil on a node that executes nothing
	session  uint64
	alarm    *precise.Timer
	loops    sync.WaitGroup
	life     context.Context    //nolint:containedctx // of the loops
	stop     context.CancelFunc // ends life

	mu    sync.Mutex // guards phase, abort, hurry and err
	phase phase
	abort context.CancelFunc      // ends a Start
	hurry context.CancelCauseFunc // ends the waiting for handlers; nil unless it began
	done  chan struct{}           // closed when Shutdown has finished
	err   error                   // of Shutdown; set before done is closed
}

type phase int

const (
	idle phase = iota
	starting
	running
	stopping
	stopped
)

// New makes a scheduler from its options and starts nothing. All that is wrong
// with the options is reported at once, joined.
func New(opts ...Option) (*Scheduler, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	tel, err := telemetry.New(cfg.meters, cfg.tracers)
	if err != nil {
		return nil, fmt.Errorf("scheduler: telemetry: %w", err)
	}
	s := &Scheduler{cfg: cfg, tel: tel, ready: make(chan struct{}), done: make(chan struct{})}
	s.asker = s.newAsker()
	s.waiters.missed = make(chan struct{}, 1)
	return s, nil
}

// Run starts the scheduler, waits until ctx ends or another call has shut it down,
// and shuts down within [WithDrainTimeout]. It returns what Shutdown returns, or
// the error of [Scheduler.Start].
func (s *Scheduler) Run(ctx context.Context) error {
	if err := s.Start(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-s.done:
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.drainTimeout)
	defer cancel()
	return s.Shutdown(ctx)
}

// Start opens the folder, and returns once the node is ready to accept calls and
// what [WithSchedule] and [WithQueue] declare is in force, but for schedules whose Go
// triggers cannot be asked ([Custom]). ctx bounds the starting alone. A scheduler can be
// started once.
//
// Errors: [ErrInUse], [ErrNewer], [ErrCorrupt], [ErrClosed] if it was started or
// shut down before, those of the operating system about the folder, and of ctx.
func (s *Scheduler) Start(ctx context.Context) error {
	s.mu.Lock()
	if s.phase != idle {
		s.mu.Unlock()
		return fmt.Errorf("scheduler: start: %w", ErrClosed)
	}
	s.phase = starting
	opening, abort := context.WithCancel(ctx)
	defer abort()
	s.abort = abort
	s.mu.Unlock()

	err := s.open(opening)
	s.mu.Lock()
	if s.phase == stopping {
		err = ErrClosed
	}
	if err != nil {
		s.phase = stopping
		s.mu.Unlock()
		s.ended(errors.Join(s.close(context.WithoutCancel(ctx)), s.tel.Close())) // nothing runs that it could wait for
		return fmt.Errorf("scheduler: start: %w", err)
	}
	s.phase = running
	close(s.ready)
	s.mu.Unlock()
	s.attend() // last: what it starts may call
	s.cfg.logger.Info("scheduler started", keyNode, s.cfg.nodeID)
	return nil
}

// ended notes that everything is closed.
func (s *Scheduler) ended(err error) {
	s.mu.Lock()
	s.phase, s.err = stopped, err
	s.mu.Unlock()
	close(s.done)
}

// keyNode is the key of the node's ID in logs.
const keyNode = "node_id"

// open opens everything, in the order of dependence. What it has opened when it
// fails is closed by close.
func (s *Scheduler) open(ctx context.Context) (err error) {
	if s.storage, err = openStorage(s.cfg); err != nil {
		return err
	}
	s.alarm = s.newAlarm()
	s.asker.Start(ctx)
	s.dispatch = dispatch.New(dispatch.Config{
		Kick:      func() { s.node.Kick() },
		Now:       func() (wall, elapsed int64) { return s.node.Now() },
		Compile:   func(st *store.State, sc *store.Schedule) (dispatch.Rule, error) { return s.compile(st, sc) },
		Ask:       s.asker.Begin,
		Random:    rand.Uint64,
		Alarm:     s.alarm,
		Logger:    s.cfg.logger,
		Retention: s.cfg.retention,
		LostAfter: lostAfter,
	})
	if s.cfg.cluster != nil {
		s.contact = s.newContact()
	}
	// Open sets s.node through the Opened of its configuration, before the node's
	// goroutines run and read it.
	if _, err = cluster.Open(ctx, s.clusterConfig()); err != nil { //nolint:contextcheck // the callbacks have no call to be part of
		s.node = nil
		return storageError(err)
	}
	if err := s.node.Ready(ctx); err != nil {
		if why := s.node.Status().Waits; why != "" {
			err = fmt.Errorf("%w: %s", err, why)
		}
		return storageError(err)
	}
	tasks := slices.Clone(s.cfg.tasks)
	for name := range s.cfg.handlers {
		tasks = append(tasks, name)
	}
	slices.Sort(tasks)
	s.session, err = s.node.OpenSession(ctx, store.OpenSession{Node: s.cfg.nodeID, Tasks: slices.Compact(tasks)})
	if err != nil {
		return err
	}
	if s.node.Status().Flushed == 0 {
		// Before anything is acknowledged the database must know of the log: else
		// a folder that loses its log now would be taken for an empty one.
		if err := s.node.Flush(ctx); err != nil {
			return err
		}
	}
	loops, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop, s.life = stop, loops
	s.loops.Go(func() { s.dispatch.Run(loops) }) // ended by stop, awaited by close
	if err := s.openPool(loops); err != nil {
		return err
	}
	s.loops.Go(func() { s.waiters.watch(loops, s.find) }) // ended by stop, awaited by close
	s.tel.ObserveQueues(s.queueGauges)
	if s.contact != nil {
		s.tel.ObserveNodes(s.nodeGauges)
	}
	if err := s.declare(ctx); err != nil || s.cfg.scheduleFile == "" {
		return err
	}
	applied := s.applyFiles(ctx)
	s.loops.Go(func() { s.followFiles(loops, applied) }) // ended by stop, awaited by close
	return nil
}

// lostAfter is how long a worker that is out of contact keeps its leases.
const lostAfter = 10 * time.Second

// newAlarm returns a timer that a testing/synctest bubble can wait for if everything is
// kept in memory, as in tests.
func (s *Scheduler) newAlarm() *precise.Timer {
	if s.cfg.plainTimers || s.cfg.dir == "" {
		return precise.Plain()
	}
	return precise.New()
}

// declare puts the calendars, queues and schedules of the options in force.
func (s *Scheduler) declare(ctx context.Context) error {
	if err := s.declareCalendars(ctx); err != nil {
		return err
	}
	for name, q := range s.cfg.queues {
		if err := s.putQueue(ctx, q, store.QueueConfig); err != nil {
			return fmt.Errorf("queue %q: %w", name, err)
		}
	}
	later, err := s.declareAll(ctx, s.cfg.schedules, &s.codeHeld)
	if len(later) > 0 {
		s.loops.Go(func() { s.declareLater(s.life, later) }) // ended by stop, awaited by close
	}
	return err
}

// Ready returns a channel that is closed once Start has succeeded.
func (s *Scheduler) Ready() <-chan struct{} { return s.ready }

// Shutdown stops the scheduler; see the package's documentation for the order.
// When ctx ends, handlers that still run have their contexts ended with
// [ErrShutdown] and get a few seconds to return. It returns nil only if every
// result was written; before Start it makes the scheduler unusable. On one of several
// nodes, results that no leader takes for ten seconds are given up once no handler runs,
// and their runs are executed again.
//
// All calls share one shutdown: each waits for it and returns its result, and the
// ctx that ends first counts for all.
//
// A handler has to return before the shutdown can be complete. So on its goroutine
// Shutdown returns when ctx ends, while the rest goes on, and with a ctx that has no
// deadline it does nothing and returns [ErrInHandler]. To stop the scheduler and not
// wait, a handler calls it in a goroutine of its own with [context.WithoutCancel].
func (s *Scheduler) Shutdown(ctx context.Context) error {
	inHandler := worker.InHandler()
	if _, bounded := ctx.Deadline(); inHandler && !bounded {
		return fmt.Errorf("scheduler: shutdown: %w", ErrInHandler)
	}
	s.mu.Lock()
	if s.phase == idle {
		s.phase = stopped
		s.err = s.tel.Close()
		close(s.done)
		s.mu.Unlock()
		return s.err
	}
	leave := inHandler || s.phase == starting // Start closes then, and does not know ctx
	switch s.phase {
	case starting:
		s.phase = stopping // Start sees it and closes
		s.abort()
	case running:
		s.phase = stopping
		var drain context.Context
		drain, s.hurry = context.WithCancelCause(context.WithoutCancel(ctx))
		go s.finish(drain) // ends by closing done, for which every Shutdown waits
	default:
	}
	hurry := s.hurry
	s.mu.Unlock()
	if hurry != nil {
		unhook := context.AfterFunc(ctx, func() { hurry(context.Cause(ctx)) })
		defer unhook()
	}
	if !leave {
		<-s.done
		return s.err
	}
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return fmt.Errorf("scheduler: shutdown: %w", context.Cause(ctx))
	}
}

// finish brings a running scheduler to its end. When ctx ends it does not wait for
// handlers any more.
func (s *Scheduler) finish(ctx context.Context) {
	err := errors.Join(s.close(ctx), s.tel.Close())
	s.cfg.logger.Info("scheduler stopped", keyNode, s.cfg.nodeID)
	s.ended(err)
}

// close closes what is open, in reverse order of opening.
func (s *Scheduler) close(ctx context.Context) error {
	var faults []error
	if s.contact != nil && s.node != nil {
		s.stepAside(ctx)
	}
	if s.pool != nil {
		s.dispatch.Retire(s.session)
		s.awaitGrants(ctx)
		if err := s.drain(ctx); err != nil {
			faults = append(faults, err)
		}
	}
	if s.stop != nil {
		s.stop()
	}
	s.loops.Wait()
	s.asker.Close()
	if s.node != nil {
		last, cancel := outlast(ctx, closeTimeout)
		defer cancel()
		if err := s.node.Shutdown(last); err != nil {
			faults = append(faults, err)
		}
	} else if s.storage != nil {
		faults = append(faults, s.storage.Close())
	}
	if s.alarm != nil {
		s.alarm.Close()
	}
	s.waiters.close()
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("scheduler: shutdown: %w", err)
	}
	return nil
}

// outlast returns a context that ends when ctx has ended and d is over: the last
// write must have its time when ctx has ended with the drain, or is about to.
func outlast(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	end := time.Now().Add(d)
	last, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(time.Until(end), func() { cancel(context.Cause(ctx)) })
	})
	return last, func() { stop(); cancel(nil) }
}

// awaitGrants returns once the pool has been given what is on its way to it, so
// that it can hand that back: leases that a drained pool does not take would count
// as lost. An entry of the log comes after those that carry leases.
func (s *Scheduler) awaitGrants(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grantTimeout)
	defer cancel()
	_ = s.settle(ctx) // after an error the log takes nothing, or not in time; then nothing is on its way or nobody can know
}

// settle returns once every lease that was decided on before is applied.
func (s *Scheduler) settle(ctx context.Context) error {
	_, err := s.node.Propose(ctx, store.Command{Kind: store.KindExpire, Expire: new(store.Expire)})
	return err
}

// attend lets the pool have runs: from this node's dispatcher or, on one of
// several, from that of whichever leads.
func (s *Scheduler) attend() {
	switch {
	case s.pool == nil:
	case s.contact == nil:
		s.attachPool()
	default:
		s.loops.Go(func() { s.contact.attend(s.life) }) // ended by stop, awaited by close
	}
}

const (
	grantTimeout = time.Second
	closeTimeout = 10 * time.Second
)

// check returns an error unless calls are accepted.
func (s *Scheduler) check() error {
	select {
	case <-s.ready:
	default:
		return fmt.Errorf("scheduler: not started: %w", ErrClosed)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == running || s.phase == stopping { // while draining, handlers may still call
		return nil
	}
	return ErrClosed
}
