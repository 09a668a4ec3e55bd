package boltstore

import (
	"bytes"
	"iter"

	"go.etcd.io/bbolt"

	"github.com/escapement-go/scheduler/store"
)

// Versions yields the kept versions of a schedule, by its number, the oldest first.
// They are few, and read in one transaction.
// Errors: [ErrCorrupt], [ErrClosed].
func (s *Store) Versions(schedule uint64) iter.Seq2[*store.ScheduleVersion, error] {
	return func(yield func(*store.ScheduleVersion, error) bool) {
		var rows []*store.ScheduleVersion
		prefix := numberKey(schedule)
		err := s.view(func(tx *bbolt.Tx) error {
			c := tx.Bucket([]byte(versionsBucket)).Cursor()
			for k, row := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, row = c.Next() {
				v, err := read[store.ScheduleVersion](versionsBucket, k, row)
				if err != nil {
					return err
				}
				rows = append(rows, v)
			}
			return nil
		})
		if err != nil {
			yield(nil, err)
			return
		}
		for _, v := range rows {
			if !yield(v, nil) {
				return
			}
		}
	}
}
