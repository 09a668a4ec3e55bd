package seglog

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/hashicorp/raft"
)

// scan is one pass over a segment that finds its entries and checks all of it.
type scan struct {
	s     *segment
	b     []byte // the whole file
	next  uint64 // index that the next frame must begin with; 0 if any will do
	limit uint64 // entries after it are deleted, and what is behind it is not looked at; 0 if none are

	last int64 // where the last frame begins, 0 if there is none
	torn bool  // behind the frames is what a torn write has left
}

func (c *scan) corrupt(off int64, format string, args ...any) error {
	return &CorruptError{c.s.name, off, fmt.Sprintf(format, args...)}
}

// load reads the segment into buf, or a larger one, and scans it. It returns the buffer. A blank segment, such as the
// one that is made ahead, is read through a small window: to fault in memory for it would take longer than to read it.
func (c *scan) load(buf []byte) ([]byte, error) {
	if cap(buf) < windowSize {
		buf = make([]byte, windowSize)
	}
	blank, err := c.blank(buf[:windowSize])
	if err != nil || blank {
		c.s.end = pageSize
		return buf, err
	}
	if int64(cap(buf)) < c.s.size {
		buf = make([]byte, c.s.size)
	}
	c.b = buf[:c.s.size]
	if err := c.read(c.b, 0); err != nil {
		return buf, err
	}
	return buf, c.run()
}

const windowSize = 256 << 10

// blank reports whether there is nothing but zeros behind the header.
func (c *scan) blank(window []byte) (bool, error) {
	for off := int64(pageSize); off < c.s.size; off += int64(len(window)) {
		part := window[:min(int64(len(window)), c.s.size-off)]
		if err := c.read(part, off); err != nil || !allZero(part) {
			return false, err
		}
	}
	return true, nil
}

func (c *scan) read(b []byte, off int64) error {
	if _, err := c.s.f.ReadAt(b, off); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("seglog: read %s: %w", c.s.name, err)
	}
	return nil
}

// run fills in base, spans and end of the segment. Errors: CorruptError.
func (c *scan) run() error {
	off := int64(pageSize)
	for off+frameHeader <= c.s.size && (c.limit == 0 || c.next <= c.limit) {
		f, ok := parseFrame(c.b[off:], c.s.salt, off)
		if !ok {
			break
		}
		if c.next != 0 && f.first != c.next {
			return c.corrupt(off, "frame begins with entry %d instead of %d", f.first, c.next)
		}
		whole, err := c.frame(&f, off)
		if err != nil {
			return err
		}
		if !whole {
			c.torn, c.s.end = true, off
			return nil
		}
		c.last = off
		off += f.size()
	}
	c.s.end = off
	if c.limit != 0 {
		if c.next != c.limit+1 {
			return c.corrupt(off, "entries up to %d are missing", c.limit)
		}
		return nil
	}
	return c.tail(off)
}

// frame takes in the entries of the frame at off. It reports false for a frame that was torn when it was written.
func (c *scan) frame(f *frame, off int64) (whole bool, err error) {
	end := off + frameHeader + int64(f.n)
	body := c.b[off+frameHeader : end]
	if crc32.Checksum(body, castagnoli) != f.sum {
		return false, c.damaged(f, off)
	}
	if len(c.s.spans) == 0 {
		c.s.base = f.first
	}
	var l raft.Log
	for i := range uint64(f.count) {
		rest, err := decodeEntry(body, f.first+i, &l)
		if err != nil {
			return false, c.corrupt(end-int64(len(body)), "%v", err)
		}
		if c.limit == 0 || f.first+i <= c.limit {
			n := len(body) - len(rest)
			sum := f.sum
			if f.count > 1 {
				sum = crc32.Checksum(body[:n], castagnoli)
			}
			c.s.spans = append(c.s.spans, span{uint32(end) - uint32(len(body)), uint32(n), sum})
			c.next = f.first + i + 1
		}
		body = rest
	}
	if len(body) > 0 {
		return false, c.corrupt(end-int64(len(body)), "frame is longer than its entries")
	}
	return true, nil
}

// damaged returns nil if the frame at off, whose sum is wrong, can be a write that was torn: nothing was written
// after it, and some of its sectors are still zeros that should not be.
func (c *scan) damaged(f *frame, off int64) error {
	if later, ok := c.frameAfter(off + frameHeader); ok {
		return c.corrupt(off, "frame is damaged, but one follows at byte %d", later)
	}
	if c.limit != 0 || countZeros(c.b[off:off+frameHeader+int64(f.n)], off) <= f.zeros {
		return c.corrupt(off, "frame is damaged, although it was written whole")
	}
	return nil
}

// tail checks what is behind the last frame, where no header is.
func (c *scan) tail(off int64) error {
	rest := c.b[off:]
	if allZero(rest) {
		return nil
	}
	if len(rest) >= frameHeader && !allZero(rest[:frameHeader]) {
		return c.corrupt(off, "header of frame is damaged")
	}
	if later, ok := c.frameAfter(off); ok {
		return c.corrupt(off, "frame is missing, but one follows at byte %d", later)
	}
	c.torn = true
	return nil
}

// frameAfter looks for the header of a frame from off on. A frame is written only after all before it are durable.
func (c *scan) frameAfter(off int64) (int64, bool) {
	for ; off+frameHeader <= c.s.size; off += frameHeader {
		if _, ok := parseFrame(c.b[off:], c.s.salt, off); ok {
			return off, true
		}
	}
	return 0, false
}

// mend makes the end of the last segment of the log fit to be appended to: what a torn write has left becomes zeros,
// and the last frame is written again, because the sync of its write may have failed and then it is in memory alone.
func (c *scan) mend() error {
	if c.torn {
		end := c.s.size
		for end > c.s.end && c.b[end-1] == 0 {
			end--
		}
		clear(c.b[c.s.end:end])
		if err := c.rewrite(c.s.end, end); err != nil {
			return err
		}
	}
	if c.last != 0 {
		if err := c.rewrite(c.last, c.s.end); err != nil {
			return err
		}
	}
	if !c.torn && c.last == 0 {
		return nil
	}
	return c.s.f.Sync()
}

func (c *scan) rewrite(from, to int64) error {
	if _, err := c.s.f.WriteAt(c.b[from:to], from); err != nil {
		return fmt.Errorf("seglog: mend %s: %w", c.s.name, err)
	}
	return nil
}
