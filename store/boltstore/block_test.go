package boltstore_test

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/store/boltstore"
)

// finals makes a store with n final runs in several blocks, each a step after the
// one before.
func finals(t *testing.T, dir string, n, step uint64) []store.RunID {
	t.Helper()
	s := mustOpen(t, dir)
	f := emptyFlush(1)
	var ids []store.RunID
	for i := range n {
		r := benchRun(step*i, benchSpec, make([]byte, 100), true)
		addFinal(f, r, false)
		ids = append(ids, r.ID)
	}
	mustCommitT(t, s, f)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return ids
}

func mustCommitT(t *testing.T, s *boltstore.Store, f *store.Flush) {
	t.Helper()
	if err := s.Commit(f, nil); err != nil {
		t.Fatal(err)
	}
}

// blocks calls fn with the history's bucket of one segment.
func blocks(t *testing.T, dir string, fn func(b *bbolt.Bucket) error) {
	t.Helper()
	db, err := bbolt.Open(stateFile(dir), 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		history := tx.Bucket([]byte("history"))
		name, _ := history.Cursor().First()
		return fn(history.Bucket(name))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// damage changes a byte of a block, or of its key, and returns the IDs that cannot
// be told of any more: those from the block's key to before the next one's.
func damage(t *testing.T, dir string, number int, inKey bool) (from, to store.RunID) {
	t.Helper()
	blocks(t, dir, func(b *bbolt.Bucket) error {
		c := b.Cursor()
		k, row := c.First()
		for range number {
			k, row = c.Next()
		}
		key, changed := bytes.Clone(k), bytes.Clone(row)
		next, _ := c.Next()
		from, to = store.RunID(k), store.RunID(bytes.Repeat([]byte{0xff}, 16))
		if next != nil {
			to = store.RunID(next)
		}
		if !inKey {
			changed[len(changed)/2] ^= 4
			return b.Put(key, changed)
		}
		if err := b.Delete(key); err != nil {
			return err
		}
		key[15] |= 1 // above its first run
		return b.Put(key, changed)
	})
	return from, to
}

func TestStore_Damage_in_a_block_spoils_no_other(t *testing.T) {
	for name, inKey := range map[string]bool{"content": false, "key": true} {
		for _, number := range []int{0, 1, 5} {
			dir := t.TempDir()
			ids := finals(t, dir, 1_000, 2)
			from, to := damage(t, dir, number, inKey)
			s := mustOpen(t, dir)
			intact := 0
			for _, id := range ids {
				r, _, err := s.FinalRun(id)
				if damaged := id.Compare(from) >= 0 && id.Compare(to) < 0; damaged {
					if !errors.Is(err, boltstore.ErrCorrupt) {
						t.Fatalf("%s of block %d: FinalRun(%v) = %v, %v, want ErrCorrupt", name, number, id, r, err)
					}
					continue
				}
				intact++
				if err != nil || r == nil || r.ID != id {
					t.Fatalf("%s of block %d: FinalRun(%v) = %v, %v", name, number, id, r, err)
				}
			}
			if intact == 0 || intact == len(ids) {
				t.Fatalf("%d of %d runs are in other blocks", intact, len(ids))
			}
			for _, newestFirst := range []bool{false, true} {
				listed, damaged := 0, 0
				for r, err := range s.FinalRuns(0, math.MaxInt64, newestFirst) {
					switch {
					case errors.Is(err, boltstore.ErrCorrupt):
						damaged++
					case err != nil || r.ID.Compare(from) >= 0 && r.ID.Compare(to) < 0:
						t.Fatalf("%s of block %d: listed %v, %v", name, number, r, err)
					default:
						listed++
					}
				}
				if listed != intact || damaged == 0 {
					t.Errorf("%s of block %d: listed %d of %d intact runs and %d errors", name, number, listed, intact, damaged)
				}
			}
		}
	}
}

// A listing that ends, or begins, in a damaged block says so.
func TestStore_FinalRuns_tells_of_damage_at_its_bounds(t *testing.T) {
	dir := t.TempDir()
	finals(t, dir, 1_000, 20)
	from, to := damage(t, dir, 3, false)
	s := mustOpen(t, dir)
	first, last := from.Time().UnixMilli()+1, to.Time().UnixMilli()-1
	if first >= last {
		t.Fatalf("the block has runs from %v to %v only", from.Time(), to.Time())
	}
	for _, bounds := range [][2]int64{{0, last}, {first, math.MaxInt64}, {first, last}} {
		for _, newestFirst := range []bool{false, true} {
			damaged := 0
			for _, err := range s.FinalRuns(bounds[0], bounds[1], newestFirst) {
				if err != nil {
					damaged++
				}
			}
			if damaged == 0 {
				t.Errorf("FinalRuns(%d, %d, %v): no error", bounds[0], bounds[1], newestFirst)
			}
		}
	}
}

func TestStore_Commit_into_a_damaged_block_fails_and_others_do_not(t *testing.T) {
	dir := t.TempDir()
	finals(t, dir, 1_000, 2)
	damage(t, dir, 1, false)
	s := mustOpen(t, dir)
	into := emptyFlush(2)
	for i := range uint64(1_000) {
		addFinal(into, benchRun(2*i+1, benchSpec, nil, true), false)
	}
	for range 2 {
		if err := s.Commit(into, nil); !errors.Is(err, boltstore.ErrCorrupt) {
			t.Fatalf("Commit: %v, want ErrCorrupt", err)
		}
	}
	behind := emptyFlush(3)
	addFinal(behind, benchRun(10_000, benchSpec, nil, true), false)
	mustCommitT(t, s, behind)
}

// sizes returns the sizes of the blocks.
func sizes(t *testing.T, dir string) (all []int) {
	t.Helper()
	blocks(t, dir, func(b *bbolt.Bucket) error {
		return b.ForEach(func(_, row []byte) error {
			all = append(all, len(row))
			return nil
		})
	})
	return all
}

func TestStore_Blocks_are_filled_and_split(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	n := uint64(0)
	for index := range uint64(500) { // a few runs a flush
		f := emptyFlush(index + 1)
		for range 4 {
			n += 2
			addFinal(f, benchRun(n, benchSpec, make([]byte, 100), true), false)
		}
		mustCommitT(t, s, f)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	got := sizes(t, dir)
	for i, size := range got {
		if size > 4_100 || size < 2_000 && i < len(got)-1 {
			t.Errorf("block %d of %d has %d bytes", i, len(got), size)
		}
	}
	s = mustOpen(t, dir)
	f := emptyFlush(1_000)
	for i := range n / 40 { // among the others
		addFinal(f, benchRun(20*i+1, benchSpec, make([]byte, 100), true), false)
	}
	mustCommitT(t, s, f)
	if got, want := s.Stats().FinalRuns, int64(n/2+n/40); got != want {
		t.Errorf("%d final runs, want %d", got, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := len(got)
	got = sizes(t, dir)
	for i, size := range got {
		if size > 4_100 {
			t.Errorf("block %d of %d has %d bytes after runs came between", i, len(got), size)
		}
	}
	if len(got) <= before {
		t.Errorf("%d blocks, of %d before", len(got), before)
	}
}

func FuzzUnpack(f *testing.F) {
	run := benchRun(1, benchSpec, []byte("input"), true)
	spec, _ := run.Spec.MarshalMsg(nil)
	run.Spec = nil
	body, _ := run.MarshalMsg(nil)
	block := append([]byte{1}, spec...)
	block = append(block, 2)
	for range 2 {
		block = append(block, 0, byte(len(body)&0x7f|0x80), byte(len(body)>>7))
		block = append(block, body...)
	}
	if n, err := boltstore.UnpackBlock(block); n != 2 || err != nil {
		f.Fatalf("%d runs, %v", n, err)
	}
	f.Add(block)
	f.Add([]byte{0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, err := boltstore.UnpackBlock(b); n > len(b) || err != nil && !errors.Is(err, boltstore.ErrCorrupt) {
			t.Errorf("%d runs, %v", n, err)
		}
	})
}
