package store

func (s *State) applyTick(t *TickCommand) Result {
	old := s.Schedule(t.Schedule)
	switch {
	case old == nil:
		return Result{Code: CodeNotFound, Text: t.Schedule}
	case old.Paused:
		return Result{Code: CodePaused, Text: t.Schedule}
	case t.Version != old.Version || t.Armed != old.Next || old.Next == 0 || t.Calendars != s.CalendarsOf(old):
		return Result{Code: CodeConflict, Text: t.Schedule}
	case !t.ordered(old):
		return Result{Code: CodeInvalid, Text: t.Schedule}
	}
	n := *old
	for _, d := range t.Spans {
		s.record(&n, Tick{From: d.From, To: d.To, Outcome: d.Outcome, Reason: d.Reason})
	}
	for _, w := range t.Waits {
		if len(n.Waiting) >= maxWaiting {
			s.record(&n, Tick{From: w.From, To: w.To, Outcome: TickMissed, Reason: "too many ticks wait to be made up"})
			continue
		}
		s.take(&n, w.From, w.To)
		n.wait(Wait{Kind: WaitMissed, From: w.From, To: w.To, At: s.meta.Elapsed, Pace: n.Pace})
	}
	if t.Nominal != 0 {
		s.fire(&n, t)
	}
	n.Next = t.Next
	switch {
	case n.spent():
		s.afterLast(&n)
	case n.follows():
		s.followOn(&n)
	}
	s.set(&n)
	s.emit(Event{Kind: EventScheduleSet, Schedule: &n})
	return Result{}
}

// ordered reports whether the command's ticks follow each other from the armed
// one on and touch none that was decided before.
func (t *TickCommand) ordered(sc *Schedule) bool {
	last := t.Armed - 1
	for _, d := range t.Spans {
		if d.From <= last || d.To < d.From || sc.decided(d.From, d.To) {
			return false
		}
		last = d.To
	}
	for _, w := range t.Waits {
		if w.From <= last || w.To < w.From || sc.decided(w.From, w.To) {
			return false
		}
		last = w.To
	}
	if t.Nominal != 0 {
		if t.Nominal <= last || !t.Run.Valid() || sc.decided(t.Nominal, t.Nominal) {
			return false
		}
		last = t.Nominal
	}
	return last >= t.Armed && (t.Next == 0 || t.Next > last) && t.Delay >= 0 && t.Delay <= sc.Trigger.Jitter
}

func (s *State) applyRearm(m *Rearm) Result {
	for i := range m.Ticks {
		t := &m.Ticks[i]
		old := s.Schedule(t.Schedule)
		if old == nil || old.Version != t.Version || old.Next != t.Armed || t.Calendars != s.CalendarsOf(old) || old.spent() {
			continue
		}
		n := *old
		n.Next = t.Next
		n.decideAnew(s.now(n.Trigger.TickClock()))
		s.set(&n)
		s.emit(Event{Kind: EventScheduleSet, Schedule: &n})
	}
	return Result{}
}

// fire decides the command's nominal tick.
func (s *State) fire(n *Schedule, t *TickCommand) {
	tick := Tick{From: t.Nominal, To: t.Nominal, Reason: t.Reason}
	switch by, verdict := n.gate(); {
	case verdict == gateSkips:
		tick.Outcome, tick.Run, tick.Reason = TickSkipped, by, n.skipReason()
		s.record(n, tick)
		return
	case verdict == gateQueues:
		s.take(n, t.Nominal, t.Nominal)
		n.wait(Wait{Kind: WaitQueued, From: t.Nominal, To: t.Nominal})
		return
	case s.runs[t.Run] != nil:
		tick.Outcome, tick.Reason = TickBlocked, idInUse
		s.record(n, tick)
		return
	case verdict == gateReplaces:
		s.replaceLive(n)
		if tick.Reason == "" {
			tick.Reason = "it took the place of an earlier run"
		}
	}
	tick.Outcome, tick.Run = TickRan, t.Run
	tick.Late = max(s.now(n.Trigger.TickClock())-t.Nominal, 0)
	tick.Version = s.spawn(n, RunNow{Nominal: t.Nominal, Run: t.Run}, t.Delay)
	s.record(n, tick)
	n.Fired++
}
