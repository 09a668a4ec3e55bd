package storetest

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// The names in use. The last task is never declared.
var (
	tasks  = []string{"mail.send", "report.build", "image.scale", "unheard.of"}
	queues = []string{"default", "slow", "limited"}
)

// mint makes a run ID for a time and remembers it.
func (g *Generator) mint(ns int64) store.RunID {
	var entropy [10]byte
	binary.BigEndian.PutUint64(entropy[:], g.rng.Uint64())
	id := store.NewRunID(time.Unix(0, ns), entropy)
	if g.ids = append(g.ids, id); len(g.ids) > keptIDs {
		delete(g.rows, g.ids[0])
		g.ids = g.ids[1:]
	}
	return id
}

// run picks a run, which may have ended; now and then one that never was.
func (g *Generator) run() store.RunID {
	if id, ok := pick(g, g.ids); ok && !g.one(40) {
		return id
	}
	return store.NewRunID(time.Unix(0, g.wall), [10]byte{1})
}

// runIn picks a live run in a state of its life, or any if there is none at hand.
func (g *Generator) runIn(s *store.State, in store.RunState) (store.RunID, *store.Run) {
	for range 30 {
		id := g.run()
		if r := s.LiveRun(id); r != nil && r.State == in {
			return id, r
		}
	}
	id := g.run()
	return id, s.LiveRun(id)
}

func (g *Generator) spec() *store.Spec {
	spec := &store.Spec{
		Task: tasks[g.rng.IntN(len(tasks)-1)], Queue: queues[g.rng.IntN(len(queues))], Tenant: "acme",
		Priority: store.Priority(g.rng.IntN(store.NumPriorities)),
		Retry:    store.Retry{Initial: 1e9, Max: 1e10, Factor: 2, Attempts: uint32(1 + g.rng.IntN(4))},
	}
	if g.one(8) {
		spec.ExpireAfter = g.rng.Int64N(int64(time.Minute))
	}
	if g.one(3) {
		spec.UniqueFor = g.rng.Int64N(int64(time.Minute))
	}
	if g.one(20) {
		spec.Task = tasks[len(tasks)-1]
	}
	return spec
}

func (g *Generator) enqueue() store.Command {
	e := &store.Enqueue{Specs: [][]byte{g.spec().Encode(), g.spec().Encode()}}
	if g.one(100) {
		e.Specs[0] = []byte("no spec at all")
	}
	for range 1 + g.rng.IntN(5) {
		e.Runs = append(e.Runs, g.newRun())
	}
	if g.one(20) {
		e.Runs = append(e.Runs, e.Runs[0]) // an ID twice
	}
	return store.Command{Kind: store.KindEnqueue, Enqueue: e}
}

func (g *Generator) newRun() store.NewRun {
	at := g.wall
	if g.one(6) {
		at -= g.rng.Int64N(int64(30 * time.Hour)) // minted long ago
	}
	n := store.NewRun{ID: g.mint(at), Input: []byte(fmt.Sprintf(`{"n":%d}`, g.rng.IntN(1000)))}
	if g.one(8) {
		n.Input = []byte{}
	}
	switch g.rng.IntN(60) {
	case 0:
		n.ID = g.run() // an ID in use, or of a run that has ended
	case 1:
		n.ID = store.RunID{} // no ID
	}
	if g.one(2) {
		n.Spec = 1
	}
	if g.one(80) {
		n.Spec = 7
	}
	if g.one(4) {
		n.Due = g.rng.Int64N(int64(time.Minute)) - int64(time.Second)
	}
	if g.one(6) {
		n.Clock, n.Due = store.Wall, g.wall+g.rng.Int64N(int64(time.Minute))
	}
	if g.one(5) {
		n.Unique = fmt.Sprintf("key-%d", g.rng.IntN(12))
	}
	if g.one(6) {
		n.Meta = []store.Pair{{Key: "order", Value: fmt.Sprint(g.rng.IntN(100))}}
	}
	if g.one(10) {
		n.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	}
	return n
}

func (g *Generator) session() uint64 {
	if c, ok := pick(g, g.sessions); ok && !g.one(30) {
		return c.id
	}
	return 1 << 40
}

func (g *Generator) lease(s *store.State) store.Command {
	l := &store.Lease{Session: g.session()}
	for range 1 + g.rng.IntN(3) {
		id, _ := g.runIn(s, store.Scheduled)
		l.Runs = append(l.Runs, id)
	}
	return store.Command{Kind: store.KindLease, Lease: l}
}

func (g *Generator) complete(s *store.State) store.Command {
	c := &store.Complete{Session: g.session()}
	for range 1 + g.rng.IntN(3) {
		id, r := g.runIn(s, store.Running)
		rep := store.Report{
			Run: id, Outcome: store.Outcome(1 + g.rng.IntN(8)), Started: g.wall - 1000, Finished: g.wall,
			Delay: g.rng.Int64N(int64(time.Minute)) - int64(time.Second), Backoff: g.rng.Int64N(int64(time.Minute)),
		}
		if r != nil {
			rep.Fence = r.Fence
			if len(c.Reports) == 0 && !g.one(20) {
				c.Session = r.Session
			}
		}
		if g.one(20) {
			rep.Fence--
		}
		if g.one(2) {
			rep.Outcome = store.OutcomeSucceeded
		}
		switch {
		case rep.Outcome == store.OutcomeSucceeded && g.one(2):
			rep.Result = []byte(`"done"`)[:6*g.rng.IntN(2)]
		case rep.Outcome == store.OutcomeFailed:
			rep.Error, rep.Panicked = "it broke", g.one(3)
		}
		c.Reports = append(c.Reports, rep)
	}
	return store.Command{Kind: store.KindComplete, Complete: c}
}

func (g *Generator) endLease(s *store.State) store.Command {
	id, r := g.runIn(s, store.Running)
	e := &store.EndLease{Run: id, Outcome: store.OutcomeCrashed, Reason: "worker lost", Backoff: g.rng.Int64N(1e9)}
	if r != nil {
		e.Fence = r.Fence
	}
	if g.one(3) {
		e.Outcome = store.OutcomeInterrupted
	}
	if g.one(20) {
		e.Outcome = store.OutcomeSucceeded
	}
	return store.Command{Kind: store.KindEndLease, EndLease: e}
}

func (g *Generator) checkpoint(s *store.State) store.Command {
	id, r := g.runIn(s, store.Running)
	c := &store.Checkpoint{Run: id, Data: []byte(fmt.Sprint(g.rng.IntN(1000)))}
	if r != nil && !g.one(10) {
		c.Fence = r.Fence
	}
	if g.one(4) {
		c.Data = []byte{}
	}
	return store.Command{Kind: store.KindCheckpoint, Checkpoint: c}
}

// runCommand is about a live run, or a final one with or without its row.
func (g *Generator) runCommand(kind store.Kind) store.Command {
	c := &store.RunCommand{ID: g.run()}
	if row, ok := g.rows[c.ID]; ok && !g.one(8) {
		// A reader decodes its own copy, and may have read it a while ago.
		c.Row, c.AsOf = reread(row.run), row.asOf
		c.Segment = store.SegmentKey{Time: uint32(c.ID.Time().UnixMilli() / 3_600_000)}
		if g.one(2) {
			c.AsOf = g.index
		}
	}
	return store.Command{Kind: kind, Run: c}
}

func (g *Generator) expire() store.Command {
	e := &store.Expire{}
	for range 8 {
		e.Runs = append(e.Runs, g.run())
	}
	return store.Command{Kind: store.KindExpire, Expire: e}
}
