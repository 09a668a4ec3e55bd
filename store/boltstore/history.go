package boltstore

import (
	"bytes"
	"iter"
	"math"

	"go.etcd.io/bbolt"

	"github.com/escapement-go/scheduler/store"
)

// msPerHour is the length of a period of the history.
const msPerHour = 3_600_000

// FinalRun returns the newest final row of a run and the segment it is in, nil if
// the history has none. A run that was taken up again is live and still has its
// older row here: callers look in memory first.
// Errors: [ErrCorrupt] if the block it is in, or should be, is damaged;
// [ErrClosed].
func (s *Store) FinalRun(id store.RunID) (run *store.Run, at store.SegmentKey, err error) {
	hour := hourOf(id.Time().UnixMilli())
	err = s.view(func(tx *bbolt.Tx) error {
		for _, p := range partsOf(tx.Bucket([]byte(historyBucket)), historyBucket, hour) {
			packed, err := findRun(p.b, p.path, id[:])
			if err != nil {
				return err
			}
			if packed == nil {
				continue
			}
			run, err = new(runReader).read(p.path, packed)
			at = store.SegmentKey{Kind: store.RunSegment, Time: hour, Part: p.number}
			return err
		}
		return nil
	})
	if err != nil {
		return nil, store.SegmentKey{}, err
	}
	return run, at, nil
}

func hourOf(ms int64) uint32 { return uint32(min(max(ms, 0)/msPerHour, math.MaxUint32)) }

// FinalRuns yields the final runs whose ID has a time from from to before to (ms
// since the Unix epoch), in the order of their IDs or against it. In the place of
// a damaged block of runs an error is yielded, at times twice, and the listing
// goes on.
// Cost: O(rows yielded); it reads about a thousand rows at a time.
func (s *Store) FinalRuns(from, to int64, newestFirst bool) iter.Seq2[*store.Run, error] {
	return func(yield func(*store.Run, error) bool) {
		low, high := runKeyAt(from), runKeyAt(to)
		l := &listing[store.Run]{
			s: s, parent: historyBucket, reverse: newestFirst,
			low: low[:], high: high[:], period: hourOf(from), last: hourOf(to - 1),
		}
		if to > 1<<48-1 {
			l.high = nil
		}
		if newestFirst {
			l.period, l.last = l.last, l.period
		}
		runs := new(runReader)
		l.decode = func(p *part) (*store.Run, bool, error) {
			if p.err != nil {
				return nil, true, p.err
			}
			r, err := runs.read(p.path, &p.block[p.at])
			return r, true, err
		}
		if from < to {
			l.each(yield)
		}
	}
}

// A listing reads the rows of a group, or the runs in them, in the order of their
// periods and keys.
type listing[T any] struct {
	s         *Store
	parent    string
	reverse   bool
	low, high []byte // keys, closed and open; high nil: no bound
	period    uint32 // where to go on
	last      uint32
	// decode decodes a row; more is false if no later one is wanted, this one
	// included.
	decode func(p *part) (rec *T, more bool, err error)

	found []found[T]
	done  bool
}

type found[T any] struct {
	rec *T
	err error
}

func (l *listing[T]) each(yield func(*T, error) bool) {
	for !l.done {
		l.found = l.found[:0]
		if err := l.s.view(l.chunk); err != nil {
			yield(nil, err)
			return
		}
		for _, f := range l.found {
			if !yield(f.rec, f.err) {
				return
			}
		}
	}
}

// chunk reads on until the chunk is full or nothing is left.
func (l *listing[T]) chunk(tx *bbolt.Tx) error {
	group := tx.Bucket([]byte(l.parent))
	bytesRead := 0
	for !l.done {
		period, ok := nextPeriod(group, l.period, l.reverse)
		if !ok || !l.reverse && period > l.last || l.reverse && period < l.last {
			l.done = true
			return nil
		}
		full := false
		merge(partsOf(group, l.parent, period), l.low, l.high, l.reverse, func(p *part) bool {
			rec, more, err := l.decode(p)
			if !more {
				l.done = true
				return false
			}
			l.found = append(l.found, found[T]{rec, err})
			if p.err == nil {
				l.resume(p.k)
				bytesRead += len(p.row)
			}
			full = len(l.found) >= chunkRows || bytesRead >= chunkBytes
			return !full
		})
		if full || l.done {
			l.period = period
			return nil
		}
		switch {
		case period == l.last:
			l.done = true
		case l.reverse:
			l.period = period - 1
		default:
			l.period = period + 1
		}
	}
	return nil
}

// resume makes the listing go on after a key.
func (l *listing[T]) resume(key []byte) {
	if l.reverse {
		l.high = bytes.Clone(key)
	} else {
		l.low = append(bytes.Clone(key), 0)
	}
}
