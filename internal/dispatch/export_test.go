package dispatch

import "time"

// Timers returns the number of timers that are set.
func (d *Dispatcher) Timers() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.timers[0].Len() + d.timers[1].Len()
}

// Sleep returns how long the dispatcher would sleep.
func (d *Dispatcher) Sleep() time.Duration { return d.next() }
