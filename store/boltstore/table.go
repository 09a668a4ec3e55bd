package boltstore

import (
	"bytes"

	"go.etcd.io/bbolt"
)

// A table is a bucket in a transaction, with its sum.
type table struct {
	b    *bbolt.Bucket
	sum  sum
	last []byte // no key is above it; nil if there is no key
}

// put stores a row. The row must not change while the transaction lasts.
func (t *table) put(key, row []byte) error {
	if bytes.Compare(key, t.last) > 0 {
		t.last = append(t.last[:0], key...)
	} else if old := t.b.Get(key); old != nil {
		t.sum.remove(key, old)
	}
	t.sum.add(key, row)
	return t.b.Put(key, row)
}

// delete deletes the row, if there is one.
func (t *table) delete(key []byte) error {
	if bytes.Compare(key, t.last) > 0 {
		return nil
	}
	old := t.b.Get(key)
	if old == nil {
		return nil
	}
	t.sum.remove(key, old)
	return t.b.Delete(key)
}
