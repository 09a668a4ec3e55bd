package boltstore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/cespare/xxhash/v2"
	"github.com/tinylib/msgp/msgp"
)

// A row is its record's encoded form behind a checksum and a version:
//
//	crc32c of key, version and body, little endian  4 bytes
//	version                                         1 byte
//	body
const (
	rowVersion = 1
	rowHeader  = 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal fills in the header of a row whose body is in place.
func seal(key, row []byte) {
	row[4] = rowVersion
	binary.LittleEndian.PutUint32(row, rowSum(key, row))
}

func rowSum(key, row []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, row[4:])
}

// open returns the body of a row. It aliases row.
func open(bucket string, key, row []byte) ([]byte, error) {
	switch {
	case len(row) < rowHeader:
		return nil, &CorruptError{Bucket: bucket, Key: keyText(key), Reason: "row is too short"}
	case binary.LittleEndian.Uint32(row) != rowSum(key, row):
		return nil, &CorruptError{Bucket: bucket, Key: keyText(key), Reason: "checksum does not match"}
	case row[4] > rowVersion:
		return nil, fmt.Errorf("%w: bucket %q has rows of version %d, this build reads up to %d", ErrNewer, bucket, row[4], rowVersion)
	}
	return row[rowHeader:], nil
}

// record is a pointer to a record with a generated codec.
type record[T any] interface {
	*T
	msgp.Unmarshaler
}

// read decodes the record of a row. Nothing of it aliases row.
func read[T any, P record[T]](bucket string, key, row []byte) (*T, error) {
	body, err := open(bucket, key, row)
	if err != nil {
		return nil, err
	}
	rec := new(T)
	rest, err := P(rec).UnmarshalMsg(body)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes follow the record", len(rest))
	}
	if err != nil {
		return nil, &CorruptError{Bucket: bucket, Key: keyText(key), Reason: err.Error()}
	}
	return rec, nil
}

// A sum says what a bucket holds, whatever the order it came in.
type sum struct {
	rows   uint64
	bytes  uint64 // of keys and rows
	digest uint64 // sum of the rows' hashes; a row's checksum covers its key
	runs   uint64 // in the rows, where these are blocks of them
}

const sumSize = 32

func (s *sum) add(key, row []byte) {
	s.rows++
	s.bytes += uint64(len(key) + len(row))
	s.digest += xxhash.Sum64(row)
}

func (s *sum) remove(key, row []byte) {
	s.rows--
	s.bytes -= uint64(len(key) + len(row))
	s.digest -= xxhash.Sum64(row)
}

func (s *sum) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, s.rows)
	b = binary.LittleEndian.AppendUint64(b, s.bytes)
	b = binary.LittleEndian.AppendUint64(b, s.digest)
	return binary.LittleEndian.AppendUint64(b, s.runs)
}

func parseSum(b []byte) sum {
	return sum{
		rows:   binary.LittleEndian.Uint64(b),
		bytes:  binary.LittleEndian.Uint64(b[8:]),
		digest: binary.LittleEndian.Uint64(b[16:]),
		runs:   binary.LittleEndian.Uint64(b[24:]),
	}
}
