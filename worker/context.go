package worker

import (
	"context"
	"errors"
	"time"
)

// handlerContext is an Execution, seen as the context of its handler. Most handlers never look at their context, so
// the machinery of one (a channel, a timer for the timeout) is made when it is first asked for: a context of the
// standard library, to which everything is passed on from then on. Contexts that are derived from it hang on that one
// directly, and [context.Cause] finds its causes.
type handlerContext Execution

type inner struct {
	ctx    context.Context //nolint:containedctx // it is the context
	cancel context.CancelCauseFunc
	stop   context.CancelFunc // of the timeout; nil if there is none
}

// Deadline returns when the run's timeout ends it.
func (c *handlerContext) Deadline() (time.Time, bool) {
	if c.deadline == 0 {
		return time.Time{}, false
	}
	return c.pool.epoch.Add(time.Duration(c.deadline)), true
}

// Done returns a channel that is closed when the attempt must stop, or has ended.
func (c *handlerContext) Done() <-chan struct{} { return c.std().Done() }

// Err says whether the context has ended, and whether a timeout did it.
func (c *handlerContext) Err() error {
	if in := c.inner.Load(); in != nil {
		return in.ctx.Err()
	}
	if c.over.Load() || c.deadline != 0 && int64(time.Since(c.pool.epoch)) >= c.deadline {
		return c.std().Err()
	}
	return nil
}

// Value finds the Execution, and what the context of Pool.Run has.
func (c *handlerContext) Value(key any) any {
	if key == (executionKey{}) {
		return (*Execution)(c)
	}
	if in := c.inner.Load(); in != nil {
		return in.ctx.Value(key)
	}
	return c.pool.base.Value(key)
}

// String keeps fmt from reading the fields.
func (c *handlerContext) String() string { return "worker.Context(" + (*Execution)(c).String() + ")" }

// std returns the standard context behind c.
func (c *handlerContext) std() context.Context {
	if in := c.inner.Load(); in != nil {
		return in.ctx
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if in := c.inner.Load(); in != nil {
		return in.ctx
	}
	in := new(inner)
	in.ctx, in.cancel = context.WithCancelCause(c.pool.base)
	if at, ok := c.Deadline(); ok && c.cause == nil {
		in.ctx, in.stop = context.WithDeadlineCause(in.ctx, at, ErrTimeout)
	}
	if c.cause != nil {
		in.cancel(c.cause)
	}
	c.inner.Store(in)
	return in.ctx
}

// end ends the context, if nothing has yet, and lets cause have its say about the outcome.
func (x *Execution) end(cause error) {
	x.mu.Lock()
	if rank(cause) > rank(x.verdict) {
		x.verdict = cause
	}
	in := x.endLocked(cause)
	x.mu.Unlock()
	if in != nil {
		in.cancel(cause)
	}
}

// endLocked returns what is still to be canceled with the cause, without mu.
func (x *Execution) endLocked(cause error) *inner {
	if x.cause == nil {
		x.cause = cause
		x.over.Store(true)
	}
	return x.inner.Load()
}

// close ends the context of a handler that has returned, and returns the reason that decides about the outcome: nil if
// its context had not ended before.
func (x *Execution) close(now int64) error {
	x.mu.Lock()
	verdict := x.verdict
	in := x.endLocked(context.Canceled)
	x.mu.Unlock()
	if in != nil {
		in.cancel(context.Canceled)
		if in.stop != nil {
			in.stop()
		}
	}
	if verdict == nil && x.deadline != 0 && now >= x.deadline {
		verdict = ErrTimeout
	}
	return verdict
}

// rank orders the reasons for which a context ends by their say about the outcome.
func rank(cause error) int {
	switch {
	case cause == nil:
		return 0
	case errors.Is(cause, ErrTimeout):
		return 1
	case errors.Is(cause, ErrShutdown):
		return 2
	case errors.Is(cause, ErrPreempted):
		return 3
	case errors.Is(cause, ErrLeaseLost):
		return 5
	}
	return 4 // canceled
}
