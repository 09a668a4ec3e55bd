package dispatch

// Timers returns the number of timers that are set.
func (d *Dispatcher) Timers() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.timers[0].Len() + d.timers[1].Len()
}
