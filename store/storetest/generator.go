package storetest

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// A Generator makes batches of commands for a State: most are plausible, some are
// stale, repeated, contradictory or plainly wrong, none is one that DecodeBatch
// would refuse. Equal seeds make equal batches, as long as the state is given the
// batches and the generator its events.
//
//	g := storetest.NewGenerator(seed)
//	for index := uint64(1); index < 1000; index++ {
//		b := g.Next(s)
//		_, events := s.Apply(index, 1, b)
//		g.Observe(index, events)
//	}
type Generator struct {
	// Clock makes steps of the clocks, Prune drops of segments a part of the mix.
	// Both are on by default.
	Clock, Prune bool

	rng           *rand.Rand
	index         uint64
	wall, elapsed int64
	skew          int64 // wall less what it would be without steps

	ids       []store.RunID // minted lately, oldest first
	rows      map[store.RunID]finalRow
	schedules []string
	sessions  []*client
	stepped   bool // the wall clock was set back in the batch being made
}

// finalRow is what a reader of the history would know of a final run.
type finalRow struct {
	run  *store.Run
	asOf uint64
}

// client is a session with its numbers.
type client struct {
	id, seq, acked uint64
	last           *store.Command
}

// keptIDs bounds the runs that later commands are about.
const keptIDs = 400

// NewGenerator returns the generator of a seed.
func NewGenerator(seed uint64) *Generator {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	return &Generator{
		Clock: true, Prune: true,
		rng:  rand.New(rand.NewPCG(seed, 0)),
		wall: start, elapsed: start,
		rows: make(map[store.RunID]finalRow),
	}
}

// Next returns the batch for the entry after the last one observed.
func (g *Generator) Next(s *store.State) *store.Batch {
	g.stepped = false
	g.advance()
	b := &store.Batch{Level: store.FormatLevel, Wall: g.wall, Elapsed: g.elapsed}
	g.forget(s)
	if len(g.sessions) == 0 {
		b.Commands = append(b.Commands, g.openSession())
		return b
	}
	if g.stepped {
		b.Commands = append(b.Commands, g.rearm(s))
	}
	for range 1 + g.rng.IntN(4) {
		b.Commands = append(b.Commands, g.sequence(s))
	}
	return b
}

// forget drops the sessions that are gone, but for one at times.
func (g *Generator) forget(s *store.State) {
	keep := g.one(4)
	g.sessions = slices.DeleteFunc(g.sessions, func(c *client) bool {
		ses, ok := s.Session(c.id)
		if ok && !ses.Ended {
			return false
		}
		kept := keep
		keep = false
		return !kept
	})
}

// Observe tells the generator what its batch has changed.
func (g *Generator) Observe(index uint64, events []store.Event) {
	g.index = index
	for i := range events {
		e := &events[i]
		if e.Kind == store.EventFinished {
			g.rows[e.Run.ID] = finalRow{e.Run, index}
		}
		if e.Kind == store.EventScheduleSet && !slices.Contains(g.schedules, e.Schedule.ID) {
			g.schedules = append(g.schedules, e.Schedule.ID)
		}
		if e.Kind == store.EventSessionOpened {
			g.sessions = append(g.sessions, &client{id: e.Session})
		}
	}
}

// advance moves the clocks: mostly by a little, sometimes by hours, and the wall
// clock back now and then.
func (g *Generator) advance() {
	step := g.rng.Int64N(int64(2 * time.Second))
	if g.one(60) {
		step = g.rng.Int64N(int64(5 * time.Hour))
	}
	g.wall += step
	g.elapsed += step
	if !g.Clock || !g.one(80) {
		return
	}
	jump := g.rng.Int64N(int64(3 * time.Hour))
	if g.one(2) {
		g.wall += jump
		g.skew += jump
		return
	}
	g.wall -= jump
	g.skew -= jump
	g.stepped = true
}

// one is true once in n times.
func (g *Generator) one(n int) bool { return g.rng.IntN(n) == 0 }

func pick[T any](g *Generator, from []T) (T, bool) {
	if len(from) == 0 {
		var none T
		return none, false
	}
	return from[g.rng.IntN(len(from))], true
}

// sequence makes a command; most are of a session and numbered, some repeat the
// last one of their session or refer to one that is gone.
func (g *Generator) sequence(s *store.State) store.Command {
	c, ok := pick(g, g.sessions)
	if !ok || g.one(4) {
		return g.command(s)
	}
	if c.last != nil && g.one(15) {
		return *c.last
	}
	cmd := g.command(s)
	c.seq++
	if g.one(3) {
		c.acked = c.seq - min(c.seq, uint64(g.rng.IntN(4)))
	}
	cmd.Session, cmd.Seq, cmd.Ack = c.id, c.seq, c.acked
	c.last = &cmd
	return cmd
}

// command makes one command.
func (g *Generator) command(s *store.State) store.Command {
	switch n := g.rng.IntN(100); {
	case n < 30:
		return g.enqueue()
	case n < 46:
		return g.lease(s)
	case n < 62:
		return g.complete(s)
	case n < 65:
		return g.endLease(s)
	case n < 67:
		return g.checkpoint(s)
	case n < 71:
		return g.runCommand(store.KindCancel)
	case n < 75:
		return g.runCommand(store.KindRetryNow)
	case n < 77:
		return g.expire()
	case n < 80:
		return g.putSchedule(s)
	case n < 82:
		return g.pause(s)
	case n < 83:
		return g.deleteSchedule()
	case n < 90:
		return g.tick(s)
	case n < 92:
		return g.start(s)
	case n < 93:
		switch g.rng.IntN(6) {
		case 0:
			return g.putCalendar()
		case 1:
			return g.endCanary()
		case 2, 3:
			return g.backfill(s)
		}
		return g.runNow()
	case n < 95:
		return g.putQueue()
	case n < 96:
		return g.openSession()
	case n < 97:
		return g.endSession()
	case n < 98 && g.Prune:
		return g.prune(s)
	}
	return g.lease(s)
}
