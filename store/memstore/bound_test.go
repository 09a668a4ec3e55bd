package memstore_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/store/memstore"
)

var start = time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)

func runID(at time.Time, n uint64) store.RunID {
	var entropy [10]byte
	binary.BigEndian.PutUint64(entropy[2:], n)
	return store.NewRunID(at, entropy)
}

// finals makes a flush of final runs, one each minute from a minute on.
func finals(index uint64, from, n int) *store.Flush {
	f := &store.Flush{Meta: store.Meta{Format: 1, Level: 1, Index: index}}
	for i := range n {
		at := start.Add(time.Duration(from+i) * time.Minute)
		r := &store.Run{ID: runID(at, 0), Spec: &store.Spec{Task: "t"}, State: store.Succeeded}
		f.Runs = append(f.Runs, store.ChangedRun{
			ID: r.ID, Run: r, Final: true, Segment: store.SegmentKey{Time: uint32(at.UnixMilli() / 3_600_000)},
		})
		f.Ticks = append(f.Ticks, store.TickRow{
			Segment: store.SegmentKey{Kind: store.TickSegment, Time: uint32(at.UnixNano() / int64(24*time.Hour))},
			Tick:    store.Tick{Schedule: 1, From: at.UnixNano(), To: at.UnixNano(), Outcome: store.TickRan},
		})
	}
	return f
}

func TestStore_keeps_the_newest_of_the_past(t *testing.T) {
	s := memstore.New(memstore.Options{FinalRuns: 100, Ticks: 70})
	for i := range 10 {
		// In no order: the oldest by their time go, not the first that came.
		if err := s.Commit(finals(uint64(i+1), (i*7%10)*40, 40), nil); err != nil {
			t.Fatal(err)
		}
	}
	var runs, want []string
	for r, err := range s.FinalRuns(0, math.MaxInt64, true) {
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, fmt.Sprint(r.ID.Time().Sub(start)))
	}
	for i := range 100 {
		want = append(want, fmt.Sprint(time.Duration(399-i)*time.Minute))
	}
	if diff := cmp.Diff(want, runs); diff != "" {
		t.Errorf("final runs: -want +got\n%s", diff)
	}
	ticks := 0
	for tick, err := range s.Ticks(1, math.MinInt64, math.MaxInt64) {
		if err != nil || tick.From < start.Add(330*time.Minute).UnixNano() {
			t.Errorf("tick %+v, %v", tick, err)
		}
		ticks++
	}
	if st := s.Stats(); st.FinalRuns != 100 || st.Ticks != 70 || ticks != 70 {
		t.Errorf("Stats() = %+v, %d ticks listed", st, ticks)
	}
}

// Records that were committed are a State's, and go on being its own.
func TestStore_Image_shares_nothing(t *testing.T) {
	s := memstore.New(memstore.Options{})
	id := runID(start, 1)
	f := finals(1, 0, 0)
	committed := &store.Run{ID: id, Spec: &store.Spec{Task: "t"}, Input: []byte("in"), More: &store.RunMore{Meta: []store.Pair{{Key: "k"}}}}
	f.Runs = append(f.Runs, store.ChangedRun{ID: id, Run: committed})
	if err := s.Commit(f, nil); err != nil {
		t.Fatal(err)
	}
	img, err := s.Image()
	if err != nil {
		t.Fatal(err)
	}
	err = img.Runs(func(r *store.Run) error {
		if r == committed || r.Spec == committed.Spec || r.More == committed.More || &r.Input[0] == &committed.Input[0] {
			t.Error("the image shares memory with what was committed")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
