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
	runs := new(runReader)
	return &store.Image{
		Meta: meta,
		Runs: rowsOf(s, meta.Index, runsBucket, func(key, row []byte) (*store.Run, error) {
			return runs.read(runsBucket, key, row)
		}),
		Schedules: recordsOf[store.Schedule](s, meta.Index, schedulesBucket),
		Queues:    recordsOf[store.Queue](s, meta.Index, queuesBucket),
		Sessions:  recordsOf[store.Session](s, meta.Index, sessionsBucket),
		Uniques:   recordsOf[store.Unique](s, meta.Index, uniquesBucket),
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

// rowsOf returns a function that yields all rows of a live bucket.
func rowsOf[T any](s *Store, index uint64, bucket string, decode func(key, row []byte) (T, error)) func(func(T) error) error {
	return func(yield func(T) error) error {
		var got sum
		var after []byte
		for done := false; !done; {
			var chunk []T
			err := s.view(func(tx *bbolt.Tx) (err error) {
				if s.head.meta.Index != index {
					return fmt.Errorf("boltstore: image of index %d read after a commit of index %d", index, s.head.meta.Index)
				}
				chunk, after, err = readChunk(tx.Bucket([]byte(bucket)), after, &got, decode)
				if done = len(chunk) < chunkRows; done && err == nil && got != s.head.sums[bucket] {
					err = &CorruptError{Bucket: bucket, Reason: "its rows are not those that were written"}
				}
				if done {
					letGo(tx)
				}
				return err
			})
			if err != nil {
				return err
			}
			for _, rec := range chunk {
				if err := yield(rec); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// readChunk decodes the rows after a key, adds them to a sum and returns the last
// key.
func readChunk[T any](b *bbolt.Bucket, after []byte, got *sum, decode func(key, row []byte) (T, error)) ([]T, []byte, error) {
	c := b.Cursor()
	var k, row []byte
	if after == nil {
		k, row = c.First()
	} else if k, row = c.Seek(after); bytes.Equal(k, after) {
		k, row = c.Next()
	}
	var chunk []T
	for ; k != nil && len(chunk) < chunkRows; k, row = c.Next() {
		rec, err := decode(k, row)
		if err != nil {
			return nil, nil, err
		}
		got.add(k, row)
		chunk = append(chunk, rec)
		after = append(after[:0], k...)
	}
	return chunk, after, nil
}
