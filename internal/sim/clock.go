package sim

import (
	"sync"
	"time"
)

// A Clock is the time of day of one node: off by some offset, drifting, and set
// every now and then. Safe for concurrent use.
type Clock struct {
	mu  sync.Mutex // guards set
	set []Setting  // in order; the last one holds
}

// Setting says what a clock shows from an instant on: Offset more than the true
// time, and growing by Drift nanoseconds a second.
type Setting struct {
	From   time.Time // true time
	Offset time.Duration
	Drift  time.Duration // per second
}

// NewClock returns a clock that shows the true time.
func NewClock() *Clock { return &Clock{set: []Setting{{From: time.Now()}}} }

// Now returns what the clock shows, without a monotonic reading.
func (c *Clock) Now() time.Time {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Round(0).Add(c.set[len(c.set)-1].at(now))
}

func (s Setting) at(now time.Time) time.Duration {
	return s.Offset + time.Duration(now.Sub(s.From).Seconds()*float64(s.Drift))
}

// Step sets the clock forward by d at once, or back if d is negative.
func (c *Clock) Step(d time.Duration) {
	c.change(func(s *Setting) { s.Offset += d })
}

// SetDrift changes by how much the clock gains in a second.
func (c *Clock) SetDrift(perSecond time.Duration) {
	c.change(func(s *Setting) { s.Drift = perSecond })
}

// Correct sets the clock right.
func (c *Clock) Correct() {
	c.change(func(s *Setting) { s.Offset, s.Drift = 0, 0 })
}

func (c *Clock) change(change func(*Setting)) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.set[len(c.set)-1]
	next := Setting{now, last.at(now), last.Drift}
	change(&next)
	c.set = append(c.set, next)
}

// Settings returns what the clock was set to, in order.
func (c *Clock) Settings() []Setting {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Setting(nil), c.set...)
}

// Ahead returns the most that a clock with these settings was ahead of the true
// time between two instants.
func Ahead(set []Setting, from, to time.Time) time.Duration {
	var most time.Duration
	first := true
	for i, s := range set {
		end := to
		if i+1 < len(set) && set[i+1].From.Before(end) {
			end = set[i+1].From
		}
		begin := s.From
		if begin.Before(from) {
			begin = from
		}
		if end.Before(begin) {
			continue
		}
		if d := max(s.at(begin), s.at(end)); first || d > most {
			most, first = d, false
		}
	}
	return most
}
