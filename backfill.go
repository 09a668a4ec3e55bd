package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/escapement-go/scheduler/store"
)

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
// Errors: [ErrNotFound]; [ErrInvalid] for an empty range, for an interval, which has no ticks but those it
// had, and for more than 100,000 ticks, or so many scattered ones that they make more
// than 1,024 spans; [ErrTriggerUnavailable]; those of every call.
func (s *Scheduler) Backfill(ctx context.Context, id string, from, to time.Time, pace time.Duration) (int, error) {
	if pace < 0 {
		return 0, fmt.Errorf("scheduler: backfill %q: pace %v: %w", id, pace, ErrInvalid)
	}
	if !from.Before(to) {
		return 0, fmt.Errorf("scheduler: backfill %q: no time is between %v and %v: %w", id, from, to, ErrInvalid)
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
	sc, rule, err := s.meaning(ctx, id)
	if err == nil && sc.Deleted != 0 {
		err = fmt.Errorf("scheduler: schedule %q: %w", id, ErrNotFound)
	}
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
	ledger, err := s.openBook(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	for tick, err := range ledger.own(ctx, max(lo, 1), max(hi, 1)) {
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
	if err := rule.Err(); err != nil {
		return nil, 0, fmt.Errorf("scheduler: backfill %q: %w", id, err)
	}
	return b, n, nil
}

// waits reports whether a tick waits for its turn.
func waits(sc *store.Schedule, at int64) bool {
	return slices.ContainsFunc(sc.Waiting, func(w store.Wait) bool {
		return w.Kind != store.WaitManual && w.From <= at && at <= w.To
	})
}
