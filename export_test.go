package scheduler

import (
	"context"
	"time"

	"github.com/escapement-go/scheduler/internal/clock"
	"github.com/escapement-go/scheduler/store"
)

// WithClock sets the wall clock of a node.
func WithClock(c clock.Clock) Option {
	return option(func(o *config) { o.clock = c })
}

// WithPlainTimers makes the node use the runtime's timers, which follow the clock
// of a testing/synctest bubble.
func WithPlainTimers() Option {
	return option(func(o *config) { o.plainTimers = true })
}

// Named are the IDs that calls are asking for.
type Named struct{ named }

// Ask begins to ask for IDs.
func (n *Named) Ask(ctx context.Context, ids []RunID) (end func(), err error) { return n.ask(ctx, ids) }

// ScheduleUnchecked sets a schedule as a build that knows other zones would.
func ScheduleUnchecked(ctx context.Context, s *Scheduler, id, expr, zone string, next time.Time, call Call) error {
	spec := call.settings.spec
	trigger := Cron(expr).data
	trigger.Zone = zone
	put := &store.PutSchedule{
		Schedule: store.Schedule{ID: id, Trigger: trigger, Spec: &spec, Input: call.input}, Next: next.UnixNano(),
	}
	return s.call(ctx, store.Command{Kind: store.KindPutSchedule, Schedule: put})
}
