package sim

import (
	"bytes"
	"slices"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// notMissed is how late a tick may be decided and still run under CatchUpNone.
const notMissed = 10 * time.Second

// checkCatchUp: no more ticks are made up than the policy allows, and no sooner after
// one another.
func checkCatchUp(s *Story) (b Breaches) {
	schedules := make(map[string]*store.Schedule)
	next := make(map[paced]int64)
	for i := range s.Applied {
		a := &s.Applied[i]
		for j := range a.Batch.Commands {
			if a.Results[j].Code != store.OK {
				continue
			}
			switch c := &a.Batch.Commands[j]; c.Kind {
			case store.KindTick:
				if sc := schedules[c.Tick.Schedule]; sc != nil {
					b.madeUp(a, sc, c.Tick, s.Plans[sc.ID])
				}
			case store.KindStart:
				b.paced(a, c.Start, next)
			default: // makes nothing up
			}
		}
		for j := range a.Events {
			if e := &a.Events[j]; e.Kind == store.EventScheduleSet {
				schedules[e.Schedule.ID] = e.Schedule
			}
		}
	}
	return b
}

// madeUp looks at a decision of ticks that were missed.
func (b *Breaches) madeUp(a *Applied, sc *store.Schedule, t *store.TickCommand, p Plan) {
	switch sc.CatchUp {
	case store.CatchUpNone:
		if late := time.Duration(a.Batch.Wall - t.Nominal); p.Wall && t.Nominal != 0 && late > notMissed {
			b.add("entry %d: schedule %q: tick %s runs %v late", a.Index, sc.ID, at(t.Nominal), late)
		}
	case store.CatchUpLatest:
		if len(t.Waits) > 0 {
			b.add("entry %d: schedule %q: more than the latest tick is made up", a.Index, sc.ID)
		}
	case store.CatchUpAll:
		n := int64(0)
		for _, w := range t.Waits {
			n += 1 + (w.To-w.From)/max(int64(p.Every), 1)
		}
		if t.Nominal != 0 {
			n++
		}
		if p.Every != 0 && sc.MaxCount != 0 && n > int64(sc.MaxCount) {
			b.add("entry %d: schedule %q: %d ticks are made up, %d may", a.Index, sc.ID, n, sc.MaxCount)
		}
	}
}

// paced are the starts of a schedule that keep a pace among themselves.
type paced struct {
	schedule string
	kind     store.WaitKind
}

// paced looks at a start of what has waited: those of one wait keep its pace.
func (b *Breaches) paced(a *Applied, c *store.StartCommand, next map[paced]int64) {
	key := paced{c.Schedule, c.Wait.Kind}
	if early := time.Duration(next[key] - a.Elapsed); early > 0 {
		b.add("entry %d: schedule %q: a start that has waited comes %v too soon after the one before", a.Index, c.Schedule, early)
	}
	next[key] = 0
	if c.Wait.Pace > 0 && len(c.Ticks) > 1 {
		b.add("entry %d: schedule %q: %d starts at once, which are to be %v apart", a.Index, c.Schedule, len(c.Ticks), time.Duration(c.Wait.Pace))
	}
	if c.Left != 0 {
		next[key] = a.Elapsed + c.Wait.Pace
	}
}

// checkStarts: what was triggered is there, or waits, or went with its schedule; what
// was refused is not there; and as many ticks run as were acknowledged to be
// backfilled.
func checkStarts(s *Story) (b Breaches) {
	there := make(map[store.RunID]bool)
	waits := make(map[store.RunID]bool)
	ran := make(map[string][]int64)
	for i := range s.Applied {
		for j := range s.Applied[i].Events {
			switch e := &s.Applied[i].Events[j]; e.Kind {
			case store.EventEnqueued:
				there[e.Run.ID] = true
			case store.EventScheduleSet:
				for _, w := range e.Schedule.Waiting {
					waits[w.Run] = true
				}
			case store.EventTick:
				if e.Tick.Outcome == store.TickRan {
					ran[e.Schedule.ID] = append(ran[e.Schedule.ID], e.Tick.From)
				}
			default: // starts nothing
			}
		}
	}
	for i := range s.Calls {
		c := &s.Calls[i]
		switch {
		case c.Op == OpTrigger && c.Answer == Done:
			if id := c.Runs[0]; !there[id] && !waits[id] {
				b.add("run %v of schedule %q is lost: %s was told %v that it is there", id, c.Target, c.Node, c.End.Format(clockFormat))
			} else if !there[id] && !s.waitsStill(c.Target, id) && !s.goneAfter(c.Target, c.Begin) {
				b.add("run %v of schedule %q has waited, and never came", id, c.Target)
			}
		case c.Op == OpBackfill && c.Answer == Done:
			got := 0
			for _, t := range ran[c.Target] {
				if t >= c.From.UnixNano() && t < c.To.UnixNano() {
					got++
				}
			}
			if got += s.waitingIn(c.Target, c.From.UnixNano(), c.To.UnixNano()); got < c.N {
				b.add("schedule %q: %d ticks of %v to %v were to be backfilled, %d have run or wait", c.Target, c.N,
					c.From.Format(clockFormat), c.To.Format(clockFormat), got)
			}
		}
	}
	return b
}

// waitsStill reports whether a start by hand waits at the end.
func (s *Story) waitsStill(schedule string, run store.RunID) bool {
	sc := s.State.Schedule(schedule)
	return sc != nil && slices.ContainsFunc(sc.Waiting, func(w store.Wait) bool { return w.Run == run })
}

// waitingIn counts the ticks of a range that wait at the end.
func (s *Story) waitingIn(schedule string, from, to int64) (n int) {
	sc := s.State.Schedule(schedule)
	if sc == nil {
		return 0
	}
	every := max(int64(s.Plans[schedule].Every), 1)
	for _, w := range sc.Waiting {
		for t := w.From; w.Kind != store.WaitManual && t <= w.To; t += every {
			if t >= from && t < to {
				n++
			}
		}
	}
	return n
}

// goneAfter reports whether a schedule was deleted after a time.
func (s *Story) goneAfter(schedule string, after time.Time) bool {
	return slices.ContainsFunc(s.Applied, func(a Applied) bool {
		return a.At.After(after) && slices.ContainsFunc(a.Events, func(e store.Event) bool {
			return e.Kind == store.EventScheduleGone && e.Schedule.ID == schedule
		})
	})
}

// checkVersions: a rollback that was acknowledged has made the schedule, at some moment
// of the call, what it was in that version.
func checkVersions(s *Story) (b Breaches) {
	type was struct {
		from, until time.Time
		definition  []byte
		version     uint64
	}
	past := make(map[string][]was)
	for i := range s.Applied {
		a := &s.Applied[i]
		for j := range a.Events {
			e := &a.Events[j]
			if e.Kind != store.EventScheduleSet && e.Kind != store.EventScheduleGone {
				continue
			}
			list := past[e.Schedule.ID]
			if n := len(list); n > 0 && list[n-1].until.IsZero() {
				if e.Kind == store.EventScheduleSet && list[n-1].version == e.Schedule.Version {
					continue
				}
				list[n-1].until = s.known(i)
			}
			if e.Kind == store.EventScheduleSet {
				list = append(list, was{from: a.At, definition: definition(e.Schedule), version: e.Schedule.Version})
			}
			past[e.Schedule.ID] = list
		}
	}
	for i := range s.Calls {
		c := &s.Calls[i]
		if c.Op != OpRollback || c.Answer != Done {
			continue
		}
		list := past[c.Target]
		wanted := slices.IndexFunc(list, func(w was) bool { return w.version == uint64(c.N) })
		is := func(w was) bool {
			return !w.from.After(c.End) && (w.until.IsZero() || !w.until.Before(c.Begin)) && wanted >= 0 &&
				bytes.Equal(w.definition, list[wanted].definition)
		}
		if !slices.ContainsFunc(list, is) {
			b.add("schedule %q is not what it was in version %d, though %s was told %v that it is", c.Target, c.N, c.Node, c.End.Format(clockFormat))
		}
	}
	return b
}

// known returns by when an entry was surely there: when the next one was written.
func (s *Story) known(i int) time.Time {
	if i+1 < len(s.Applied) {
		return s.Applied[i+1].At
	}
	return s.End
}

// definition is what of a schedule its caller decides, as far as the load does.
func definition(sc *store.Schedule) []byte {
	d := store.Schedule{Trigger: sc.Trigger, Spec: sc.Spec, Input: sc.Input, Overlap: sc.Overlap, QueueMax: sc.QueueMax}
	text, _ := d.MarshalMsg(nil) // it has no field that could fail
	return text
}

// heeds is by when a handler whose run was canceled has returned, in the calm.
const heeds = time.Second

// checkCancels: in the calm a handler whose run is canceled, by a call or by a later
// run that takes its place, is told, and returns.
func checkCancels(s *Story) (b Breaches) {
	type attempt struct {
		run   store.RunID
		fence uint64
	}
	began, ended := make(map[attempt]time.Time), make(map[attempt]time.Time)
	for i := range s.Facts {
		f := &s.Facts[i]
		if f.What == Began {
			began[attempt{f.Run, f.Fence}] = f.At
		} else {
			ended[attempt{f.Run, f.Fence}] = f.At
		}
	}
	for i := range s.Applied {
		a := &s.Applied[i]
		if a.At.Before(s.Calm) || a.At.After(s.End) {
			continue
		}
		for j := range a.Events {
			e := &a.Events[j]
			if e.Kind != store.EventFinished || e.Run.State != store.Canceled || e.Fence == 0 {
				continue
			}
			w, err := decodeWork(e.Run.Input)
			at := attempt{e.Run.ID, e.Fence}
			start, has := began[at]
			if err != nil || w.Kind == Stubborn || !has || start.After(a.At) {
				continue
			}
			if end, over := ended[at]; !over || end.After(a.At.Add(heeds)) {
				b.add("run %v was canceled at %v, and its handler goes on", e.Run.ID, a.At.Format(clockFormat))
			}
		}
	}
	return b
}
