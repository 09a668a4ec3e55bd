package boltstore

import (
	"bytes"
	"runtime"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/escapement-go/scheduler/store"
)

// groupBytes is about how much is packed at a time.
const groupBytes = 256 << 10

// floor returns the row with the highest key that is not above a key, nil if
// there is none, and leaves the cursor there.
func floor(c *bbolt.Cursor, key []byte) (k, row []byte) {
	if k, row = c.Seek(key); k == nil {
		return c.Last()
	}
	if bytes.Equal(k, key) {
		return k, row
	}
	k, row = c.Prev()
	if k == nil { // at the beginning, or at a page that this transaction has emptied
		if first, _ := c.First(); bytes.Compare(first, key) > 0 {
			return nil, nil
		}
		c.Seek(key)
		for k == nil {
			k, row = c.Prev()
		}
	}
	return k, row
}

// findRun returns a run of a bucket, nil if it is not there. It is valid until the
// transaction ends. A block whose key was damaged is not found under it, but it
// stands where it did, since the order of keys was checked. So before a run is
// called absent, the blocks on both sides must be intact.
func findRun(b *bbolt.Bucket, path string, id []byte) (*packedRun, error) {
	c := b.Cursor()
	k, row := floor(c, id)
	if k != nil {
		runs, err := openBlock(nil, path, k, row)
		if err != nil {
			return nil, err
		}
		if i, found := searchRun(runs, id); found {
			return &runs[i], nil
		}
		k, row = c.Next()
	} else {
		k, row = c.First()
	}
	if k != nil {
		if _, err := open(pathText(path), k, row); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// searchRun returns where a run is, or would be.
func searchRun(runs []packedRun, id []byte) (int, bool) {
	return slices.BinarySearchFunc(runs, id, func(r packedRun, id []byte) int { return bytes.Compare(r.id, id) })
}

// A runChange is what becomes of a run in one bucket.
type runChange struct {
	id  *store.RunID
	run *store.Run // nil: it goes
}

// A packer writes changes of runs to buckets of blocks.
type packer struct {
	rows    *arena
	specs   map[*store.Spec][]byte
	old     []packedRun
	merged  []packedRun
	scratch []byte // has the bodies of merged
	blocks  blockWriter
}

// apply brings changes, in the order of IDs and each of another run, to a bucket.
func (p *packer) apply(t *table, path string, changes []runChange) error {
	for len(changes) > 0 {
		n, err := p.group(t, path, changes)
		if err != nil {
			return err
		}
		changes = changes[n:]
	}
	return nil
}

// group applies the first of the changes, those that belong into the same block
// or between the same two, up to about groupBytes. It returns how many these are.
func (p *packer) group(t *table, path string, changes []runChange) (n int, err error) {
	first := changes[0].id[:]
	c := t.b.Cursor()
	key, row := floor(c, first)
	var next []byte // key of the block behind
	if p.old = p.old[:0]; key == nil {
		next, _ = c.First()
	} else {
		if p.old, err = openBlock(p.old, path, key, row); err != nil {
			return 0, err
		}
		next, _ = c.Next()
	}
	if len(p.old) > 0 && len(row) >= blockBytes/2 && bytes.Compare(first, p.old[len(p.old)-1].id) > 0 {
		p.old = p.old[:0] // it is full, and nothing of it changes
	}
	had := len(p.old)
	n, changed, err := p.merge(next, changes)
	if err != nil || !changed {
		return n, err
	}
	if had > 0 && (len(p.merged) == 0 || !bytes.Equal(p.merged[0].id, key)) {
		if err := t.delete(key); err != nil {
			return n, err
		}
	}
	t.sum.runs += uint64(len(p.merged) - had) // wraps around as it should
	return n, p.put(t)
}

// merge makes merged of old and of the changes below next. It returns how many
// these are, and whether anything is changed by them.
func (p *packer) merge(next []byte, changes []runChange) (n int, changed bool, err error) {
	p.merged, p.scratch = p.merged[:0], p.scratch[:0]
	old := p.old
	for n < len(changes) && (len(old) > 0 || len(p.scratch) < groupBytes) {
		c := changes[n]
		if next != nil && bytes.Compare(c.id[:], next) >= 0 {
			break
		}
		at, found := searchRun(old, c.id[:])
		p.merged = append(p.merged, old[:at]...)
		if old = old[at:]; found {
			old, changed = old[1:], true
		}
		if c.run != nil {
			if err := p.encode(c.run); err != nil {
				return n, false, err
			}
			changed = true
		}
		n++
	}
	p.merged = append(p.merged, old...)
	return n, changed, nil
}

// encode appends a run to merged.
func (p *packer) encode(r *store.Run) error {
	spec := p.specs[r.Spec]
	if spec == nil {
		var err error
		if spec, err = r.Spec.MarshalMsg(nil); err != nil {
			return err
		}
		p.specs[r.Spec] = spec
	}
	bare := *r
	bare.Spec = nil
	at := len(p.scratch)
	scratch, err := bare.MarshalMsg(p.scratch)
	if err != nil {
		return err
	}
	p.scratch = scratch
	body := scratch[at:len(scratch):len(scratch)]
	p.merged = append(p.merged, packedRun{bodyID(body), spec, body})
	return nil
}

// put stores merged in blocks of about equal sizes.
func (p *packer) put(t *table) error {
	total := 0
	for i := range p.merged {
		total += p.merged[i].size()
	}
	share := total/(total/blockBytes+1) + 1
	for runs := p.merged; len(runs) > 0; {
		n, size := 0, 0
		var spec []byte
		for n < len(runs) && size < share {
			more := runs[n].size()
			if !bytes.Equal(runs[n].spec, spec) {
				spec = runs[n].spec
				more += len(spec)
			}
			if n > 0 && size+more > blockBytes {
				break
			}
			size += more
			n++
		}
		if err := t.put(runs[0].id, p.rows.raw(runs[0].id, p.blocks.pack(runs[:n]))); err != nil {
			return err
		}
		runs = runs[n:]
		runtime.Gosched() // a commit is long work: attempts whose time has come go first
	}
	return nil
}
