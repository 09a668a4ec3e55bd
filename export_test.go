package scheduler

import (
	"context"
	"time"

	"github.com/escapement-go/scheduler/cluster"
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

// Storage is what a node keeps its state in.
type Storage = storage

// WithDisk makes the node keep everything on a disk of the caller's. Both
// functions are called again for each opening.
func WithDisk(log func() (cluster.LogStore, error), storage func() (Storage, error)) Option {
	return option(func(o *config) { o.disk.log, o.disk.storage = log, storage })
}

// WithTrailing bounds how much of its log a node of several keeps for those that
// fell behind, in bytes.
func WithTrailing(bytes int64) Option {
	return option(func(o *config) { o.disk.trailing = bytes })
}

// NodeOf returns the node of a scheduler that has started.
func NodeOf(s *Scheduler) *cluster.Node { return s.node }

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
