package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// ledgerKey names a ledger. A schedule whose trigger was changed may have one on
// each clock, and what one clock shows is not comparable with the other.
type ledgerKey struct {
	id    string
	clock store.Clock
}

// row is a row of the ledger and when its entry was written.
type row struct {
	store.Tick
	at time.Time
}

// ledger is what the log says of one schedule's ticks.
type ledger struct {
	ledgerKey
	decided  []row         // not to be decided again, in log order
	single   map[int64]int // index in decided of rows of one tick
	spans    []int         // and of the others
	let      []row         // merged or missed: may come about if the clock is set back
	filled   map[int64]row // backfilled: beside the outcome that the tick had, if it had one
	armed    int64         // the first tick that was armed
	schedule *store.Schedule
}

// ledgers collects the ticks of each schedule, deleted ones included, and tells
// of ticks that were decided twice.
func (s *Story) ledgers(b *Breaches) map[ledgerKey]*ledger {
	all := make(map[ledgerKey]*ledger)
	of := func(sc *store.Schedule) *ledger {
		key := ledgerKey{sc.ID, sc.Trigger.TickClock()}
		l := all[key]
		if l == nil {
			l = &ledger{ledgerKey: key, single: make(map[int64]int), filled: make(map[int64]row), armed: sc.Next}
			all[key] = l
		}
		return l
	}
	for i := range s.Applied {
		a := &s.Applied[i]
		for j := range a.Events {
			e := &a.Events[j]
			switch e.Kind {
			case store.EventScheduleSet:
				for key, l := range all {
					if key.id == e.Schedule.ID {
						l.schedule = nil // unless it is on this clock
					}
				}
				of(e.Schedule).schedule = e.Schedule
			case store.EventScheduleGone:
				of(e.Schedule).schedule = nil
			case store.EventTick:
				of(e.Schedule).add(a, *e.Tick, b)
			default: // is about no schedule
			}
		}
	}
	return all
}

// add takes in a row. A tick that has its outcome gets no other, but one that has not
// run may be backfilled, once.
func (l *ledger) add(a *Applied, t store.Tick, b *Breaches) {
	if t.Backfill {
		i, known := l.single[t.From]
		if _, twice := l.filled[t.From]; twice || known && l.decided[i].Outcome == store.TickRan {
			b.add("entry %d: schedule %q: tick %s is backfilled, and had run before", a.Index, l.id, span(t))
		}
		l.filled[t.From] = row{t, a.At}
		return
	}
	if d := l.decidedBefore(t); d != nil {
		b.add("entry %d: schedule %q: tick %s is %v, and was %v before", a.Index, l.id, span(t), t.Outcome, d.Outcome)
	}
	if t.Outcome == store.TickMerged || t.Outcome == store.TickMissed {
		l.let = append(l.let, row{t, a.At})
		return
	}
	if _, before := l.filled[t.From]; before && t.Outcome == store.TickRan {
		b.add("entry %d: schedule %q: tick %s runs, and was backfilled before", a.Index, l.id, span(t))
	}
	l.decided = append(l.decided, row{t, a.At})
	if t.From == t.To {
		l.single[t.From] = len(l.decided) - 1
	} else {
		l.spans = append(l.spans, len(l.decided)-1)
	}
}

// decidedBefore returns a row that has a tick of t.
func (l *ledger) decidedBefore(t store.Tick) *row {
	for _, i := range l.spans {
		if d := &l.decided[i]; d.From <= t.To && t.From <= d.To {
			return d
		}
	}
	if t.From == t.To {
		if i, ok := l.single[t.From]; ok {
			return &l.decided[i]
		}
		return nil
	}
	for from, i := range l.single {
		if t.From <= from && from <= t.To {
			return &l.decided[i]
		}
	}
	return nil
}

func at(ns int64) string { return time.Unix(0, ns).UTC().Format("2006-01-02 15:04:05.000") }

func span(t store.Tick) string {
	if t.From == t.To {
		return at(t.From)
	}
	return at(t.From) + " … " + at(t.To)
}

// checkLedger: each tick has exactly one outcome, each run of a schedule one
// tick, and no schedule stands still.
func checkLedger(s *Story) (b Breaches) {
	all := s.ledgers(&b)
	s.checkRuns(all, &b)
	for key, l := range all {
		id := key.id
		if plan, ok := s.Plans[id]; ok {
			l.gaps(plan, &b)
		}
		if sc := l.schedule; sc != nil && !sc.Paused {
			now := s.State.Meta().Elapsed
			if sc.Trigger.TickClock() == store.Wall {
				now = s.State.Meta().Wall
			}
			if behind := time.Duration(now - sc.Next); sc.Next != 0 && behind > standstill {
				b.add("schedule %q stands still: its tick %s was due %v ago", id, at(sc.Next), behind)
			}
		}
	}
	return b
}

// standstill is how far behind its tick a schedule may be at the end.
const standstill = 2 * time.Second

// checkRuns: each tick that ran has its run, each run of a schedule its tick, and
// none is due before its tick.
func (s *Story) checkRuns(ledgers map[ledgerKey]*ledger, b *Breaches) {
	type tick struct {
		schedule string
		nominal  int64
		clock    store.Clock
	}
	ticks := make(map[store.RunID]tick)
	for key, l := range ledgers {
		for _, t := range l.rows() {
			if t.Outcome == store.TickRan {
				ticks[t.Run] = tick{key.id, t.From, key.clock}
			}
		}
	}
	for i := range s.Applied {
		a := &s.Applied[i]
		for j := range a.Events {
			r := a.Events[j].Run
			if a.Events[j].Kind != store.EventEnqueued || r.More == nil || r.More.Nominal == 0 {
				continue
			}
			of, ok := ticks[r.ID]
			if !ok || of.schedule != r.More.Schedule || of.nominal != r.More.Nominal {
				b.add("entry %d: schedule %q: run %v is of tick %s, for which the ledger has not got it", a.Index, r.More.Schedule, r.ID, at(r.More.Nominal))
				continue
			}
			delete(ticks, r.ID)
			now := a.Elapsed
			if of.clock == store.Wall {
				now = a.Batch.Wall
			}
			if early := of.nominal - now - (r.Due - a.Elapsed); early > 0 && !waited(a, r) {
				b.add("entry %d: schedule %q: run %v is due %v before its tick %s", a.Index, of.schedule, r.ID, time.Duration(early), at(of.nominal))
			}
		}
	}
	for id, t := range ticks {
		b.add("schedule %q: run %v of tick %s is not there", t.schedule, id, at(t.nominal))
	}
}

// waited reports whether an entry makes a run of a tick that was decided before: by now
// the clock may have been set back to before it.
func waited(a *Applied, r *store.Run) bool {
	return slices.ContainsFunc(a.Batch.Commands, func(c store.Command) bool {
		return c.Kind == store.KindStart && slices.ContainsFunc(c.Start.Ticks, func(t store.RunNow) bool { return t.Run == r.ID })
	})
}

// gaps: from the first tick on to the last that was decided none is without an
// outcome, and none is between the trigger's.
func (l *ledger) gaps(p Plan, b *Breaches) {
	rows := l.rows()
	if sc := l.schedule; sc != nil {
		for _, w := range sc.Waiting { // at the end
			if w.Kind != store.WaitManual {
				rows = append(rows, row{Tick: store.Tick{From: w.From, To: w.To, Backfill: w.Kind == store.WaitBackfill}})
			}
		}
	}
	// What was backfilled of before the schedule was made need not reach up to it.
	rows = slices.DeleteFunc(rows, func(r row) bool { return (r.Backfill || l.id == filled) && r.To < l.armed })
	if len(rows) == 0 {
		return
	}
	slices.SortFunc(rows, func(x, y row) int { return int(min(max(x.From-y.From, -1), 1)) })
	every := int64(p.Every)
	base := l.armed
	if p.Wall {
		base = 0
	}
	next := min(rows[0].From, l.armed)
	for _, t := range rows {
		if (t.From-base)%every != 0 || (t.To-base)%every != 0 {
			if t.Outcome != store.TickPaused { // a pause is cut at what was decided before, not at ticks
				b.add("schedule %q: %s is no tick of every %v", l.id, span(t.Tick), p.Every)
			}
		}
		if t.From > next {
			b.add("schedule %q: tick %s has no outcome, the next one that has is %s", l.id, at(next), span(t.Tick))
		}
		if after := t.To - mod(t.To-base, every) + every; after > next {
			next = after
		}
	}
}

// rows returns all rows.
func (l *ledger) rows() []row {
	return slices.Concat(l.decided, l.let, slices.Collect(maps.Values(l.filled)))
}

func mod(a, b int64) int64 { return ((a % b) + b) % b }

// A Target is a tick that has to make a run start between two instants, as in the
// tests of Chronos.
type Target struct {
	Nominal      int64
	From, Before time.Time
}

// A Start is when a run was first started.
type Start struct {
	Run store.RunID
	At  time.Time
}

// Match gives each target a start of its own within its window, the target that
// ends first before the others, which finds a match for all if there is one. It
// returns the targets that are left without, and the starts that nobody wanted.
func Match(targets []Target, starts []Start) (missed []Target, extra []Start) {
	targets = slices.Clone(targets)
	slices.SortFunc(targets, func(a, b Target) int { return a.Before.Compare(b.Before) })
	extra = slices.Clone(starts)
	slices.SortFunc(extra, func(a, b Start) int { return a.At.Compare(b.At) })
	for _, t := range targets {
		at := slices.IndexFunc(extra, func(s Start) bool { return !s.At.Before(t.From) && !s.At.After(t.Before) })
		if at < 0 {
			missed = append(missed, t)
			continue
		}
		extra = slices.Delete(extra, at, at+1)
	}
	return missed, extra
}

// checkWindows: each tick of a steady schedule has a run of its own that starts in
// the tick's window; one that came while something failed, by the calm at the
// latest, unless the ledger says why it did not.
func checkWindows(s *Story) (b Breaches) {
	first := make(map[store.RunID]time.Time)
	for i := range s.Facts {
		f := &s.Facts[i]
		if _, again := first[f.Run]; f.What == Began && !again {
			first[f.Run] = f.At
		}
	}
	all := s.ledgers(new(Breaches))
	runs := s.last
	for id, p := range s.Plans {
		clock := store.Elapsed
		if p.Wall {
			clock = store.Wall
		}
		l := all[ledgerKey{id, clock}]
		if l == nil || !p.Steady {
			continue
		}
		var starts []Start
		for run, began := range first {
			if r := runs[run]; r != nil && r.More != nil && r.More.Schedule == id {
				starts = append(starts, Start{run, began})
			}
		}
		missed, extra := Match(s.targets(l, p, &b), starts)
		for _, t := range missed {
			b.add("schedule %q: no run of its own was started for tick %s from %v to %v", id, at(t.Nominal),
				t.From.Format(clockFormat), t.Before.Format(clockFormat))
		}
		for _, x := range extra {
			if x.At.After(s.Calm.Add(releaseAhead+p.Window)) && x.At.Before(s.End.Add(-2*p.Window)) && !s.owed(x.Run) {
				b.add("schedule %q: run %v was started at %v for no tick", id, x.Run, x.At.Format(clockFormat))
			}
		}
	}
	return b
}

// owed reports whether a run is of a tick of before the calm.
func (s *Story) owed(id store.RunID) bool { return s.last[id].More.Nominal < s.Calm.UnixNano() }

// targets returns the windows of a schedule's ticks, as true times.
func (s *Story) targets(l *ledger, p Plan, b *Breaches) (targets []Target) {
	base, ahead := s.ticking(l, p)
	early := make(map[int64]bool) // the ticks that had their turn before the calm, by a clock that was wrong
	for _, t := range l.decided {
		if !t.at.After(s.Calm) {
			early[t.From] = true
			if t.Outcome == store.TickRan {
				due := time.Unix(0, t.From).Add(-ahead) // it was released ahead, perhaps right before the calm
				targets = append(targets, Target{t.From, t.at, later(s.Calm, due).Add(p.Window)})
			}
		} else if t.Outcome != store.TickRan {
			b.add("schedule %q: tick %s, decided in the calm, is %v: %s", l.id, span(t.Tick), t.Outcome, t.Reason)
		}
	}
	for _, t := range l.let {
		if t.at.After(s.Calm) {
			b.add("schedule %q: tick %s, decided in the calm, is %v: %s", l.id, span(t.Tick), t.Outcome, t.Reason)
		}
	}
	return append(targets, s.calmTargets(p, base, ahead, early)...)
}

// ticking returns a tick of the schedule, 0 if its ticks are multiples of its
// period, and by how much its clock is ahead of true time in the calm.
func (s *Story) ticking(l *ledger, p Plan) (base int64, ahead time.Duration) {
	if p.Wall {
		return 0, 0
	}
	return l.armed, s.offsets[s.Applied[len(s.Applied)-1].Term]
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// releaseAhead is how long before its time a tick may be decided.
const releaseAhead = time.Second

// calmTargets returns the windows of the ticks in the calm, by the plan alone.
func (s *Story) calmTargets(p Plan, base int64, ahead time.Duration, early map[int64]bool) (targets []Target) {
	every := int64(p.Every)
	calm := s.Calm.Add(ahead).UnixNano()
	for nominal := calm - mod(calm-base, every) + every; ; nominal += every {
		due := time.Unix(0, nominal).Add(-ahead)
		if due.Add(p.Window).After(s.End) {
			return targets
		}
		if due.After(s.Calm.Add(releaseAhead)) && !early[nominal] {
			targets = append(targets, Target{nominal, due, due.Add(p.Window)})
		}
	}
}
