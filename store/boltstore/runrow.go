package boltstore

import (
	"bytes"

	"github.com/tinylib/msgp/msgp"

	"github.com/escapement-go/scheduler/store"
)

// runHead is how the body of a run's row begins: a map of at most 15 fields, of
// which the ID is the first and the spec the second.
var (
	runIDField = []byte{0xa1, 'i', 0xc4, 16}
	specField  = []byte{0xa1, 'p'}
)

// A runReader decodes the rows of runs. Rows of one task have equal specs, which
// it decodes once. Not safe for concurrent use.
type runReader struct {
	specs store.Specs
	body  []byte
}

func (d *runReader) read(bucket string, key, row []byte) (*store.Run, error) {
	body, err := open(bucket, key, row)
	if err != nil {
		return nil, err
	}
	without, raw, ok := d.cut(body)
	if !ok {
		r, err := read[store.Run](bucket, key, row)
		if err == nil && r.Spec == nil {
			return nil, &CorruptError{Bucket: bucket, Key: keyText(key), Reason: "the run has no spec"}
		}
		return r, err
	}
	r := new(store.Run)
	if r.Spec, err = d.specs.Intern(raw); err == nil {
		_, err = r.UnmarshalMsg(without)
	}
	if err != nil {
		return nil, &CorruptError{Bucket: bucket, Key: keyText(key), Reason: err.Error()}
	}
	return r, nil
}

// cut takes the spec out of a run's body. It does not apply to a body that
// begins otherwise, and the caller decodes that as a whole.
func (d *runReader) cut(body []byte) (without, spec []byte, ok bool) {
	const idEnd = 1 + 4 + 16
	if len(body) < idEnd || body[0]&0xf0 != 0x80 || body[0] < 0x82 || !bytes.HasPrefix(body[1:], runIDField) {
		return nil, nil, false
	}
	rest, found := bytes.CutPrefix(body[idEnd:], specField)
	if !found {
		return nil, nil, false
	}
	spec, rest, err := msgp.ReadBytesZC(rest)
	if err != nil {
		return nil, nil, false
	}
	d.body = append(d.body[:0], body[:idEnd]...)
	d.body[0]--
	d.body = append(d.body, rest...)
	return d.body, spec, true
}
