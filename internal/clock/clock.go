// Package clock is the seam at which the wall clock of a node can be set apart from the others'.
//
// It knows the wall clock only. Elapsed time must not come from here: measure it with time.Since of a time.Now that was
// kept, which no step of the wall clock moves.
package clock

import (
	"sync/atomic"
	"time"
)

// A Clock tells the time of day. Now may step in either direction between two calls, as a real wall clock does when
// it is set. Implementations are safe for concurrent use.
type Clock interface {
	Now() time.Time
}

// System is the clock of this machine (of the bubble, inside testing/synctest).
var System Clock = system{}

type system struct{}

// Now returns time.Now, which also carries a monotonic reading.
func (system) Now() time.Time { return time.Now() }

// Skewed is the clock of a node that is off by some offset: a twin of System for tests and simulations. It is safe for
// concurrent use.
type Skewed struct {
	base   Clock
	offset atomic.Int64
}

// NewSkewed returns a clock that is ahead of base by offset, or behind it if offset is negative.
func NewSkewed(base Clock, offset time.Duration) *Skewed {
	s := &Skewed{base: base}
	s.offset.Store(int64(offset))
	return s
}

// Now returns the time of the base clock plus the offset. It carries no monotonic reading, so that two results differ
// by what this clock shows, steps included.
func (s *Skewed) Now() time.Time { return s.base.Now().Round(0).Add(s.Offset()) }

// Offset returns how far the clock is ahead of its base.
func (s *Skewed) Offset() time.Duration { return time.Duration(s.offset.Load()) }

// Step sets the clock forward by d, or back if d is negative, at once.
func (s *Skewed) Step(d time.Duration) { s.offset.Add(int64(d)) }
