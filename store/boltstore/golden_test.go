package boltstore_test

import (
	"compress/gzip"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler/store"
)

var update = flag.Bool("update", false, "write the golden files anew")

// format1 has a state.db of the first format, with a row of everything, and what
// it has.
func TestFormat1_opens_and_reads_as_ever(t *testing.T) {
	golden := filepath.Join("testdata", "format1")
	if *update {
		writeGolden(t, golden)
	}
	dir := t.TempDir()
	unzip(t, filepath.Join(golden, "state.db.gz"), stateFile(dir))
	var want content
	if err := json.Unmarshal(mustRead(t, filepath.Join(golden, "content.json")), &want); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, dir)
	if diff := cmp.Diff(want, readAll(t, s, nil)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if err := s.Commit(flushOf(1_000_000, 1, 10, 10), nil); err != nil {
		t.Errorf("Commit to it: %v", err)
	}
}

func writeGolden(t *testing.T, golden string) {
	t.Helper()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	history(t, s, 1, 90, func(uint64) {})
	text, err := json.MarshalIndent(readAll(t, s, nil), "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(golden, "content.json"), append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(golden, "state.db.gz"))
	if err != nil {
		t.Fatal(err)
	}
	w := gzip.NewWriter(f)
	if _, err := w.Write(used(mustRead(t, stateFile(dir)))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func unzip(t *testing.T, from, to string) {
	t.Helper()
	f, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	// What bbolt has allocated beyond the last page with content is zeros.
	writeFile(t, to, b, int64(len(b))+64*pageSize)
}

// A run's row is read in one of two ways; this is the other one.
func TestStore_Image_reads_runs_of_every_shape(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	f := emptyFlush(1)
	small := benchRun(1, benchSpec, nil, false)
	large := benchRun(2, benchSpec, []byte("input"), true) // more fields than a short map has
	large.State, large.Clock = store.Scheduled, store.Wall
	large.Failures, large.Crashes, large.Interrupts, large.Snoozes = 1, 2, 3, 4
	put := make(map[store.RunID]*store.Run)
	for _, r := range []*store.Run{small, large} {
		addLive(f, r)
		put[r.ID] = r
	}
	if err := s.Commit(f, nil); err != nil {
		t.Fatal(err)
	}
	img, err := s.Image()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	err = img.Runs(func(r *store.Run) error {
		n++
		if encoded(t, r) != encoded(t, put[r.ID]) {
			t.Errorf("run %v: %+v, want %+v", r.ID, r, put[r.ID])
		}
		return nil
	})
	if err != nil || n != 2 {
		t.Errorf("%d runs, %v", n, err)
	}
}
