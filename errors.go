package scheduler

import (
	"errors"
	"fmt"
	"time"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/engine/cron"
	"github.com/escapement-go/scheduler/internal/ask"
	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/worker"
)

// Errors of New and of calls that ask for something impossible.
var (
	// ErrInvalid is wrapped by errors about names, options and inputs that can
	// never be accepted.
	ErrInvalid = errors.New("invalid")
	// ErrPayloadTooLarge tells that an input is over [WithMaxPayload], or that calls
	// together do not fit into one entry of the log; see [TooLargeError].
	ErrPayloadTooLarge = errors.New("payload is too large")
	// ErrUnknownTask tells that no node has ever had a handler for the task nor
	// declared it ([WithTasks]).
	ErrUnknownTask = errors.New("unknown task")
	// ErrDuplicate tells that New was given two of a name.
	ErrDuplicate = errors.New("declared twice")
)

// Errors of calls.
var (
	// ErrOutcomeUnknown tells that a call may or may not have been carried out,
	// or may yet be. The ID that comes with it tells later.
	ErrOutcomeUnknown = cluster.ErrOutcomeUnknown
	// ErrNotFound tells that there is no such run or schedule, or that its
	// history is gone.
	ErrNotFound = errors.New("not found")
	// ErrConflict tells that what was asked for does not fit what is: the ID is
	// in use, or the run has moved on.
	ErrConflict = errors.New("conflict")
	// ErrNoLeader tells that no leader was found before the context ended.
	ErrNoLeader = errors.New("no leader")
	// ErrTriggerUnavailable tells that the Go trigger of a schedule ([Custom]) gives no
	// answer now: it takes too long, it panics, or a node that may have it cannot be
	// reached; a query asks no other node, and has it also where the trigger is not.
	ErrTriggerUnavailable = ask.ErrUnavailable
	// ErrOverloaded tells that calls come faster than they can be made durable;
	// see [OverloadedError].
	ErrOverloaded = cluster.ErrOverloaded
	// ErrStorage tells that the disk refuses writes. Nothing acknowledged is
	// lost; calls are accepted again once it takes them.
	ErrStorage = cluster.ErrStorage
	// ErrParked tells that the node has stopped for good, because it could not
	// carry out an entry of the log and must not skip it. [Scheduler.Health] says
	// why.
	ErrParked = cluster.ErrParked
	// ErrClosed tells that the scheduler is not started, or shut down.
	ErrClosed = errors.New("scheduler is closed")
	// ErrInHandler tells that a handler has called [Scheduler.Shutdown], which waits
	// for the handler, and no deadline would have ended that.
	ErrInHandler = errors.New("called by a handler with a context that has no deadline")
)

// Errors of Start.
var (
	// ErrInUse tells that another process, or another Scheduler, has the folder.
	ErrInUse = errors.New("data folder is in use")
	// ErrNewer tells that the folder was written by a newer version.
	ErrNewer = errors.New("data folder was written by a newer version")
	// ErrCorrupt tells that the folder's files are damaged.
	ErrCorrupt = errors.New("data folder is damaged")
)

// Causes of a handler's context, and of runs that ended without a result of
// their handler.
var (
	ErrLeaseLost = worker.ErrLeaseLost // another worker may have the run
	ErrTimeout   = worker.ErrTimeout   // the attempt's time is over
	ErrCanceled  = worker.ErrCanceled  // the run was canceled
	ErrPreempted = worker.ErrPreempted // a more urgent run needs the slot
	ErrShutdown  = worker.ErrShutdown  // the process is stopping
	// ErrExpired tells that the run did not start in time.
	ErrExpired = errors.New("run expired before it started")
	// ErrWorkerLost tells that the workers of too many attempts were lost.
	ErrWorkerLost = errors.New("worker lost")
)

// OverloadedError is [ErrOverloaded] with a hint when to try again.
type OverloadedError = cluster.OverloadedError

// TooLargeError is [ErrPayloadTooLarge] of a call, or of the calls of an
// EnqueueMany together: their size in the log and the limit, in bytes.
type TooLargeError = cluster.TooLargeError

// PanicError is what a panic of a handler, or of a Go trigger, became.
type PanicError = worker.PanicError

// SyntaxError says where a cron expression is wrong.
type SyntaxError = cron.SyntaxError

// UniqueError tells that a unique key is held. It wraps [ErrConflict].
type UniqueError struct {
	Key    string
	Holder RunID
}

// Error implements error.
func (e *UniqueError) Error() string {
	return fmt.Sprintf("scheduler: unique key %q is held by run %v", e.Key, e.Holder)
}

// Unwrap returns [ErrConflict].
func (e *UniqueError) Unwrap() error { return ErrConflict }

// OverlapError tells that the overlap policy of a schedule lets nothing start
// now. It unwraps to [ErrConflict].
type OverlapError struct {
	Run    RunID  // that has not ended
	Reason string // a sentence
}

// Error implements error.
func (e *OverlapError) Error() string { return e.Reason }

// Unwrap returns [ErrConflict].
func (e *OverlapError) Unwrap() error { return ErrConflict }

// RunError tells how a run ended that did not succeed.
type RunError struct {
	Run     RunID
	Attempt int
	Err     error
}

// Error implements error.
func (e *RunError) Error() string {
	return fmt.Sprintf("scheduler: run %v, attempt %d: %v", e.Run, e.Attempt, e.Err)
}

// Unwrap returns what ended the run: [ErrCanceled], [ErrExpired],
// [ErrWorkerLost], or an error with the handler's text.
func (e *RunError) Unwrap() error { return e.Err }

func newRunError(r Run) *RunError {
	e := &RunError{Run: r.ID, Attempt: r.Attempt}
	switch {
	case r.State == Canceled:
		e.Err = ErrCanceled
	case r.State == Expired:
		e.Err = ErrExpired
	case r.workerLost:
		e.Err = ErrWorkerLost
	default:
		e.Err = errors.New(firstLine(r.Error)) // of a panic without its stack, which is in Run.Error
	}
	return e
}

// Permanent makes an error of a handler final: the run fails without a retry.
func Permanent(err error) error { return worker.Permanent(err) }

// RetryAfter makes an error of a handler be retried after d instead of the
// task's backoff.
func RetryAfter(err error, d time.Duration) error { return worker.RetryAfter(err, d) }

// Snooze, returned by a handler, runs it again after d. It spends no attempt.
func Snooze(d time.Duration) error { return worker.Snooze(d) }

// resultError makes an error of what applying a command answered.
func resultError(res store.Result) error {
	switch res.Code {
	case store.OK:
		return nil
	case store.CodeNotFound:
		return ErrNotFound
	case store.CodeUnknownTask:
		return fmt.Errorf("%w %q", ErrUnknownTask, res.Text)
	case store.CodeUnique:
		return &UniqueError{Key: res.Text, Holder: res.Run}
	case store.CodeInvalid:
		return fmt.Errorf("%s: %w", res.Text, ErrInvalid)
	case store.CodeFinal:
		return fmt.Errorf("run is %v: %w", store.RunState(res.N), ErrConflict)
	case store.CodeOverlap:
		return &OverlapError{Run: res.Run, Reason: res.Text}
	case store.CodeConflict, store.CodeStale, store.CodePaused, store.CodeFull, store.CodeNotDue:
		if res.Text != "" {
			return fmt.Errorf("%s: %w", res.Text, ErrConflict)
		}
		return ErrConflict
	case store.CodeSessionGone, store.CodeRepeated:
		return ErrOutcomeUnknown
	}
	return fmt.Errorf("result code %d: %w", res.Code, ErrConflict)
}
