package scheduler

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// TickOutcome is what became of a tick.
type TickOutcome = store.TickOutcome

// The outcomes of ticks.
const (
	TickRan     = store.TickRan     // it made the run named in Tick.Run
	TickSkipped = store.TickSkipped // an earlier run, Tick.Run, had not ended
	TickMerged  = store.TickMerged  // a later tick ran for it
	TickMissed  = store.TickMissed  // no scheduler was there, and the catch-up policy let it go
	TickPaused  = store.TickPaused  // it was met in a pause, and the catch-up policy let it go
	TickBlocked = store.TickBlocked // it could not be decided; Tick.Reason says why
)

// A Tick is a nominal time of a schedule and what became of it.
type Tick struct {
	Nominal time.Time // in the trigger's zone
	// Until is the end of a span of ticks that fared alike, if it cannot be taken
	// apart because the trigger has changed since; else zero.
	Until   time.Time
	Outcome TickOutcome
	Reason  string
	Run     RunID
	Version int           // of the schedule
	Decided time.Time     // when the outcome was recorded
	Late    time.Duration // of a tick that ran: from its nominal time until it was decided

	// Backfilled tells that the run was asked for by [Scheduler.Backfill]. Reason has
	// what had become of the tick before.
	Backfilled bool
}

// Ticks yields the ledger of a schedule: the one outcome of each tick with a
// nominal time in [from, to), in order; a zero time is no bound. Nominal times of an interval are on the
// elapsed clock. A schedule that was deleted still has its ledger. Errors:
// [ErrNotFound]; what retention has dropped is absent.
func (s *Scheduler) Ticks(ctx context.Context, id string, from, to time.Time) iter.Seq2[Tick, error] {
	lo, hi := max(nanos(from), 0), int64(math.MaxInt64)
	if !to.IsZero() {
		hi = nanos(to)
	}
	return func(yield func(Tick, error) bool) {
		if err := s.reading(ctx); err != nil {
			yield(Tick{}, err)
			return
		}
		rows, rule, version, err := s.ledger(id, lo, hi)
		if err != nil {
			yield(Tick{}, err)
			return
		}
		r := ledgerReader{rule: rule, version: version, loc: rule.location(), from: lo, to: hi, yield: yield}
		for row, err := range rows {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(Tick{}, fmt.Errorf("scheduler: ticks of %q: %w", id, storageError(err)))
				return
			}
			if !r.row(row) {
				return
			}
		}
		r.flush(math.MaxInt64)
	}
}

// ledger returns the rows of a schedule that touch the range, those not yet
// flushed included, and the rule that takes the spans of the given version apart.
func (s *Scheduler) ledger(id string, lo, hi int64) (rows iter.Seq2[*store.Tick, error], r *rule, version uint64, err error) {
	var sc *store.Schedule
	unflushed := make(map[rowKey]*store.Tick) // a later row takes the place of an earlier one
	s.node.View(func(st *store.State) {
		if sc = st.Schedule(id); sc == nil {
			sc = st.DeletedSchedule(id)
		}
		if sc == nil {
			return
		}
		for t := range st.UnflushedTicks() {
			if t.Schedule == sc.Number {
				unflushed[keyOf(t)] = t
			}
		}
	})
	if sc == nil {
		return nil, nil, 0, fmt.Errorf("scheduler: schedule %q: %w", id, ErrNotFound)
	}
	r, err = compileTrigger(&sc.Trigger, sc.ID)
	if err != nil {
		return nil, nil, 0, err
	}
	if met := s.metWhilePaused(sc, r); met != nil {
		unflushed[keyOf(met)] = met
	}
	return mergeTicks(s.storage.Ticks(sc.Number, lo, hi), unflushed, lo, hi), r, sc.Version, nil
}

// rowKey identifies a row of a schedule's ledger.
type rowKey struct {
	to       int64
	backfill bool
}

func keyOf(t *store.Tick) rowKey { return rowKey{t.To, t.Backfill} }

func (a rowKey) less(b rowKey) bool { return a.to < b.to || a.to == b.to && !a.backfill && b.backfill }

// metWhilePaused returns the row that resuming now would write, nil if there is
// none.
func (s *Scheduler) metWhilePaused(sc *store.Schedule, r *rule) *store.Tick {
	wall, elapsed := s.node.Now()
	now := clockTime(sc.Trigger.TickClock(), wall, elapsed)
	if !sc.Paused || sc.Next == 0 || sc.Next > now {
		return nil
	}
	return &store.Tick{
		Schedule: sc.Number, Version: sc.Version, From: sc.Next, To: r.Last(sc.Next, now), Outcome: TickPaused,
		Reason: "the schedule is paused", Decided: wall,
	}
}

// mergeTicks merges rows from disk with those that may be on their way to it,
// which take the place of rows with the same key.
func mergeTicks(disk iter.Seq2[*store.Tick, error], unflushed map[rowKey]*store.Tick, lo, hi int64) iter.Seq2[*store.Tick, error] {
	var recent []*store.Tick
	for _, t := range unflushed {
		if t.To >= lo && t.From < hi {
			recent = append(recent, t)
		}
	}
	slices.SortFunc(recent, func(a, b *store.Tick) int {
		if keyOf(a).less(keyOf(b)) {
			return -1
		}
		return 1
	})
	return func(yield func(*store.Tick, error) bool) {
		recent := recent
		for row, err := range disk {
			if err != nil {
				yield(nil, err)
				return
			}
			for len(recent) > 0 && keyOf(recent[0]).less(keyOf(row)) {
				if !yield(recent[0], nil) {
					return
				}
				recent = recent[1:]
			}
			if unflushed[keyOf(row)] == nil && !yield(row, nil) {
				return
			}
		}
		for _, row := range recent {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// A ledgerReader takes rows apart into ticks. Rows come in the order of their last
// tick; what a tick was backfilled with may lie within a span that comes later, and
// takes the place of the span's outcome.
type ledgerReader struct {
	rule     *rule
	version  uint64 // whose spans the rule takes apart
	loc      *time.Location
	from, to int64
	yield    func(Tick, error) bool

	held     *store.Tick   // the last row that was not backfilled
	backfill []*store.Tick // those before the end of held, or after it, in order
}

// row takes the next row. It returns false once nothing more is wanted.
func (r *ledgerReader) row(row *store.Tick) bool {
	if row.Backfill {
		r.backfill = append(r.backfill, row)
		return true
	}
	ok := r.held == nil || r.flush(r.held.To)
	r.held = row
	return ok
}

// flush yields the held row, and backfilled ticks up to a time.
func (r *ledgerReader) flush(to int64) bool {
	row := r.held
	r.held = nil
	if row != nil {
		for at := range r.ticks(row) {
			if !r.backfilled(at-1) || !r.tick(row, at) {
				return false
			}
		}
	}
	return r.backfilled(to)
}

// backfilled yields the backfilled ticks up to a time.
func (r *ledgerReader) backfilled(to int64) bool {
	for len(r.backfill) > 0 && r.backfill[0].From <= to {
		row := r.backfill[0]
		r.backfill = r.backfill[1:]
		if row.From >= r.from && row.From < r.to && !r.yield(r.view(row, row.From), nil) {
			return false
		}
	}
	return true
}

// tick yields a tick of a row, or what it was backfilled with.
func (r *ledgerReader) tick(row *store.Tick, at int64) bool {
	t := r.view(row, at)
	if len(r.backfill) > 0 && r.backfill[0].From == at {
		had := t
		t = r.view(r.backfill[0], at)
		t.Reason += fmt.Sprintf("; it was %v before", had.Outcome)
		if had.Reason != "" {
			t.Reason += ": " + had.Reason
		}
		r.backfill = r.backfill[1:]
	}
	return r.yield(t, nil)
}

func (r *ledgerReader) view(row *store.Tick, at int64) Tick {
	t := Tick{
		Nominal: instant(at).In(r.loc), Outcome: row.Outcome, Reason: row.Reason, Run: row.Run, Version: int(row.Version),
		Decided: instant(row.Decided), Late: time.Duration(row.Late), Backfilled: row.Backfill,
	}
	if row.To != row.From && !r.apart(row) {
		t.Until = instant(row.To).In(r.loc)
	}
	return t
}

// apart reports whether the rule knows the ticks of a row.
func (r *ledgerReader) apart(row *store.Tick) bool { return row.Version == r.version }

// ticks yields the ticks of a row that are in the range; the first one alone if the
// row cannot be taken apart.
func (r *ledgerReader) ticks(row *store.Tick) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		if row.From == row.To || !r.apart(row) {
			yield(row.From)
			return
		}
		at := row.From
		if r.rule.data.Kind != store.TriggerEvery {
			at = r.rule.Next(at - 1) // a pause over ticks that were decided before is cut at them, not at ticks
		}
		if at != 0 && at < r.from {
			if at = r.rule.Last(at, r.from); at < r.from {
				at = r.rule.Next(at)
			}
		}
		for ; at != 0 && at <= row.To && at < r.to; at = r.rule.Next(at) {
			if !yield(at) {
				return
			}
		}
	}
}

// Bounds of a backfill.
const (
	maxBackfill      = 100_000
	maxBackfillSpans = 1024
)

// Backfill has the ticks of [from, to) that have not run do so now, the earliest
// first, one after another, pace apart at least. It may reach back before the
// schedule was made; the future is not in it, and what waits for its turn already is
// left alone. Ticks that come meanwhile go before those that are backfilled. It returns
// the number of ticks.
//
// Errors: [ErrNotFound]; [ErrInvalid] for an interval, which has no ticks but those it
// had, and for more than 100,000 ticks, or so many scattered ones that they make more
// than 1,024 spans; those of every call.
func (s *Scheduler) Backfill(ctx context.Context, id string, from, to time.Time, pace time.Duration) (int, error) {
	if pace < 0 {
		return 0, fmt.Errorf("scheduler: backfill %q: pace %v: %w", id, pace, ErrInvalid)
	}
	for {
		b, n, err := s.backfill(ctx, id, nanos(from), nanos(to))
		if err != nil || n == 0 {
			return 0, err
		}
		b.Pace = int64(pace)
		res, err := s.node.Call(ctx, store.Command{Kind: store.KindBackfill, Backfill: b})
		if err != nil {
			return 0, fmt.Errorf("scheduler: backfill %q: %w", id, callError(err))
		}
		if res.Code == store.CodeConflict && ctx.Err() == nil {
			continue // the ledger has moved meanwhile
		}
		if err := resultError(res); err != nil {
			return 0, fmt.Errorf("scheduler: backfill %q: %w", id, err)
		}
		return n, nil
	}
}

// backfill returns the ticks of a range that have not run.
func (s *Scheduler) backfill(ctx context.Context, id string, lo, hi int64) (b *store.Backfill, n int, err error) {
	if err := s.reading(Linearizable(ctx)); err != nil { // the leader refuses what is asked for of an older state
		return nil, 0, err
	}
	var sc *store.Schedule
	s.node.View(func(st *store.State) { sc = st.Schedule(id) })
	if sc == nil {
		return nil, 0, fmt.Errorf("scheduler: schedule %q: %w", id, ErrNotFound)
	}
	rule, err := compileTrigger(&sc.Trigger, sc.ID)
	if err != nil {
		return nil, 0, err
	}
	wall, elapsed := s.node.Now()
	if sc.Trigger.TickClock() == store.Elapsed {
		return nil, 0, fmt.Errorf("scheduler: backfill %q: an interval has no ticks but those it had: %w", id, ErrInvalid)
	}
	if hi = min(hi, clockTime(sc.Trigger.TickClock(), wall, elapsed)+1); sc.Next != 0 {
		hi = min(hi, sc.Next)
	}
	ran := make(map[int64]bool)
	for tick, err := range s.Ticks(ctx, id, instant(max(lo, 1)), instant(max(hi, 1))) {
		switch {
		case err != nil:
			return nil, 0, err
		case tick.Outcome == TickRan:
			ran[tick.Nominal.UnixNano()] = true
		}
		if len(ran) > maxBackfill {
			return nil, 0, fmt.Errorf("scheduler: backfill %q: more than %d ticks of the range have run already: %w", id, maxBackfill, ErrInvalid)
		}
	}
	b = &store.Backfill{Schedule: id, Version: sc.Version, Before: sc.Backfills}
	open := false // the last span goes on
	for at := rule.Next(lo - 1); at != 0 && at < hi; at = rule.Next(at) {
		if ran[at] || waits(sc, at) {
			open = false
			continue
		}
		if n++; open {
			b.Spans[len(b.Spans)-1].To = at
		} else {
			b.Spans = append(b.Spans, store.Span{From: at, To: at})
		}
		open = true
		if n > maxBackfill || len(b.Spans) > maxBackfillSpans {
			return nil, 0, fmt.Errorf("scheduler: backfill %q: more than %d ticks, or %d spans: %w", id, maxBackfill, maxBackfillSpans, ErrInvalid)
		}
	}
	return b, n, nil
}

// waits reports whether a tick waits for its turn.
func waits(sc *store.Schedule, at int64) bool {
	return slices.ContainsFunc(sc.Waiting, func(w store.Wait) bool {
		return w.Kind != store.WaitManual && w.From <= at && at <= w.To
	})
}
