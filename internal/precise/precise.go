// Package precise is a timer that fires about as close to its time as the machine can wake up, where the timers of the
// Go runtime wake on whole milliseconds.
//
// On Linux it is a timerfd that is read through the runtime's network poller: no thread is held and nothing spins. On
// an idle machine that is 0.03 to 0.12 ms late at the median, nearly all of it the waking of sleeping processors, and a
// time.Timer is 0.5 to 0.7 ms late (BenchmarkLateness). Elsewhere, and where no timerfd can be had, it is a time.Timer.
package precise

import "time"

// A Timer fires once for each Reset, on its channel, unless it is reset or stopped before. It never fires early, and
// nothing stale is ever received: once Reset or Stop has returned, what an earlier Reset has set off is gone, whether
// or not it had fired.
//
// A Timer is safe for concurrent use. It must be closed.
type Timer struct{ source source }

// A source is one way of waiting: a timerfd or a time.Timer.
type source interface {
	c() <-chan time.Time
	reset(d time.Duration)
	stop()
	close()
}

// New returns a stopped Timer, as exact as the platform has it. Inside a testing/synctest bubble use Plain: a file
// descriptor knows nothing of the bubble's clock, and waiting for it does not count as idle.
func New() *Timer {
	if s := newExact(); s != nil {
		return &Timer{s}
	}
	return Plain()
}

// Plain returns a stopped Timer that is a time.Timer underneath.
func Plain() *Timer { return &Timer{newPlain()} }

// Exact reports whether the Timer is better than a time.Timer.
func (t *Timer) Exact() bool {
	_, isPlain := t.source.(*plain)
	return !isPlain
}

// C returns the channel on which the Timer fires. It is always the same one and is never closed. The value is the time
// of firing.
func (t *Timer) C() <-chan time.Time { return t.source.c() }

// Reset makes the Timer fire in d from now; at once if d is not positive. It does nothing after Close.
func (t *Timer) Reset(d time.Duration) { t.source.reset(d) }

// Stop keeps the Timer from firing until the next Reset.
func (t *Timer) Stop() { t.source.stop() }

// Close stops the Timer for good and returns when its goroutine, if it has one, has ended. Closing again does nothing.
func (t *Timer) Close() { t.source.close() }
