package boltfile

import (
	"errors"
	"io"
)

// blockSize is how much of a file is read at once: neighbours on disk are mostly
// neighbours in the tree.
const blockSize = 256 << 10

// pages reads the pages of a file through a small cache.
type pages struct {
	f        io.ReaderAt
	pageSize int
	blocks   [16]block
	large    []byte
}

type block struct {
	data []byte
	at   int64
}

func newPages(f io.ReaderAt, pageSize int) *pages { return &pages{f: f, pageSize: pageSize} }

// read returns n pages. They are valid until the next call.
func (p *pages) read(id, n uint64) ([]byte, error) {
	size := int64(n) * int64(p.pageSize)
	at := int64(id) * int64(p.pageSize)
	start := at - at%blockSize
	if at+size > start+blockSize {
		if int64(cap(p.large)) < size {
			p.large = make([]byte, size)
		}
		p.large = p.large[:size]
		return p.large, p.fill(p.large, at)
	}
	b := &p.blocks[start/blockSize%int64(len(p.blocks))]
	if b.data == nil || b.at != start {
		if b.data == nil {
			b.data = make([]byte, blockSize)
		}
		b.at = -1
		if err := p.fill(b.data, start); err != nil {
			return nil, err
		}
		b.at = start
	}
	return b.data[at-start : at-start+size], nil
}

// fill reads as much of b as the file has. What was asked for is below the end
// of the file, so a short read is at most a block's tail.
func (p *pages) fill(b []byte, at int64) error {
	n, err := p.f.ReadAt(b, at)
	if errors.Is(err, io.EOF) {
		clear(b[n:])
		return nil
	}
	return err
}
