package sim

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/store/memstore"
)

// A Disk is the disk of one node, which outlives its processes. Of what was
// written, only what a write returned for without an error is sure to be there
// after a crash; of the rest, a beginning may be. Safe for concurrent use.
type Disk struct {
	mu      sync.Mutex // guards all below
	rng     *rand.Rand
	life    int       // of the process that has it open; handles of earlier ones are dead
	durable image     // what was synced
	pending []writeOp // what was written and not synced, in order
	archive map[uint64]raft.Log
	wrote   map[place]time.Time // when writing an entry began for the first time
	sure    uint64              // up to which what is in archive was committed
	state   *memstore.Store
	tears   int // crashes that came in the middle of a write

	sync   time.Duration // at least what a sync takes; more than 0
	jitter time.Duration
	fault  error         // of every write
	hung   chan struct{} // not nil while writes hang; closed when they go on
	ended  chan struct{} // closed by the next crash
}

// image is what a log has on the disk.
type image struct {
	first   uint64 // index of logs[0]
	logs    []raft.Log
	values  map[string][]byte
	numbers map[string]uint64
}

// writeOp is one write of a log.
type writeOp struct {
	logs   []raft.Log // to be appended
	lo, hi uint64     // to be deleted, if hi is not 0
	key    string     // to be set to value or number
	value  []byte
	number uint64
	at     time.Time // when it began
}

// place says which entry of the log is meant, whoever has it.
type place struct{ index, term uint64 }

// NewDisk returns an empty disk whose syncs take a time in [sync, sync+jitter).
func NewDisk(seed uint64, sync, jitter time.Duration) *Disk {
	return &Disk{
		rng:     rand.New(rand.NewPCG(seed, 0x6469736b)),
		durable: image{values: make(map[string][]byte), numbers: make(map[string]uint64)},
		archive: make(map[uint64]raft.Log), wrote: make(map[place]time.Time), state: memstore.New(memstore.Options{}),
		sync: max(sync, time.Microsecond), jitter: jitter, ended: make(chan struct{}),
	}
}

// SetLatency changes how long a sync takes.
func (d *Disk) SetLatency(sync, jitter time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sync, d.jitter = max(sync, time.Microsecond), jitter
}

// Fail makes every write fail with err, until Fail(nil).
func (d *Disk) Fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = err
}

// Errors of a disk, for [Disk.Fail].
var (
	ErrIO   error = syscall.EIO
	ErrFull error = syscall.ENOSPC
)

// Hang makes writes that are under way, and later ones, wait; or lets them go on.
func (d *Disk) Hang(hang bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case hang && d.hung == nil:
		d.hung = make(chan struct{})
	case !hang && d.hung != nil:
		close(d.hung)
		d.hung = nil
	}
}

// Heal ends every fault.
func (d *Disk) Heal() {
	d.Fail(nil)
	d.Hang(false)
}

// Crash ends the life of the process that has the disk open: whatever it still
// does to the disk does nothing. Of what was not synced a beginning is kept.
func (d *Disk) Crash() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.life++
	close(d.ended)
	d.ended = make(chan struct{})
	if len(d.pending) > 0 {
		d.tears++
	}
	d.settleLocked()
}

// Wipe takes everything away, as another disk in the place of this one. No process may
// have it open. What is archived of entries that were committed stays.
func (d *Disk) Wipe() {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.archive, func(i uint64, _ raft.Log) bool { return i > d.sure })
	d.durable = image{values: make(map[string][]byte), numbers: make(map[string]uint64)}
	d.pending, d.state = nil, memstore.New(memstore.Options{})
}

// Tears returns how many crashes came in the middle of a write.
func (d *Disk) Tears() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tears
}

// settleLocked keeps some beginning of what was not synced.
func (d *Disk) settleLocked() {
	for _, op := range d.pending {
		if d.rng.IntN(2) == 0 {
			break
		}
		whole := len(op.logs)
		if whole > 0 && d.rng.IntN(2) == 0 {
			op.logs = op.logs[:d.rng.IntN(whole)] // torn: the checksum of the rest does not fit
		}
		d.applyLocked(op)
		if len(op.logs) < whole {
			break
		}
	}
	d.pending = nil
}

// applyLocked makes a write durable.
func (d *Disk) applyLocked(op writeOp) {
	m := &d.durable
	switch {
	case op.hi != 0:
		for i := max(op.lo, d.sure+1); i <= op.hi && op.hi >= m.last(); i++ {
			delete(d.archive, i) // the end of the log: it never came to be
		}
		m.remove(op.lo, op.hi)
	case op.value != nil:
		m.values[op.key] = op.value
	case op.key != "":
		m.numbers[op.key] = op.number
	default:
		last := m.last()
		m.append(op.logs)
		for _, l := range op.logs {
			for i := l.Index; i <= last; i++ {
				delete(d.archive, i)
			}
			d.archive[l.Index] = l
			if at := (place{l.Index, l.Term}); d.wrote[at].IsZero() {
				d.wrote[at] = op.at
			}
		}
	}
}

// installLocked notes that a copy has taken the place of the state. What the log
// has up to its index may be another leader's that was never committed.
func (d *Disk) installLocked(index uint64) {
	maps.DeleteFunc(d.archive, func(i uint64, _ raft.Log) bool { return i > d.sure && i <= index })
	d.sure = max(d.sure, index)
}

// Archive returns every entry that the log had at some time and that was not
// replaced, truncated ones included, by index.
func (d *Disk) Archive() map[uint64]raft.Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.archive)
}

// written returns when writing an entry began, here, for the first time.
func (d *Disk) written(at place) (began time.Time, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	began, ok = d.wrote[at]
	return began, ok
}

// A Mount is a disk as one process has it: dead once the process is.
type Mount struct {
	disk *Disk
	life int
}

// Mount begins a process.
func (d *Disk) Mount() Mount {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Mount{d, d.life}
}

// OpenLog opens the log.
func (m Mount) OpenLog() (cluster.LogStore, error) {
	d := m.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.life != m.life {
		return nil, errDead
	}
	if d.fault != nil {
		return nil, fmt.Errorf("sim: open log: %w", d.fault)
	}
	d.settleLocked() // of a write that failed: opening finds what is there, and keeps it
	return &diskLog{m}, nil
}

var errDead = errors.New("sim: this process was killed")

// diskLog is the log as one process has it open.
type diskLog struct{ Mount }

var _ cluster.LogStore = (*diskLog)(nil)

// write does op, durably.
func (l *diskLog) write(op writeOp) error {
	d := l.disk
	d.mu.Lock()
	if d.life != l.life {
		d.mu.Unlock()
		return errDead
	}
	op.at = time.Now()
	d.pending = append(d.pending, op)
	d.mu.Unlock()
	if err := d.wait(l.life); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.life != l.life:
		return errDead
	case d.fault != nil:
		return d.fault // whether it was written shows once the log is opened again
	}
	for _, op := range d.pending {
		d.applyLocked(op)
	}
	d.pending = nil
	return nil
}

// wait takes the time of a sync.
func (d *Disk) wait(life int) error {
	d.mu.Lock()
	took := d.sync
	if d.jitter > 0 {
		took += time.Duration(d.rng.Int64N(int64(d.jitter)))
	}
	dead := d.life != life
	ended := d.ended
	d.mu.Unlock()
	if dead {
		return errDead
	}
	t := time.NewTimer(took)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ended:
		return errDead
	}
	for {
		d.mu.Lock()
		hung := d.hung
		d.mu.Unlock()
		if hung == nil {
			return nil
		}
		select {
		case <-hung:
		case <-ended:
			return errDead
		}
	}
}

// StoreLogs implements [raft.LogStore].
func (l *diskLog) StoreLogs(logs []*raft.Log) error {
	last, err := l.LastIndex()
	if err != nil {
		return err
	}
	if first := logs[0].Index; last != 0 && first > last+1 {
		return fmt.Errorf("sim: entry %d cannot follow entry %d", first, last)
	}
	op := writeOp{logs: make([]raft.Log, len(logs))}
	for i, entry := range logs {
		op.logs[i] = *entry
	}
	return l.write(op)
}

// StoreLog implements [raft.LogStore].
func (l *diskLog) StoreLog(log *raft.Log) error { return l.StoreLogs([]*raft.Log{log}) }

// DeleteRange implements [raft.LogStore].
func (l *diskLog) DeleteRange(lo, hi uint64) error { return l.write(writeOp{lo: lo, hi: hi}) }

// Set implements [raft.StableStore].
func (l *diskLog) Set(key, value []byte) error {
	return l.write(writeOp{key: string(key), value: append([]byte{}, value...)})
}

// SetUint64 implements [raft.StableStore].
func (l *diskLog) SetUint64(key []byte, n uint64) error {
	return l.write(writeOp{key: string(key), number: n})
}

// read looks at what the log has. What is being written is not in it yet.
func (l *diskLog) read(look func(m *image)) error {
	l.disk.mu.Lock()
	defer l.disk.mu.Unlock()
	if l.disk.life != l.life {
		return errDead
	}
	look(&l.disk.durable)
	return nil
}

// FirstIndex implements [raft.LogStore].
func (l *diskLog) FirstIndex() (first uint64, err error) {
	err = l.read(func(m *image) {
		if len(m.logs) > 0 {
			first = m.first
		}
	})
	return first, err
}

// LastIndex implements [raft.LogStore].
func (l *diskLog) LastIndex() (last uint64, err error) {
	err = l.read(func(m *image) { last = m.last() })
	return last, err
}

// GetLog implements [raft.LogStore].
func (l *diskLog) GetLog(index uint64, log *raft.Log) error {
	found := false
	err := l.read(func(m *image) {
		if found = len(m.logs) > 0 && index >= m.first && index <= m.last(); found {
			*log = m.logs[index-m.first]
		}
	})
	if err == nil && !found {
		return raft.ErrLogNotFound
	}
	return err
}

// Get implements [raft.StableStore].
func (l *diskLog) Get(key []byte) (value []byte, err error) {
	err = l.read(func(m *image) { value = m.values[string(key)] })
	return value, err
}

// GetUint64 implements [raft.StableStore].
func (l *diskLog) GetUint64(key []byte) (n uint64, err error) {
	err = l.read(func(m *image) { n = m.numbers[string(key)] })
	return n, err
}

// Bytes implements [cluster.LogStore].
func (l *diskLog) Bytes() (size int64) {
	l.disk.mu.Lock()
	defer l.disk.mu.Unlock()
	for i := range l.disk.durable.logs {
		size += int64(len(l.disk.durable.logs[i].Data)) + 64
	}
	return size
}

// Close implements [cluster.LogStore].
func (l *diskLog) Close() error { return nil }

func (m *image) last() uint64 {
	if len(m.logs) == 0 {
		return 0
	}
	return m.first + uint64(len(m.logs)) - 1
}

// append puts entries in the place of what is there from their index on.
func (m *image) append(logs []raft.Log) {
	for _, l := range logs {
		switch last := m.last(); {
		case len(m.logs) == 0 || l.Index < m.first:
			m.first, m.logs = l.Index, nil
		case l.Index <= last:
			m.logs = m.logs[:l.Index-m.first]
		}
		m.logs = append(m.logs, l)
	}
}

// remove takes away a beginning or an end of the log.
func (m *image) remove(lo, hi uint64) {
	last := m.last()
	if lo = max(lo, m.first); len(m.logs) == 0 || lo > last || hi < lo {
		return
	}
	if hi >= last {
		m.logs = m.logs[:lo-m.first]
		return
	}
	m.logs = slices.Clone(m.logs[hi-m.first+1:])
	m.first = hi + 1
}

// The types of entries that change the state.
const (
	logCommand       = raft.LogCommand
	logConfiguration = raft.LogConfiguration
)
