package boltfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"os"
)

// The layout is bbolt's file format 2, in the machine's byte order:
//
//	page    id u64, flags u16, count u16, overflow u32, elements, their data
//	branch  position u32, key size u32, page u64
//	leaf    flags u32, position u32, key size u32, value size u32
//	bucket  root page u64 (0: the page follows inline), sequence u64
//	meta    magic, version, page size, flags u32; root bucket; freelist, end, transaction, checksum u64
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	branchFlag   = 0x01
	leafFlag     = 0x02
	freelistFlag = 0x10

	bucketFlag = 0x01

	pageHeader   = 16
	branchHeader = 16
	leafHeader   = 16
	bucketHeader = 16
	metaSize     = 64

	maxKeySize = 1 << 15
	noFreelist = ^uint64(0)
)

var order = binary.NativeEndian

// A checker walks the page tree of a bbolt file.
type checker struct {
	pages *pages
	end   uint64   // pages from here on are not in use
	seen  []uint64 // bit set of the pages that are referred to
	rows  map[string]uint64
}

// A DamageError says what is wrong with a file.
type DamageError struct{ Reason string }

func (e *DamageError) Error() string { return "bbolt file is damaged: " + e.Reason }

// Content is what an intact file has in it.
type Content struct {
	// Rows are the numbers of rows by bucket; a bucket in another has the
	// names of both, with a slash between.
	Rows map[string]uint64
	// Behind tells that one of the two meta pages is unreadable. bbolt opens
	// such a file at the transaction of the other one, which may be the one
	// before the last.
	Behind bool
}

// Check reports what is in a bbolt file, or what is wrong with it. The caller
// holds the lock, see [Lock]. Errors: a [*DamageError], or that of reading.
// Cost: reads every page in use once.
func Check(f *os.File) (Content, error) {
	info, err := f.Stat()
	if err != nil {
		return Content{}, err
	}
	m, err := findMeta(f, info.Size())
	if err != nil {
		return Content{}, err
	}
	c := &checker{
		pages: newPages(f, m.pageSize),
		end:   m.end,
		seen:  make([]uint64, m.end/64+1),
		rows:  make(map[string]uint64),
	}
	c.seen[0] = 0b11 // the meta pages
	if err := c.tree("", m.root, nil, nil); err != nil {
		return Content{}, err
	}
	if err := c.freelist(m.freelist); err != nil {
		return Content{}, err
	}
	return Content{c.rows, m.alone}, nil
}

func damaged(format string, args ...any) error {
	return &DamageError{fmt.Sprintf(format, args...)}
}

// boltMeta is a meta page.
type boltMeta struct {
	pageSize                      int
	root, freelist, end, sequence uint64
	alone                         bool // the other one is unreadable
}

// findMeta returns the newest intact meta page, as bbolt would choose it.
func findMeta(f *os.File, size int64) (boltMeta, error) {
	first, ok := readMeta(f, 0)
	m := first
	if ok {
		second, both := readMeta(f, int64(first.pageSize))
		if both && second.sequence > first.sequence {
			m = second
		}
		m.alone = !both
	}
	for n := int64(1024); !ok && n <= 1024<<14; n <<= 1 {
		m, ok = readMeta(f, n)
		ok = ok && int64(m.pageSize) == n
		m.alone = true
	}
	switch {
	case !ok:
		return boltMeta{}, damaged("it is not a bbolt file, or the start of it is lost")
	case m.end > uint64(size)/uint64(m.pageSize):
		return boltMeta{}, damaged("the file has %d bytes and should have %d pages of %d", size, m.end, m.pageSize)
	case m.end < 4:
		return boltMeta{}, damaged("the meta page does not make sense")
	}
	return m, nil
}

func readMeta(f *os.File, at int64) (boltMeta, bool) {
	var b [pageHeader + metaSize]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		return boltMeta{}, false
	}
	body := b[pageHeader:]
	h := fnv.New64a()
	_, _ = h.Write(body[:56])
	m := boltMeta{
		pageSize: int(order.Uint32(body[8:])),
		root:     order.Uint64(body[16:]),
		freelist: order.Uint64(body[32:]),
		end:      order.Uint64(body[40:]),
		sequence: order.Uint64(body[48:]),
	}
	return m, order.Uint32(body) == boltMagic && order.Uint32(body[4:]) == boltVersion &&
		order.Uint64(body[56:]) == h.Sum64() &&
		m.pageSize >= 1024 && m.pageSize <= 1024<<14 && m.pageSize&(m.pageSize-1) == 0
}

// tree checks the pages below id, which belong to the bucket at path. Their keys
// are at least low and below high.
func (c *checker) tree(path string, id uint64, low, high []byte) error {
	p, err := c.page(id)
	if err != nil {
		return err
	}
	if order.Uint16(p[8:]) == branchFlag {
		return c.branch(path, id, bytes.Clone(p), low, high)
	}
	return c.leaf(path, id, p, low, high)
}

// page returns the page, with those it overflows into, and marks them as in use.
func (c *checker) page(id uint64) ([]byte, error) {
	if id < 2 || id >= c.end {
		return nil, damaged("page %d is referred to, there are %d", id, c.end)
	}
	head, err := c.pages.read(id, 1)
	if err != nil {
		return nil, err
	}
	flags, overflow := order.Uint16(head[8:]), uint64(order.Uint32(head[12:]))
	switch {
	case order.Uint64(head) != id:
		return nil, damaged("page %d is in the place of page %d", order.Uint64(head), id)
	case flags != branchFlag && flags != leafFlag && flags != freelistFlag:
		return nil, damaged("page %d has flags %#x", id, flags)
	case overflow >= c.end-id:
		return nil, damaged("page %d overflows the file", id)
	}
	for i := id; i <= id+overflow; i++ {
		if c.seen[i/64]&(1<<(i%64)) != 0 {
			return nil, damaged("page %d is referred to twice", i)
		}
		c.seen[i/64] |= 1 << (i % 64)
	}
	if overflow == 0 {
		return head, nil
	}
	return c.pages.read(id, overflow+1)
}

// branch checks a branch page. p must outlive what is read meanwhile.
func (c *checker) branch(path string, id uint64, p, low, high []byte) error {
	count := int(order.Uint16(p[10:]))
	at := pageHeader + count*branchHeader // where the next element's key must be
	if count == 0 || at > len(p) {
		return damaged("branch page %d counts %d elements", id, count)
	}
	keys := make([][]byte, count+1)
	keys[count] = high
	for i := range count {
		e := pageHeader + i*branchHeader
		pos, size := int64(order.Uint32(p[e:])), int64(order.Uint32(p[e+4:]))
		if int64(e)+pos != int64(at) || size == 0 || size > maxKeySize || int64(at)+size > int64(len(p)) {
			return damaged("branch page %d: element %d is out of place", id, i)
		}
		keys[i] = p[at : at+int(size)]
		if low != nil && bytes.Compare(keys[i], low) < 0 || i > 0 && bytes.Equal(keys[i], low) {
			return damaged("branch page %d: element %d is out of order", id, i)
		}
		low = keys[i]
		at += int(size)
	}
	if high != nil && bytes.Compare(low, high) >= 0 {
		return damaged("branch page %d: its last element is out of order", id)
	}
	for i := range count {
		child := order.Uint64(p[pageHeader+i*branchHeader+8:])
		if err := c.tree(path, child, keys[i], keys[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// leaf checks a leaf page, and the buckets whose roots are in it.
func (c *checker) leaf(path string, id uint64, p, low, high []byte) error {
	if order.Uint16(p[8:]) != leafFlag {
		return damaged("page %d is neither branch nor leaf", id)
	}
	count := int(order.Uint16(p[10:]))
	at := pageHeader + count*leafHeader
	if at > len(p) {
		return damaged("leaf page %d counts %d elements", id, count)
	}
	if count > 0 && order.Uint32(p[pageHeader:]) == bucketFlag {
		p = bytes.Clone(p) // to outlive the buckets in it
	}
	for i := range count {
		e := pageHeader + i*leafHeader
		flags, pos := order.Uint32(p[e:]), int64(order.Uint32(p[e+4:]))
		keySize, size := int64(order.Uint32(p[e+8:])), int64(order.Uint32(p[e+12:]))
		if int64(e)+pos != int64(at) || keySize == 0 || keySize > maxKeySize || int64(at)+keySize+size > int64(len(p)) {
			return damaged("leaf page %d: element %d is out of place", id, i)
		}
		key := p[at : at+int(keySize)]
		if low != nil && (bytes.Compare(key, low) < 0 || i > 0 && bytes.Equal(key, low)) ||
			high != nil && bytes.Compare(key, high) >= 0 {
			return damaged("leaf page %d: element %d is out of order", id, i)
		}
		value := p[at+int(keySize) : at+int(keySize+size)]
		if err := c.element(path, flags, key, value); err != nil {
			return err
		}
		low = key
		at += int(keySize + size)
	}
	return nil
}

// element counts a row, or checks a bucket.
func (c *checker) element(path string, flags uint32, key, value []byte) error {
	switch {
	case flags == 0 && path != "":
		c.rows[path]++
		return nil
	case flags != bucketFlag || len(value) < bucketHeader:
		return damaged("bucket %q: an element has flags %#x and %d bytes", path, flags, len(value))
	}
	child := string(key)
	if path != "" {
		child = path + "/" + child
	}
	c.rows[child] += 0
	root := order.Uint64(value)
	if root != 0 {
		return c.tree(child, root, nil, nil)
	}
	inline := value[bucketHeader:]
	if len(inline) < pageHeader || order.Uint16(inline[8:]) != leafFlag {
		return damaged("bucket %q: its inline page is none", child)
	}
	return c.leaf(child, 0, inline, nil, nil)
}

// freelist checks that no page of a stored freelist is in use. A state's file has
// none unless another program has written to it.
func (c *checker) freelist(id uint64) error {
	if id == noFreelist {
		return nil
	}
	p, err := c.page(id)
	if err != nil {
		return err
	}
	count, at := uint64(order.Uint16(p[10:])), uint64(pageHeader)
	if count == 0xffff {
		count, at = order.Uint64(p[pageHeader:]), at+8
	}
	if order.Uint16(p[8:]) != freelistFlag || count > (uint64(len(p))-at)/8 {
		return damaged("the freelist page %d is none", id)
	}
	for i := range count {
		free := order.Uint64(p[at+i*8:])
		if free < 2 || free >= c.end || c.seen[free/64]&(1<<(free%64)) != 0 {
			return damaged("page %d is free and in use", free)
		}
	}
	return nil
}
