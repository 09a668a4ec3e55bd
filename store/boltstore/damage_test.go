package boltstore_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/store/boltstore"
)

// damagedStore makes a folder with a state, and says what it has and what it had
// a commit before.
func damagedStore(t *testing.T) (dir string, ids []store.RunID, now, before content) {
	t.Helper()
	dir = t.TempDir()
	s := mustOpen(t, dir)
	ids = history(t, s, 21, 350, func(uint64) {})
	now = readAll(t, s, ids)
	before = now
	// One more commit, so that what was before it can be told.
	f := emptyFlush(1_000)
	f.Queues = map[string]*store.Queue{"last": {Name: "last", Limit: 1}}
	if err := s.Commit(f, nil); err != nil {
		t.Fatal(err)
	}
	now = readAll(t, s, ids)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, ids, now, before
}

func TestStore_Damage_is_named_and_never_wrong_data(t *testing.T) {
	dir, ids, now, before := damagedStore(t)
	whole := mustRead(t, stateFile(dir))
	size := int64(len(whole))
	whole = used(whole)
	if now["live"] == before["live"] {
		t.Fatal("the last commit changed nothing")
	}
	rng := rand.New(rand.NewPCG(3, 4))
	flips := flipsPerPage * len(whole) / pageSize
	if testing.Short() {
		flips /= 4
	}
	refused, partly, older, unseen := 0, 0, 0, 0
	for range flips {
		at := rng.IntN(len(whole))
		switch rng.IntN(6) { // some bytes are few and matter much
		case 0, 1:
			at = at/pageSize*pageSize + rng.IntN(120)
		case 2:
			at = rng.IntN(2)*pageSize + rng.IntN(80)
		}
		changed := bytes.Clone(whole)
		changed[at] ^= 1 << rng.IntN(8)
		writeFile(t, stateFile(dir), changed, size)
		s, err := boltstore.Open(dir, boltstore.Options{})
		if err != nil {
			refused++
			if !errors.Is(err, boltstore.ErrCorrupt) {
				t.Errorf("byte %d of page %d changed: %v, want ErrCorrupt", at%pageSize, at/pageSize, err)
			}
			continue
		}
		switch got := readAll(t, s, ids); {
		case equal(got, now):
			unseen++
		case got.within(now):
			partly++
		case got.within(before) && at < 2*pageSize:
			older++
		default:
			t.Errorf("byte %d of page %d changed: wrong data\ngot    %v\nwant   %v\nbefore %v", at%pageSize, at/pageSize, got, now, before)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d bits flipped: %d refused at opening, %d told when read, %d at the commit before, %d not in use",
		flips, refused, partly, older, unseen)
}

// flipsPerPage can be raised to look longer.
const flipsPerPage = 4

func equal(a, b content) bool {
	for part := range a {
		if a[part] != b[part] {
			return false
		}
	}
	return true
}

func TestOpen_refuses_a_file_cut_short(t *testing.T) {
	dir, ids, now, _ := damagedStore(t)
	whole := mustRead(t, stateFile(dir))
	inUse := len(used(whole))
	step := inUse / 60
	for size := 0; size < inUse+2*step; size += step {
		writeFile(t, stateFile(dir), whole[:size], int64(size))
		s, err := boltstore.Open(dir, boltstore.Options{})
		if err == nil {
			if got := readAll(t, s, ids); size < inUse-pageSize || !equal(got, now) {
				t.Errorf("cut at %d of %d: opened with %v", size, inUse, got)
			}
			_ = s.Close()
			continue
		}
		if !errors.Is(err, boltstore.ErrCorrupt) {
			t.Errorf("cut at %d of %d: %v, want ErrCorrupt", size, inUse, err)
		}
	}
}

func TestOpen_refuses_other_files(t *testing.T) {
	for name, content := range map[string][]byte{
		"empty": {},
		"text":  bytes.Repeat([]byte("not a database\n"), 10_000),
		"zeros": make([]byte, 100_000),
	} {
		dir := t.TempDir()
		writeFile(t, stateFile(dir), content, int64(len(content)))
		_, err := boltstore.Open(dir, boltstore.Options{})
		if !errors.Is(err, boltstore.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
		if _, ok := errors.AsType[*boltstore.CorruptError](err); !ok {
			t.Errorf("%s: %T, want a *CorruptError in it", name, err)
		}
		if got := mustRead(t, stateFile(dir)); !bytes.Equal(got, content) {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

// The file shrinks under an open store: reading its mapped pages faults.
func TestStore_survives_a_file_that_shrinks_under_it(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	ids := history(t, s, 5, 200, func(uint64) {})
	if err := os.Truncate(stateFile(dir), 2*pageSize); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, s, ids); got["final"] != "damaged" || got["lookups"] != "damaged" {
		t.Errorf("read %v, want damage", got)
	}
	f := emptyFlush(1_000)
	addLive(f, benchRun(1, benchSpec, nil, false))
	for range 2 {
		err := s.Commit(f, nil)
		var commit *boltstore.CommitError
		if !errors.Is(err, boltstore.ErrCorrupt) || !errors.As(err, &commit) || commit.Index != 1_000 {
			t.Errorf("Commit: %v, want a CommitError with ErrCorrupt in it", err)
		}
	}
	if _, _, err := s.FinalRun(ids[0]); !errors.Is(err, boltstore.ErrCorrupt) {
		t.Errorf("FinalRun: %v, want ErrCorrupt", err)
	}
}
