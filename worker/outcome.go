package worker

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/escapement-go/scheduler/store"
)

// unstarted returns the outcome of an attempt that is taken back before it starts; 0 if there is nothing to report.
func unstarted(cause error) store.Outcome {
	switch {
	case errors.Is(cause, ErrLeaseLost):
		return 0
	case errors.Is(cause, ErrPreempted), errors.Is(cause, ErrShutdown):
		return store.OutcomeReleased
	}
	return store.OutcomeCanceled
}

// conclude closes the handler's context and says how the attempt ended. The outcome is 0 if that is nobody's business,
// because the lease was lost.
func (x *Execution) conclude(result []byte, err error, now moment) store.Report {
	rep := store.Report{Run: x.run.ID, Fence: x.fence, Started: x.started.wall, Finished: now.wall}
	verdict := x.close(now.at)
	if verdict == nil && err == nil && len(result) <= x.pool.cfg.MaxResult {
		rep.Outcome, rep.Result = store.OutcomeSucceeded, result // nearly always
		return rep
	}
	if err == nil && len(result) > x.pool.cfg.MaxResult {
		err = Permanent(&SizeError{"result", len(result), x.pool.cfg.MaxResult})
	}
	if rep.Outcome, rep.Delay = judge(err, verdict); rep.Outcome == store.OutcomeSucceeded {
		rep.Result = result
	}
	if err != nil && rep.Outcome != store.OutcomeSnoozed {
		rep.Panicked = errors.Is(err, ErrPanic)
		rep.Error = x.errorText(err, verdict, rep.Outcome)
	}
	return rep
}

// judge names the outcome for what the handler returned and the reason for which its context had ended, if it had.
func judge(err, verdict error) (outcome store.Outcome, delay int64) {
	switch {
	case errors.Is(verdict, ErrLeaseLost):
		return 0, 0
	case rank(verdict) == rank(ErrCanceled):
		return store.OutcomeCanceled, 0
	case err == nil:
		return store.OutcomeSucceeded, 0
	}
	if snooze, ok := errors.AsType[*snoozeError](err); ok {
		return store.OutcomeSnoozed, int64(snooze.delay)
	}
	if errors.Is(err, ErrPanic) {
		return store.OutcomeFailed, 0
	}
	switch {
	case errors.Is(verdict, ErrTimeout):
		return store.OutcomeFailed, 0
	case verdict != nil: // ErrPreempted, ErrShutdown
		return store.OutcomeInterrupted, 0
	}
	if _, ok := errors.AsType[*permanentError](err); ok {
		return store.OutcomePermanent, 0
	}
	if retry, ok := errors.AsType[*retryError](err); ok {
		return store.OutcomeRetryAfter, int64(retry.delay)
	}
	return store.OutcomeFailed, 0
}

// errorText returns the text to record for err, in bounds.
func (x *Execution) errorText(err, verdict error, outcome store.Outcome) string {
	text := fmt.Sprint(err) // unlike err.Error, it survives a method that panics
	reason := outcome == store.OutcomeInterrupted || outcome == store.OutcomeFailed && errors.Is(verdict, ErrTimeout)
	if reason && !errors.Is(err, verdict) {
		text = verdict.Error() + ": " + text
	}
	return cutText(text, x.pool.cfg.MaxError)
}

// cutText returns text, made valid UTF-8 and no longer than limit bytes. What is cut is said at the end. The result
// does not keep a longer text in memory.
func cutText(text string, limit int) string {
	size := len(text)
	if size > limit {
		mark := fmt.Sprintf("… [cut: %d bytes in all]", size)
		end := limit - len(mark)
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		return strings.ToValidUTF8(text[:end], "?") + mark
	}
	return strings.ToValidUTF8(text, "?")
}

// panicStack drops the frames of the recovery itself from a stack, down to the function that panicked, so that
// what is kept of a long one is the part that tells something.
func panicStack(stack []byte) []byte {
	head, _, _ := bytes.Cut(stack, []byte("\n"))
	_, below, ok := bytes.Cut(stack, []byte("\npanic("))
	if !ok {
		return stack
	}
	for range 2 { // the rest of the call, and the line with its file
		if _, below, ok = bytes.Cut(below, []byte("\n")); !ok {
			return stack
		}
	}
	return append(append(bytes.Clone(head), '\n'), below...)
}

// observeFinished tells the observer and the log.
func (p *Pool) observeFinished(x *Execution, rep *store.Report, took time.Duration) {
	if f := p.cfg.Observer.Finished; f != nil {
		f(x.run, rep.Outcome, took)
	}
	if !p.cfg.Logger.Enabled(p.base, slog.LevelDebug) {
		return
	}
	outcome := rep.Outcome.String()
	if rep.Outcome == 0 {
		outcome = "lease_lost"
	}
	x.Logger().LogAttrs(p.base, slog.LevelDebug, "attempt finished", slog.String(keyOutcome, outcome),
		slog.Duration(keyTook, took), slog.Bool(keyPanicked, rep.Panicked))
}
