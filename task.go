package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/worker"
)

// A Task is a named kind of work with typed input and output. It is a plain
// value, declared once and shared by those who ask for the work and those who do
// it. Inputs and results travel as JSON.
type Task[In, Out any] struct {
	name string
	base *settings
}

// None is the output of tasks that have no result.
type None = struct{}

// NewTask declares a task. The options are defaults for its runs. Faults (an
// unusable name, a negative timeout) are reported by whatever uses the task
// first, with [ErrInvalid].
func NewTask[In, Out any](name string, defaults ...RunOption) Task[In, Out] {
	base := newSettings(name)
	base.apply(defaults)
	base.encode()
	return Task[In, Out]{name: name, base: base}
}

// NewJob declares a task without a result; see [WithFunc].
func NewJob[In any](name string, defaults ...RunOption) Task[In, None] {
	return NewTask[In, None](name, defaults...)
}

// Name returns the task's name.
func (t Task[In, Out]) Name() string { return t.name }

// With makes a call of the task: the input and the options as data, for
// schedules and bulk. An input that has no JSON form is reported by whatever
// uses the call.
func (t Task[In, Out]) With(in In, opts ...RunOption) Call {
	c := Call{settings: t.base}
	if t.base == nil {
		c.err = fmt.Errorf("scheduler: zero Task: %w", ErrInvalid)
		return c
	}
	if len(opts) > 0 {
		c.settings = t.base.with(opts)
	}
	if err := c.settings.err; err != nil {
		c.err = fmt.Errorf("scheduler: task %q: %w", t.name, err)
		return c
	}
	input, err := json.Marshal(in)
	if err != nil {
		c.err = fmt.Errorf("scheduler: task %q: encode input: %w: %w", t.name, ErrInvalid, err)
		return c
	}
	c.input = input
	return c
}

// Enqueue asks for one run of the task and returns once it is durable. ctx
// bounds the waiting, not the run.
//
// When the outcome of the call is not known (ctx ended in the middle of it), the
// error is [ErrOutcomeUnknown] and the Future is valid: [Future.Wait] or
// [Scheduler.Get] tells later. Errors: those of [Scheduler.Enqueue].
func (t Task[In, Out]) Enqueue(ctx context.Context, c Client, in In, opts ...RunOption) (Future[Out], error) {
	id, err := c.Enqueue(ctx, t.With(in, opts...))
	if err != nil && !errors.Is(err, ErrOutcomeUnknown) {
		return Future[Out]{}, err
	}
	return Future[Out]{client: c, id: id}, err
}

// EnqueueMany asks for one run per input, all or none, in one entry of the log.
// The options hold for each of them. Errors: those of [Scheduler.EnqueueMany].
func (t Task[In, Out]) EnqueueMany(ctx context.Context, c Client, ins []In, opts ...RunOption) ([]Future[Out], error) {
	bound := t
	if len(opts) > 0 && t.base != nil {
		bound.base = t.base.with(opts)
	}
	calls := make([]Call, len(ins))
	for i := range ins {
		calls[i] = bound.With(ins[i])
	}
	ids, err := c.EnqueueMany(ctx, calls)
	if err != nil && !errors.Is(err, ErrOutcomeUnknown) {
		return nil, err
	}
	futures := make([]Future[Out], len(ids))
	for i, id := range ids {
		futures[i] = Future[Out]{client: c, id: id}
	}
	return futures, err
}

// Future returns the future of a run of this task that was asked for earlier.
func (t Task[In, Out]) Future(c Client, id RunID) Future[Out] {
	return Future[Out]{client: c, id: id}
}

// A Call is a task with its input and options, as data. Make one with
// [Task.With].
type Call struct {
	settings *settings
	input    []byte
	err      error
}

// Task returns the name of the task that is called.
func (c Call) Task() string {
	if c.settings == nil {
		return ""
	}
	return c.settings.spec.Task
}

func (c Call) check(maxPayload int) error {
	switch {
	case c.err != nil:
		return c.err
	case c.settings == nil:
		return fmt.Errorf("scheduler: zero Call: %w", ErrInvalid)
	case len(c.input) > maxPayload:
		return fmt.Errorf("scheduler: task %q: input of %d bytes: %w (%d)", c.Task(), len(c.input), ErrPayloadTooLarge, maxPayload)
	}
	return nil
}

// Client is what asks for runs and asks about them: a [Scheduler], or a client
// of one.
type Client interface {
	Enqueue(ctx context.Context, call Call) (RunID, error)
	EnqueueMany(ctx context.Context, calls []Call) ([]RunID, error)
	// Await returns the run once it has ended.
	Await(ctx context.Context, id RunID) (Run, error)
	Cancel(ctx context.Context, id RunID) error
}

// A Future is the handle of a run whose result has type Out. It is a value; the
// zero Future is of no run.
type Future[Out any] struct {
	client Client
	id     RunID
}

// ID returns the run's ID.
func (f Future[Out]) ID() RunID { return f.id }

// Wait returns the run's result once it has ended. A run that did not succeed is
// a [*RunError]. ctx bounds the waiting. A handler that waits gives its slot to
// another run meanwhile.
func (f Future[Out]) Wait(ctx context.Context) (Out, error) {
	var out Out
	if f.client == nil {
		return out, fmt.Errorf("scheduler: zero Future: %w", ErrInvalid)
	}
	run, err := f.await(ctx)
	if err != nil {
		return out, err
	}
	if run.State != Succeeded {
		return out, newRunError(run)
	}
	if len(run.Result) == 0 {
		return out, nil
	}
	if err := json.Unmarshal(run.Result, &out); err != nil {
		return out, fmt.Errorf("scheduler: run %v: decode result: %w", f.id, err)
	}
	return out, nil
}

func (f Future[Out]) await(ctx context.Context) (Run, error) {
	x := worker.Current(ctx)
	if x == nil {
		return f.client.Await(ctx, f.id)
	}
	resume := x.Yield() //nolint:contextcheck // the pool ends its handlers by contexts of its own
	run, err := f.client.Await(ctx, f.id)
	if back := resume(ctx); err == nil {
		err = back
	}
	return run, err
}

// Cancel ends the run; see [Scheduler.Cancel].
func (f Future[Out]) Cancel(ctx context.Context) error {
	if f.client == nil {
		return fmt.Errorf("scheduler: zero Future: %w", ErrInvalid)
	}
	return f.client.Cancel(ctx, f.id)
}

// decodes reports why an input cannot be read as an In.
func decodes[In any](input []byte) error {
	var in In
	return json.Unmarshal(input, &in)
}

// handler makes a worker's handler of a typed one.
func handler[In, Out any](f func(context.Context, In) (Out, error)) worker.Handler {
	return func(ctx context.Context, x *worker.Execution) ([]byte, error) {
		var in In
		if err := json.Unmarshal(x.Run().Input, &in); err != nil {
			return nil, worker.Permanent(fmt.Errorf("decode input: %w", err))
		}
		out, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		if _, none := any(out).(None); none {
			return nil, nil
		}
		result, err := json.Marshal(out)
		if err != nil {
			return nil, worker.Permanent(fmt.Errorf("encode result: %w", err))
		}
		return result, nil
	}
}

// A RunID identifies a run for ever: a UUID of version 7.
type RunID = store.RunID

// NewRunID makes an ID for [WithID], of the present time. The IDs of one process
// need not ascend within a millisecond.
func NewRunID() RunID {
	return store.NewRunID(time.Now(), store.Entropy(uint16(rand.Uint32()), rand.Uint64()))
}

// ParseRunID parses the canonical text form of a run's ID.
func ParseRunID(s string) (RunID, error) { return store.ParseRunID(s) }
