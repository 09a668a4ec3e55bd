package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/escapement-go/scheduler/engine/cron"
	"github.com/escapement-go/scheduler/internal/dispatch"
)

// A Query makes the Go triggers of this node that one query asks, of however many
// schedules and ticks. Each that does not answer within the patience halves it for
// those that follow. Not for concurrent use.
type Query struct {
	a        *Asker
	done     <-chan struct{} // closed when the context of the query has ended
	ended    func() error    // why
	patience time.Duration
}

// Query begins a query, which does not outlast ctx.
func (a *Asker) Query(ctx context.Context) *Query { return &Query{a, ctx.Done(), ctx.Err, Patience} }

// minPatience is what is left of it after many that have not answered.
const minPatience = 10 * time.Millisecond

// Impatient returns the patience after a trigger that has not answered within it.
func Impatient(patience time.Duration) time.Duration { return max(patience/2, minPatience) }

// Make makes the Go trigger of a schedule. Once it has failed it says never, and its Err
// tells why: see [trigger.Rule.Err].
// Errors: [ErrUnavailable], also if this node lacks it; that of the query's ctx; those of
// the function.
func (q *Query) Make(id, name string, params []byte) (cron.Schedule, error) {
	made := make(chan cron.Schedule, 1) // the function may come back when nobody waits any more
	t := &queried{q: q, id: id, name: name}
	t.call(func() error {
		s, err := q.a.make(name, params)
		made <- s
		return err
	})
	if t.err != nil {
		return nil, t.err
	}
	t.made = <-made
	return t, nil
}

// queried is a Go trigger for a query.
type queried struct {
	q        *Query
	id, name string
	made     cron.Schedule
	err      error // the first one
}

// Next implements [cron.Schedule].
func (t *queried) Next(after time.Time) time.Time {
	if t.err != nil {
		return time.Time{}
	}
	next := make(chan time.Time, 1) // as made in Make
	t.call(func() error {
		next <- t.made.Next(after)
		return nil
	})
	if t.err != nil {
		return time.Time{}
	}
	return <-next
}

// Err returns why there are no ticks any more; nil if the trigger says so.
func (t *queried) Err() error { return t.err }

func (t *queried) call(f func() error) {
	q := t.q
	_, err := q.a.calls.do(q.done, q.patience, callKey{t.id, true}, nil, func() (dispatch.Answer, error) { return dispatch.Answer{}, f() })
	switch {
	case err == nil:
	case q.ended() != nil:
		t.err = q.ended()
	default:
		if errors.Is(err, dispatch.ErrSlow) {
			q.patience = Impatient(q.patience)
		}
		if t.err = unavailable(t.name, err); errors.Is(err, ErrMissing) { // another node may have it
			t.err = fmt.Errorf("trigger %q: %w: %w", t.name, ErrUnavailable, err)
		}
	}
}

// unavailable tells of the failure of a trigger, with [ErrUnavailable] if it may answer
// another time.
func unavailable(name string, err error) error {
	if ranked(err) == slow || ranked(err) == unreachable || errors.As(err, new(*panicked)) {
		return fmt.Errorf("trigger %q: %w: %w", name, ErrUnavailable, err)
	}
	return fmt.Errorf("trigger %q: %w", name, err)
}

// make makes the Go trigger of a name.
func (a *Asker) make(name string, params json.RawMessage) (cron.Schedule, error) {
	f := a.cfg.Trigger(name)
	if f == nil {
		return nil, ErrMissing
	}
	made, err := f(params)
	if err == nil && made == nil {
		err = errors.New("it is nil")
	}
	return made, err
}
