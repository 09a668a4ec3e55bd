package boltstore

import (
	"iter"
	"math"

	"github.com/escapement-go/scheduler/store"
)

// nsPerDay is the length of a period of the ledger.
const nsPerDay = 86_400_000_000_000

// Ticks yields the ledger rows of a schedule, by its number, that have a tick
// from from to before to (ns, nominal time), in the order of their last tick. A
// row of a span that reaches into the range is among them, and rows of backfilled
// ticks beyond it may be. A damaged row is
// yielded as an error in its place, and the listing goes on.
func (s *Store) Ticks(schedule uint64, from, to int64) iter.Seq2[*store.Tick, error] {
	return func(yield func(*store.Tick, error) bool) {
		low := tickKey(schedule, from, false)
		l := &listing[store.Tick]{
			s: s, parent: ticksBucket, low: low[:],
			period: dayOf(from), last: math.MaxUint32, // a span is where its end is
		}
		if schedule < math.MaxUint64 {
			high := tickKey(schedule+1, math.MinInt64, false)
			l.high = high[:]
		}
		l.decode = func(p *part) (*store.Tick, bool, error) {
			t, err := read[store.Tick](pathText(p.path), p.k, p.row)
			return t, err != nil || t.From < to || t.Backfill, err
		}
		if from < to {
			l.each(yield)
		}
	}
}

func dayOf(ns int64) uint32 { return uint32(max(ns, 0) / nsPerDay) }
