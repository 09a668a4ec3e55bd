package dispatch_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/store"
)

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
		"at the next tick's time":           {11 * time.Minute, noon, noon + 10*minute, false, []int64{noon + 11*minute, noon + 12*minute}},
		"after a tick that is not excluded": {90 * time.Second, noon + 2*minute, noon + 12*minute, false, []int64{noon + minute}},
	} {
		for kind, asks := range map[string]bool{"": false, ", of a Go trigger": true} {
			t.Run(name+kind, func(t *testing.T) {
				w := withCalendars(t, asks)
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
}

// What was decided before the entry that changes a calendar, and comes after it, is
// decided anew.
func TestDispatcher_a_calendar_on_the_way(t *testing.T) {
	excluded := calendar("holidays", store.Span{From: noon + minute, To: noon + minute + 1})
	const ahead = time.Minute - 50*time.Millisecond
	t.Run("refuses a tick", func(t *testing.T) {
		w := withCalendars(t, false)
		w.skip(ahead)
		change, tick := w.entry(excluded), w.prepared(store.KindTick)
		w.apply(change)
		w.apply(tick)
		w.wantFirst(noon + 2*minute)
	})
	t.Run("refuses a tick in its own entry", func(t *testing.T) {
		w := withCalendars(t, false)
		w.skip(ahead)
		w.batch(excluded)
		w.wantFirst(noon + 2*minute)
	})
	t.Run("refuses what another one has moved", func(t *testing.T) {
		w := withCalendars(t, false)
		w.apply(w.entry(excluded))
		change, moved := w.entry(calendar("holidays", store.Span{From: 1, To: 2})), w.prepared(store.KindRearm)
		w.apply(change)
		next := w.prepared(0) // all is as it was
		w.apply(moved)
		w.apply(next)
		w.wantFirst(noon + minute)
	})
	t.Run("refuses what gives way to the next tick", func(t *testing.T) {
		w := withCalendars(t, false)
		w.d.Lead(w.st, false)
		w.apply(w.entry(excluded))
		w.skip(20 * time.Second)
		w.apply(w.entry(calendar("other", store.Span{From: 3, To: 4})))
		w.skip(ahead - 20*time.Second)
		w.d.Lead(w.st, true)
		change, moved := w.entry(calendar("other", store.Span{From: noon + 2*minute, To: noon + 3*minute + 1})), w.prepared(store.KindRearm)
		w.apply(change)
		w.apply(moved)
		w.wantFirst(noon + 4*minute)
	})
	t.Run("counts for a schedule that is made", func(t *testing.T) {
		for name, c := range map[string]struct {
			was  store.Span
			is   store.Span
			want int64
		}{
			"with a tick less": {store.Span{From: 1, To: 2}, store.Span{From: noon + minute, To: noon + minute + 1}, noon + 2*minute},
			"with a tick more": {store.Span{From: noon + minute, To: noon + minute + 1}, store.Span{From: 1, To: 2}, noon + minute},
		} {
			w := withCalendars(t, false)
			w.batch(store.Command{Kind: store.KindDeleteSchedule, Delete: &store.DeleteSchedule{ID: "s"}})
			w.batch(calendar("holidays", c.was))
			change, made := w.entry(calendar("holidays", c.is)), w.entry(w.excepting(store.TriggerCron))
			w.d.Prepare(made, w.st)
			w.apply(change)
			w.apply(made)
			if w.batch(); w.st.Schedule("s").Next != c.want {
				t.Errorf("%s: next is noon + %v", name, time.Duration(w.st.Schedule("s").Next-noon))
			}
		}
	})
}

// A schedule stands still as long as this build cannot give one of its calendars meaning.
func TestDispatcher_a_calendar_without_meaning(t *testing.T) {
	w := withCalendars(t, false)
	w.batch(calendar("holidays")) // the test can read none without a span
	w.pass(90 * time.Second)
	w.batch(calendar("holidays", store.Span{From: 1, To: 2}))
	w.wantFirst(noon + minute)
}

// A tick that had its outcome may be armed again, and others of it may be due.
func TestDispatcher_an_armed_tick_that_is_decided_gives_way(t *testing.T) {
	for kind, asks := range map[string]bool{"": false, "of a Go trigger": true} {
		t.Run(kind, func(t *testing.T) {
			w := withCalendars(t, asks)
			for range 5 {
				w.pass(time.Minute)
				w.batch()
			}
			w.wall -= 5 * minute
			c := w.excepting(w.st.Schedule("s").Trigger.Kind) // from noon + 1 min on, as a changed trigger
			c.Schedule.Schedule.Trigger.Jitter = 1
			w.apply(w.entry(c))
			w.d.Lead(w.st, false)
			w.skip(8 * time.Minute)
			w.d.Lead(w.st, true)
			for range 10 {
				w.batch()
			}
			if next := w.st.Schedule("s").Next; next <= w.wall {
				t.Errorf("next is noon + %v, now is noon + %v", time.Duration(next-noon), time.Duration(w.wall-noon))
			}
			for _, row := range w.ticks()[5:] {
				if row.From <= noon+5*minute {
					t.Errorf("decided again: %+v", row)
				}
			}
		})
	}
}

// calendars is a world with the calendars "holidays" and "other", and a schedule "s" of
// every minute that keeps to both.
type calendars struct {
	*world
	rule  func(except []store.Exclusion) without
	asked []*dispatch.Question
}

func withCalendars(t *testing.T, asks bool) *calendars {
	t.Helper()
	w := new(calendars)
	w.rule = func(except []store.Exclusion) without {
		r := without{every: every(minute)}
		for _, x := range except {
			if x.Calendar != "" {
				x = w.st.Calendar(x.Calendar).Except[0]
			}
			r.spans = append(r.spans, x.Spans...)
		}
		return r
	}
	kind := store.TriggerCron
	w.world = newWorld(t, 100, func(cfg *dispatch.Config) {
		cfg.Compile = func(_ *store.State, sc *store.Schedule) (dispatch.Rule, error) {
			r := w.rule(sc.Trigger.Except)
			if len(sc.Trigger.Except) > 0 && len(r.spans) == 0 {
				return nil, errors.New("what is that")
			}
			return r, nil
		}
		if asks {
			kind, cfg.Ask = store.TriggerCustom, func(q *dispatch.Question) { w.asked = append(w.asked, q) }
		}
	})
	w.batch(calendar("holidays", store.Span{From: 1, To: 2}), calendar("other"))
	w.batch(w.excepting(kind))
	return w
}

// excepting puts the schedule.
func (w *calendars) excepting(kind store.TriggerKind) store.Command {
	return store.Command{Kind: store.KindPutSchedule, Schedule: &store.PutSchedule{Next: noon + minute, Schedule: store.Schedule{
		ID: "s", Spec: spec(), Overlap: store.OverlapAllow,
		Trigger: store.Trigger{Kind: kind, Every: minute, Except: []store.Exclusion{{Calendar: "holidays"}, {Calendar: "other"}}},
	}}}
}

// batch is that of world; all questions are answered.
func (w *calendars) batch(cmds ...store.Command) {
	w.world.batch(cmds...)
	for len(w.asked) > 0 {
		q := w.asked[0]
		w.asked = w.asked[1:]
		w.d.Told(q, q.Answer(w.rule(q.Schedule.Trigger.Except)), nil)
		w.world.batch()
	}
}

func (w *calendars) pass(d time.Duration) {
	w.skip(d)
	w.batch()
}

func (w *calendars) skip(d time.Duration) { w.wall, w.elapsed = w.wall+int64(d), w.elapsed+int64(d) }

// entry is one that has not been applied; the leader adds nothing to it.
func (w *calendars) entry(cmds ...store.Command) *store.Batch {
	return &store.Batch{Level: store.FormatLevel, Wall: w.wall, Elapsed: w.elapsed, Commands: cmds}
}

// prepared is an entry of the leader that begins with a command of a kind; 0 is for none.
func (w *calendars) prepared(kind store.Kind) *store.Batch {
	w.t.Helper()
	b := w.entry()
	w.d.Prepare(b, w.st)
	if none := len(b.Commands) == 0; none != (kind == 0) || !none && b.Commands[0].Kind != kind {
		w.t.Errorf("the leader decides %+v, want kind %d first", b.Commands, kind)
	}
	return b
}

func (w *calendars) apply(b *store.Batch) {
	w.index++
	res, ev := w.st.Apply(w.index, 1, b)
	w.d.Applied(w.st, b, res, ev)
}

// wantFirst fails the test unless a tick is the first one with an outcome: it has run.
func (w *calendars) wantFirst(at int64) {
	w.t.Helper()
	for range 360 {
		w.pass(time.Second)
	}
	if rows := w.ticks(); len(rows) == 0 || rows[0].From != at || rows[0].Outcome != store.TickRan {
		w.t.Errorf("ledger: got %+v, want that the tick of noon + %v ran first", rows, time.Duration(at-noon))
	}
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
