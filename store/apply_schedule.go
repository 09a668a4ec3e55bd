package store

import "slices"

// now returns the stamped time of a clock.
func (s *State) now(c Clock) int64 {
	if c == Wall {
		return s.meta.Wall
	}
	return s.meta.Elapsed
}

// set publishes sc as the schedule's newest version.
func (s *State) set(sc *Schedule) {
	s.put(sc)
	s.dirty.Schedules[sc.ID] = sc
}

func (s *State) applyPutSchedule(p *PutSchedule) Result {
	n := *p.Schedule.definition()
	n.App, n.Gen, n.Paused, n.Declared = p.Schedule.App, p.Schedule.Gen, p.Schedule.Paused, p.Declared
	if n.ID == "" {
		return Result{Code: CodeInvalid, Text: "schedule ID is empty"}
	}
	if !s.KnownTask(n.Spec.Task) {
		return Result{Code: CodeUnknownTask, Text: n.Spec.Task}
	}
	for i := range n.Trigger.Except {
		if name := n.Trigger.Except[i].Calendar; name != "" && s.calendars[name] == nil {
			return Result{Code: CodeNotFound, Text: "calendar " + name}
		}
	}
	n.Spec = s.specs.share(n.Spec)
	old := s.Schedule(n.ID)
	switch {
	case old == nil && p.Canary != nil:
		return Result{Code: CodeNotFound, Text: n.ID}
	case p.Only != 0 && (old == nil || old.Version != p.Only):
		return Result{Code: CodeConflict, Text: "the schedule is of another version"}
	case p.Keep && old == nil:
		return Result{Code: CodeConflict, Text: "the schedule has no tick to keep"}
	case old == nil:
		s.create(&n, p.Next)
	default:
		if old.App == n.App && n.Gen < old.Gen {
			return Result{N: old.Version}
		}
		if p.Again(old) || SameDefinition(old, &n) {
			s.declared(old, &n)
			return Result{N: old.Version}
		}
		if p.Canary != nil {
			return s.try(old, &n, p)
		}
		if p.Keep && !KeepsTick(old, &n) {
			return Result{Code: CodeConflict, Text: "the schedule does not keep its tick"}
		}
		s.change(&n, old, p.Next)
	}
	n.ChangedAt = s.meta.Wall
	s.keepVersion(&ScheduleVersion{
		Number: n.Number, Version: n.Version, At: s.meta.Wall, Author: p.Author, Note: p.Note, Schedule: n.definition(),
	})
	s.set(&n)
	s.emit(Event{Kind: EventScheduleSet, Schedule: &n})
	return Result{N: n.Version}
}

// Again reports whether the last declaration of a schedule, nil if there is none, is made
// once more.
func (p *PutSchedule) Again(old *Schedule) bool {
	return old != nil && p.Declared != 0 && p.Declared == old.Declared
}

// KeepsTick reports whether a schedule that is changed to a definition keeps the tick
// that is armed, or has none.
func KeepsTick(old, be *Schedule) bool {
	return SameDefinition(old, be) || old.Next != 0 && SameTrigger(&old.Trigger, &be.Trigger)
}

// change gives a changed definition the place in time of the old one. A version on
// trial is dropped.
func (s *State) change(n, old *Schedule, next int64) {
	def, app, gen, sum := n.definition(), n.App, n.Gen, n.Declared
	*n = *old
	n.Trigger, n.Spec, n.Input, n.Meta = def.Trigger, def.Spec, def.Input, def.Meta
	n.Overlap, n.QueueMax, n.CatchUp = def.Overlap, def.QueueMax, def.CatchUp
	n.MaxAge, n.MaxCount, n.Pace, n.MaxRuns = def.MaxAge, def.MaxCount, def.Pace, def.MaxRuns
	n.declaredBy(app, gen, sum)
	n.Version, n.Last, n.Canary = old.Last+1, old.Last+1, nil
	if SameTrigger(&old.Trigger, &n.Trigger) {
		switch {
		case n.spent(): // there may be fewer runs than before
			s.afterLast(n)
		case n.Next == 0 && (!n.follows() || len(n.Live) == 0):
			n.Next = next // there may be more
		}
		return
	}
	// The next instant is counted from the edit; what was decided stays decided,
	// for the clock may be set back.
	was := *old
	s.lapse(&was, "the trigger was changed")
	n.Decided, n.Loose, n.Waiting = was.Decided, was.Loose, nil
	n.Next, n.Since = next, n.Version
	s.countAnew(n, old)
	if n.spent() {
		n.Next = 0
	}
}

// create gives a schedule that is to be its place in time. One that was deleted
// goes on with its number, its versions and what it had decided: the key of the
// ledger, ID and nominal time, outlives it.
func (s *State) create(n *Schedule, next int64) {
	n.CreatedAt, n.Next = s.meta.Wall, next
	if n.Paused {
		n.PausedAt, n.Pause.From = s.meta.Wall, s.now(n.Trigger.TickClock())
	}
	if old := s.deleted[n.ID]; old != nil {
		delete(s.deleted, n.ID)
		n.Number, n.Version = old.Number, old.Last+1
		n.Last, n.Since = n.Version, n.Version
		n.Decided, n.Loose, n.Ledger, n.Other = old.Decided, old.Loose, old.Ledger, old.Other
		if n.Declared == 0 { // by hand
			n.Declared = old.Declared
		}
		s.countAnew(n, old)
		return
	}
	s.meta.Schedule++
	n.Number, n.Version, n.Last, n.Since = s.meta.Schedule, 1, 1, 1
	now := s.now(n.Trigger.TickClock())
	n.Decided, n.Loose = []Span{{now, now}}, nil
}

// countAnew begins a new span of decided ticks at now in n, which follows old under
// another trigger and is not yet published. On another clock other ticks were decided,
// or none.
func (s *State) countAnew(n, old *Schedule) {
	was, is := old.Trigger.TickClock(), n.Trigger.TickClock()
	if was != is {
		if n.Pause = (Span{}); n.Paused {
			n.Pause.From = s.now(is)
		}
		own, _ := n.Ledgers()
		left := &Decided{Ledger: own, Spans: n.Decided, Loose: n.Loose}
		if back := n.Other; back != nil {
			n.Ledger, n.Decided, n.Loose = back.Ledger, back.Spans, back.Loose
		} else {
			s.meta.Schedule++
			n.Ledger, n.Decided, n.Loose = s.meta.Schedule, nil, nil
		}
		n.Other = left
	}
	n.decideFrom(s.now(is))
}

// declared notes by whom sc, which stays as it is, was declared as what. What is on trial
// beside it is not, if the declaration is another one than the last.
func (s *State) declared(sc, as *Schedule) {
	n := *sc
	n.declaredBy(as.App, as.Gen, as.Declared)
	if n.Declared != sc.Declared && n.Canary != nil && SameDefinition(sc, as) {
		s.endTrial(&n, false, Reverted+": what is in force was declared")
	}
	if n.App == sc.App && n.Gen == sc.Gen && n.Declared == sc.Declared {
		return
	}
	s.set(&n)
	s.emit(Event{Kind: EventScheduleSet, Schedule: &n})
}

// declaredBy notes in sc, which is not yet published, that a generation of an
// application stands for it: an older one may not take it back from now on. A call
// that names no application leaves it with the one it has; one that is no declaration
// leaves it declared as it was.
func (sc *Schedule) declaredBy(app string, gen, sum uint64) {
	if app != "" {
		sc.App, sc.Gen = app, gen
	}
	if sum != 0 {
		sc.Declared = sum
	}
}

func (s *State) applyPauseSchedule(p *PauseSchedule) Result {
	old := s.Schedule(p.ID)
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
	old := s.Schedule(d.ID)
	if old == nil {
		return Result{Code: CodeNotFound, Text: d.ID}
	}
	n := *old
	s.lapse(&n, "the schedule was deleted")
	n.Spec, n.Input, n.Meta, n.Live, n.Canary = nil, nil, nil, nil, nil
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
		t = Tick{Outcome: TickPaused, Reason: WasPaused}
	}
	for _, d := range n.undecided(n.Next, now) {
		t.From, t.To = d.From, d.To
		s.record(n, t)
	}
}

// idInUse is why a tick has no run of its own.
const idInUse = "its run ID is in use"

// WasPaused is why a tick that was met in a pause did not run, or ran late.
const WasPaused = "the schedule was paused"

// addLive gives a run that was taken up again back to its schedule's live ones,
// unless the schedule is another one by now.
func (s *State) addLive(r *Run) {
	old := s.Schedule(r.More.Schedule)
	if r.More.Schedule == "" || old == nil || r.Created < old.CreatedAt {
		return
	}
	n := *old
	n.Live = append(slices.Clip(old.Live), r.ID)
	s.set(&n)
}

// dropLive takes an ended run from its schedule's live ones.
func (s *State) dropLive(r *Run) {
	old := s.Schedule(r.More.Schedule)
	if old == nil {
		return
	}
	at := slices.Index(old.Live, r.ID)
	if at < 0 {
		return
	}
	n := *old
	n.Live = append(append([]RunID(nil), old.Live[:at]...), old.Live[at+1:]...) // nil if it is empty
	s.judge(&n, r)
	if n.Next == 0 && n.follows() && s.followOn(&n) {
		s.emit(Event{Kind: EventScheduleSet, Schedule: &n})
	}
	s.set(&n)
}

// follows reports whether the schedule's ticks are counted from the ends of its
// runs.
func (sc *Schedule) follows() bool { return sc.Trigger.Kind == TriggerDelay }

// followOn arms the tick of n, not yet published, that follows the end of its runs,
// if none is live.
func (s *State) followOn(n *Schedule) bool {
	n.Next = 0
	if len(n.Live) > 0 || n.spent() {
		return false
	}
	if next := s.in(n.Trigger.Every); n.Trigger.Until == 0 || next < n.Trigger.Until {
		n.Next = next
	}
	return n.Next != 0
}

// spent reports whether the schedule's ticks have made all the runs they may.
func (sc *Schedule) spent() bool { return sc.MaxRuns > 0 && sc.Fired >= sc.MaxRuns }

// afterLast lets nothing of n, not yet published, wait for its turn any more, but
// what was asked for: its ticks have made the last run they may.
func (s *State) afterLast(n *Schedule) {
	asked := func(w Wait) bool { return w.Kind == WaitManual || w.Kind == WaitBackfill }
	keep := slices.Clone(n.Waiting)
	n.Next, n.Waiting = 0, slices.DeleteFunc(slices.Clone(keep), asked)
	s.lapse(n, "the schedule had made its last run")
	n.Waiting = append([]Wait(nil), slices.DeleteFunc(keep, func(w Wait) bool { return !asked(w) })...)
}
