package memstore

import (
	"cmp"
	"encoding/binary"
	"iter"
	"math"
	"slices"

	"github.com/escapement-go/scheduler/store"
)

const (
	msPerHour = 3_600_000
	nsPerDay  = 86_400_000_000_000
)

func hourOf(ms int64) uint32 { return uint32(min(max(ms, 0)/msPerHour, math.MaxUint32)) }

// FinalRun returns the newest final row of a run and the segment it is in, nil if
// the history has none. A run that was taken up again is live and still has its
// older row here: callers look in memory first.
// Errors: [store.ErrClosed].
func (s *Store) FinalRun(id store.RunID) (*store.Run, store.SegmentKey, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, store.SegmentKey{}, store.ErrClosed
	}
	r, at, _ := s.kept.history.newest(store.RunSegment, hourOf(id.Time().UnixMilli()), id)
	return r, at, nil
}

// FinalRuns yields the final runs whose ID has a time from from to before to (ms
// since the Unix epoch), in the order of their IDs or against it.
func (s *Store) FinalRuns(from, to int64, newestFirst bool) iter.Seq2[*store.Run, error] {
	return func(yield func(*store.Run, error) bool) {
		low, high := runIDAt(from), runIDAt(to)
		periods, err := periodsOf(s, func(k *kept) []uint32 { return k.history.periods() })
		if err != nil {
			yield(nil, err)
			return
		}
		if newestFirst {
			slices.Reverse(periods)
		}
		for _, period := range periods {
			if period < hourOf(from) || period > hourOf(to-1) {
				continue
			}
			s.mu.Lock() // order writes
			rows := s.kept.history.between(period, low, high)
			s.mu.Unlock()
			if newestFirst {
				slices.Reverse(rows)
			}
			for _, r := range rows {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

// runIDAt is the lowest ID with the given time (ms), or one above all.
func runIDAt(ms int64) (id store.RunID) {
	if ms > 1<<48-1 {
		return store.RunID(slices.Repeat([]byte{0xff}, len(id)))
	}
	binary.BigEndian.PutUint64(id[:], uint64(max(ms, 0))<<16)
	return id
}

func periodsOf(s *Store, list func(*kept) []uint32) ([]uint32, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	return list(s.kept), nil
}

// Ticks yields the ledger rows of a schedule, by its number, that have a tick
// from from to before to (ns, nominal time), in the order of their last tick. A
// row of a span that reaches into the range is among them, and rows of backfilled
// ticks beyond it may be.
func (s *Store) Ticks(schedule uint64, from, to int64) iter.Seq2[*store.Tick, error] {
	return func(yield func(*store.Tick, error) bool) {
		periods, err := periodsOf(s, func(k *kept) []uint32 { return k.ticks.periods() })
		if err != nil {
			yield(nil, err)
			return
		}
		for _, period := range periods {
			if period < uint32(max(from, 0)/nsPerDay) {
				continue
			}
			s.mu.Lock() // order writes
			rows := s.kept.ticks.between(period, tickKey{schedule: schedule, to: from}, tickKey{schedule: schedule + 1, to: math.MinInt64})
			s.mu.Unlock()
			for _, t := range rows {
				if t.From >= to && !t.Backfill || !yield(t, nil) {
					return
				}
			}
		}
	}
}

// Versions yields the kept versions of a schedule, by its number, the oldest first.
func (s *Store) Versions(schedule uint64) iter.Seq2[*store.ScheduleVersion, error] {
	return func(yield func(*store.ScheduleVersion, error) bool) {
		s.mu.RLock()
		closed := s.closed
		var rows []*store.ScheduleVersion
		for key, v := range s.kept.versions {
			if key.Number == schedule {
				rows = append(rows, v)
			}
		}
		s.mu.RUnlock()
		if closed {
			yield(nil, store.ErrClosed)
			return
		}
		slices.SortFunc(rows, func(a, b *store.ScheduleVersion) int { return cmp.Compare(a.Version, b.Version) })
		for _, v := range rows {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// Events yields the rows of the journal from an index on, in log order. What the
// bound of the journal has dropped is not among them.
func (s *Store) Events(fromIndex uint64) iter.Seq2[store.PackedEvents, error] {
	return func(yield func(store.PackedEvents, error) bool) {
		s.mu.RLock()
		closed := s.closed
		at, _ := slices.BinarySearchFunc(s.kept.journal, fromIndex, func(e store.PackedEvents, index uint64) int {
			return int(min(max(int64(e.Index-index), -1), 1))
		})
		rows := slices.Clone(s.kept.journal[at:])
		s.mu.RUnlock()
		if closed {
			yield(store.PackedEvents{}, store.ErrClosed)
			return
		}
		for _, e := range rows {
			if !yield(e, nil) {
				return
			}
		}
	}
}
