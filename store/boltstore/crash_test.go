package boltstore_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A commit writes the changed pages, syncs them, writes one meta page and syncs
// that. So a power cut leaves any part of the pages, and the meta page only once
// all of them are there. The test makes those files out of the file before and
// after each commit, and reads each of them.
func TestStore_PowerCut(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	rng := rand.New(rand.NewPCG(1, 2))
	before := used(mustRead(t, stateFile(dir)))
	was := readAll(t, s, nil)
	cuts, commits := 0, 0
	entries := uint64(280)
	if testing.Short() {
		entries = 70
	}
	history(t, s, 11, entries, func(index uint64) {
		whole := mustRead(t, stateFile(dir))
		after, size := used(whole), int64(len(whole))
		is := readAll(t, s, nil)
		commits++
		for name, image := range cutImages(rng, before, after) {
			cuts++
			got := readImage(t, image, max(size, int64(len(image))))
			if diff := cmp.Diff(was, got); diff != "" && !cmp.Equal(is, got) {
				t.Fatalf("commit of index %d, cut at %s: neither before nor after: -before +got\n%s", index, name, diff)
			}
			if name == "nothing lost" && !cmp.Equal(is, got) {
				t.Fatalf("commit of index %d is not found again", index)
			}
		}
		before, was = after, is
	})
	t.Logf("%d commits, %d cuts", commits, cuts)
}

// cutImages makes the files that a power cut between two states may leave.
func cutImages(rng *rand.Rand, before, after []byte) map[string][]byte {
	var meta int
	var pages []int
	for n := range (len(after) + pageSize - 1) / pageSize {
		switch same := n*pageSize < len(before) && bytes.Equal(page(before, n), page(after, n)); {
		case same:
		case n < 2:
			meta = n
		default:
			pages = append(pages, n)
		}
	}
	images := map[string][]byte{"nothing written": before, "nothing lost": after}
	for i := range 8 {
		image := bytes.Clone(before)
		rng.Shuffle(len(pages), func(a, b int) { pages[a], pages[b] = pages[b], pages[a] })
		written := pages[:rng.IntN(len(pages)+1)]
		for _, n := range written {
			image = put(image, n, page(after, n))
		}
		if len(written) > 0 { // the last one is torn
			n := written[len(written)-1]
			torn := bytes.Clone(page(after, n))
			clear(torn[rng.IntN(8)*512:])
			image = put(image, n, torn)
		}
		images[fmt.Sprintf("%d of %d pages (%d)", len(written), len(pages), i)] = image
	}
	for _, size := range []int{16, 20, 40, 64, 72, 79, 80, 512} { // the meta page is torn
		image := bytes.Clone(before)
		for _, n := range pages {
			image = put(image, n, page(after, n))
		}
		torn := bytes.Clone(page(before, meta))
		copy(torn, page(after, meta)[:size])
		images[fmt.Sprintf("%d bytes of the meta page", size)] = put(image, meta, torn)
	}
	return images
}

func page(b []byte, n int) []byte {
	if n*pageSize >= len(b) {
		return make([]byte, pageSize)
	}
	return b[n*pageSize : (n+1)*pageSize]
}

func put(image []byte, n int, page []byte) []byte {
	for len(image) < (n+1)*pageSize {
		image = append(image, make([]byte, pageSize)...)
	}
	copy(image[n*pageSize:], page)
	return image
}

// readImage opens a file with the given bytes and reads all of it.
func readImage(t *testing.T, image []byte, size int64) content {
	t.Helper()
	dir := t.TempDir()
	defer os.RemoveAll(dir)
	writeFile(t, stateFile(dir), image, size)
	s := mustOpen(t, dir)
	defer s.Close()
	return readAll(t, s, nil)
}

func TestOpen_sweeps_what_was_left_half_done(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	f := emptyFlush(5)
	addLive(f, benchRun(1, benchSpec, nil, false))
	if err := s.Commit(f, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	left := dir + "/state.new-123"
	writeFile(t, left, []byte("half"), 4)
	if got := mustOpen(t, dir).Stats(); got.Index != 5 || got.LiveRuns != 1 {
		t.Errorf("Stats() = %+v", got)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("the file left over: %v, want it gone", err)
	}
}
