package dispatch_test

import (
	"testing"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// The schedule is changed by an entry that is on its way when a start is decided: the
// next start keeps its distance nevertheless.
func TestDispatcher_WaitsKeepTheirPace(t *testing.T) {
	w := newWorld(t, 8)
	w.put("s", time.Minute, onWall, func(sc *store.Schedule) { sc.Overlap = store.OverlapAllow })
	backfill := func(before uint64, from int64) store.Command {
		return store.Command{Kind: store.KindBackfill, Backfill: &store.Backfill{
			Schedule: "s", Version: 1, Before: before, Spans: []store.Span{{From: from, To: from + 2*minute}}, Pace: 10 * second,
		}}
	}
	prepare := func(cmds ...store.Command) *store.Batch {
		b := &store.Batch{Level: store.FormatLevel, Wall: w.wall, Elapsed: w.elapsed, Commands: cmds}
		w.d.Prepare(b, w.st)
		return b
	}
	apply := func(b *store.Batch) {
		w.index++
		results, events := w.st.Apply(w.index, 1, b)
		w.d.Applied(w.st, b, results, events)
	}
	one, other := prepare(backfill(0, noon-20*minute)), prepare(backfill(1, noon-10*minute))
	apply(one)
	start := prepare()
	apply(other)
	apply(start)
	w.batch()
	if got := len(w.ticks()); got != 1 {
		t.Fatalf("at once: got %d starts, want 1", got)
	}
	w.pass(9 * time.Second)
	if got := len(w.ticks()); got != 1 {
		t.Errorf("after 9 s: got %d starts, want 1", got)
	}
	w.pass(time.Second)
	if got := len(w.ticks()); got != 2 {
		t.Errorf("after 10 s: got %d starts, want 2", got)
	}
}
