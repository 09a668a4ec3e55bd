package session

import (
	"math/rand/v2"
	"testing"
	"time"
)

// What is known of the leader's clock is never more than is true, however the clocks drift and frames dawdle, so
// nothing starts early; and after a fast frame it is not much less.
func TestAhead_NeverEarly(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		offset := rnd.Int64N(int64(time.Hour)) - int64(30*time.Minute)
		var a ahead
		now := int64(0)
		leader := func(at int64) int64 { return at + offset }
		fastest := int64(time.Hour)
		for range 500 {
			step := rnd.Int64N(int64(20 * time.Millisecond))
			now += step
			offset += (rnd.Int64N(2*step+1) - step) / maxDrift // the clocks run unequally
			way := rnd.Int64N(int64(3*time.Millisecond)) + 1
			fastest = min(fastest+2*step/maxDrift+2, way)
			a.learn(leader(now)-way, now) // more exactly, it was written a way ago, on a clock that drifted meanwhile
			due := leader(now) + rnd.Int64N(int64(100*time.Millisecond))
			in := int64(a.until(due, now))
			if early := due - leader(now+in); early > 0 {
				t.Fatalf("started %v early", time.Duration(early))
			}
			if late := leader(now+in) - due; late > fastest+1 {
				t.Fatalf("started %v late, the fastest frame took %v", time.Duration(late), time.Duration(fastest))
			}
		}
	}
}

func TestAhead_FarFuture(t *testing.T) {
	var a ahead
	a.learn(-int64(time.Hour), int64(time.Hour))
	if got := a.until(after(int64(time.Hour), 1<<63-1), int64(time.Hour)); got < 100*365*24*time.Hour {
		t.Fatalf("got %v, want a long time", got)
	}
	if got := a.until(after(-int64(time.Hour), -time.Minute), int64(time.Hour)); got > 0 {
		t.Fatalf("got %v, want none", got)
	}
}
