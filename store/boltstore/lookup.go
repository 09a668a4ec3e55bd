package boltstore

import (
	"bytes"

	"go.etcd.io/bbolt"
)

// lookup returns the body of a row, nil if there is none. It is valid until the
// transaction ends.
//
// A row whose key was damaged is not found under it, but then it stands where the
// key would: between its neighbours, since the order of keys was checked. So
// before a row is called absent, its neighbours must be intact.
func lookup(b *bbolt.Bucket, path string, key []byte) ([]byte, error) {
	c := b.Cursor()
	k, row := c.Seek(key)
	if bytes.Equal(k, key) {
		return open(pathText(path), k, row)
	}
	if k != nil {
		if _, err := open(pathText(path), k, row); err != nil {
			return nil, err
		}
		k, row = c.Prev()
	} else {
		k, row = c.Last()
	}
	if k != nil {
		if _, err := open(pathText(path), k, row); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
