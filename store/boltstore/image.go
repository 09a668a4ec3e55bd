package boltstore

import (
	"bytes"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/escapement-go/scheduler/store"
)

// chunkRows and chunkBytes bound what a listing reads in one transaction.
const (
	chunkRows  = 1024
	chunkBytes = 1 << 20
)

// Image returns the whole state as of the last commit; its Meta is zero if there
// was none. Its functions read when they are called, and fail if a commit has
// come between. They check every row, and each bucket as a whole.
//
// Errors, also of the image's functions: [ErrCorrupt], [ErrClosed].
func (s *Store) Image() (*store.Image, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.file == nil {
		return nil, s.err
	}
	meta := s.head.meta
	return &store.Image{
		Meta:      meta,
		Runs:      runsOf(s, meta.Index),
		Schedules: recordsOf[store.Schedule](s, meta.Index, schedulesBucket),
		Queues:    recordsOf[store.Queue](s, meta.Index, queuesBucket),
		Sessions:  recordsOf[store.Session](s, meta.Index, sessionsBucket),
		Uniques:   recordsOf[store.Unique](s, meta.Index, uniquesBucket),
		Calendars: recordsOf[store.Calendar](s, meta.Index, calendarsBucket),
		Segments:  recordsOf[store.Segment](s, meta.Index, segmentsBucket),
		Tasks: rowsOf(s, meta.Index, tasksBucket, func(key, row []byte) (string, error) {
			name, err := open(tasksBucket, key, row)
			return string(name), err
		}),
	}, nil
}

func recordsOf[T any, P record[T]](s *Store, index uint64, bucket string) func(func(*T) error) error {
	return rowsOf(s, index, bucket, func(key, row []byte) (*T, error) { return read[T, P](bucket, key, row) })
}

// runsOf returns a function that yields all live runs.
func runsOf(s *Store, index uint64) func(func(*store.Run) error) error {
	runs := new(runReader)
	var block []packedRun
	blocks := rowsOf(s, index, runsBucket, func(key, row []byte) (recs []*store.Run, err error) {
		if block, err = openBlock(block[:0], runsBucket, key, row); err != nil {
			return nil, err
		}
		recs = make([]*store.Run, len(block))
		for i := range block {
			if recs[i], err = runs.read(runsBucket, &block[i]); err != nil {
				return nil, err
			}
		}
		return recs, nil
	})
	return func(yield func(*store.Run) error) error {
		return blocks(func(recs []*store.Run) error {
			for _, r := range recs {
				if err := yield(r); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// rowsOf returns a function that yields what decode makes of each row of a live
// bucket.
func rowsOf[T any](s *Store, index uint64, bucket string, decode func(key, row []byte) (T, error)) func(func(T) error) error {
	return func(yield func(T) error) error {
		r := rowReader[T]{decode: decode}
		for !r.done {
			err := s.view(func(tx *bbolt.Tx) error {
				if s.head.meta.Index != index {
					return fmt.Errorf("boltstore: image of index %d read after a commit of index %d", index, s.head.meta.Index)
				}
				if err := r.read(tx.Bucket([]byte(bucket))); err != nil || !r.done {
					return err
				}
				letGo(tx)
				want := s.head.sums[bucket]
				if want.runs = 0; r.sum != want {
					return &CorruptError{Bucket: bucket, Reason: "its rows are not those that were written"}
				}
				return nil
			})
			if err != nil {
				return err
			}
			for _, rec := range r.chunk {
				if err := yield(rec); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// A rowReader reads the rows of a bucket, a chunk at a time.
type rowReader[T any] struct {
	decode func(key, row []byte) (T, error)
	chunk  []T
	sum    sum    // of the rows so far
	after  []byte // the last key; nil: none yet
	done   bool
}

func (r *rowReader[T]) read(b *bbolt.Bucket) error {
	c := b.Cursor()
	k, row := c.First()
	if r.after != nil {
		if k, row = c.Seek(r.after); bytes.Equal(k, r.after) {
			k, row = c.Next()
		}
	}
	clear(r.chunk) // it is not the chunk that is to keep the records
	r.chunk = r.chunk[:0]
	for bytesRead := 0; k != nil && len(r.chunk) < chunkRows && bytesRead < chunkBytes; k, row = c.Next() {
		rec, err := r.decode(k, row)
		if err != nil {
			return err
		}
		r.sum.add(k, row)
		r.chunk = append(r.chunk, rec)
		r.after = append(r.after[:0], k...)
		bytesRead += len(row)
	}
	r.done = k == nil
	return nil
}
