package store

import (
	"cmp"
	"slices"
)

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

// maxDecided bounds the spans kept of a schedule.
const maxDecided = 16

// decideFrom begins a new span at now, in n, which is not yet published. When
// there are too many, the two of the past that are nearest to each other become
// one, or, if the clock was set back before all of them, the two nearest at all: an
// instant between them will have no outcome, should the clock get there, but none
// will have two.
func (sc *Schedule) decideFrom(now int64) {
	spans := slices.Clone(sc.Decided)
	if len(spans) >= maxDecided {
		slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
		past := 0
		for past < len(spans) && spans[past].From <= now {
			past++
		}
		if past < 2 {
			past = len(spans)
		}
		nearest := 0
		for i := range past - 1 {
			if spans[i+1].From-spans[i].To < spans[nearest+1].From-spans[nearest].To {
				nearest = i
			}
		}
		spans[nearest].To = max(spans[nearest].To, spans[nearest+1].To)
		spans = slices.Delete(spans, nearest+1, nearest+2)
	}
	sc.Decided = append(spans, Span{now, now})
}

// record writes a ledger row of n, which is not yet published, and marks its
// ticks as decided, or as let go.
func (s *State) record(n *Schedule, t Tick) {
	s.tell(n, &t)
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

// write writes the ledger row of ticks that were taken before.
func (s *State) write(n *Schedule, t Tick) {
	s.tell(n, &t)
	s.writeTick(t)
}

// take marks ticks as decided whose outcome comes later.
func (s *State) take(n *Schedule, from, to int64) {
	s.giveWay(n, Tick{From: from, To: to})
	n.decide(Tick{From: from, To: to})
}

func (s *State) tell(n *Schedule, t *Tick) {
	t.Schedule, _ = n.Ledgers()
	t.Decided = s.meta.Wall
	if t.Version == 0 {
		t.Version = n.Version
	}
	s.emit(Event{Kind: EventTick, Schedule: n, Tick: t})
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
	sc.Decided = grow(sc.Decided, t.From, t.To)
}

// grow makes the last span take in the ticks from … to, and those it then meets.
func grow(decided []Span, from, to int64) []Span {
	spans := slices.Clone(decided)
	cur := &spans[len(spans)-1]
	cur.From, cur.To = min(cur.From, from), max(cur.To, to)
	for i := 0; i < len(spans)-1; {
		if o := spans[i]; o.From <= cur.To && cur.From <= o.To {
			cur.From, cur.To = min(cur.From, o.From), max(cur.To, o.To)
			spans = slices.Delete(spans, i, i+1)
			cur = &spans[len(spans)-1]
			continue
		}
		i++
	}
	return spans
}

// cover marks ticks of the past as decided, in sc, which is not yet published. When
// there are too many spans, the two of the past that are nearest to each other
// become one.
func (sc *Schedule) cover(from, to int64) {
	last := len(sc.Decided) - 1
	if cur := sc.Decided[last]; from <= cur.To && cur.From <= to {
		sc.Decided = grow(sc.Decided, from, to)
		return
	}
	past := grow(append(slices.Clone(sc.Decided[:last]), Span{from, from}), from, to)
	slices.SortFunc(past, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	if len(past) >= maxDecided {
		nearest := 0
		for i := range len(past) - 1 {
			if past[i+1].From-past[i].To < past[nearest+1].From-past[nearest].To {
				nearest = i
			}
		}
		past[nearest].To = max(past[nearest].To, past[nearest+1].To)
		past = slices.Delete(past, nearest+1, nearest+2)
	}
	sc.Decided = append(past, sc.Decided[last])
}

// decideAnew has the span that grows begin anew at now in sc, which is not yet
// published. If all around now has been decided before, it is that span that grows
// on: another one would take in what lies between it and the next tick.
func (sc *Schedule) decideAnew(now int64) {
	for i, d := range sc.Decided {
		if d.From <= now && now <= d.To {
			sc.Decided = append(slices.Delete(slices.Clone(sc.Decided), i, i+1), d)
			return
		}
	}
	sc.decideFrom(now)
}
