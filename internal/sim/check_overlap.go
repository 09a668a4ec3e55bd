package sim

import (
	"slices"

	"github.com/escapement-go/scheduler/store"
)

// checkOverlap: under every policy but OverlapAllow a schedule has one live run;
// ticks are skipped for a live run's sake, and no more starts wait than may.
func checkOverlap(s *Story) (b Breaches) {
	m := overlapModel{schedules: make(map[string]*overlap), out: &b}
	for i := range s.Applied {
		a := &s.Applied[i]
		for j := range a.Events {
			m.event(a, &a.Events[j])
		}
	}
	return b
}

// replaced returns the runs that were canceled because a later one has taken their
// place.
func (s *Story) replaced() map[store.RunID]bool {
	m := overlapModel{schedules: make(map[string]*overlap), out: new(Breaches), replaced: make(map[store.RunID]bool)}
	for i := range s.Applied {
		a := &s.Applied[i]
		for j := range a.Events {
			m.event(a, &a.Events[j])
		}
	}
	return m.replaced
}

// overlap is a schedule in the naive model.
type overlap struct {
	policy   store.Overlap
	queueMax int
	queued   int // starts that wait behind a live run
	live     map[store.RunID]bool
	again    bool          // a run of it was taken up again, which goes on beside the others
	ended    []store.RunID // canceled in entry
	entry    uint64
}

type overlapModel struct {
	schedules map[string]*overlap
	replaced  map[store.RunID]bool
	out       *Breaches
}

func (m *overlapModel) of(id string) *overlap {
	o := m.schedules[id]
	if o == nil {
		o = &overlap{live: make(map[store.RunID]bool)}
		m.schedules[id] = o
	}
	return o
}

func (m *overlapModel) event(a *Applied, e *store.Event) {
	switch e.Kind {
	case store.EventScheduleSet:
		m.of(e.Schedule.ID).set(a, e.Schedule, m.out)
	case store.EventScheduleGone:
		delete(m.schedules, e.Schedule.ID) // its runs go on, and are nobody's
	case store.EventTick:
		o := m.of(e.Schedule.ID)
		full := o.policy == store.OverlapQueue && o.queued >= o.queueMax
		if e.Tick.Outcome == store.TickSkipped && fires(a, e) && !o.again && (len(o.live) == 0 && o.queued == 0 || o.policy == store.OverlapQueue && !full) {
			m.out.add("entry %d: schedule %q: tick %s is skipped, with %d live runs and %d that wait", a.Index, e.Schedule.ID, span(*e.Tick), len(o.live), o.queued)
		}
	default:
		if e.Run != nil && e.Run.More != nil && e.Run.More.Schedule != "" {
			m.run(a, e)
		}
	}
}

// fires reports whether the tick was to run: what waits lapses when the schedule is
// changed or deleted.
func fires(a *Applied, e *store.Event) bool {
	return slices.ContainsFunc(a.Batch.Commands, func(c store.Command) bool {
		return c.Kind == store.KindTick && c.Tick.Schedule == e.Schedule.ID && c.Tick.Nominal == e.Tick.From
	})
}

// set follows the schedule's record.
func (o *overlap) set(a *Applied, sc *store.Schedule, b *Breaches) {
	o.policy, o.queueMax = sc.Overlap, int(sc.QueueMax)
	queued := 0
	for _, w := range sc.Waiting {
		if w.Kind == store.WaitManual || w.Kind == store.WaitQueued {
			queued++
		}
	}
	if queued > o.queued && (o.policy != store.OverlapQueue || queued > o.queueMax) {
		b.add("entry %d: schedule %q: %d starts wait, %d may", a.Index, sc.ID, queued, o.queueMax)
	}
	o.queued = queued
}

// run follows a run of a schedule.
func (m *overlapModel) run(a *Applied, e *store.Event) {
	id := e.Run.More.Schedule
	o := m.of(id)
	switch e.Kind {
	case store.EventFinished:
		delete(o.live, e.Run.ID)
		if o.entry != a.Index {
			o.entry, o.ended = a.Index, nil
		}
		if e.Run.State == store.Canceled {
			o.ended = append(o.ended, e.Run.ID)
		}
	case store.EventRescheduled:
		o.again = o.again || !o.live[e.Run.ID]
	case store.EventEnqueued:
		for other := range o.live {
			if o.policy != store.OverlapAllow {
				m.out.add("entry %d makes run %v of schedule %q, while run %v is live", a.Index, e.Run.ID, id, other)
			}
		}
		o.live[e.Run.ID] = true
		if m.replaced != nil && o.policy == store.OverlapReplace && o.entry == a.Index {
			for _, run := range o.ended {
				m.replaced[run] = true
			}
		}
	default: // begins and ends nothing
	}
}

// checkPauses: a schedule that is paused makes no run, but by hand.
func checkPauses(s *Story) (b Breaches) {
	paused := make(map[string]bool)
	for i := range s.Applied {
		a := &s.Applied[i]
		for j := range a.Events {
			switch e := &a.Events[j]; e.Kind {
			case store.EventScheduleSet:
				paused[e.Schedule.ID] = e.Schedule.Paused
			case store.EventScheduleGone:
				delete(paused, e.Schedule.ID)
			case store.EventEnqueued:
				if m := e.Run.More; m != nil && m.Nominal != 0 && paused[m.Schedule] {
					b.add("entry %d makes run %v of schedule %q, which is paused", a.Index, e.Run.ID, m.Schedule)
				}
			default: // makes no run
			}
		}
	}
	return b
}

// checkCalendars: a tick that comes after a calendar was set is not in it. One that is
// decided already, be it ahead of its time, came before.
func checkCalendars(s *Story) (b Breaches) {
	type stretch struct {
		spans []store.Exclusion
		since int64 // ns wall
	}
	calendars := make(map[string]stretch)
	for i := range s.Applied {
		a := &s.Applied[i]
		for j := range a.Events {
			e := &a.Events[j]
			if e.Kind == store.EventCalendarSet {
				calendars[e.Calendar.Name] = stretch{e.Calendar.Except, a.Batch.Wall}
			}
			if e.Kind != store.EventTick || e.Tick.Outcome != store.TickRan {
				continue
			}
			for _, x := range e.Schedule.Trigger.Except {
				c := calendars[x.Calendar]
				after := e.Tick.From > c.since+int64(2*releaseAhead)
				if after && slices.ContainsFunc(c.spans, func(x store.Exclusion) bool { return excludes(x, e.Tick.From) }) {
					b.add("entry %d: schedule %q: tick %s has run, and calendar %q excludes it", a.Index, e.Schedule.ID, at(e.Tick.From), x.Calendar)
				}
			}
		}
	}
	return b
}

// excludes reports whether one of the spans has the time.
func excludes(x store.Exclusion, t int64) bool {
	return slices.ContainsFunc(x.Spans, func(s store.Span) bool { return s.From <= t && t < s.To })
}
