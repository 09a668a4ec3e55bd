package seglog_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/cluster/seglog"
)

// state is what a log holds.
type state struct {
	logs   []*raft.Log
	values map[string]uint64
}

func (s state) clone() state { return state{slices.Clone(s.logs), maps.Clone(s.values)} }

// check reports how a log differs from the state.
func (s state) check(t *testing.T, l *seglog.Log) error {
	t.Helper()
	if err := sameLogs(contents(t, l), s.logs); err != nil {
		return err
	}
	for _, key := range stableKeys {
		got, err := l.GetUint64([]byte(key))
		want, ok := s.values[key]
		if ok != (err == nil) || got != want {
			return fmt.Errorf("value of %s: got %d, %w, want %d, %v", key, got, err, want, ok)
		}
	}
	return nil
}

// work makes changes to a log and keeps account of them.
type work struct {
	r     *rand.Rand
	acked state // what the log holds
	maybe state // what it holds if the last change, which failed, did happen
	term  uint64
}

func newWork(seed uint64) *work {
	s := state{values: make(map[string]uint64)}
	return &work{r: rand.New(rand.NewPCG(seed, 2)), acked: s, maybe: s.clone(), term: 1}
}

// step makes one change.
func (w *work) step(l *seglog.Log) error {
	next, n := w.acked.clone(), len(w.acked.logs)
	var do func() error
	switch k := w.r.IntN(12); {
	case k < 6 || n == 0 && k < 10:
		index := uint64(1 + w.r.IntN(50))
		if n > 0 {
			index = w.acked.logs[n-1].Index + 1
		}
		size := []int{0, 20, 300, 700, 1500, 3000, 9000}[w.r.IntN(7)]
		logs := entries(index, w.term, 1+w.r.IntN(3), size)
		next.logs = append(next.logs, logs...)
		do = func() error { return l.StoreLogs(logs) }
	case k < 8:
		upTo := w.r.IntN(n)
		next.logs = next.logs[upTo+1:]
		do = func() error { return l.DeleteRange(0, w.acked.logs[upTo].Index) }
	case k < 10:
		from := n - 1 - w.r.IntN(min(n, 4))
		next.logs = next.logs[:from]
		w.term++
		do = func() error { return l.DeleteRange(w.acked.logs[from].Index, w.acked.logs[n-1].Index) }
	default:
		key, value := stableKeys[w.r.IntN(len(stableKeys))], w.r.Uint64()
		next.values[key] = value
		do = func() error { return l.SetUint64([]byte(key), value) }
	}
	w.maybe = next
	err := do()
	if err == nil {
		w.acked = next
	}
	return err
}

// run makes changes until one fails, and closes the log.
func (w *work) run(d *disk, steps int) error {
	l, err := seglog.OpenFolder(d, small...)
	if err != nil {
		return err
	}
	err = l.Set([]byte("Before the others"), make([]byte, 1200)) // so that the facts take several sectors
	for i := 0; i < steps && err == nil; i++ {
		if i == steps/2 { // with what an opening does
			if err = l.Close(); err == nil {
				l, err = seglog.OpenFolder(d, small...)
			}
			if err != nil {
				return err
			}
		}
		err = w.step(l)
	}
	return errors.Join(err, l.Close())
}

// see opens the log and takes what it holds for what was acknowledged, if it may hold that.
func (w *work) see(t *testing.T, d *disk) *seglog.Log {
	t.Helper()
	l, err := seglog.OpenFolder(d, small...)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	old := w.acked.check(t, l)
	if old == nil {
		w.maybe = w.acked
		return l
	}
	if err := w.maybe.check(t, l); err != nil {
		t.Fatalf("neither the old state: %v\nnor the new one: %v", old, err)
	}
	w.acked = w.maybe
	return l
}

// images are ways for unsynced sectors to be there after power was lost, or not.
func images(r *rand.Rand) map[string]func(int) bool {
	cut, pages := r.IntN(40), r.Uint64()
	return map[string]func(int) bool{
		"none":    func(int) bool { return false },
		"all":     func(int) bool { return true },
		"sectors": func(int) bool { return r.IntN(2) == 0 },
		"most":    func(int) bool { return r.IntN(8) > 0 },
		"pages":   func(at int) bool { return pages>>(at/8%64)&1 == 0 },
		"head":    func(at int) bool { return at < cut },
		"tail":    func(at int) bool { return at >= cut },
	}
}

func TestLog_PowerLostAtEachOperation(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			for at, done := 0, false; !done; at++ {
				d, w := newDisk(), newWork(seed)
				d.dieAt = at
				done = w.run(d, 28) == nil
				r := rand.New(rand.NewPCG(seed, uint64(at)))
				all := images(r)
				names := slices.Sorted(maps.Keys(all))
				for _, i := range r.Perm(len(names))[:4] {
					name, pick := names[i], all[names[i]]
					crashed := *w
					restart(t, &crashed, d.after(r, pick), r)
					if t.Failed() {
						t.Fatalf("seed %d, operation %d, image %s", seed, at, name)
					}
				}
			}
		})
	}
}

// restart opens what power loss has left, losing power again within that and after; what was seen must stay.
func restart(t *testing.T, w *work, d *disk, r *rand.Rand) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("panic: %v", p)
			panic(p)
		}
	}()
	d.dieAt = r.IntN(12)
	if l, err := seglog.OpenFolder(d, small...); err == nil {
		_ = l.Close() // power may be lost in it
	} else if !errors.Is(err, errPower) {
		t.Errorf("open: %v", err)
		return
	}
	d = d.after(r, func(int) bool { return r.IntN(2) == 0 })
	l := w.see(t, d)
	w.r = r
	for range 3 {
		if err := w.step(l); err != nil {
			t.Errorf("after restart: %v", err)
		}
	}
	l2 := w.see(t, d.after(r, func(int) bool { return r.IntN(2) == 0 }))
	if err := l2.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	_ = l.Close() // its power is lost
}

func TestLog_DiskFailsAtEachOperation(t *testing.T) {
	for at, done := 0, false; !done; at++ {
		d, w := newDisk(), newWork(7)
		d.failAt = at
		done = w.run(d, 40) == nil && d.ops <= at
		d.failAt = -1
		l := w.see(t, d) // as a process does that goes on
		closeLog(t, l)
		r := rand.New(rand.NewPCG(7, uint64(at)))
		l = w.see(t, d.after(r, func(int) bool { return false }))
		closeLog(t, l)
	}
}

func TestLog_IsPoisonedByAFailedWrite(t *testing.T) {
	writes := map[string]func(*seglog.Log) error{
		"store":  func(l *seglog.Log) error { return l.StoreLog(entry(2, 1, 10)) },
		"delete": func(l *seglog.Log) error { return l.DeleteRange(1, 1) },
		"set":    func(l *seglog.Log) error { return l.SetUint64([]byte("k"), 1) },
	}
	for name, first := range writes {
		for after := range 2 { // the write, its sync
			d := newDisk()
			l, err := seglog.OpenFolder(d, seglog.WithFirstSegmentBytes(1<<20))
			if err != nil {
				t.Fatal(err)
			}
			store(t, l, entry(1, 1, 10))
			closeLog(t, l) // so that no segment is being made
			if l, err = seglog.OpenFolder(d); err != nil {
				t.Fatal(err)
			}
			d.mu.Lock()
			d.failAt = d.ops + after
			d.mu.Unlock()
			if err := first(l); !errors.Is(err, errDisk) || errors.Is(err, seglog.ErrPoisoned) {
				t.Fatalf("%s: got error %v, want %v", name, err, errDisk)
			}
			for _, write := range writes {
				if err := write(l); !errors.Is(err, seglog.ErrPoisoned) || !errors.Is(err, errDisk) {
					t.Errorf("after %s: got error %v, want %v with its cause", name, err, seglog.ErrPoisoned)
				}
			}
			wantLogs(t, l, entries(1, 1, 1, 10)) // what was acknowledged is still read
			closeLog(t, l)
		}
	}
}

// A disk that has no room for the next segment, which is large, may have room for a
// small one.
func TestLog_AlmostFullDiskGetsSmallerSegments(t *testing.T) {
	const meta, room = 128 << 10, 232 << 10
	d := newDisk()
	d.room = meta + room
	l, err := seglog.OpenFolder(d, seglog.WithFirstSegmentBytes(8<<10), seglog.WithSegmentBytes(256<<10))
	if err != nil {
		t.Fatal(err)
	}
	stored := 0
	for err == nil {
		if err = l.StoreLog(entry(uint64(stored+1), 1, 900)); err == nil {
			stored++
		}
	}
	if !errors.Is(err, errFull) {
		t.Fatalf("got error %v, want %v", err, errFull)
	}
	if got, want := stored*900, room*8/10; got < want {
		t.Errorf("room that was used: got %d bytes, want %d", got, want)
	}
	closeLog(t, l)
}

func TestLog_FullDiskStoresNothingAndRecovers(t *testing.T) {
	d := newDisk()
	d.room = 128<<10 + 40<<10
	l, err := seglog.OpenFolder(d, small...)
	if err != nil {
		t.Fatal(err)
	}
	var want []*raft.Log
	for err == nil {
		e := entry(uint64(len(want)+1), 1, 900)
		if err = l.StoreLog(e); err == nil {
			want = append(want, e)
		}
	}
	if !errors.Is(err, errFull) || errors.Is(err, seglog.ErrPoisoned) {
		t.Fatalf("got error %v, want %v", err, errFull)
	}
	wantLogs(t, l, want)
	d.mu.Lock()
	d.room = 0
	d.mu.Unlock()
	want = append(want, entry(uint64(len(want)+1), 1, 900))
	store(t, l, want[len(want)-1])
	closeLog(t, l)
	if l, err = seglog.OpenFolder(d, small...); err != nil {
		t.Fatal(err)
	}
	wantLogs(t, l, want)
	closeLog(t, l)
}
