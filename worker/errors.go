package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// Reasons for which a handler's context ends: [context.Cause] gives the one that came first.
var (
	ErrLeaseLost = errors.New("worker: lease lost")    // another worker may have the run now
	ErrTimeout   = errors.New("worker: run timed out") // it ran for longer than its timeout
	ErrCanceled  = errors.New("worker: run canceled")
	ErrPreempted = errors.New("worker: run preempted") // its slot is needed for something more important
	ErrShutdown  = errors.New("worker: shutting down")
)

var (
	// ErrTooLarge is what a [*SizeError] unwraps to.
	ErrTooLarge = errors.New("worker: too large")
	// ErrPanic is what a [*PanicError] unwraps to.
	ErrPanic = errors.New("worker: handler panicked")
	// ErrGoexit is the failure of a handler that has ended its goroutine (runtime.Goexit, or t.FailNow of a test).
	ErrGoexit = errors.New("worker: handler left its goroutine")
	// ErrNoHandler is the failure of an attempt whose task has no handler in this pool.
	ErrNoHandler = errors.New("worker: no handler for the task")
	// ErrNotDrained is what a [*DrainError] unwraps to.
	ErrNotDrained = errors.New("worker: not drained")
	// ErrStarted is returned by a second [Pool.Run].
	ErrStarted = errors.New("worker: pool was run before")
)

// Permanent marks a handler's error as final: the run fails now, whatever its retry policy says. It returns nil if err
// is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// RetryAfter marks a handler's error with the delay before the next attempt, in place of the retry policy's. The
// attempt is spent all the same, and the last one ends the run. It returns nil if err is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryError{err, max(d, 0)}
}

type retryError struct {
	err   error
	delay time.Duration
}

func (e *retryError) Error() string { return e.err.Error() }
func (e *retryError) Unwrap() error { return e.err }

// Snooze, returned by a handler, has the run executed again in d, at least a millisecond, and spends nothing of its
// retry budget.
func Snooze(d time.Duration) error { return &snoozeError{max(d, minSnooze)} }

// IsSnooze reports whether err is, or wraps, what [Snooze] returned.
func IsSnooze(err error) bool {
	var s *snoozeError
	return errors.As(err, &s)
}

// minSnooze keeps a handler that snoozes for nothing from spinning through the log.
const minSnooze = time.Millisecond

type snoozeError struct{ delay time.Duration }

func (e *snoozeError) Error() string { return fmt.Sprintf("worker: snooze for %v", e.delay) }

// A PanicError is a handler's panic. It unwraps to [ErrPanic].
type PanicError struct {
	Value any
	Stack []byte // of the goroutine, from the function that panicked on
}

// Error returns the value and the stack.
func (e *PanicError) Error() string {
	// A long value must not crowd out the stack when the text is cut.
	return fmt.Sprintf("%v: %s\n\n%s", ErrPanic, cutText(fmt.Sprint(e.Value), 1<<10), e.Stack)
}

// Unwrap returns ErrPanic.
func (e *PanicError) Unwrap() error { return ErrPanic }

// A SizeError is a result or a checkpoint that is over its limit. It unwraps to [ErrTooLarge].
type SizeError struct {
	What        string // "result" or "checkpoint"
	Size, Limit int    // bytes
}

// Error says what is over which limit, and by how much.
func (e *SizeError) Error() string {
	return fmt.Sprintf("worker: %s of %d bytes is over the limit of %d", e.What, e.Size, e.Limit)
}

// Unwrap returns ErrTooLarge.
func (e *SizeError) Unwrap() error { return ErrTooLarge }

// A DrainError says what [Pool.Drain] could not bring to an end. It unwraps to [ErrNotDrained].
type DrainError struct {
	Running    []Running      // handlers that were left behind: they ignored the end of their context
	Unreported []store.Report // never acked; Report may or may not have committed them
}

// Error gives the numbers, and the first of each.
func (e *DrainError) Error() string {
	s := ErrNotDrained.Error()
	if n := len(e.Running); n > 0 {
		s += fmt.Sprintf(": %d handlers still running, first run %v of task %q", n, e.Running[0].ID, e.Running[0].Task)
	}
	if n := len(e.Unreported); n > 0 {
		s += fmt.Sprintf(": %d reports not delivered, first of run %v (%v)", n, e.Unreported[0].Run, e.Unreported[0].Outcome)
	}
	return s
}

// Unwrap returns ErrNotDrained.
func (e *DrainError) Unwrap() error { return ErrNotDrained }
