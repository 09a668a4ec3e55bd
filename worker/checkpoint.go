package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// Checkpoint commits v, as JSON, as that from which a later attempt of the run can resume. When it returns nil, v is
// committed. Errors: a [*SizeError]; one that is [ErrLeaseLost] or [ErrCanceled] when the run is no longer this
// attempt's, upon which the handler should return; that of encoding v; or that of committing, of which it is not known
// then whether it came to be. It blocks until one of these is certain, also after the handler's context has ended for
// another reason, but then no longer than Config.Grace: a handler that is told to stop can still save where it was.
func (x *Execution) Checkpoint(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("worker: checkpoint: %w", err)
	}
	if limit := x.pool.cfg.MaxCheckpoint; len(data) > limit {
		return &SizeError{"checkpoint", len(data), limit}
	}
	ctx, cancel := x.writeContext()
	defer cancel()
	if ctx.Err() == nil {
		err = x.pool.cfg.Checkpoint(ctx, store.Checkpoint{Run: x.run.ID, Fence: x.fence, Data: data})
		if err == nil {
			x.checkpoint.Store(&data)
			return nil
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, ErrLeaseLost) {
		x.end(ErrLeaseLost)
	}
	return fmt.Errorf("worker: checkpoint: %w", err)
}

// writeContext returns the context of a write for the handler. It ends at once when the run is no longer this attempt's,
// or the pool has given up; and after Config.Grace when the handler's context ends for another reason.
func (x *Execution) writeContext() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(x.pool.writes)
	handler := (*handlerContext)(x)
	stop := context.AfterFunc(handler, func() { // its goroutine ends with ctx at the latest
		cause := context.Cause(handler) //nolint:contextcheck // it is the one that has ended
		if !gone(cause) {
			timer := time.NewTimer(x.pool.cfg.Grace)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		cancel(cause)
	})
	if cause := context.Cause(handler); gone(cause) {
		cancel(cause) // not left to the goroutine, which may be late
	}
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// gone reports whether a context has ended because the run is no longer the attempt's.
func gone(cause error) bool { return errors.Is(cause, ErrLeaseLost) || errors.Is(cause, ErrCanceled) }

// Resume decodes the last checkpoint of the run, of this attempt or one before it, into v, which is a pointer. It
// returns false and leaves v alone if there is none. One that does not fit v, because the type has changed since, is
// logged and counts as none, though parts of v may be set; [Execution.Saved] has its bytes.
func (x *Execution) Resume(v any) bool {
	data := x.Saved()
	if data == nil {
		return false
	}
	if err := json.Unmarshal(data, v); err != nil {
		x.Logger().LogAttrs(x.pool.base, slog.LevelWarn, "checkpoint does not fit", slog.Any(keyError, err))
		return false
	}
	return true
}

// Saved returns the last checkpoint of the run as it was encoded, or nil if there is none. It must not be modified.
func (x *Execution) Saved() []byte {
	if data := x.checkpoint.Load(); data != nil {
		return *data
	}
	if m := x.run.More; m != nil && len(m.Checkpoint) > 0 {
		return m.Checkpoint
	}
	return nil
}
