package store_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/store/memstore"
	"github.com/escapement-go/scheduler/store/storetest"
)

// entries makes the encoded batches of a seed.
func entries(tb testing.TB, seed uint64, n int) [][]byte {
	tb.Helper()
	g, s := storetest.NewGenerator(seed), store.NewState()
	log := make([][]byte, 0, n)
	for index := uint64(1); index <= uint64(n); index++ {
		b := g.Next(s)
		data, err := store.EncodeBatch(nil, b)
		if err != nil {
			tb.Fatal(err)
		}
		log = append(log, data)
		_, events := s.Apply(index, 1, b)
		g.Observe(index, events)
	}
	return log
}

func decode(tb testing.TB, data []byte) *store.Batch {
	tb.Helper()
	b, err := store.DecodeBatch(data)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// TestState_Replay runs the same entries through states that flush at different
// times, and restart at different times from what they have flushed.
func TestState_Replay(t *testing.T) {
	seeds, n := uint64(6), 1200
	if testing.Short() {
		seeds, n = 2, 500
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			log := entries(t, seed, n)
			rng := rand.New(rand.NewPCG(seed, 9))
			eager, lazy, restarted := newReplica(1), newReplica(0), newReplica(5)
			for i, data := range log {
				index := uint64(i + 1)
				want := eager.apply(t, index, data)
				for name, r := range map[string]*replica{"that never flushes": lazy, "that restarts": restarted} {
					if diff := cmp.Diff(want, r.apply(t, index, data)); diff != "" {
						t.Fatalf("index %d: results of the state %s: -want +got\n%s", index, name, diff)
					}
				}
				if rng.IntN(40) == 0 {
					restarted.restart(t, log[:i+1])
				}
				if i%20 == 0 || i == n-1 {
					want := eager.s.Digest()
					if got := lazy.s.Digest(); got != want {
						t.Fatalf("index %d: digest %x without flushes, %x with", index, got, want)
					}
					if got := restarted.s.Digest(); got != want {
						t.Fatalf("index %d: digest %x with restarts, %x without", index, got, want)
					}
				}
			}
		})
	}
}

// replica is a state with what it has flushed; every is the number of entries
// between flushes, 0 for never.
type replica struct {
	s     *store.State
	kept  *memstore.Store
	every uint64
}

func newReplica(every uint64) *replica {
	return &replica{s: store.NewState(), kept: memstore.New(memstore.Options{}), every: every}
}

func (r *replica) apply(t *testing.T, index uint64, data []byte) []store.Result {
	t.Helper()
	results, _ := r.s.Apply(index, 1, decode(t, data))
	if r.every == 0 || index%r.every != 0 {
		return results
	}
	if f := r.s.TakeFlush(); f != nil {
		if err := r.kept.Commit(f, nil); err != nil {
			t.Fatal(err)
		}
		if index%2 == 0 { // a host need not have its schedules rest
			f.Rest()
		}
		r.s.Flushed(f)
	}
	return results
}

// restart forgets what was not flushed and applies the log again, from the start:
// what is in the image already must change nothing.
func (r *replica) restart(t *testing.T, log [][]byte) {
	t.Helper()
	img, err := r.kept.Image()
	if err != nil {
		t.Fatal(err)
	}
	r.s = store.NewState()
	if err := r.s.Load(img); err != nil {
		t.Fatal(err)
	}
	from := r.s.Meta().Index
	for i, data := range log {
		results, events := r.s.Apply(uint64(i+1), 1, decode(t, data))
		if uint64(i+1) <= from && (results != nil || events != nil) {
			t.Fatalf("index %d is in the image and was applied again", i+1)
		}
	}
}

// Rows that wait to be flushed are what the flush then brings: nothing is lost
// between the memory of a state and its backend.
func TestState_Flush_brings_every_final_run_and_tick(t *testing.T) {
	s, kept := store.NewState(), memstore.New(memstore.Options{})
	g := storetest.NewGenerator(3)
	g.Prune = false
	last, ticks := make(map[store.RunID]*store.Run), make(map[uint64][]store.Tick)
	for index := uint64(1); index <= 1500; index++ {
		_, events := s.Apply(index, 1, g.Next(s))
		g.Observe(index, events)
		for _, e := range events {
			switch {
			case e.Kind == store.EventTick:
				ticks[e.Tick.Schedule] = append(ticks[e.Tick.Schedule], *e.Tick)
			case e.Run != nil:
				last[e.Run.ID] = e.Run
			}
		}
		if index%13 != 0 && index != 1500 {
			continue
		}
		f := s.TakeFlush()
		if err := kept.Commit(f, nil); err != nil {
			t.Fatal(err)
		}
		f.Rest()
		s.Flushed(f)
	}
	for id, want := range last {
		got := s.LiveRun(id)
		if want.State.Final() {
			got, _, _ = kept.FinalRun(id)
		}
		if got == nil || encoded(t, got) != encoded(t, want) {
			t.Errorf("run %v: %+v, want %+v", id, got, want)
		}
	}
	for schedule, decided := range ticks {
		checkLedger(t, kept, schedule, decided)
	}
}

// checkLedger checks that no two rows of a schedule overlap, and that each tick
// that was decided, and not merely let go, has its row.
func checkLedger(t *testing.T, kept *memstore.Store, schedule uint64, decided []store.Tick) {
	t.Helper()
	rows := make(map[int64]store.Tick)
	end := int64(math.MinInt64)
	for row, err := range kept.Ticks(schedule, math.MinInt64, math.MaxInt64) {
		if err != nil {
			t.Fatal(err)
		}
		if row.Backfill {
			continue // it stands beside others
		}
		if row.From <= end {
			t.Errorf("schedule %d: row %d to %d begins before %d, where the last one ends", schedule, row.From, row.To, end)
		}
		end = row.To
		rows[row.To] = *row
	}
	for _, d := range decided {
		if d.Outcome == store.TickMerged || d.Outcome == store.TickMissed || d.Backfill {
			continue
		}
		if got := rows[d.To]; got.Outcome != d.Outcome || got.From > d.From && d.From == d.To {
			t.Errorf("schedule %d: tick %d has the row %+v, want %+v", schedule, d.To, got, d)
		}
	}
}

func encoded(tb testing.TB, r *store.Run) string {
	tb.Helper()
	b, err := r.MarshalMsg(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}
