package store

import (
	"bytes"
	"slices"
)

// now returns the stamped time of a clock.
func (s *State) now(c Clock) int64 {
	if c == Wall {
		return s.meta.Wall
	}
	return s.meta.Elapsed
}

// set publishes sc as the schedule's newest version.
func (s *State) set(sc *Schedule) {
	s.schedules[sc.ID] = sc
	s.dirty.Schedules[sc.ID] = sc
}

func (s *State) applyPutSchedule(p *PutSchedule) Result {
	n := p.Schedule
	if n.ID == "" {
		return Result{Code: CodeInvalid, Text: "schedule ID is empty"}
	}
	if !s.KnownTask(n.Spec.Task) {
		return Result{Code: CodeUnknownTask, Text: n.Spec.Task}
	}
	n.Spec = s.specs.share(n.Spec)
	old := s.schedules[n.ID]
	if old == nil {
		s.create(&n, p.Next)
	} else {
		if old.App == n.App && n.Gen < old.Gen {
			return Result{N: old.Version}
		}
		if sameDefinition(old, &n) {
			s.declared(old, n.App, n.Gen)
			return Result{N: old.Version}
		}
		if n.App == "" {
			n.App, n.Gen = old.App, old.Gen
		}
		n.Number, n.Version = old.Number, old.Version+1
		n.CreatedAt, n.Live = old.CreatedAt, old.Live
		n.Paused, n.PausedAt = old.Paused, old.PausedAt
		n.Next, n.Decided, n.Loose, n.Deleted = old.Next, old.Decided, old.Loose, 0
		n.Pause, n.Waiting, n.Backfills = old.Pause, old.Waiting, old.Backfills
		if !sameTrigger(&old.Trigger, &n.Trigger) {
			// The next instant is counted from the edit; what was decided stays decided,
			// for the clock may be set back.
			was := *old
			s.lapse(&was, "the trigger was changed")
			n.Decided, n.Loose, n.Waiting = was.Decided, was.Loose, nil
			n.Next = p.Next
			s.countAnew(&n, old)
		}
	}
	n.ChangedAt = s.meta.Wall
	s.set(&n)
	s.emit(Event{Kind: EventScheduleSet, Schedule: &n})
	return Result{N: n.Version}
}

// create gives a schedule that is to be its place in time. One that was deleted
// goes on with its number, its versions and what it had decided: the key of the
// ledger, ID and nominal time, outlives it.
func (s *State) create(n *Schedule, next int64) {
	n.CreatedAt, n.Next, n.Live, n.Deleted = s.meta.Wall, next, nil, 0
	n.Waiting, n.Backfills = nil, 0
	n.PausedAt, n.Pause = 0, Span{}
	if n.Paused {
		n.PausedAt, n.Pause.From = s.meta.Wall, s.now(n.Trigger.TickClock())
	}
	if old := s.deleted[n.ID]; old != nil {
		delete(s.deleted, n.ID)
		n.Number, n.Version = old.Number, old.Version+1
		n.Decided, n.Loose = old.Decided, old.Loose
		s.countAnew(n, old)
		return
	}
	s.meta.Schedule++
	n.Number, n.Version = s.meta.Schedule, 1
	now := s.now(n.Trigger.TickClock())
	n.Decided, n.Loose = []Span{{now, now}}, nil
}

// countAnew begins a new span of decided ticks at now in n, which follows old
// under another trigger and is not yet published. If the triggers have different
// clocks, what was decided is so at the same instants of the other one.
func (s *State) countAnew(n, old *Schedule) {
	was, is := old.Trigger.TickClock(), n.Trigger.TickClock()
	if was != is {
		if n.Pause = (Span{}); n.Paused {
			n.Pause.From = s.now(is)
		}
		n.Decided, n.Loose = slices.Clone(n.Decided), nil
		for i := range n.Decided {
			n.Decided[i].From += s.now(is) - s.now(was)
			n.Decided[i].To += s.now(is) - s.now(was)
		}
	}
	n.decideFrom(s.now(is))
}

// declared notes that a generation of an application stands for sc as it is: an
// older one may not take it back from now on. A call that names no application
// leaves it with the one it has.
func (s *State) declared(sc *Schedule, app string, gen uint64) {
	if app == "" || sc.App == app && sc.Gen == gen {
		return
	}
	n := *sc
	n.App, n.Gen = app, gen
	s.set(&n)
	s.emit(Event{Kind: EventScheduleSet, Schedule: &n})
}

func sameTrigger(a, b *Trigger) bool {
	x, _ := a.MarshalMsg(nil)
	y, _ := b.MarshalMsg(nil)
	return bytes.Equal(x, y)
}

// sameDefinition reports whether b asks for nothing that a does not have.
func sameDefinition(a, b *Schedule) bool {
	return a.Overlap == b.Overlap && a.QueueMax == b.QueueMax &&
		a.CatchUp == b.CatchUp && a.MaxAge == b.MaxAge && a.MaxCount == b.MaxCount && a.Pace == b.Pace &&
		bytes.Equal(a.Input, b.Input) &&
		slices.Equal(a.Meta, b.Meta) && bytes.Equal(a.Spec.Encode(), b.Spec.Encode()) &&
		sameTrigger(&a.Trigger, &b.Trigger)
}

func (s *State) applyPauseSchedule(p *PauseSchedule) Result {
	old := s.schedules[p.ID]
	if old == nil {
		return Result{Code: CodeNotFound, Text: p.ID}
	}
	if old.Paused == p.Paused {
		return Result{}
	}
	n := *old
	n.Paused, n.PausedAt = p.Paused, 0
	now := s.now(n.Trigger.TickClock())
	if p.Paused {
		n.PausedAt, n.Pause = s.meta.Wall, Span{From: now}
	} else {
		n.Pause = Span{min(n.Pause.From, now), now}
	}
	s.set(&n)
	s.emit(Event{Kind: EventScheduleSet, Schedule: &n})
	return Result{}
}

func (s *State) applyDeleteSchedule(d *DeleteSchedule) Result {
	old := s.schedules[d.ID]
	if old == nil {
		return Result{Code: CodeNotFound, Text: d.ID}
	}
	n := *old
	s.lapse(&n, "the schedule was deleted")
	n.Spec, n.Input, n.Meta, n.Live = nil, nil, nil, nil
	n.Next, n.Deleted = 0, max(s.meta.Elapsed, 1)
	delete(s.schedules, d.ID)
	s.deleted[d.ID] = &n
	s.dirty.Schedules[d.ID] = &n
	s.emit(Event{Kind: EventScheduleGone, Schedule: old})
	return Result{}
}

// lapse gives their outcome to the ticks of n, not yet published, that its trigger
// promised and that will not run: it is about to be changed, or deleted.
func (s *State) lapse(n *Schedule, why string) {
	for _, w := range n.Waiting {
		t := Tick{From: w.From, To: w.To, Outcome: TickMissed, Reason: why + " before its turn came"}
		switch w.Kind {
		case WaitQueued:
			t.Outcome = TickSkipped
			s.write(n, t)
		case WaitMissed:
			s.write(n, t)
		case WaitManual, WaitBackfill: // no outcome depends on them
		}
	}
	n.Waiting = nil
	now := s.now(n.Trigger.TickClock())
	if n.Next == 0 || n.Next > now {
		return
	}
	t := Tick{Outcome: TickMissed, Reason: why}
	if n.Paused || n.Pause.From <= n.Next && n.Next <= n.Pause.To {
		t = Tick{Outcome: TickPaused, Reason: pausedReason}
	}
	for _, d := range n.undecided(n.Next, now) {
		t.From, t.To = d.From, d.To
		s.record(n, t)
	}
}

const pausedReason = "the schedule was paused"

// addLive gives a run that was taken up again back to its schedule's live ones,
// unless the schedule is another one by now.
func (s *State) addLive(r *Run) {
	old := s.schedules[r.More.Schedule]
	if r.More.Schedule == "" || old == nil || r.Created < old.CreatedAt {
		return
	}
	n := *old
	n.Live = append(slices.Clip(old.Live), r.ID)
	s.set(&n)
}

// dropLive takes an ended run from its schedule's live ones.
func (s *State) dropLive(id string, run RunID) {
	old := s.schedules[id]
	if old == nil {
		return
	}
	at := slices.Index(old.Live, run)
	if at < 0 {
		return
	}
	n := *old
	n.Live = append(append([]RunID(nil), old.Live[:at]...), old.Live[at+1:]...) // nil if it is empty
	s.set(&n)
}
