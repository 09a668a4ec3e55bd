package boltstore_test

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/store/boltstore"
	"github.com/escapement-go/scheduler/store/storetest"
)

func stateFile(dir string) string { return filepath.Join(dir, "state.db") }

func mustOpen(tb testing.TB, dir string) *boltstore.Store {
	tb.Helper()
	s, err := boltstore.Open(dir, boltstore.Options{JournalBytes: 20_000})
	if err != nil {
		tb.Fatalf("Open: %v", err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// history makes commits from a seed, one for every few entries, and calls after
// with each; it returns the IDs of all runs that were ever enqueued.
func history(tb testing.TB, s *boltstore.Store, seed, entries uint64, after func(index uint64)) []store.RunID {
	tb.Helper()
	g := storetest.NewGenerator(seed)
	g.Prune = false
	state := store.NewState()
	var ids []store.RunID
	for index := uint64(1); index <= entries; index++ {
		_, events := state.Apply(index, 1, g.Next(state))
		g.Observe(index, events)
		for _, e := range events {
			if e.Kind == store.EventEnqueued {
				ids = append(ids, e.Run.ID)
			}
		}
		if index%7 != 0 && index != entries {
			continue
		}
		f := state.TakeFlush()
		if err := s.Commit(f, []byte{byte(index)}); err != nil {
			tb.Fatalf("Commit: %v", err)
		}
		state.Flushed(f)
		after(index)
	}
	slices.SortFunc(ids, store.RunID.Compare)
	return slices.Compact(ids)
}

// content is what a store has: a hash of each part, or the error it gave instead.
type content map[string]string

// partial are the parts that are checked when they are read, row by row.
var partial = []string{"final", "ticks", "journal", "lookups"}

// readAll reads everything there is. Errors other than ErrCorrupt fail the test.
func readAll(tb testing.TB, s *boltstore.Store, ids []store.RunID) content {
	tb.Helper()
	c := content{"configuration": fmt.Sprintf("%x", s.Configuration())}
	c.part(tb, "live", func(add func(string)) error {
		img, err := s.Image()
		if err != nil {
			return err
		}
		state := store.NewState()
		if err := state.Load(img); err != nil {
			return err
		}
		add(fmt.Sprintf("%d %x", img.Meta.Index, state.Digest()))
		return nil
	})
	c.part(tb, "final", func(add func(string)) (damage error) {
		for r, err := range s.FinalRuns(0, math.MaxInt64, false) {
			if err != nil {
				damage = err
				continue
			}
			add(encoded(tb, r))
		}
		return damage
	})
	c.part(tb, "ticks", func(add func(string)) (damage error) {
		for n := range uint64(10) {
			for tick, err := range s.Ticks(n, math.MinInt64, math.MaxInt64) {
				if err != nil {
					damage = err
					continue
				}
				b, _ := tick.MarshalMsg(nil)
				add(string(b))
			}
		}
		return damage
	})
	c.part(tb, "journal", func(add func(string)) (damage error) {
		for e, err := range s.Events(0) {
			if err != nil {
				damage = err
				continue
			}
			add(fmt.Sprintf("%d %x", e.Index, e.Data))
		}
		return damage
	})
	c.part(tb, "lookups", func(add func(string)) error {
		for _, id := range ids {
			r, at, err := s.FinalRun(id)
			if err != nil {
				return err
			}
			if r != nil {
				add(fmt.Sprint(at) + encoded(tb, r))
			} else {
				add("none")
			}
		}
		return nil
	})
	return c
}

func (c content) part(tb testing.TB, name string, read func(add func(string)) error) {
	tb.Helper()
	h := fnv.New64a()
	n := 0
	err := read(func(row string) {
		n++
		fmt.Fprintf(h, "%d %s", len(row), row)
	})
	if err == nil {
		c[name] = fmt.Sprintf("%d rows %x", n, h.Sum64())
		return
	}
	if !errors.Is(err, store.ErrCorrupt) {
		tb.Errorf("%s: %v, want ErrCorrupt", name, err)
	}
	c[name] = "damaged"
}

// within reports whether c says nothing but what want says or that it is damaged.
func (c content) within(want content) bool {
	for part, got := range c {
		if got != want[part] && (got != "damaged" || !slices.Contains(append(partial, "live"), part)) {
			return false
		}
	}
	return true
}

func encoded(tb testing.TB, r *store.Run) string {
	tb.Helper()
	b, err := r.MarshalMsg(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

func mustRead(tb testing.TB, path string) []byte {
	tb.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// used cuts off the zeros at the end of a file, up to whole pages.
func used(b []byte) []byte {
	n := len(b)
	for n > 0 && b[n-1] == 0 {
		n--
	}
	return b[:min((n+pageSize-1)/pageSize*pageSize, len(b))]
}

const pageSize = 4096

// writeFile makes a file of the given size that begins with b.
func writeFile(tb testing.TB, path string, b []byte, size int64) {
	tb.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		tb.Fatal(err)
	}
}
