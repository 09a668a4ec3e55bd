package dispatch_test

import (
	"errors"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/store"
)

func TestDispatcher_Tick(t *testing.T) {
	t.Run("tick, run, ledger row and lease are one entry, ahead of time", func(t *testing.T) {
		w := newWorld(t, 1)
		w.put("s", time.Minute)
		before := w.index
		w.pass(time.Minute - 5*time.Millisecond)
		g := w.take()
		if len(g) != 1 || g[0].In != 5*time.Millisecond {
			t.Fatalf("grants: got %+v, want one that is due in 5 ms", g)
		}
		if got, want := w.index-before, uint64(1); got != want {
			t.Errorf("entries: got %d, want %d", got, want)
		}
		rows := w.ticks()
		if len(rows) != 1 || rows[0].Outcome != store.TickRan || rows[0].From != noon+minute || rows[0].Run != g[0].Run.ID {
			t.Errorf("ledger: got %+v, want one row: ran at noon + 1 min", rows)
		}
	})
	t.Run("an overlap is decided when the tick is due, not before", func(t *testing.T) {
		w := newWorld(t, 2)
		w.put("s", time.Minute)
		w.pass(time.Minute)
		g := w.take()
		w.pass(time.Minute - 5*time.Millisecond)
		if got := len(w.ticks()); got != 1 {
			t.Fatalf("ledger before the second tick is due: got %d rows, want 1", got)
		}
		w.complete(g[0], store.OutcomeSucceeded) // in time
		w.pass(5 * time.Millisecond)
		rows := w.ticks()
		if len(rows) != 2 || rows[1].Outcome != store.TickRan {
			t.Errorf("ledger: got %+v, want a second row: ran", rows)
		}
	})
	t.Run("an overlapping tick is skipped with the run that was in its way", func(t *testing.T) {
		w := newWorld(t, 2)
		w.put("s", time.Minute)
		w.pass(time.Minute)
		g := w.take()
		w.pass(time.Minute)
		rows := w.ticks()
		if len(rows) != 2 || rows[1].Outcome != store.TickSkipped || rows[1].Run != g[0].Run.ID {
			t.Errorf("ledger: got %+v, want a second row: skipped for %v", rows, g[0].Run.ID)
		}
		w.wantGranted()
	})
	t.Run("overlap allow runs beside", func(t *testing.T) {
		w := newWorld(t, 2)
		w.put("s", time.Minute, func(sc *store.Schedule) { sc.Overlap = store.OverlapAllow })
		w.pass(time.Minute)
		w.pass(time.Minute)
		if got, want := len(w.take()), 2; got != want {
			t.Errorf("grants: got %d, want %d", got, want)
		}
	})
	t.Run("an edit on the way refuses the tick, which is decided anew", func(t *testing.T) {
		w := newWorld(t, 1)
		w.put("s", time.Minute)
		w.wall, w.elapsed = w.wall+minute, w.elapsed+minute
		b := &store.Batch{Level: store.FormatLevel, Wall: w.wall, Elapsed: w.elapsed}
		w.d.Prepare(b, w.st)
		// Meanwhile the payload changes: a new version, the same armed tick.
		edited := store.Schedule{ID: "s", Spec: spec(), Input: []byte("2"), Trigger: store.Trigger{Kind: store.TriggerEvery, Every: minute}}
		edit := &store.Batch{Level: store.FormatLevel, Wall: w.wall, Elapsed: w.elapsed, Commands: []store.Command{{
			Kind: store.KindPutSchedule, Schedule: &store.PutSchedule{Schedule: edited, Next: w.elapsed + minute},
		}}}
		for _, entry := range []*store.Batch{edit, b} {
			w.index++
			res, ev := w.st.Apply(w.index, 1, entry)
			w.d.Applied(w.st, entry, res, ev)
		}
		w.batch()
		rows := w.ticks()
		if len(rows) != 1 || rows[0].Version != 2 || rows[0].From != noon+minute {
			t.Errorf("ledger: got %+v, want one row of version 2 at noon + 1 min", rows)
		}
	})
	t.Run("edits leave no timers behind", func(t *testing.T) {
		w := newWorld(t, 1)
		for n := range 10_000 {
			w.put("s", time.Duration(1+n%2)*1000*time.Hour)
		}
		if got := w.d.Timers(); got > 3000 {
			t.Errorf("timers: got %d, want no more than a few thousand", got)
		}
	})
	t.Run("a trigger that this build cannot evaluate stands still, others go on", func(t *testing.T) {
		w := newWorld(t, 4, func(c *dispatch.Config) {
			inner := c.Compile
			c.Compile = func(st *store.State, sc *store.Schedule) (dispatch.Rule, error) {
				if sc.ID == "odd" {
					return nil, errors.New("unknown zone")
				}
				return inner(st, sc)
			}
		})
		w.put("odd", time.Minute)
		w.put("s", time.Minute)
		w.pass(time.Minute)
		if got, want := len(w.take()), 1; got != want {
			t.Errorf("grants: got %d, want %d", got, want)
		}
	})
}

func TestDispatcher_CatchUp(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*store.Schedule)
		down   time.Duration
		want   []store.Tick
	}{
		{
			name: "latest runs once and merges the others",
			down: 10*time.Minute + 30*time.Second,
			want: []store.Tick{
				{From: noon + minute, To: noon + 9*minute, Outcome: store.TickMerged},
				{From: noon + 10*minute, To: noon + 10*minute, Outcome: store.TickRan},
			},
		},
		{
			name:   "none misses all",
			change: func(sc *store.Schedule) { sc.CatchUp = store.CatchUpNone },
			down:   10*time.Minute + 30*time.Second,
			want:   []store.Tick{{From: noon + minute, To: noon + 10*minute, Outcome: store.TickMissed}},
		},
		{
			name:   "none lets a tick run that is late by an election",
			change: func(sc *store.Schedule) { sc.CatchUp = store.CatchUpNone },
			down:   2*time.Minute + 3*time.Second,
			want: []store.Tick{
				{From: noon + minute, To: noon + minute, Outcome: store.TickMissed},
				{From: noon + 2*minute, To: noon + 2*minute, Outcome: store.TickRan},
			},
		},
		{
			name:   "a tick over the age is missed",
			change: func(sc *store.Schedule) { sc.MaxAge = 20 * second },
			down:   10*time.Minute + 30*time.Second,
			want:   []store.Tick{{From: noon + minute, To: noon + 10*minute, Outcome: store.TickMissed}},
		},
		{
			name: "fifty years cost two rows",
			down: 50 * 365 * 24 * time.Hour,
			want: []store.Tick{
				{From: noon + minute, To: noon + 50*365*24*60*minute - minute, Outcome: store.TickMerged},
				{From: noon + 50*365*24*60*minute, To: noon + 50*365*24*60*minute, Outcome: store.TickRan},
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, 1)
			changes := []func(*store.Schedule){onWall}
			if test.change != nil {
				changes = append(changes, test.change)
			}
			w.put("s", time.Minute, changes...)
			w.pass(test.down)
			got := w.ticks()
			if len(got) != len(test.want) {
				t.Fatalf("ledger: got %+v, want %+v", got, test.want)
			}
			for i := range got {
				g, x := got[i], test.want[i]
				if g.From != x.From || g.To != x.To || g.Outcome != x.Outcome {
					t.Errorf("row %d: got %v…%v %v, want %v…%v %v", i, g.From, g.To, g.Outcome, x.From, x.To, x.Outcome)
				}
			}
			w.pass(time.Minute)
			if got, want := w.st.Schedule("s").Next > w.wall, true; got != want {
				t.Errorf("next tick is in the future: got %v, want %v", got, want)
			}
		})
	}
}

func TestDispatcher_ClockSetBack(t *testing.T) {
	for _, back := range []time.Duration{3 * time.Second, 2 * time.Hour, 400 * 24 * time.Hour} {
		t.Run(back.String(), func(t *testing.T) {
			w := newWorld(t, 10)
			w.put("interval", 10*time.Second)
			w.put("minutely", time.Minute, onWall)
			w.pass(2 * time.Minute)
			decided := len(w.ticks())
			w.wall -= int64(back)
			for range 600 {
				for _, g := range w.take() {
					w.complete(g, store.OutcomeSucceeded)
				}
				w.pass(time.Second)
			}
			counts := make(map[uint64]int)
			seen := make(map[[2]int64]bool)
			for i, tick := range w.ticks() {
				key := [2]int64{int64(tick.Schedule), tick.From}
				if seen[key] {
					t.Errorf("tick %v of schedule %d was decided twice", time.Unix(0, tick.From).UTC(), tick.Schedule)
				}
				seen[key] = true
				if i >= decided {
					counts[tick.Schedule]++
				}
			}
			if got := counts[w.st.Schedule("interval").Number]; got < 59 || got > 61 {
				t.Errorf("ticks of the interval in ten minutes: got %d, want 60", got)
			}
			if got := counts[w.st.Schedule("minutely").Number]; got < 8 || got > 11 {
				t.Errorf("ticks of the minute schedule in ten minutes: got %d, want about 10", got)
			}
		})
	}
}
