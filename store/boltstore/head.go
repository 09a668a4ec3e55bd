package boltstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"

	"go.etcd.io/bbolt"

	"github.com/escapement-go/scheduler/store"
)

// fileFormat is the newest layout of the file that this build can read and write.
const fileFormat = 1

// head is what is known of the file's content at the last commit.
type head struct {
	meta   store.Meta
	config []byte
	sums   map[string]sum // by path
	totals sum            // of the rows that hold sums
}

// layOut makes an empty state.
func layOut(tx *bbolt.Tx) error {
	for _, name := range topBuckets() {
		if _, err := tx.CreateBucket([]byte(name)); err != nil {
			return err
		}
	}
	var rows arena
	format := rows.raw(formatKey, binary.LittleEndian.AppendUint16(nil, fileFormat))
	if err := tx.Bucket([]byte(metaBucket)).Put(formatKey, format); err != nil {
		return err
	}
	return new(head).write(tx, &rows)
}

// write writes the rows of the meta and config buckets.
func (h *head) write(tx *bbolt.Tx, rows *arena) error {
	if h.config != nil {
		if err := tx.Bucket([]byte(configBucket)).Put(configKey, rows.raw(configKey, h.config)); err != nil {
			return err
		}
	}
	state, err := rows.encode(stateKey, &h.meta)
	if err != nil {
		return err
	}
	meta := tx.Bucket([]byte(metaBucket))
	if err := meta.Put(totalsKey, rows.raw(totalsKey, h.appendTotals(nil))); err != nil {
		return err
	}
	return meta.Put(stateKey, state)
}

// appendTotals appends what ties the sums and the configuration to the position.
func (h *head) appendTotals(b []byte) []byte {
	b = h.totals.append(b)
	b = append(b, 0)
	if h.config != nil {
		b[len(b)-1] = 1
	}
	b = binary.LittleEndian.AppendUint64(b, h.meta.Index)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(h.config, castagnoli))
}

// readHead reads the file's head and compares what the file has with what it
// should have.
func readHead(f *file) (head, error) {
	var h head
	err := guard(func() error {
		return f.db.View(func(tx *bbolt.Tx) (err error) {
			for _, name := range topBuckets() {
				if tx.Bucket([]byte(name)) == nil {
					return damaged("bucket %q is missing: it is not the file of a state", name)
				}
			}
			if err := readFormat(tx); err != nil {
				return err
			}
			if h.meta, err = readMetaRow(tx); err != nil {
				return err
			}
			return h.readSums(tx)
		})
	})
	if err != nil {
		return head{}, err
	}
	return h, h.compare(f.rows)
}

func readFormat(tx *bbolt.Tx) error {
	body, err := lookup(tx.Bucket([]byte(metaBucket)), metaBucket, formatKey)
	if err != nil {
		return err
	}
	if len(body) < 2 {
		return damaged("the file's format is not given")
	}
	if format := binary.LittleEndian.Uint16(body); format > fileFormat {
		return fmt.Errorf("%w: the file has format %d, this build reads up to %d", ErrNewer, format, fileFormat)
	}
	return nil
}

// readMetaRow returns the position, the zero Meta if nothing was ever committed.
func readMetaRow(tx *bbolt.Tx) (m store.Meta, err error) {
	body, err := lookup(tx.Bucket([]byte(metaBucket)), metaBucket, stateKey)
	switch {
	case err != nil:
		return m, err
	case body == nil:
		return m, &CorruptError{Bucket: metaBucket, Reason: "the position is missing"}
	}
	if _, err := m.UnmarshalMsg(body); err != nil {
		return m, &CorruptError{Bucket: metaBucket, Key: keyText(stateKey), Reason: err.Error()}
	}
	if m.Format > store.FormatLevel || m.Level > store.FormatLevel {
		return m, fmt.Errorf("%w: the state has format level %d, this build reads up to %d",
			ErrNewer, max(m.Format, m.Level), store.FormatLevel)
	}
	return m, nil
}

// readSums reads the sums, their own sum and the configuration.
func (h *head) readSums(tx *bbolt.Tx) error {
	h.sums = make(map[string]sum)
	var got sum
	err := tx.Bucket([]byte(sumsBucket)).ForEach(func(key, row []byte) error {
		body, err := open(sumsBucket, key, row)
		if err != nil {
			return err
		}
		if len(body) != sumSize {
			return &CorruptError{Bucket: sumsBucket, Key: keyText(key), Reason: "it is not a sum"}
		}
		h.sums[string(key)] = parseSum(body)
		got.add(key, row)
		return nil
	})
	if err != nil {
		return err
	}
	totals, err := lookup(tx.Bucket([]byte(metaBucket)), metaBucket, totalsKey)
	if err != nil {
		return err
	}
	if config := tx.Bucket([]byte(configBucket)).Get(configKey); config != nil {
		body, err := open(configBucket, configKey, config)
		if err != nil {
			return err
		}
		h.config = bytes.Clone(body)
	}
	if h.totals = got; !bytes.Equal(totals, h.appendTotals(nil)) {
		return &CorruptError{Bucket: sumsBucket, Reason: "the sums are not those of the position"}
	}
	return nil
}

// compare compares the rows found in each bucket with the sums.
func (h *head) compare(found map[string]uint64) error {
	found = maps.Clone(found)
	for path, sum := range h.sums {
		if found[path] != sum.rows {
			return &CorruptError{
				Bucket: pathText(path),
				Reason: fmt.Sprintf("it has %d rows and should have %d", found[path], sum.rows),
			}
		}
		delete(found, path)
	}
	for _, name := range []string{metaBucket, configBucket, sumsBucket} {
		delete(found, name) // their rows are read one by one
	}
	for path, rows := range found {
		if rows > 0 {
			return &CorruptError{Bucket: pathText(path), Reason: fmt.Sprintf("it has %d rows and should have none", rows)}
		}
	}
	return nil
}
