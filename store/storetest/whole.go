//nolint:thelper // these are the tests themselves: a failure belongs to its own line
package storetest

import (
	"bytes"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/store"
)

func testCopy(t *testing.T, p Place) {
	var fl flushes
	b := p.Open(t, Bounds{})
	f := fl.next()
	fullFlush(f)
	commit(t, b, f)
	want := read(t, b)
	var copied bytes.Buffer
	meta, config, err := b.Backup(&copied)
	if err != nil || encode(&meta) != encode(&f.Meta) || string(config) != "configuration" {
		t.Fatalf("Backup = %+v, %q, %v", meta, config, err)
	}
	later := fl.next()
	addLive(later, liveRun(runID(start, 3), "later"))
	later.Tasks = []string{"later"}
	if err := b.Commit(later, []byte("later")); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	if err := b.Restore(bytes.NewReader(copied.Bytes())); err != nil {
		t.Fatalf("Restore: %v", err)
	}
	same(t, "restored", read(t, b), want)
	b = reopened(t, p, b)
	defer closeBackend(t, b)
	same(t, "restored and opened again", read(t, b), want)
	commit(t, b, later)
	if got := b.Stats().LiveRuns; got != 2 {
		t.Errorf("after a commit on top: %d live runs, want 2", got)
	}
}

func testDamagedCopy(t *testing.T, p Place) {
	var fl flushes
	b := p.Open(t, Bounds{})
	defer closeBackend(t, b)
	f := fl.next()
	fullFlush(f)
	commit(t, b, f)
	want := read(t, b)
	var copied bytes.Buffer
	if _, _, err := b.Backup(&copied); err != nil {
		t.Fatalf("Backup: %v", err)
	}
	whole := copied.Bytes()
	for _, size := range []int{0, 1, len(whole) / 2, len(whole) - 1} {
		if err := b.Restore(bytes.NewReader(whole[:size])); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("Restore of %d bytes of %d: %v, want ErrCorrupt", size, len(whole), err)
		}
	}
	for at := 3; at < len(whole); at += 1 + len(whole)/97 {
		changed := bytes.Clone(whole)
		changed[at] ^= 0x40
		if err := b.Restore(bytes.NewReader(changed)); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("Restore with byte %d changed: %v, want ErrCorrupt", at, err)
		}
	}
	same(t, "after all of them", read(t, b), want)
}

func testClosed(t *testing.T, p Place) {
	b := p.Open(t, Bounds{})
	closeBackend(t, b)
	closeBackend(t, b)
	var fl flushes
	_, imageErr := b.Image()
	_, _, copyErr := b.Backup(new(bytes.Buffer))
	_, _, runErr := b.FinalRun(runID(start, 1))
	errs := map[string]error{
		"Image": imageErr, "Commit": b.Commit(fl.next(), nil), "Backup": copyErr, "FinalRun": runErr,
		"Restore": b.Restore(new(bytes.Buffer)),
	}
	for _, err := range b.FinalRuns(0, math.MaxInt64, false) {
		errs["FinalRuns"] = err
	}
	for _, err := range b.Ticks(1, 0, math.MaxInt64) {
		errs["Ticks"] = err
	}
	for _, err := range b.Events(0) {
		errs["Events"] = err
	}
	if len(errs) != 8 {
		t.Errorf("only these gave an error: %v", errs)
	}
	for method, err := range errs {
		if !errors.Is(err, store.ErrClosed) && method != "Restore" {
			t.Errorf("%s after Close: %v, want ErrClosed", method, err)
		}
	}
}

func testConcurrent(t *testing.T, p Place) {
	var fl flushes
	b := p.Open(t, Bounds{JournalBytes: 10_000})
	defer closeBackend(t, b)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for _, reader := range []func() error{
		func() error { return drain(b.FinalRuns(0, math.MaxInt64, false)) },
		func() error { return drain(b.FinalRuns(0, math.MaxInt64, true)) },
		func() error { return drain(b.Ticks(1, math.MinInt64, math.MaxInt64)) },
		func() error { return drain(b.Events(0)) },
		func() error { _, _, err := b.FinalRun(runID(start, 5)); return err },
		func() error { _, _, err := b.Backup(new(bytes.Buffer)); return err },
		func() error { b.Stats(); b.Configuration(); return nil },
	} {
		readers.Go(func() { // until done is closed
			for {
				if err := reader(); err != nil {
					t.Errorf("reader: %v", err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range uint64(60) {
		f := fl.next()
		for n := range uint64(40) {
			addFinal(f, finalRun(runID(start.Add(time.Duration(i)*time.Minute), n), "x"), 0, false)
		}
		addTick(f, 1, start.Add(time.Duration(i)*time.Minute), start.Add(time.Duration(i)*time.Minute), 0)
		f.Events = []store.PackedEvents{{Index: f.Meta.Index, Data: make([]byte, 1000)}}
		if i%10 == 9 {
			f.Dropped = []store.SegmentKey{hourSegment(runID(start, 0), 0)}
		}
		commit(t, b, f)
	}
	close(done)
	readers.Wait()
}

func drain[T any](seq func(func(T, error) bool)) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

// testRestarts runs a state that is flushed and loaded again at random beside one
// that never is.
func testRestarts(t *testing.T, p Place) {
	entries := uint64(1500)
	if testing.Short() {
		entries = 400
	}
	b := p.Open(t, Bounds{})
	defer func() { closeBackend(t, b) }()
	g := NewGenerator(1)
	kept, plain := store.NewState(), store.NewState()
	for index := uint64(1); index <= entries; index++ {
		batch := g.Next(plain)
		_, events := plain.Apply(index, 1, batch)
		g.Observe(index, events)
		kept.Apply(index, 1, batch)
		if !g.one(4) && index < entries {
			continue
		}
		if f := kept.TakeFlush(); f != nil {
			commit(t, b, f)
			kept.Flushed(f)
		}
		if g.one(8) || index == entries {
			b = reopened(t, p, b)
			kept = load(t, b)
		}
		if got, want := kept.Digest(), plain.Digest(); got != want {
			t.Fatalf("index %d: digest %x after a restart, %x without", index, got, want)
		}
	}
}

// load makes a state of what a backend has.
func load(tb testing.TB, b Backend) *store.State {
	tb.Helper()
	img, err := b.Image()
	if err != nil {
		tb.Fatalf("Image: %v", err)
	}
	s := store.NewState()
	if err := s.Load(img); err != nil {
		tb.Fatalf("Load: %v", err)
	}
	return s
}
