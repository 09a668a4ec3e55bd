package dispatch_test

import (
	"testing"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// allow lets the runs of a schedule overlap.
func allow(sc *store.Schedule) { sc.Overlap = store.OverlapAllow }

// What must not make a schedule stand still: a tick is armed once only, so one
// that gets lost is the last.
func TestDispatcher_ScheduleGoesOn(t *testing.T) {
	t.Run("when a run of it expires in the entry of its tick", func(t *testing.T) {
		w := newWorld(t, 0)
		w.put("s", time.Minute, allow, func(sc *store.Schedule) { sc.Spec.ExpireAfter = minute / 2 })
		w.pass(time.Minute)
		w.pass(time.Minute) // the leader was busy: the first run has expired and the second tick is due
		if got, want := w.st.Live(), 1; got != want {
			t.Fatalf("live runs: got %d, want %d", got, want)
		}
		w.pass(time.Minute)
		if got, want := len(w.ticks()), 3; got != want {
			t.Errorf("ledger: got %d rows, want %d", got, want)
		}
	})
	t.Run("when a run of it ends in the entry that changes it", func(t *testing.T) {
		w := newWorld(t, 4)
		w.put("s", time.Hour, allow)
		w.pass(time.Hour)
		g := w.take()
		changed := store.Schedule{
			ID: "s", Spec: spec(), Overlap: store.OverlapAllow,
			Trigger: store.Trigger{Kind: store.TriggerEvery, Every: minute},
		}
		w.batch(store.Command{Kind: store.KindPutSchedule, Schedule: &store.PutSchedule{Schedule: changed, Next: w.elapsed + minute}},
			store.Command{Kind: store.KindComplete, Complete: &store.Complete{
				Session: w.session, Reports: []store.Report{{Run: g[0].Run.ID, Fence: g[0].Run.Fence, Outcome: store.OutcomeSucceeded}},
			}})
		w.pass(time.Minute)
		if got, want := len(w.ticks()), 2; got != want {
			t.Errorf("ledger: got %d rows, want %d", got, want)
		}
	})
	t.Run("when the wall clock is set back while a tick of an interval is held", func(t *testing.T) {
		w := newWorld(t, 2)
		w.put("s", time.Minute)
		w.pass(time.Minute)
		w.pass(time.Minute - 5*time.Millisecond) // held: the run before it has not ended
		w.wall -= 2 * int64(time.Hour)
		w.pass(time.Millisecond)
		w.pass(4 * time.Millisecond)
		rows := w.ticks()
		if len(rows) != 2 || rows[1].Outcome != store.TickSkipped {
			t.Errorf("ledger: got %+v, want a second row: skipped", rows)
		}
	})
	t.Run("when its trigger is changed to a tick that was decided before the wall clock was set back", func(t *testing.T) {
		w := newWorld(t, 10)
		w.put("s", time.Minute, onWall, allow)
		for range 10 {
			w.pass(time.Minute)
		}
		w.wall -= 5 * minute
		w.pass(time.Second)
		w.put("s", 30*time.Second, onWall, allow)
		for range 10 * 60 {
			w.pass(time.Second)
		}
		rows := w.ticks()
		if got := len(rows) - 10; got < 9 || got > 11 {
			t.Errorf("ticks in the five minutes that are new: got %d, want 10", got)
		}
		seen := make(map[int64]bool)
		for _, tick := range rows {
			if seen[tick.From] {
				t.Errorf("tick %v was decided twice", time.Unix(0, tick.From).UTC())
			}
			seen[tick.From] = true
		}
	})
	t.Run("when more delayed runs are due than an entry takes", func(t *testing.T) {
		w := newWorld(t, 0)
		w.put("s", time.Minute, onWall)
		for range 10_000 {
			w.enqueue(spec(), time.Minute)
		}
		w.pass(time.Minute)
		if got, want := len(w.ticks()), 1; got != want {
			t.Errorf("ledger: got %d rows, want %d", got, want)
		}
	})
	t.Run("when a run that was due is not any more, for the wall clock was set back", func(t *testing.T) {
		w := newWorld(t, 0)
		w.batch(store.Command{Kind: store.KindEnqueue, Enqueue: &store.Enqueue{
			Specs: [][]byte{spec().Encode()}, Runs: []store.NewRun{{ID: w.id(), Clock: store.Wall, Due: w.wall}},
		}})
		w.wall -= int64(time.Hour)
		w.pass(time.Second)
		id := w.enqueue(spec(), 0)
		w.d.SetCapacity(w.session, 4, 0)
		w.batch()
		w.wantGranted(id)
	})
	t.Run("when the wall clock was set back while nobody led", func(t *testing.T) {
		w := newWorld(t, 10)
		w.put("s", time.Minute, onWall, allow)
		w.pass(time.Minute)
		w.d.Lead(w.st, false)
		w.wall -= 2 * int64(time.Hour)
		w.d.Lead(w.st, true)
		for range 10 {
			w.pass(time.Minute)
		}
		if got := len(w.ticks()) - 1; got < 9 || got > 10 {
			t.Errorf("ticks in ten minutes: got %d, want about 10", got)
		}
	})
	t.Run("when the wall clock is set back while its tick is on the way", func(t *testing.T) {
		w := newWorld(t, 10)
		w.put("s", time.Minute, onWall, allow)
		w.wall, w.elapsed = w.wall+minute, w.elapsed+minute
		tick := &store.Batch{Level: store.FormatLevel, Wall: w.wall, Elapsed: w.elapsed}
		w.d.Prepare(tick, w.st)
		w.wall -= 2 * int64(time.Hour)
		step := &store.Batch{Level: store.FormatLevel, Wall: w.wall, Elapsed: w.elapsed}
		w.d.Prepare(step, w.st)
		for _, entry := range []*store.Batch{tick, step} {
			w.index++
			res, ev := w.st.Apply(w.index, 1, entry)
			w.d.Applied(w.st, entry, res, ev)
		}
		for range 10 {
			w.pass(time.Minute)
		}
		if got := len(w.ticks()) - 1; got < 9 || got > 10 {
			t.Errorf("ticks in ten minutes: got %d, want about 10", got)
		}
	})
}
