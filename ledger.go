package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/escapement-go/scheduler/internal/trigger"
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
// [ErrNotFound]; [ErrTriggerUnavailable] within a span of ticks that fared alike; what
// retention has dropped is absent.
func (s *Scheduler) Ticks(ctx context.Context, id string, from, to time.Time) iter.Seq2[Tick, error] {
	lo, hi := max(nanos(from), 0), int64(math.MaxInt64)
	if !to.IsZero() {
		hi = nanos(to)
	}
	return func(yield func(Tick, error) bool) {
		b, err := s.openBook(ctx, id)
		if err != nil {
			yield(Tick{}, err)
			return
		}
		b.ticks(ctx, lo, hi, yield)
	}
}

// A book is the ledger of a schedule, with what takes it apart.
type book struct {
	s    *Scheduler
	sc   *store.Schedule // what is left of it, if it was deleted
	rule *trigger.Rule   // nil if this node cannot evaluate the trigger; then fault says why
	loc  *time.Location

	fault         error
	wall, elapsed int64
	unflushed     map[rowKey]*store.Tick // a later row takes the place of an earlier one
}

func (s *Scheduler) openBook(ctx context.Context, id string) (*book, error) {
	if err := s.reading(ctx); err != nil {
		return nil, err
	}
	b := &book{s: s, loc: time.UTC, unflushed: make(map[rowKey]*store.Tick)}
	var env trigger.Env
	s.node.View(func(st *store.State) {
		if b.sc = remembered(st, id); b.sc == nil {
			return
		}
		env = s.env(st, b.sc, s.asker.Query(ctx))
		own, other := b.sc.Ledgers()
		for t := range st.UnflushedTicks() {
			if t.Schedule == own || t.Schedule == other && other != 0 {
				b.unflushed[keyOf(t)] = t
			}
		}
	})
	if b.sc == nil {
		return nil, fmt.Errorf("scheduler: schedule %q: %w", id, ErrNotFound)
	}
	b.wall, b.elapsed = s.node.Now()
	if b.rule, b.fault = compileTrigger(&b.sc.Trigger, env); b.rule != nil {
		b.loc = b.rule.Location()
	}
	if t := b.undecided(ctx); t != nil {
		b.unflushed[keyOf(t)] = t
	}
	if b.rule != nil && b.rule.Err() != nil {
		b.rule, b.fault = nil, b.rule.Err()
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("scheduler: schedule %q: %w", id, err)
	}
	return b, nil
}

// now returns the present time of the schedule's clock.
func (b *book) now() int64 { return clockTime(b.sc.Trigger.TickClock(), b.wall, b.elapsed) }

// undecided returns the row that tells of ticks whose time has come and that stay
// undecided: the schedule is paused, or its trigger cannot be evaluated. nil if there
// are none.
func (b *book) undecided(ctx context.Context) *store.Tick {
	sc := b.sc
	if sc.Next == 0 || sc.Next > b.now() {
		return nil
	}
	own, _ := sc.Ledgers()
	t := &store.Tick{Schedule: own, Version: sc.Version, From: sc.Next, To: sc.Next, Decided: b.wall}
	switch {
	case sc.Paused:
		t.Outcome, t.Reason = TickPaused, "the schedule is paused"
		if b.rule != nil {
			t.To = b.rule.Last(sc.Next, b.now())
		}
		return t
	case sc.Trigger.Kind == store.TriggerCustom:
		t.Reason = b.s.askWaits(ctx, sc.ID)
	case b.rule == nil:
		t.Reason = b.fault.Error()
	}
	if t.Reason == "" {
		return nil
	}
	t.Outcome = TickBlocked
	return t
}

// ticks yields the ticks with a nominal time from lo on and before hi: those of both
// clocks if the trigger was on the other one before; of two alike, those of its own clock
// come last.
func (b *book) ticks(ctx context.Context, lo, hi int64, yield func(Tick, error) bool) {
	own, other := b.sc.Ledgers()
	if other == 0 {
		b.ledger(ctx, own, lo, hi, yield)
		return
	}
	next, stop := iter.Pull2(func(yield func(Tick, error) bool) { b.ledger(ctx, other, lo, hi, yield) })
	defer stop()
	before, err, more := next()
	for tick, fault := range b.own(ctx, lo, hi) {
		for more && (err != nil || fault != nil || !before.Nominal.After(tick.Nominal)) {
			if !yield(before, err) {
				return
			}
			before, err, more = next()
		}
		if !yield(tick, fault) {
			return
		}
	}
	for ; more; before, err, more = next() {
		if !yield(before, err) {
			return
		}
	}
}

// own yields the ticks on the clock of the trigger alone.
func (b *book) own(ctx context.Context, lo, hi int64) iter.Seq2[Tick, error] {
	own, _ := b.sc.Ledgers()
	return func(yield func(Tick, error) bool) { b.ledger(ctx, own, lo, hi, yield) }
}

// ledger yields the ticks that are recorded under a number.
func (b *book) ledger(ctx context.Context, number uint64, lo, hi int64, yield func(Tick, error) bool) {
	r := ledgerReader{book: b, from: lo, to: hi, yield: yield}
	for row, err := range mergeTicks(b.s.storage.Ticks(number, lo, hi), b.unflushed, number, lo, hi) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			yield(Tick{}, fmt.Errorf("scheduler: ticks of %q: %w", b.sc.ID, storageError(err)))
			return
		}
		if !r.row(row) {
			return
		}
	}
	r.flush(math.MaxInt64)
}

// rowKey identifies a row of a schedule's ledgers.
type rowKey struct {
	ledger   uint64
	to       int64
	backfill bool
}

func keyOf(t *store.Tick) rowKey { return rowKey{t.Schedule, t.To, t.Backfill} }

func (a rowKey) less(b rowKey) bool { return a.to < b.to || a.to == b.to && !a.backfill && b.backfill }

// mergeTicks merges rows from disk, of a ledger, with those that may be on their way to
// it, which take the place of rows with the same key.
func mergeTicks(disk iter.Seq2[*store.Tick, error], unflushed map[rowKey]*store.Tick, number uint64, lo, hi int64) iter.Seq2[*store.Tick, error] {
	var recent []*store.Tick
	for _, t := range unflushed {
		if t.Schedule == number && t.To >= lo && t.From < hi {
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
	book     *book
	from, to int64
	yield    func(Tick, error) bool

	fault    error         // why a row could not be taken apart up to its end
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
		if r.fault != nil {
			r.yield(Tick{}, fmt.Errorf("scheduler: ticks of %q: %w", r.book.sc.ID, r.fault))
			return false
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
		Nominal: instant(at).In(r.book.loc), Outcome: row.Outcome, Reason: row.Reason, Run: row.Run, Version: int(row.Version),
		Decided: instant(row.Decided), Late: time.Duration(row.Late), Backfilled: row.Backfill,
	}
	if row.To != row.From && !r.apart(row) {
		t.Until = instant(row.To).In(r.book.loc)
	}
	return t
}

// apart reports whether the rule knows the ticks of a row.
func (r *ledgerReader) apart(row *store.Tick) bool {
	return r.book.rule != nil && row.Version >= r.book.sc.Since
}

// ticks yields the ticks of a row that are in the range; the first one alone if the
// row cannot be taken apart.
func (r *ledgerReader) ticks(row *store.Tick) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		if row.From == row.To || !r.apart(row) {
			yield(row.From)
			return
		}
		rule, at := r.book.rule, row.From
		if r.book.sc.Trigger.TickClock() == store.Wall {
			at = rule.Next(at - 1) // a pause over ticks that were decided before is cut at them, not at ticks
		}
		if at == 0 && r.book.sc.Trigger.Kind == store.TriggerCustom { // it does not answer, or contradicts itself
			r.book.rule, r.book.fault = nil, cmp.Or(rule.Err(), errContradicts)
			yield(row.From)
			return
		}
		if at != 0 && at < r.from {
			if at = rule.Last(at, r.from); at < r.from {
				at = rule.Next(at)
			}
		}
		for ; at != 0 && at <= row.To && at < r.to; at = rule.Next(at) {
			if !yield(at) {
				return
			}
		}
		if at == 0 {
			r.fault = rule.Err()
		}
	}
}

// errContradicts tells of a Go trigger that does not know ticks that it had.
var errContradicts = errors.New("the trigger does not know ticks that it had")
