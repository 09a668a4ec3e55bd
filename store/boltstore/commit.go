package boltstore

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/escapement-go/scheduler/store"
)

// Commit makes a flush durable, with the configuration as of its index (nil: it
// has not changed). Either all of it is stored or nothing.
//
// After an error the store answers as before the call, and the same flush can be
// committed again: a repetition of one that was stored after all changes nothing.
// What became of a write or fsync that failed is not guessed: the file is opened
// again from disk first. The flush and its records are not kept.
//
// Errors: a *[CommitError] that wraps the cause, [ErrBehind], [ErrClosed].
func (s *Store) Commit(f *store.Flush, configuration []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.commit(f, configuration); err != nil {
		return &CommitError{Index: f.Meta.Index, Err: err}
	}
	return nil
}

func (s *Store) commit(f *store.Flush, configuration []byte) error {
	if s.retry {
		if err := s.reopen(false); err != nil {
			return err
		}
	}
	if s.file == nil { // only changed by who holds writing
		return s.err
	}
	next := head{meta: f.Meta, config: s.head.config, totals: s.head.totals}
	if configuration != nil {
		next.config = bytes.Clone(configuration)
	}
	known := s.head.meta.Format != 0
	switch {
	case known && f.Meta.Index < s.head.meta.Index:
		return ErrBehind
	case known && f.Meta.Index == s.head.meta.Index:
		if bytes.Equal(next.config, s.head.config) {
			return nil
		}
		f = &store.Flush{Meta: s.head.meta}
		next.meta = s.head.meta
	}
	changed, stuck, err := s.write(f, &next)
	if err != nil {
		s.retry = true
		_ = s.reopen(stuck) // if it fails, the next commit tries again
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next.sums = s.head.sums
	for path, t := range changed {
		if t == nil {
			delete(next.sums, path)
		} else {
			next.sums[path] = *t
		}
	}
	s.head = next
	return nil
}

// letGoEvery is after how many commits the pages that they have read are let go:
// often enough for memory, and so seldom that mapping them again costs nothing.
const letGoEvery = 16

// write writes a flush in one transaction and returns the sums it changed, nil
// for those of dropped buckets. stuck tells that bbolt's locks are lost: a fault
// left the transaction where it can neither go on nor back.
func (s *Store) write(f *store.Flush, next *head) (changed map[string]*sum, stuck bool, err error) {
	s.rows.reset()
	w := &writer{
		rows: &s.rows, known: s.head.sums, next: next,
		tables: make(map[string]*table), journalBytes: s.opts.JournalBytes,
	}
	err = guard(func() error {
		tx, err := s.file.db.Begin(true)
		if err != nil {
			return err
		}
		defer func() { // after Commit it only says that it is over
			_, stuck = errors.AsType[*faultError](guard(tx.Rollback))
		}()
		w.tx = tx
		if err := w.flush(f); err != nil {
			return err
		}
		if s.commits++; s.commits%letGoEvery == 0 {
			letGo(tx)
		}
		return tx.Commit()
	})
	if err != nil {
		return nil, stuck, err
	}
	s.rows.trim()
	changed = make(map[string]*sum, len(w.tables))
	for path, t := range w.tables {
		if t == nil {
			changed[path] = nil
		} else {
			changed[path] = &t.sum
		}
	}
	return changed, false, nil
}

// A writer writes one flush.
type writer struct {
	tx    *bbolt.Tx
	rows  *arena
	known map[string]sum // before this transaction
	next  *head
	// tables are those used so far, by path; nil: dropped.
	tables       map[string]*table
	journalBytes int64
}

func (w *writer) flush(f *store.Flush) error {
	if err := w.drop(f); err != nil {
		return err
	}
	for _, step := range []func(*store.Flush) error{w.runs, w.live, w.ticks, w.events} {
		if err := step(f); err != nil {
			return err
		}
	}
	if err := w.sums(); err != nil {
		return err
	}
	return w.next.write(w.tx, w.rows)
}

// table returns the table at path, made if there is none.
func (w *writer) table(path string, fill float64) (*table, error) {
	if t := w.tables[path]; t != nil {
		return t, nil
	}
	parent, child := split(path)
	b := w.tx.Bucket([]byte(parent))
	if child != "" {
		var err error
		if b, err = b.CreateBucketIfNotExists([]byte(child)); err != nil {
			return nil, err
		}
	}
	b.FillPercent = fill
	t := &table{b: b, sum: w.known[path]}
	if last, gone := w.tables[path]; gone && last == nil {
		t.sum = sum{}
	}
	if k, _ := b.Cursor().Last(); k != nil {
		t.last = bytes.Clone(k)
	}
	w.tables[path] = t
	return t, nil
}

// drop drops the segments that the flush says are gone.
func (w *writer) drop(f *store.Flush) error {
	for _, key := range f.Dropped {
		if err := w.dropBucket(segmentPath(key)); err != nil {
			return err
		}
	}
	for key, seg := range f.Segments {
		if seg == nil {
			if err := w.dropBucket(segmentPath(key)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *writer) dropBucket(path string) error {
	parent, child := split(path)
	err := w.tx.Bucket([]byte(parent)).DeleteBucket([]byte(child))
	if err != nil && !errors.Is(err, berrors.ErrBucketNotFound) {
		return err
	}
	w.tables[path] = nil
	return nil
}

// sums writes the sums of the tables that were used.
func (w *writer) sums() error {
	t := &table{b: w.tx.Bucket([]byte(sumsBucket)), sum: w.next.totals, last: []byte{0xff}}
	for _, path := range slices.Sorted(maps.Keys(w.tables)) {
		key := []byte(path)
		var err error
		if used := w.tables[path]; used == nil {
			err = t.delete(key)
		} else {
			err = t.put(key, w.rows.raw(key, used.sum.append(nil)))
		}
		if err != nil {
			return err
		}
	}
	w.next.totals = t.sum
	return nil
}
