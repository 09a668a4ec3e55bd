package boltstore_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/store/boltstore"
)

// flushOf makes a flush of live runs with some bytes of input each.
func flushOf(index, first, n uint64, size int) *store.Flush {
	f := emptyFlush(index)
	for i := range n {
		addLive(f, benchRun(first+i, benchSpec, bytes.Repeat([]byte{7}, size), false))
	}
	return f
}

func TestOpen_of_a_folder_in_use_fails_at_once(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	if _, err := boltstore.Open(dir, boltstore.Options{}); !errors.Is(err, boltstore.ErrInUse) {
		t.Errorf("second Open: %v, want ErrInUse", err)
	}
	if err := s.Commit(flushOf(1, 1, 3, 10), nil); err != nil {
		t.Errorf("the first store: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := mustOpen(t, dir).Stats().LiveRuns; got != 3 {
		t.Errorf("%d live runs, want 3", got)
	}
}

func TestOpen_makes_the_folder_or_says_why_not(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	mustOpen(t, dir)
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, nil, 0)
	_, err := boltstore.Open(filepath.Join(file, "dir"), boltstore.Options{})
	if _, ok := errors.AsType[*os.PathError](err); !ok {
		t.Errorf("Open below a file: %v, want an *os.PathError", err)
	}
}

// breakRow replaces a row of the meta bucket by one with another body or version.
func breakRow(t *testing.T, dir, key string, version byte, body []byte) {
	t.Helper()
	db, err := bbolt.Open(stateFile(dir), 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		row := append([]byte{0, 0, 0, 0, version}, body...)
		sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
		_, _ = sum.Write(append([]byte(key), row[4:]...))
		binary.LittleEndian.PutUint32(row, sum.Sum32())
		return tx.Bucket([]byte("meta")).Put([]byte(key), row)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestOpen_refuses_what_a_newer_build_wrote(t *testing.T) {
	meta := store.Meta{Format: store.FormatLevel + 1, Index: 4}
	state, _ := meta.MarshalMsg(nil)
	for _, c := range []struct {
		what, key string
		version   byte
		body      []byte
	}{
		{"layout", "format", 1, []byte{2, 0}},
		{"row version", "state", 2, []byte("whatever")},
		{"format level", "state", 1, state},
	} {
		dir := t.TempDir()
		if err := mustOpen(t, dir).Close(); err != nil {
			t.Fatal(err)
		}
		breakRow(t, dir, c.key, c.version, c.body)
		_, err := boltstore.Open(dir, boltstore.Options{})
		if !errors.Is(err, boltstore.ErrNewer) || errors.Is(err, boltstore.ErrCorrupt) {
			t.Errorf("newer %s: %v, want ErrNewer", c.what, err)
		}
	}
}

func TestOpen_refuses_a_bbolt_file_of_another_program(t *testing.T) {
	dir := t.TempDir()
	db, err := bbolt.Open(stateFile(dir), 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("theirs"))
		return err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := boltstore.Open(dir, boltstore.Options{}); !errors.Is(err, boltstore.ErrCorrupt) {
		t.Errorf("Open: %v, want ErrCorrupt", err)
	}
}

func TestStore_Commit_that_fails_can_be_repeated(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	if err := s.Commit(flushOf(1, 1, 100, 100), []byte("one")); err != nil {
		t.Fatal(err)
	}
	was := readAll(t, s, nil)
	for round := range uint64(3) {
		s.BreakFile()
		f := flushOf(2+round, 200*(round+1), 100, 100)
		err := s.Commit(f, []byte("two"))
		var commit *boltstore.CommitError
		if !errors.As(err, &commit) || commit.Index != f.Meta.Index || !errors.Is(err, os.ErrClosed) {
			t.Fatalf("Commit to a broken file: %v, want a CommitError that wraps the cause", err)
		}
		if got := readAll(t, s, nil); !equal(got, was) {
			t.Errorf("after the failure: %v, want %v", got, was)
		}
		if err := s.Commit(f, []byte("two")); err != nil {
			t.Fatalf("repeated: %v", err)
		}
		if got := s.Stats(); got.LiveRuns != int64(100*(round+2)) || got.Index != f.Meta.Index {
			t.Errorf("Stats() = %+v", got)
		}
		was = readAll(t, s, nil)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, mustOpen(t, dir), nil); !equal(got, was) {
		t.Errorf("after a restart: %v, want %v", got, was)
	}
}

func TestStore_Commit_on_a_full_disk_can_be_repeated_once_there_is_room(t *testing.T) {
	dir := smallDisk(t)
	s := mustOpen(t, dir)
	defer s.Close()
	if err := s.Commit(flushOf(1, 1, 100, 100), nil); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(dir, "filler")
	writeFile(t, filler, make([]byte, 3<<20), 3<<20)
	was := readAll(t, s, nil)
	f := flushOf(2, 1_000, 1_200, 1_000)
	for range 2 {
		if err := s.Commit(f, nil); !errors.Is(err, errNoSpace) {
			t.Fatalf("Commit to a full disk: %v, want ENOSPC in it", err)
		}
		if got := readAll(t, s, nil); !equal(got, was) {
			t.Errorf("after the failure: %v, want %v", got, was)
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(f, nil); err != nil {
		t.Fatalf("repeated with room: %v", err)
	}
	if got := s.Stats().LiveRuns; got != 1_300 {
		t.Errorf("%d live runs, want 1300", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := mustOpen(t, dir).Stats().LiveRuns; got != 1_300 {
		t.Errorf("after a restart: %d live runs, want 1300", got)
	}
}

func TestStore_Restore_that_fails_leaves_everything(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	if err := s.Commit(flushOf(1, 1, 100, 100), []byte("config")); err != nil {
		t.Fatal(err)
	}
	was := readAll(t, s, nil)
	failing := errors.New("connection lost")
	err := s.Restore(&failingReader{data: make([]byte, 50_000), err: failing})
	if !errors.Is(err, failing) {
		t.Errorf("Restore: %v, want the reader's error", err)
	}
	if got := readAll(t, s, nil); !equal(got, was) {
		t.Errorf("after it: %v, want %v", got, was)
	}
	if err := s.Commit(flushOf(2, 200, 1, 1), nil); err != nil {
		t.Errorf("Commit after it: %v", err)
	}
}

type failingReader struct {
	data []byte
	err  error
}

func (r *failingReader) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		return 0, r.err
	}
	n := copy(p, r.data)
	r.data = r.data[n:]
	return n, nil
}

// A copy without its trailer is bbolt's own file: a backup can be opened.
func TestStore_Backup_is_a_file_that_opens(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	ids := history(t, s, 8, 150, func(uint64) {})
	var copied bytes.Buffer
	if _, _, err := s.Backup(&copied); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writeFile(t, stateFile(dir), copied.Bytes(), int64(copied.Len()))
	opened := mustOpen(t, dir)
	if got, want := readAll(t, opened, ids), readAll(t, s, ids); !equal(got, want) {
		t.Errorf("opened copy: %v, want %v", got, want)
	}
	if err := opened.Commit(flushOf(10_000, 1, 50, 10), nil); err != nil {
		t.Errorf("Commit to it: %v", err)
	}
}
