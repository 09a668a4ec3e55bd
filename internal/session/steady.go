package session

import (
	"math"
	"time"
)

// A steady clock is monotonic and starts at 0: no step of the time of day moves it.
type steady struct{ epoch time.Time }

func newSteady() steady { return steady{time.Now()} }

// now returns the ns since the clock's start.
func (s steady) now() int64 { return int64(time.Since(s.epoch)) }

// time returns the moment at which the clock shows t.
func (s steady) time(t int64) time.Time { return s.epoch.Add(time.Duration(t)) }

// ahead is what is surely known of how far the leader's steady clock is ahead of the worker's: at least so much. A frame
// that the leader wrote when its clock showed t arrived later than that, so its clock shows t or more on arrival. The
// fastest of the frames tells most. What is known grows old, for the clocks do not run equally fast.
type ahead struct {
	least int64 // ns
	as    int64 // of when, on the worker's clock
	known bool
}

// maxDrift is how much faster one clock may run than the other: 1 ns in so many. It is what two clocks may differ while
// both are being slewed, 500 ppm each.
const maxDrift = 1000

// learn takes in that a frame which was written at the leader's time has arrived at now.
func (a *ahead) learn(written, now int64) {
	least := written - now
	if a.known {
		least = max(least, a.at(now))
	}
	*a = ahead{least, now, true}
}

// at returns what is known as of now. What is lost to drift is rounded up.
func (a *ahead) at(now int64) int64 { return a.least - (now-a.as+maxDrift-1)/maxDrift }

// until returns how long from now it is until the leader's clock has surely reached due.
func (a *ahead) until(due, now int64) time.Duration { return time.Duration(due - a.at(now) - now) }

// after returns when it is d from now, at most half the range of clocks, which leaves room to reckon with.
func after(now int64, d time.Duration) int64 {
	return now + min(int64(d), math.MaxInt64/2-now)
}
