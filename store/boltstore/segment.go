package boltstore

import (
	"bytes"
	"math"

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

// A part is one bucket of a period and a cursor in it.
type part struct {
	number uint32
	path   string
	b      *bbolt.Bucket
	c      *bbolt.Cursor
	k, row []byte
}

// partsOf returns the parts of a period, newest first.
func partsOf(group *bbolt.Bucket, parent string, period uint32) []*part {
	var parts []*part
	c := group.Cursor()
	first := segmentName(period, 0)
	for k, _ := c.Seek(first[:]); len(k) == 8 && bytes.Equal(k[:4], first[:4]); k, _ = c.Next() {
		_, number := parseSegmentName(k)
		b := group.Bucket(k)
		parts = append(parts, &part{number: number, path: parent + "/" + string(k), b: b, c: b.Cursor()})
	}
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return parts
}

// seek moves to the first row at or after low, or to the last row before high.
func (p *part) seek(low, high []byte, reverse bool) {
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

func (p *part) move(reverse bool) {
	if reverse {
		p.k, p.row = p.c.Prev()
	} else {
		p.k, p.row = p.c.Next()
	}
}

// merge calls fn with the rows of the parts from low (inclusive) to high
// (exclusive; nil: no bound), each key once, until it returns false.
func merge(parts []*part, low, high []byte, reverse bool, fn func(p *part, key, row []byte) bool) {
	for _, p := range parts {
		p.seek(low, high, reverse)
	}
	for {
		var best *part
		for _, p := range parts {
			outside := p.k == nil || reverse && bytes.Compare(p.k, low) < 0 ||
				!reverse && high != nil && bytes.Compare(p.k, high) >= 0
			if outside {
				continue
			}
			if best == nil || !reverse && bytes.Compare(p.k, best.k) < 0 || reverse && bytes.Compare(p.k, best.k) > 0 {
				best = p // of equal keys the newest part's, which comes first
			}
		}
		if best == nil {
			return
		}
		key, row := best.k, best.row
		for _, p := range parts {
			if bytes.Equal(p.k, key) {
				p.move(reverse)
			}
		}
		if !fn(best, key, row) {
			return
		}
	}
}
