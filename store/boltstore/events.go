package boltstore

import (
	"bytes"
	"encoding/binary"
	"iter"

	"go.etcd.io/bbolt"

	"github.com/escapement-go/scheduler/store"
)

// Events yields the rows of the journal from an index on, in log order. What the
// bound of the journal has dropped is not among them. A damaged row is yielded as
// an error with its index, and the listing goes on.
func (s *Store) Events(fromIndex uint64) iter.Seq2[store.PackedEvents, error] {
	return func(yield func(store.PackedEvents, error) bool) {
		for next, more := fromIndex, true; more; {
			var chunk []packed
			err := s.view(func(tx *bbolt.Tx) error {
				chunk = readEvents(tx.Bucket([]byte(journalBucket)), next)
				return nil
			})
			if err != nil {
				yield(store.PackedEvents{}, err)
				return
			}
			for _, e := range chunk {
				if !yield(e.PackedEvents, e.err) {
					return
				}
				next = e.Index + 1
			}
			more = len(chunk) > 0 && next != 0
		}
	}
}

type packed struct {
	store.PackedEvents
	err error
}

// readEvents reads a chunk of the journal.
func readEvents(journal *bbolt.Bucket, from uint64) (chunk []packed) {
	seek := numberKey(from)
	stretches := journal.Cursor()
	name, _ := stretches.Seek(seek)
	if !bytes.Equal(name, seek) { // the stretch before may reach into the range
		if name == nil {
			name, _ = stretches.Last()
		} else if prev, _ := stretches.Prev(); prev != nil {
			name = prev
		} else {
			name, _ = stretches.First()
		}
	}
	bytesRead := 0
	for ; name != nil; name, _ = stretches.Next() {
		path := pathText(journalBucket + "/" + string(name))
		c := journal.Bucket(name).Cursor()
		for k, row := c.Seek(seek); k != nil; k, row = c.Next() {
			var e packed
			var body []byte
			body, e.err = open(path, k, row)
			if len(k) == 8 {
				e.Index = binary.BigEndian.Uint64(k)
			}
			e.Data = bytes.Clone(body)
			chunk = append(chunk, e)
			if bytesRead += len(row); len(chunk) >= chunkRows || bytesRead >= chunkBytes {
				return chunk
			}
		}
	}
	return chunk
}

// journalBounds returns the first and the last index of the journal, 0 if it is
// empty.
func journalBounds(tx *bbolt.Tx) (first, last uint64) {
	journal := tx.Bucket([]byte(journalBucket))
	c := journal.Cursor()
	if name, _ := c.First(); name != nil {
		if k, _ := journal.Bucket(name).Cursor().First(); len(k) == 8 {
			first = binary.BigEndian.Uint64(k)
		}
	}
	if name, _ := c.Last(); name != nil {
		if k, _ := journal.Bucket(name).Cursor().Last(); len(k) == 8 {
			last = binary.BigEndian.Uint64(k)
		}
	}
	return first, last
}
