package storetest

import (
	"io"
	"iter"
	"testing"

	"github.com/escapement-go/scheduler/store"
)

// Backend is what keeps a state.
type Backend interface {
	Image() (*store.Image, error)
	Commit(f *store.Flush, configuration []byte) error
	Configuration() []byte
	Backup(w io.Writer) (store.Meta, []byte, error)
	Restore(r io.Reader) error
	FinalRun(id store.RunID) (*store.Run, store.SegmentKey, error)
	FinalRuns(from, to int64, newestFirst bool) iter.Seq2[*store.Run, error]
	Ticks(schedule uint64, from, to int64) iter.Seq2[*store.Tick, error]
	Versions(schedule uint64) iter.Seq2[*store.ScheduleVersion, error]
	Events(fromIndex uint64) iter.Seq2[store.PackedEvents, error]
	Stats() store.Stats
	Close() error
}

// Bounds are what a backend under test is to be opened with.
type Bounds struct {
	JournalBytes int64 // 0: the default
}

// A Place is where a backend keeps what outlives it. Open opens it there, empty
// the first time and then with what was committed; one backend is open at a time.
type Place interface {
	Open(tb testing.TB, b Bounds) Backend
}

// Test is the conformance suite: it runs as subtests of t, each with places of its
// own.
func Test(t *testing.T, place func(tb testing.TB) Place) {
	t.Helper()
	for _, test := range []struct {
		claim string
		run   func(*testing.T, Place)
	}{
		{"an empty backend has nothing", testEmpty},
		{"what is committed is found again", testRoundTrip},
		{"a final run leaves the live rows", testFinalMoves},
		{"a run taken up again is live beside its older row", testRevival},
		{"of several parts the newest row counts", testParts},
		{"many runs come and go in any order", testCrowd},
		{"a dropped segment is gone with all its rows", testDrop},
		{"a dropped segment can be filled again in the same flush", testDropAndRefill},
		{"final runs are listed by the time in their ID", testFinalRuns},
		{"ticks are listed by nominal time, with spans that reach in", testTicks},
		{"the journal is read from any index", testEvents},
		{"the journal keeps its bound", testJournalBound},
		{"a repeated commit changes nothing", testRepeatedCommit},
		{"an older flush is refused", testBehind},
		{"any text is a key", testKeys},
		{"a copy replaces everything", testCopy},
		{"a damaged copy replaces nothing", testDamagedCopy},
		{"readers and a writer do not disturb each other", testConcurrent},
		{"a closed backend refuses", testClosed},
		{"a state survives restarts at any flush", testRestarts},
	} {
		t.Run(test.claim, func(t *testing.T) { test.run(t, place(t)) })
	}
}
