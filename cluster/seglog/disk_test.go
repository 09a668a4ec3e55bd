package seglog_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"

	"github.com/escapement-go/scheduler/cluster/seglog"
)

// disk is a folder in memory that knows what of it is durable. It can lose power or fail at any operation that writes,
// and run full.
type disk struct {
	mu      sync.Mutex
	names   map[string]*inode
	durable map[string]*inode
	renames []func(map[string]*inode) // changes of names since the last sync, in order
	locked  bool

	ops     int // writes, syncs and changes of names so far
	dieAt   int // the operation within which power is lost, -1 for never
	failAt  int // the one that fails, -1 for none
	room    int // bytes that all files may have, 0 for no bound
	powered bool
}

type inode struct {
	written, durable []byte
	dirty            map[int]bool // sectors
}

const sector = 512

var (
	errPower = errors.New("power lost")
	errDead  = fmt.Errorf("%w before", errPower)
	errDisk  = errors.New("input/output error")
	errFull  = fmt.Errorf("write: %w", syscall.ENOSPC)
)

func newDisk() *disk {
	return &disk{
		names: make(map[string]*inode), durable: make(map[string]*inode),
		dieAt: -1, failAt: -1, powered: true,
	}
}

// op counts an operation. With errPower its effect may still be partly there, with errDead it is not.
func (d *disk) op() error {
	if !d.powered {
		return errDead
	}
	n := d.ops
	d.ops++
	switch n {
	case d.dieAt:
		d.powered = false
		return errPower
	case d.failAt:
		return errDisk
	}
	return nil
}

// after returns what a machine finds that starts after power was lost: of what was not synced pick decides, for each
// sector, what is there, and of the changes of names the first few are.
func (d *disk) after(r *rand.Rand, pick func(sector int) bool) *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.powered = false
	names := maps.Clone(d.durable)
	for _, change := range d.renames[:r.IntN(len(d.renames)+1)] {
		change(names)
	}
	next := newDisk()
	for name, node := range names {
		b := slices.Clone(node.durable)
		for _, at := range slices.Sorted(maps.Keys(node.dirty)) {
			if !pick(at) {
				continue
			}
			end := min((at+1)*sector, len(node.written))
			if end > len(b) {
				b = append(b, make([]byte, end-len(b))...)
			}
			copy(b[at*sector:end], node.written[at*sector:end])
		}
		next.put(name, b)
	}
	return next
}

// put makes a file, durably.
func (d *disk) put(name string, b []byte) {
	n := &inode{written: b, durable: slices.Clone(b), dirty: make(map[int]bool)}
	d.names[name], d.durable[name] = n, n
}

// clone copies what is written, durably.
func (d *disk) clone() *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := newDisk()
	for name, node := range d.names {
		next.put(name, slices.Clone(node.written))
	}
	return next
}

func (d *disk) change(do func(map[string]*inode)) error {
	err := d.op()
	if err == nil || err == errPower { //nolint:errorlint // errDead wraps it
		do(d.names)
		d.renames = append(d.renames, do)
	}
	return err
}

type lock struct{ d *disk }

func (l lock) Close() error {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	l.d.locked = false
	return nil
}

func (d *disk) Lock() (io.Closer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.locked {
		return nil, seglog.ErrInUse
	}
	d.locked = true
	return lock{d}, nil
}

func (d *disk) List() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.names)), nil
}

func (d *disk) Create(name string) (seglog.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	node := &inode{dirty: make(map[int]bool)}
	return &handle{d, node}, d.change(func(names map[string]*inode) { names[name] = node })
}

func (d *disk) Open(name string) (seglog.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	node, ok := d.names[name]
	if !ok {
		return nil, fmt.Errorf("open %s: %w", name, fs.ErrNotExist)
	}
	return &handle{d, node}, nil
}

func (d *disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.change(func(names map[string]*inode) {
		if node, ok := names[from]; ok {
			names[to] = node
			delete(names, from)
		}
	})
}

func (d *disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.change(func(names map[string]*inode) { delete(names, name) })
}

func (d *disk) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.op(); err != nil {
		return err
	}
	d.durable, d.renames = maps.Clone(d.names), nil
	return nil
}

// handle is an open file.
type handle struct {
	d    *disk
	node *inode
}

func (h *handle) ReadAt(b []byte, off int64) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if off >= int64(len(h.node.written)) {
		return 0, io.EOF
	}
	n := copy(b, h.node.written[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt writes all when power is lost, and the first half, in whole pages, when it fails.
func (h *handle) WriteAt(b []byte, off int64) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	err := h.d.op()
	switch {
	case errors.Is(err, errDead):
		return 0, err
	case errors.Is(err, errDisk):
		b = b[:max(0, (int(off)+len(b)/2)&^4095-int(off))]
	case err == nil && h.d.room > 0 && int(off)+len(b) > len(h.node.written) && h.d.sizeLocked()+len(b) > h.d.room:
		return 0, errFull
	}
	if grow := int(off) + len(b) - len(h.node.written); grow > 0 && len(b) > 0 {
		h.node.written = append(h.node.written, make([]byte, grow)...)
	}
	copy(h.node.written[min(int(off), len(h.node.written)):], b)
	for at := int(off) / sector; at*sector < int(off)+len(b); at++ {
		h.node.dirty[at] = true
	}
	return len(b), err
}

func (d *disk) sizeLocked() (n int) {
	for _, node := range d.names {
		n += len(node.written)
	}
	return n
}

// Sync makes all durable. When it fails, what was written can be read and counts as clean, but is not durable and
// never will be, unless it is written again: as Linux has it.
func (h *handle) Sync() error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	err := h.d.op()
	if errors.Is(err, errPower) {
		return err
	}
	if err == nil {
		if grow := len(h.node.written) - len(h.node.durable); grow > 0 {
			h.node.durable = append(h.node.durable, make([]byte, grow)...)
		}
		for at := range h.node.dirty {
			end := min((at+1)*sector, len(h.node.written))
			copy(h.node.durable[at*sector:end], h.node.written[at*sector:end])
		}
	}
	clear(h.node.dirty)
	return err
}

func (h *handle) Size() (int64, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return int64(len(h.node.written)), nil
}

func (h *handle) Close() error { return nil }
