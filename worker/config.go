package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/escapement-go/scheduler/internal/precise"
	"github.com/escapement-go/scheduler/store"
)

// A Handler does a task's work. Its context ends when the attempt must stop, for a reason that [context.Cause] gives,
// and in any case when the handler has returned. The result is the pool's once returned. What the error means is said in
// the package's documentation. The goroutine goes on to execute other attempts: what a handler does to it, such as
// runtime.LockOSThread or setting its labels, it must undo.
type Handler func(ctx context.Context, x *Execution) (result []byte, err error)

// Config is what a [Pool] is made of. Durations and sizes that are zero take their defaults.
type Config struct {
	Slots    int                // handlers that run at a time; at least 1
	Handlers map[string]Handler // by task

	// Report commits how attempts ended, and returns once that is done. A report that is out of date is the
	// scheduler's to ignore, not an error: after an error the same reports are offered again, in the same order, with a
	// growing delay up to a second, until they are taken. There is one call at a time; meanwhile the next batch
	// gathers. It must return when ctx ends. The slice is lent for the call.
	Report func(ctx context.Context, reports []store.Report) error
	// Checkpoint commits what a handler wants to resume from. For a lease that has moved on it returns an error that is
	// [ErrLeaseLost]. Concurrent calls are for different runs, unless a handler makes them itself.
	Checkpoint func(ctx context.Context, c store.Checkpoint) error

	// OnCapacity, if set, is told [Pool.Capacity] after each change that matters: by more than an eighth, by a slot that a
	// handler has given or taken back, by a drain. There is one call at a time. It must not block. It may call the pool.
	OnCapacity func(capacity int)

	Observer Observer
	Logger   *slog.Logger     // default: none
	Now      func() time.Time // time of day for the stamps of reports; default: time.Now
	NewAlarm func() Alarm     // default: the most exact timer of the platform

	MaxResult     int // bytes of a handler's result; default 256 KiB
	MaxCheckpoint int // bytes of an encoded checkpoint; default 256 KiB
	MaxError      int // bytes of an error's text, which is cut; default 8 KiB, at least 256

	// StuckAfter is how long after the end of its context a handler that has not returned is called stuck. Default
	// 10 s.
	StuckAfter time.Duration
	// Grace is how long handlers have to return after the end of a drain, and reports to be delivered after that.
	// Default 5 s.
	Grace time.Duration
}

// An Observer is told of attempts, on the goroutine that executes them and never under a lock. Any of its functions may
// be nil. They must be quick, must not panic, and are called concurrently.
type Observer struct {
	// Started is called just before the handler; late is the time since the attempt was due.
	Started func(run *store.Run, late time.Duration)
	// Finished is called once the handler has returned. The outcome is zero if the lease was lost.
	Finished func(run *store.Run, outcome store.Outcome, took time.Duration)
	// Stuck is called once for a handler that ignores the end of its context: for how long, and what its goroutine does.
	Stuck func(run *store.Run, ignored time.Duration, stack []byte)
}

// An Alarm is the timer that a pool sleeps on until the next attempt is due. It is used by one goroutine.
type Alarm interface {
	C() <-chan time.Time   // receives once for each Reset, not early; nothing stale after Reset or Stop
	Reset(d time.Duration) // fire in d from now
	Stop()
	Close()
}

const (
	defaultMaxResult  = 256 << 10
	defaultMaxError   = 8 << 10
	minMaxError       = 256
	defaultStuckAfter = 10 * time.Second
	defaultGrace      = 5 * time.Second
)

// complete returns a copy with the defaults filled in, and all that is wrong with c.
func (c Config) complete() (Config, error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("worker: config: "+format, args...))
	}
	if c.Slots < 1 {
		fault("%d slots, at least one is needed", c.Slots)
	}
	if c.Report == nil {
		fault("no Report")
	}
	if c.Checkpoint == nil {
		fault("no Checkpoint")
	}
	for task, h := range c.Handlers {
		if h == nil {
			fault("handler of task %q is nil", task)
		}
	}
	if c.MaxResult < 0 || c.MaxCheckpoint < 0 || c.MaxError < 0 || c.StuckAfter < 0 || c.Grace < 0 {
		fault("a negative limit")
	}
	c.Handlers = maps.Clone(c.Handlers)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.NewAlarm == nil {
		c.NewAlarm = func() Alarm { return precise.New() }
	}
	c.MaxResult = cmp.Or(c.MaxResult, defaultMaxResult)
	c.MaxCheckpoint = cmp.Or(c.MaxCheckpoint, defaultMaxResult)
	c.MaxError = max(cmp.Or(c.MaxError, defaultMaxError), minMaxError)
	c.StuckAfter = cmp.Or(c.StuckAfter, defaultStuckAfter)
	c.Grace = cmp.Or(c.Grace, defaultGrace)
	return c, errors.Join(faults...)
}

// Keys of log attributes.
const (
	keyRun      = "run_id"
	keyTask     = "task"
	keyAttempt  = "attempt"
	keyFence    = "fence"
	keyOutcome  = "outcome"
	keyTook     = "took"
	keyIgnored  = "ignored"
	keyStack    = "stack"
	keyReports  = "reports"
	keyRuns     = "runs"
	keyError    = "error"
	keyPanicked = "panicked"
)
