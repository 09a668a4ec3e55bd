package dispatch_test

import (
	"errors"
	"slices"
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

// A leader may fall right after a calendar was changed, before it has armed other ticks.
func TestDispatcher_Lead_heeds_calendars_that_were_just_changed(t *testing.T) {
	for name, c := range map[string]struct {
		after    time.Duration // until another one leads
		from, to int64         // of the new exclusion, both included
		other    bool          // another calendar is changed before it leads
		want     []int64       // the ticks that run within twelve minutes
	}{
		"before the tick":                   {10 * time.Second, noon, noon + 10*minute, false, []int64{noon + 11*minute, noon + 12*minute}},
		"after the tick":                    {90 * time.Second, noon, noon + 10*minute, false, []int64{noon + 11*minute, noon + 12*minute}},
		"after a change of another one":     {90 * time.Second, noon, noon + 10*minute, true, []int64{noon + 11*minute, noon + 12*minute}},
		"after the tick and the next one":   {11*time.Minute + 30*time.Second, noon, noon + 10*minute, false, []int64{noon + 11*minute, noon + 12*minute}},
		"after a tick that is not excluded": {90 * time.Second, noon + 2*minute, noon + 12*minute, false, []int64{noon + minute}},
	} {
		t.Run(name, func(t *testing.T) {
			w := withCalendars(t)
			w.pass(time.Second)
			w.d.Lead(w.st, false) // it falls with the change
			w.batch(calendar("holidays", store.Span{From: c.from, To: c.to + 1}))
			w.wall, w.elapsed = w.wall+int64(c.after), w.elapsed+int64(c.after)
			if c.other {
				w.batch(calendar("other", store.Span{From: 1, To: 3}))
			}
			w.d.Lead(w.st, true)
			for end := noon + 12*minute; w.wall <= end; w.pass(time.Second) {
				w.batch()
			}
			var ran []int64
			for row := range w.st.UnflushedTicks() {
				if row.To >= c.from && row.From <= c.to {
					t.Errorf("a tick that is excluded has a row: %+v", row)
				}
				if row.Outcome == store.TickRan {
					ran = append(ran, row.From)
				}
			}
			if !slices.Equal(ran, c.want) {
				t.Errorf("ticks that ran: got %v, want %v", ran, c.want)
			}
		})
	}
}

// What was decided before the entry that changes a calendar, and comes after it, is
// decided anew.
func TestDispatcher_a_calendar_on_the_way_refuses_the_tick(t *testing.T) {
	w := withCalendars(t)
	w.wall, w.elapsed = w.wall+minute-int64(50*time.Millisecond), w.elapsed+minute-int64(50*time.Millisecond)
	change := &store.Batch{Level: store.FormatLevel, Wall: w.wall, Elapsed: w.elapsed, Commands: []store.Command{
		calendar("holidays", store.Span{From: noon, To: noon + minute + 1}),
	}}
	ahead := &store.Batch{Level: store.FormatLevel, Wall: w.wall, Elapsed: w.elapsed}
	w.d.Prepare(ahead, w.st)
	if len(ahead.Commands) == 0 {
		t.Fatal("nothing was decided ahead")
	}
	for _, entry := range []*store.Batch{change, ahead} {
		w.index++
		res, ev := w.st.Apply(w.index, 1, entry)
		w.d.Applied(w.st, entry, res, ev)
	}
	for range 100 {
		w.batch()
		w.pass(time.Second)
	}
	if rows := w.ticks(); len(rows) != 1 || rows[0].From != noon+2*minute || rows[0].Outcome != store.TickRan {
		t.Errorf("ledger: got %+v, want that the tick after the excluded one ran", rows)
	}
}

// withCalendars returns a world with the calendars "holidays" and "other", and a
// schedule of every minute that keeps to both.
func withCalendars(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, 100, func(cfg *dispatch.Config) {
		cfg.Compile = func(st *store.State, sc *store.Schedule) (dispatch.Rule, error) {
			r := without{every: every(sc.Trigger.Every)}
			for _, x := range sc.Trigger.Except {
				r.spans = append(r.spans, st.Calendar(x.Calendar).Except[0].Spans...)
			}
			return r, nil
		}
	})
	w.batch(calendar("holidays", store.Span{From: 1, To: 2}), calendar("other", store.Span{From: 1, To: 2}))
	w.put("s", time.Minute, allow, func(sc *store.Schedule) {
		sc.Trigger.Kind, sc.Trigger.Except = store.TriggerCron, []store.Exclusion{{Calendar: "holidays"}, {Calendar: "other"}}
	})
	return w
}

func calendar(name string, spans ...store.Span) store.Command {
	return store.Command{Kind: store.KindPutCalendar, Calendar: &store.PutCalendar{
		Calendar: store.Calendar{Name: name, Except: []store.Exclusion{{Spans: spans}}},
	}}
}

// without is a rule less what spans hold, To not included.
type without struct {
	every
	spans []store.Span
}

func (r without) Next(after int64) int64 {
	for {
		next := r.every.Next(after)
		at := slices.IndexFunc(r.spans, func(s store.Span) bool { return s.From <= next && next < s.To })
		if at < 0 {
			return next
		}
		after = r.spans[at].To - 1
	}
}

func (r without) Last(armed, at int64) int64 {
	for next := r.Next(armed); next <= at; next = r.Next(armed) {
		armed = next
	}
	return armed
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
