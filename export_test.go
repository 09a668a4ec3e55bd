package scheduler

import "github.com/escapement-go/scheduler/internal/clock"

// WithClock sets the wall clock of a node.
func WithClock(c clock.Clock) Option {
	return option(func(o *config) { o.clock = c })
}

// WithPlainTimers makes the node use the runtime's timers, which follow the clock
// of a testing/synctest bubble.
func WithPlainTimers() Option {
	return option(func(o *config) { o.plainTimers = true })
}
