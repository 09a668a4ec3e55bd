package storetest

import (
	"fmt"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// The generator's schedules tick at the multiples of an interval on the clock of
// their trigger.

func (g *Generator) now(c store.Clock) int64 {
	if c == store.Wall {
		return g.wall
	}
	return g.elapsed
}

// after returns the first tick after t that is not decided, 0 if it is too far.
func after(sc *store.Schedule, t int64) int64 {
	next := t - t%sc.Trigger.Every + sc.Trigger.Every
	for {
		span, decided := sc.DecidedAt(next)
		if !decided {
			return next
		}
		next = span.To - span.To%sc.Trigger.Every + sc.Trigger.Every
	}
}

func (g *Generator) scheduleID() string {
	if id, ok := pick(g, g.schedules); ok && !g.one(20) {
		return id
	}
	return fmt.Sprintf("schedule-%d", g.rng.IntN(6))
}

func (g *Generator) putSchedule(s *store.State) store.Command {
	spec := g.spec()
	spec.UniqueFor = 0
	sc := store.Schedule{
		ID: g.scheduleID(), Spec: spec, Input: []byte(`{}`), App: "app", Gen: uint64(g.rng.IntN(3)),
		Trigger: store.Trigger{Kind: store.TriggerCron, Expr: "@", Every: int64(1+g.rng.IntN(4)) * int64(time.Minute)},
		Overlap: store.Overlap(g.rng.IntN(4)), QueueMax: uint32(1 + g.rng.IntN(3)), Paused: g.one(10),
		MaxRuns: uint64(max(g.rng.IntN(60)-30, 0)), CatchUp: store.CatchUp(g.rng.IntN(3)), Pace: g.rng.Int64N(int64(time.Minute)),
	}
	if g.one(40) {
		sc.ID = ""
	}
	if old := s.Schedule(sc.ID); old != nil {
		sc.Trigger.Kind, sc.Decided = old.Trigger.Kind, old.Decided
		switch {
		case g.one(4):
			sc = *old // nothing new
		case g.one(8): // to the other clock
			sc.Trigger.Kind, sc.Decided = store.TriggerCron+store.TriggerEvery-old.Trigger.Kind, nil
			if old.Other != nil {
				sc.Decided = old.Other.Spans
			}
		}
	} else {
		if g.one(3) {
			sc.Trigger.Kind = store.TriggerEvery
		}
		if old := s.DeletedSchedule(sc.ID); old != nil {
			sc.Trigger.Kind, sc.Decided = old.Trigger.Kind, old.Decided
		}
	}
	next := after(&sc, g.now(sc.Trigger.TickClock()))
	sc.Decided, sc.Live, sc.Number, sc.Version = nil, nil, 0, 0
	p := &store.PutSchedule{Schedule: sc, Next: next, Author: "a"}
	if old := s.Schedule(sc.ID); old != nil && g.one(4) {
		p.Schedule = *old
		p.Schedule.Input = []byte(`{"trial":true}`)
		p.Canary = &store.Canary{Share: 500, Allowed: uint32(g.rng.IntN(3)), Need: uint32(g.rng.IntN(4))}
	}
	if g.one(3) {
		p.Declared = uint64(1 + g.rng.IntN(3))
	}
	p.Keep = g.one(10)
	return store.Command{Kind: store.KindPutSchedule, Schedule: p}
}

func (g *Generator) pause(s *store.State) store.Command {
	p := &store.PauseSchedule{ID: g.scheduleID()}
	sc := s.Schedule(p.ID)
	if sc == nil || !sc.Paused {
		p.Paused = true
		return store.Command{Kind: store.KindPauseSchedule, Pause: p}
	}
	return store.Command{Kind: store.KindPauseSchedule, Pause: p}
}

func (g *Generator) deleteSchedule() store.Command {
	return store.Command{Kind: store.KindDeleteSchedule, Delete: &store.DeleteSchedule{ID: g.scheduleID()}}
}

// tick decides the armed tick if it has come, with those between it and now.
func (g *Generator) tick(s *store.State) store.Command {
	t := &store.TickCommand{Schedule: g.scheduleID()}
	for range 10 {
		if sc := s.Schedule(t.Schedule); sc != nil && sc.Next != 0 && sc.Next <= g.now(sc.Trigger.TickClock()) {
			break
		}
		t.Schedule = g.scheduleID()
	}
	if sc := s.Schedule(t.Schedule); sc != nil && sc.Next != 0 {
		g.decide(t, sc)
		t.Calendars = s.CalendarsOf(sc)
	}
	switch g.rng.IntN(40) {
	case 0:
		t.Armed += int64(time.Minute)
	case 1:
		t.Version++
	case 2:
		t.Run = store.RunID{}
	case 3:
		t.Run = g.run() // an ID that may be in use
	case 4:
		t.Next = t.Nominal
	}
	return store.Command{Kind: store.KindTick, Tick: t}
}

func (g *Generator) decide(t *store.TickCommand, sc *store.Schedule) {
	t.Version, t.Armed = sc.Version, sc.Next
	now := g.now(sc.Trigger.TickClock())
	last := max(now-now%sc.Trigger.Every, sc.Next)
	if last > sc.Next {
		t.Spans = []store.DecidedSpan{{From: sc.Next, To: last - sc.Trigger.Every, Outcome: store.TickMissed, Reason: "late"}}
		if n := (last - sc.Next) / sc.Trigger.Every; n > 1 && g.one(2) {
			t.Spans = []store.DecidedSpan{
				{From: sc.Next, To: sc.Next, Outcome: store.TickBlocked, Reason: "blocked"},
				{From: sc.Next + sc.Trigger.Every, To: last - sc.Trigger.Every, Outcome: store.TickMerged},
			}
		}
	}
	if n := len(t.Spans); n == 1 && sc.CatchUp == store.CatchUpAll {
		t.Waits, t.Spans = []store.Span{{From: t.Spans[0].From, To: last}}, nil
		t.Next = after(sc, max(last, now))
		return
	}
	t.Nominal, t.Run = last, g.mint(last)
	if g.one(10) {
		t.Spans = append(t.Spans, store.DecidedSpan{From: last, To: last, Outcome: store.TickSkipped})
		t.Nominal = 0
	}
	t.Next = after(sc, max(last, now))
}

// start starts what waits for its turn.
func (g *Generator) start(s *store.State) store.Command {
	c := &store.StartCommand{Schedule: g.scheduleID()}
	for range 10 {
		if sc := s.Schedule(c.Schedule); sc != nil && len(sc.Waiting) > 0 {
			g.startFirst(c, sc)
			break
		}
		c.Schedule = g.scheduleID()
	}
	return store.Command{Kind: store.KindStart, Start: c}
}

func (g *Generator) startFirst(c *store.StartCommand, sc *store.Schedule) {
	c.Wait = sc.Waiting[0]
	if c.Wait.Kind == store.WaitManual {
		c.Ticks = []store.RunNow{{Run: c.Wait.Run}}
		return
	}
	at := c.Wait.From
	for range 1 + g.rng.IntN(3) {
		c.Ticks = append(c.Ticks, store.RunNow{Nominal: at, Run: g.mint(at)})
		if at += sc.Trigger.Every; at > c.Wait.To {
			return
		}
	}
	c.Left = at
	switch g.rng.IntN(20) {
	case 0:
		c.Left = c.Wait.From - 1
	case 1:
		c.Ticks[0].Run = g.run() // an ID that may be in use
	}
}

func (g *Generator) runNow() store.Command {
	id := g.mint(g.wall)
	if g.one(10) {
		id = g.run()
	}
	return store.Command{Kind: store.KindRunNow, RunNow: &store.RunNow{Schedule: g.scheduleID(), Run: id}}
}

// backfill asks for ticks of the past.
func (g *Generator) backfill(s *store.State) store.Command {
	b := &store.Backfill{Schedule: g.scheduleID(), Pace: g.rng.Int64N(int64(time.Minute))}
	if sc := s.Schedule(b.Schedule); sc != nil {
		b.Version, b.Before = sc.Version, sc.Backfills
		first := after(sc, g.now(sc.Trigger.TickClock())-g.rng.Int64N(int64(5*time.Hour)))
		b.Spans = []store.Span{{From: first, To: first + sc.Trigger.Every*g.rng.Int64N(4)}}
	}
	return store.Command{Kind: store.KindBackfill, Backfill: b}
}

func (g *Generator) putCalendar() store.Command {
	p := &store.PutCalendar{Delete: g.one(4)}
	p.Calendar.Name = []string{"holidays", "works", ""}[g.rng.IntN(3)]
	p.Calendar.Except = []store.Exclusion{{Days: []int32{int32(g.rng.IntN(3))}}}
	return store.Command{Kind: store.KindPutCalendar, Calendar: p}
}

func (g *Generator) endCanary() store.Command {
	return store.Command{Kind: store.KindCanary, Canary: &store.EndCanary{Schedule: g.scheduleID(), Promote: g.one(2)}}
}

// rearm arms the schedules anew after the wall clock was set back.
func (g *Generator) rearm(s *store.State) store.Command {
	m := &store.Rearm{}
	for _, id := range g.schedules {
		sc := s.Schedule(id)
		if sc == nil || sc.Trigger.TickClock() != store.Wall || sc.Next == 0 {
			continue
		}
		m.Ticks = append(m.Ticks, store.RearmTick{
			Schedule: id, Version: sc.Version, Armed: sc.Next, Next: after(sc, g.wall), Calendars: s.CalendarsOf(sc),
		})
	}
	return store.Command{Kind: store.KindRearm, Rearm: m}
}

func (g *Generator) putQueue() store.Command {
	q := &store.Queue{Name: queues[g.rng.IntN(len(queues))], Paused: g.one(6)}
	if q.Name == "limited" {
		q.Limit = uint32(1 + g.rng.IntN(3))
	}
	if g.one(30) {
		q.Name = ""
	}
	return store.Command{Kind: store.KindPutQueue, Queue: q, QueuePart: store.QueuePart(g.rng.IntN(3))}
}

func (g *Generator) openSession() store.Command {
	return store.Command{Kind: store.KindOpenSession, Open: &store.OpenSession{
		Node: fmt.Sprintf("node-%d", g.rng.IntN(3)), Tasks: tasks[:len(tasks)-1],
	}}
}

func (g *Generator) endSession() store.Command {
	e := &store.EndSession{ID: uint64(g.rng.IntN(40))} // most are gone, or ended
	if g.one(4) {
		e.ID = g.session()
	}
	return store.Command{Kind: store.KindEndSession, End: e}
}

func (g *Generator) prune(s *store.State) store.Command {
	p := &store.Prune{Segments: []store.SegmentKey{{Kind: store.TickSegment, Time: 7}}}
	for _, seg := range s.Segments() {
		if g.one(3) {
			p.Segments = append(p.Segments, seg.Key())
		}
	}
	for _, sc := range s.DeletedSchedules() {
		if g.one(3) {
			p.Schedules = append(p.Schedules, sc.ID)
		}
	}
	return store.Command{Kind: store.KindPrune, Prune: p}
}
