package boltstore

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/tinylib/msgp/msgp"

	"github.com/escapement-go/scheduler/store"
)

// The runs of a bucket are packed into blocks: a block holds those from its key,
// which is the ID of its first run, to before the next block's. bbolt handles a
// block like one row, and runs of one task share the bytes of their spec.
//
//	number of specs        uvarint
//	specs                  each a msgp binary
//	number of runs         uvarint
//	runs, ordered by ID    number of the spec, length: uvarints; the run, its spec left nil
//
// A run that is larger than a block is to be has one of its own.
const (
	// blockBytes is the size of a block, at most. Two of them, which is the least
	// that bbolt keeps together, fill two pages of 4 KiB. Larger ones are written
	// a little faster in the order of IDs; but a change among older runs writes
	// all of a block again, and its neighbor.
	blockBytes = 4000
	// maxBlockSpecs is among how many specs an equal one is looked for.
	maxBlockSpecs = 16
)

// A packedRun is a run in a block.
type packedRun struct {
	id   []byte // in body
	spec []byte
	body []byte
}

// size is what the run takes in a block, without its spec.
func (r *packedRun) size() int { return len(r.body) + 4 }

// runIDField is what stands before the ID, which is a run's first field.
var runIDField = []byte{0xa1, 'i', 0xc4, byte(len(store.RunID{}))}

// bodyID returns the ID in an encoded run, nil if it does not begin with one.
func bodyID(body []byte) []byte {
	const map16 = 0xde
	head := 1
	if len(body) > 0 && body[0] == map16 {
		head = 3
	}
	id, found := bytes.CutPrefix(body[min(head, len(body)):], runIDField)
	if !found || len(id) < len(store.RunID{}) {
		return nil
	}
	return id[:len(store.RunID{})]
}

// A blockWriter packs a block.
type blockWriter struct {
	specs [][]byte
	runs  []byte
	block []byte
}

// pack returns the body of a block of the runs. It is valid until the next call.
func (w *blockWriter) pack(runs []packedRun) []byte {
	w.specs, w.runs = w.specs[:0], w.runs[:0]
	for i := range runs {
		w.runs = binary.AppendUvarint(w.runs, uint64(w.spec(runs[i].spec)))
		w.runs = binary.AppendUvarint(w.runs, uint64(len(runs[i].body)))
		w.runs = append(w.runs, runs[i].body...)
	}
	b := binary.AppendUvarint(w.block[:0], uint64(len(w.specs)))
	for _, spec := range w.specs {
		b = append(b, spec...)
	}
	b = binary.AppendUvarint(b, uint64(len(runs)))
	w.block = append(b, w.runs...)
	return w.block
}

// spec returns the number of a spec in the block.
func (w *blockWriter) spec(spec []byte) int {
	for i := len(w.specs) - 1; i >= max(0, len(w.specs)-maxBlockSpecs); i-- {
		if bytes.Equal(w.specs[i], spec) {
			return i
		}
	}
	w.specs = append(w.specs, spec)
	return len(w.specs) - 1
}

// openBlock appends the runs of the block with the given key and row. They alias
// row. Errors: [ErrCorrupt], [ErrNewer].
func openBlock(runs []packedRun, path string, key, row []byte) ([]packedRun, error) {
	body, err := open(pathText(path), key, row)
	if err != nil {
		return runs, err
	}
	first := len(runs)
	runs, err = unpack(runs, body)
	if err == nil && (len(runs) == first || !bytes.Equal(runs[first].id, key)) {
		err = errBlock
	}
	if err != nil {
		return runs, &CorruptError{Bucket: pathText(path), Key: keyText(key), Reason: err.Error()}
	}
	return runs, nil
}

var errBlock = errors.New("it is not a block of runs")

func unpack(runs []packedRun, b []byte) ([]packedRun, error) {
	count, b, err := cutUvarint(b)
	if err != nil || count > uint64(len(b)) {
		return runs, errBlock
	}
	specs := make([][]byte, count)
	for i := range specs {
		rest, err := msgp.Skip(b)
		if err != nil {
			return runs, errBlock
		}
		specs[i], b = b[:len(b)-len(rest)], rest
	}
	if count, b, err = cutUvarint(b); err != nil {
		return runs, err
	}
	for range count {
		var spec, size uint64
		if spec, b, err = cutUvarint(b); err != nil {
			return runs, err
		}
		if size, b, err = cutUvarint(b); err != nil {
			return runs, err
		}
		if spec >= uint64(len(specs)) || size > uint64(len(b)) {
			return runs, errBlock
		}
		r := packedRun{spec: specs[spec], body: b[:size:size]}
		if r.id = bodyID(r.body); r.id == nil {
			return runs, errBlock
		}
		runs, b = append(runs, r), b[size:]
	}
	if len(b) > 0 {
		return runs, errBlock
	}
	return runs, nil
}

func cutUvarint(b []byte) (uint64, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, errBlock
	}
	return v, b[n:], nil
}

// A runReader decodes runs. Equal specs are decoded once. Not safe for concurrent
// use.
type runReader struct {
	specs store.Specs
	raw   []byte // of spec
	spec  *store.Spec
}

// read decodes a run. Nothing of it aliases p. Errors: [ErrCorrupt].
func (d *runReader) read(path string, p *packedRun) (*store.Run, error) {
	r := new(store.Run)
	err := d.decodeSpec(p.spec)
	if err == nil {
		var rest []byte
		if rest, err = r.UnmarshalMsg(p.body); err == nil && len(rest) > 0 {
			err = errBlock
		}
	}
	if err != nil {
		return nil, &CorruptError{Bucket: pathText(path), Key: keyText(p.id), Reason: err.Error()}
	}
	r.Spec = d.spec
	return r, nil
}

// decodeSpec makes spec that which is packed in b; mostly it is the last one again.
func (d *runReader) decodeSpec(b []byte) error {
	if d.spec != nil && bytes.Equal(b, d.raw) {
		return nil
	}
	raw, rest, err := msgp.ReadBytesZC(b)
	if err == nil && len(rest) > 0 {
		err = errBlock
	}
	if err != nil {
		return err
	}
	spec, err := d.specs.Intern(raw)
	if err == nil {
		d.raw, d.spec = append(d.raw[:0], b...), spec
	}
	return err
}
