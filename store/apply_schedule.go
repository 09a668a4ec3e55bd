package store

import (
	"bytes"
	"cmp"
	"math"
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
		if !sameTrigger(&old.Trigger, &n.Trigger) {
			// The next instant is counted from the edit; what was decided stays decided,
			// for the clock may be set back.
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
	if n.PausedAt = 0; n.Paused {
		n.PausedAt = s.meta.Wall
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
	return a.Overlap == b.Overlap && a.CatchUp == b.CatchUp && a.MaxAge == b.MaxAge &&
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
	n.Paused = p.Paused
	if p.Paused {
		n.PausedAt = s.meta.Wall
	} else {
		if p.Armed != old.Next {
			return Result{Code: CodeConflict, Text: p.ID}
		}
		n.PausedAt = 0
		if p.Next < old.Next && p.Next != 0 {
			n.decideAnew(s.now(n.Trigger.TickClock()))
		}
		n.Next = p.Next
		if p.Last != 0 && old.Next != 0 {
			for _, d := range old.undecided(old.Next, p.Last) {
				s.record(&n, Tick{From: d.From, To: d.To, Outcome: TickPaused, Reason: "schedule was paused"})
			}
		}
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
	delete(s.schedules, d.ID)
	left := *old
	left.Spec, left.Input, left.Meta, left.Live = nil, nil, nil, nil
	left.Next, left.Deleted = 0, max(s.meta.Elapsed, 1)
	s.deleted[d.ID] = &left
	s.dirty.Schedules[d.ID] = &left
	s.emit(Event{Kind: EventScheduleGone, Schedule: old})
	return Result{}
}

func (s *State) applyTick(t *TickCommand) Result {
	old := s.schedules[t.Schedule]
	switch {
	case old == nil:
		return Result{Code: CodeNotFound, Text: t.Schedule}
	case old.Paused:
		return Result{Code: CodePaused, Text: t.Schedule}
	case t.Version != old.Version || t.Armed != old.Next || old.Next == 0:
		return Result{Code: CodeConflict, Text: t.Schedule}
	case !t.ordered(old):
		return Result{Code: CodeInvalid, Text: t.Schedule}
	}
	n := *old
	for _, d := range t.Spans {
		s.record(&n, Tick{From: d.From, To: d.To, Outcome: d.Outcome, Reason: d.Reason})
	}
	if t.Nominal != 0 {
		s.fire(&n, t)
	}
	n.Next = t.Next
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
	if t.Nominal != 0 {
		if t.Nominal <= last || !t.Run.Valid() || sc.decided(t.Nominal, t.Nominal) {
			return false
		}
		last = t.Nominal
	}
	return last >= t.Armed && (t.Next == 0 || t.Next > last)
}

// decided reports whether any instant from … to already has its outcome.
func (sc *Schedule) decided(from, to int64) bool {
	for _, d := range sc.Decided {
		if d.From <= to && from <= d.To {
			return true
		}
	}
	return false
}

// undecided returns what is left of the instants from … to once those that have
// their outcome are taken out, in order.
func (sc *Schedule) undecided(from, to int64) []Span {
	var left []Span
	for from <= to {
		next, inside := sc.DecidedAt(from)
		if inside {
			if next.To >= to {
				break
			}
			from = next.To + 1
			continue
		}
		end := to
		for _, d := range sc.Decided {
			if d.From > from && d.From <= end {
				end = d.From - 1
			}
		}
		left = append(left, Span{from, end})
		if end == to {
			break
		}
		from = end + 1
	}
	return left
}

// DecidedAt returns the span around t in which every tick has its outcome.
func (sc *Schedule) DecidedAt(t int64) (Span, bool) {
	for _, d := range sc.Decided {
		if d.From <= t && t <= d.To {
			return d, true
		}
	}
	return Span{}, false
}

// fire decides the command's nominal tick: a run, or none because of an overlap.
func (s *State) fire(n *Schedule, t *TickCommand) {
	clock := n.Trigger.TickClock()
	tick := Tick{From: t.Nominal, To: t.Nominal}
	if n.Overlap == OverlapSkip && len(n.Live) > 0 {
		tick.Outcome, tick.Run = TickSkipped, n.Live[0]
		tick.Reason = "an earlier run has not ended"
		s.record(n, tick)
		return
	}
	if s.runs[t.Run] != nil {
		tick.Outcome, tick.Reason = TickBlocked, "its run ID is in use"
		s.record(n, tick)
		return
	}
	r := &Run{
		ID: t.Run, Spec: n.Spec, Input: n.Input, Clock: clock, Due: t.Nominal, Created: s.meta.Wall,
		More: &RunMore{Meta: n.Meta, Schedule: n.ID, Version: n.Version, Nominal: t.Nominal},
	}
	if n.Spec.ExpireAfter > 0 {
		ahead := max(t.Nominal-s.now(clock), 0)
		r.More.ExpireAt = s.in(min(n.Spec.ExpireAfter, math.MaxInt64-ahead) + ahead)
	}
	s.replace(nil, r)
	n.Live = append(slices.Clip(n.Live), r.ID)
	tick.Outcome, tick.Run, tick.Reason = TickRan, r.ID, t.Reason
	tick.Late = max(s.now(clock)-t.Nominal, 0)
	s.record(n, tick)
	s.emit(Event{Kind: EventEnqueued, Run: r})
}

// maxDecided bounds the spans kept of a schedule.
const maxDecided = 16

// decideFrom begins a new span at now, in n, which is not yet published. When
// there are too many, the two of the past that are nearest to each other become
// one: an instant between them will have no outcome, should the clock be set back
// that far, but none will have two.
func (sc *Schedule) decideFrom(now int64) {
	spans := slices.Clone(sc.Decided)
	if len(spans) >= maxDecided {
		slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
		nearest := -1
		for i := range len(spans) - 1 {
			if spans[i+1].From <= now && (nearest < 0 ||
				spans[i+1].From-spans[i].To < spans[nearest+1].From-spans[nearest].To) {
				nearest = i
			}
		}
		if nearest >= 0 {
			spans[nearest+1].From = spans[nearest].From
			spans[nearest+1].To = max(spans[nearest+1].To, spans[nearest].To)
		}
		spans = slices.Delete(spans, max(nearest, 0), max(nearest, 0)+1)
	}
	sc.Decided = append(spans, Span{now, now})
}

// record writes a ledger row of n, which is not yet published, and marks its
// ticks as decided, or as let go.
func (s *State) record(n *Schedule, t Tick) {
	t.Schedule, t.Version, t.Decided = n.Number, n.Version, s.meta.Wall
	s.emit(Event{Kind: EventTick, Schedule: n, Tick: &t})
	rows := s.giveWay(n, t)
	for _, row := range rows {
		s.writeTick(row)
	}
	if t.Outcome == TickMerged || t.Outcome == TickMissed {
		n.letGo(rows)
		return
	}
	n.decide(t)
}

func (s *State) writeTick(t Tick) {
	seg := s.addRow(TickSegment, uint32(max(t.To, 0)/86_400e9), int64(64+len(t.Reason)))
	s.dirty.Ticks = append(s.dirty.Ticks, TickRow{seg, t})
}

// giveWay takes the ticks of t out of the loose rows of n, and returns the rows
// that t is written as. A row is found by its last tick: what is left at the end
// of a loose row is written over it, and where one ends within t, so does a row
// of t.
func (s *State) giveWay(n *Schedule, t Tick) (rows []Tick) {
	var loose []Tick
	for _, l := range n.Loose {
		if l.To < t.From || t.To < l.From {
			loose = append(loose, l)
			continue
		}
		// Right after the tick that was decided last there is none before t.
		if follows := len(n.Decided) > 0 && n.Decided[len(n.Decided)-1].To+1 == l.From; l.From < t.From && !follows {
			left := l
			left.To = t.From - 1
			s.writeTick(left)
			loose = append(loose, left)
		}
		switch {
		case t.To < l.To:
			l.From = t.To + 1
			s.writeTick(l)
			loose = append(loose, l)
		case l.To < t.To:
			part := t
			part.To = l.To
			rows = append(rows, part)
			t.From = l.To + 1
		}
	}
	n.Loose = loose
	return append(rows, t)
}

// letGo adds rows to the loose ones of sc. When there are too many, the oldest
// count as decided.
func (sc *Schedule) letGo(rows []Tick) {
	loose := slices.Concat(sc.Loose, rows)
	slices.SortFunc(loose, func(a, b Tick) int { return cmp.Compare(a.From, b.From) })
	for len(loose) > maxDecided {
		old := loose[0]
		loose = loose[1:]
		spans := slices.Clone(sc.Decided)
		next := -1 // the span after it takes it in
		for i := range spans {
			if spans[i].From > old.To && (next < 0 || spans[i].From < spans[next].From) {
				next = i
			}
		}
		if next >= 0 {
			spans[next].From = old.From
			sc.Decided = spans
		}
	}
	sc.Loose = loose
}

// decide marks the ticks of t as decided.
func (sc *Schedule) decide(t Tick) {
	if len(sc.Decided) == 0 {
		sc.Decided = []Span{{t.From, t.From}}
	}
	last := sc.Decided[len(sc.Decided)-1]
	for _, l := range sc.Loose {
		if last.To < l.From && l.To < t.From { // not to be taken in
			sc.decideFrom(t.From)
			break
		}
	}
	spans := slices.Clone(sc.Decided)
	cur := &spans[len(spans)-1]
	cur.From, cur.To = min(cur.From, t.From), max(cur.To, t.To)
	for i := 0; i < len(spans)-1; {
		if o := spans[i]; o.From <= cur.To && cur.From <= o.To {
			cur.From, cur.To = min(cur.From, o.From), max(cur.To, o.To)
			spans = slices.Delete(spans, i, i+1)
			cur = &spans[len(spans)-1]
			continue
		}
		i++
	}
	sc.Decided = spans
}

func (s *State) applyRearm(m *Rearm) Result {
	for i := range m.Ticks {
		t := &m.Ticks[i]
		old := s.schedules[t.Schedule]
		if old == nil || old.Version != t.Version || old.Next != t.Armed {
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

// decideAnew begins a new span at now in sc, which is not yet published, unless all
// around it has been decided before.
func (sc *Schedule) decideAnew(now int64) {
	if _, inside := sc.DecidedAt(now); !inside {
		sc.decideFrom(now)
	}
}

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
