package boltstore

import (
	"bytes"
	"math"
	"slices"

	"go.etcd.io/bbolt"
)

// A period is an hour of final runs or a day of ticks. Its rows are in one bucket
// per part. A key may be in several: then the newest part has the newest row.

// nextPeriod returns the first period at or after from (reverse: at or before)
// that has a bucket in the group.
func nextPeriod(group *bbolt.Bucket, from uint32, reverse bool) (uint32, bool) {
	c := group.Cursor()
	seek := segmentName(from, 0)
	if reverse {
		seek = segmentName(from, math.MaxUint32)
	}
	k, _ := c.Seek(seek[:])
	if reverse && !bytes.Equal(k, seek[:]) {
		if k == nil {
			k, _ = c.Last()
		} else {
			k, _ = c.Prev()
		}
	}
	if len(k) != len(seek) {
		return 0, false
	}
	period, _ := parseSegmentName(k)
	return period, true
}

// A part is one bucket of a period and a place in it: at a row, or at a run of a
// block.
type part struct {
	number uint32
	path   string
	b      *bbolt.Bucket
	c      *bbolt.Cursor
	k, row []byte // of the row or the run; k is nil at the end

	packed bool // the rows are blocks
	block  []packedRun
	at     int
	err    error // the block at k is damaged
}

// partsOf returns the parts of a period, newest first.
func partsOf(group *bbolt.Bucket, parent string, period uint32) []*part {
	var parts []*part
	c := group.Cursor()
	first := segmentName(period, 0)
	for k, _ := c.Seek(first[:]); len(k) == 8 && bytes.Equal(k[:4], first[:4]); k, _ = c.Next() {
		_, number := parseSegmentName(k)
		b := group.Bucket(k)
		parts = append(parts, &part{
			number: number, path: parent + "/" + string(k), b: b, c: b.Cursor(), packed: parent == historyBucket,
		})
	}
	slices.Reverse(parts)
	return parts
}

// seek moves to the first row at or after low, or to the last row before high.
func (p *part) seek(low, high []byte, reverse bool) {
	if p.packed {
		p.seekRun(low, high, reverse)
		return
	}
	if !reverse {
		p.k, p.row = p.c.Seek(low)
		return
	}
	if high != nil {
		if p.k, p.row = p.c.Seek(high); p.k != nil {
			p.k, p.row = p.c.Prev()
			return
		}
	}
	p.k, p.row = p.c.Last()
}

func (p *part) seekRun(low, high []byte, reverse bool) {
	if !reverse {
		k, row := floor(p.c, low)
		if k == nil {
			k, row = p.c.First()
		}
		if p.open(k, row); p.err == nil {
			at, _ := searchRun(p.block, low)
			p.stand(at, reverse)
		}
		return
	}
	var k, row []byte
	if high != nil {
		k, row = p.c.Seek(high)
	}
	if k == nil {
		k, row = p.c.Last()
	} else if p.open(k, row); p.err != nil {
		return // its key may have been below high
	} else {
		k, row = p.c.Prev()
	}
	if p.open(k, row); p.err == nil {
		at := len(p.block)
		if high != nil {
			at, _ = searchRun(p.block, high)
		}
		p.stand(at-1, reverse)
	}
}

// open opens the block at the cursor, k being nil at the end.
func (p *part) open(k, row []byte) {
	p.k, p.row, p.block, p.err = k, nil, p.block[:0], nil
	if k == nil {
		return
	}
	if p.block, p.err = openBlock(p.block, p.path, k, row); p.err != nil {
		p.block = p.block[:0]
	}
}

// stand moves to a run of the block, or to the one in the next block.
func (p *part) stand(at int, reverse bool) {
	if p.k != nil && (at < 0 || at >= len(p.block)) {
		if reverse {
			p.open(p.c.Prev())
			at = len(p.block) - 1
		} else {
			p.open(p.c.Next())
			at = 0
		}
	}
	if p.k != nil && p.err == nil {
		p.at, p.k, p.row = at, p.block[at].id, p.block[at].body
	}
}

func (p *part) move(reverse bool) {
	switch {
	case p.packed && reverse:
		p.stand(p.at-1, reverse)
	case p.packed:
		p.stand(p.at+1, reverse)
	case reverse:
		p.k, p.row = p.c.Prev()
	default:
		p.k, p.row = p.c.Next()
	}
}

// outside reports whether the row is not among those from low to before high. A
// damaged block may be anywhere.
func (p *part) outside(low, high []byte, reverse bool) bool {
	return p.k == nil || p.err == nil &&
		(reverse && bytes.Compare(p.k, low) < 0 || !reverse && high != nil && bytes.Compare(p.k, high) >= 0)
}

// merge calls fn with the parts at their rows, from low (inclusive) to high
// (exclusive; nil: no bound), each key once, until it returns false.
func merge(parts []*part, low, high []byte, reverse bool, fn func(p *part) bool) {
	for _, p := range parts {
		p.seek(low, high, reverse)
	}
	for {
		var best *part
		for _, p := range parts {
			if p.outside(low, high, reverse) {
				continue
			}
			if best == nil || !reverse && bytes.Compare(p.k, best.k) < 0 || reverse && bytes.Compare(p.k, best.k) > 0 {
				best = p // of equal keys the newest part's, which comes first
			}
		}
		if best == nil || !fn(best) {
			return
		}
		key := best.k
		for _, p := range parts {
			if bytes.Equal(p.k, key) {
				p.move(reverse)
			}
		}
	}
}
