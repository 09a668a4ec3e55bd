package cluster

import (
	"sync/atomic"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// clocks makes the two times that a leader stamps on its entries: the time of
// day, and elapsed time, which is the monotonic clock continued from where the
// state's elapsed time stood.
type clocks struct {
	wall Clock
	base atomic.Pointer[elapsedBase]

	lastWall, lastElapsed atomic.Int64 // of the newest entry applied
}

// elapsedBase says that the elapsed clock showed elapsed at the monotonic
// instant at.
type elapsedBase struct {
	elapsed int64
	at      time.Time
	term    uint64 // in which this base began to stamp
}

// start sets the elapsed clock up from a state that has all entries applied, for
// a leader of the given term.
//
// The clock of a leader whose last stamped entry is still the newest goes on as
// it runs. Otherwise the time since that entry was stamped is known by the wall
// clock alone, and counts if it is not negative.
func (c *clocks) start(m store.Meta, term uint64) {
	wall := c.wall.Now().UnixNano()
	next := &elapsedBase{elapsed: wall, at: time.Now(), term: term}
	switch old := c.base.Load(); {
	case old != nil && m.Term == old.term:
		next.elapsed, next.at = old.elapsed, old.at
	case m.Elapsed != 0 || m.Wall != 0:
		next.elapsed = m.Elapsed + max(0, wall-m.Wall)
	}
	if late := m.Elapsed - next.now(); late > 0 {
		next.elapsed += late
	}
	c.base.Store(next)
}

func (b *elapsedBase) now() int64 { return b.elapsed + int64(time.Since(b.at)) }

// applied notes the times of an entry.
func (c *clocks) applied(wall, elapsed int64) {
	c.lastWall.Store(wall)
	c.lastElapsed.Store(elapsed)
}

// now returns both times in ns; those of a node that does not lead go on from
// the newest entry by the wall clock.
func (c *clocks) now(leading bool) (wall, elapsed int64) {
	wall = c.wall.Now().UnixNano()
	if b := c.base.Load(); leading && b != nil {
		return wall, b.now()
	}
	last := c.lastElapsed.Load()
	if last == 0 {
		return wall, wall
	}
	return wall, last + max(0, wall-c.lastWall.Load())
}
