package dispatch_test

import (
	"errors"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/store"
)

// asking is a world whose schedules have a Go trigger that ticks each minute. Questions
// wait until the test answers them.
type asking struct {
	*world
	asked []*dispatch.Question
}

func newAsking(t *testing.T) *asking {
	t.Helper()
	a := new(asking)
	a.world = newWorld(t, 100, func(c *dispatch.Config) {
		c.Ask = func(q *dispatch.Question) { a.asked = append(a.asked, q) }
	})
	return a
}

func goTrigger(sc *store.Schedule) {
	sc.Trigger.Kind, sc.Trigger.Name = store.TriggerCustom, "each"
}

// answer answers all questions, and lets the leader decide.
func (a *asking) answer() {
	for len(a.asked) > 0 {
		q := a.asked[0]
		a.asked = a.asked[1:]
		a.d.Told(q, q.Answer(every(minute)), nil)
		a.batch()
	}
}

func (a *asking) fail(text string) {
	asked := a.asked
	a.asked = nil
	for _, q := range asked {
		a.d.Told(q, dispatch.Answer{}, errors.New(text))
	}
}

func (a *asking) wantTicks(want ...store.Tick) {
	a.t.Helper()
	got := a.ticks()
	ok := len(got) == len(want)
	for i := range min(len(got), len(want)) {
		g, w := got[i], want[i]
		ok = ok && g.From == w.From && g.To == w.To && g.Outcome == w.Outcome
	}
	if !ok {
		a.t.Errorf("ledger: got %+v, want %+v", got, want)
	}
}

func ran(at int64) store.Tick { return store.Tick{From: at, To: at, Outcome: store.TickRan} }

func TestDispatcher_Ask(t *testing.T) {
	t.Run("what is known in time makes no tick late", func(t *testing.T) {
		a := newAsking(t)
		a.put("s", time.Minute, goTrigger)
		a.answer()
		a.pass(time.Minute - 5*time.Millisecond)
		if g := a.take(); len(g) != 1 || g[0].In != 5*time.Millisecond {
			t.Errorf("grants: got %+v, want one that is due in 5 ms", g)
		}
		a.wantTicks(ran(noon + minute))
	})
	t.Run("a trigger that is slow holds up its own schedule alone", func(t *testing.T) {
		a := newAsking(t)
		a.put("slow", time.Minute, goTrigger)
		slow := a.asked
		a.put("other", time.Minute, onWall)
		a.pass(time.Minute)
		a.wantTicks(ran(noon + minute))
		if sleep := a.d.Sleep(); sleep <= 0 {
			t.Errorf("the dispatcher would turn round and round: %v", sleep)
		}
		a.pass(90 * time.Second)
		a.asked = slow
		a.answer() // it is found that more was missed, and asked anew
		if got := a.st.Schedule("slow").Next; got != noon+3*minute {
			t.Errorf("next: got noon + %v, want noon + 3 min", time.Duration(got-noon))
		}
		if got := len(a.ticks()); got != 4 { // two of the other; one merged, one late
			t.Errorf("ledger: %+v", a.ticks())
		}
	})
	t.Run("a failure is told and asked again after a pause", func(t *testing.T) {
		a := newAsking(t)
		a.put("s", time.Minute, goTrigger)
		a.fail("on fire")
		if got := a.d.Unanswered(); len(got) != 1 || got[0].Schedule != "s" || got[0].Trigger != "each" || got[0].Err.Error() != "on fire" {
			t.Errorf("unanswered: %+v", got)
		}
		var pauses []time.Duration
		for range 7 {
			sleep := time.Duration(0)
			for len(a.asked) == 0 {
				a.pass(time.Second)
				sleep += time.Second
			}
			a.fail("on fire")
			pauses = append(pauses, sleep)
		}
		want := []time.Duration{1, 2, 4, 8, 16, 30, 30}
		for i := range want {
			if pauses[i] != want[i]*time.Second {
				t.Fatalf("pauses: got %v, want %v s", pauses, want)
			}
		}
		// A node that starts may have it.
		a.batch(store.Command{Kind: store.KindOpenSession, Open: &store.OpenSession{Node: "m"}})
		a.batch()
		if len(a.asked) != 1 {
			t.Fatalf("%d questions after a node has come, want 1", len(a.asked))
		}
		a.answer()
		if got := a.d.Unanswered(); len(got) != 0 {
			t.Errorf("unanswered: %+v", got)
		}
		if got := a.st.Schedule("s").Next; got <= a.wall {
			t.Errorf("the schedule stands still")
		}
	})
	t.Run("a schedule is told of once, with what has failed for the longest", func(t *testing.T) {
		a := newAsking(t)
		a.put("s", time.Minute, goTrigger)
		a.fail("on fire")
		a.pass(10 * time.Second)
		a.wall -= 30 * minute // asks for another kind
		a.batch()
		a.fail("flooded")
		if got := a.d.Unanswered(); len(got) != 1 || got[0].For != 10*time.Second {
			t.Errorf("unanswered: %+v", got)
		}
	})
	t.Run("an answer to what has changed meanwhile is ignored", func(t *testing.T) {
		for what, change := range map[string]func(a *asking){
			"another version": func(a *asking) { a.put("s", 7*time.Minute, goTrigger) },
			"a pause": func(a *asking) {
				for _, paused := range []bool{true, false} {
					a.batch(store.Command{Kind: store.KindPauseSchedule, Pause: &store.PauseSchedule{ID: "s", Paused: paused}})
				}
			},
			"another leader": func(a *asking) { a.d.Lead(a.st, true) },
			"deleted": func(a *asking) {
				a.batch(store.Command{Kind: store.KindDeleteSchedule, Delete: &store.DeleteSchedule{ID: "s"}})
			},
		} {
			a := newAsking(t)
			a.put("s", time.Minute, goTrigger)
			old := a.asked
			a.asked = nil
			a.pass(10 * time.Minute)
			change(a)
			for _, q := range old {
				a.d.Told(q, dispatch.Answer{Next: noon + 1}, nil)
			}
			a.batch()
			if sc := a.st.Schedule("s"); sc != nil {
				if sc.Next == noon+1 {
					t.Errorf("%s: the old answer counts", what)
				}
				a.answer()
				if sc = a.st.Schedule("s"); sc.Next <= a.wall {
					t.Errorf("%s: the schedule stands still at noon + %v", what, time.Duration(sc.Next-noon))
				}
			}
		}
	})
	t.Run("a trigger that says never ends its schedule", func(t *testing.T) {
		a := newAsking(t)
		a.put("s", time.Minute, goTrigger)
		for _, q := range a.asked {
			a.d.Told(q, dispatch.Answer{}, nil)
		}
		a.asked = nil
		a.pass(time.Hour)
		a.wantTicks(ran(noon + minute))
		if a.pass(time.Hour); len(a.asked) != 0 {
			t.Errorf("it is asked for more: %+v", a.asked)
		}
	})
}

// After an outage the cost does not grow with its length, and what is made up comes in
// order, a list at a time.
func TestDispatcher_Ask_CatchUp(t *testing.T) {
	for what, test := range map[string]struct {
		change func(*store.Schedule)
		runs   int
		asked  int // questions for starts, at most
	}{
		"latest":       {func(*store.Schedule) {}, 1, 0},
		"none":         {func(sc *store.Schedule) { sc.CatchUp = store.CatchUpNone }, 0, 0},
		"the last 700": {func(sc *store.Schedule) { sc.CatchUp, sc.MaxCount = store.CatchUpAll, 700 }, 700, 4},
		"a day's":      {func(sc *store.Schedule) { sc.CatchUp, sc.MaxAge = store.CatchUpAll, 1440*minute }, 1440, 8},
	} {
		a := newAsking(t)
		a.put("s", time.Minute, goTrigger, allow, test.change)
		a.answer()
		const outage = 365*1440*minute + 30*second
		a.wall, a.elapsed = a.wall+outage, a.elapsed+outage
		a.d.Lead(a.st, true)
		calls := 0
		runs, starts := 0, 0
		for range 3000 {
			for len(a.asked) > 0 {
				q := a.asked[0]
				a.asked = a.asked[1:]
				if q.Kind == dispatch.AskStarts {
					starts++
				}
				a.d.Told(q, q.Answer(counted{every(minute), &calls}), nil)
			}
			a.batch()
			for _, g := range a.take() {
				runs++
				a.complete(g, store.OutcomeSucceeded)
			}
			if runs >= test.runs && len(a.asked) == 0 && a.d.Sleep() > 0 {
				break
			}
		}
		if runs != test.runs || starts > test.asked {
			t.Errorf("%s: %d runs, %d lists, want %d and at most %d", what, runs, starts, test.runs, test.asked)
		}
		if most := 500 + 5*test.runs; calls > most {
			t.Errorf("%s: the trigger was called %d times, want at most %d", what, calls, most)
		}
		if got := a.st.Schedule("s").Next; got <= a.wall {
			t.Errorf("%s: the schedule stands still", what)
		}
	}
}

type counted struct {
	every
	calls *int
}

func (c counted) Next(after int64) int64 { *c.calls++; return c.every.Next(after) }

// Last is as a Go trigger's: by halving.
func (c counted) Last(armed, at int64) int64 {
	low, high := armed, at
	for low < high {
		mid := low + (high-low)/2
		if next := c.Next(mid); next <= at {
			armed = max(armed, next)
			low = max(next, mid+1)
		} else {
			high = mid
		}
	}
	return armed
}

// A wall clock that was set back, and a changed calendar, have ticks found anew.
func TestDispatcher_Ask_found_anew(t *testing.T) {
	a := newAsking(t)
	a.put("s", time.Minute, goTrigger, allow)
	a.answer()
	for range 3 {
		a.pass(time.Minute)
		a.answer()
	}
	a.wantTicks(ran(noon+minute), ran(noon+2*minute), ran(noon+3*minute))
	a.wall -= 30 * minute
	a.batch()
	a.answer()
	if got := a.st.Schedule("s").Next; got != a.wall+minute {
		t.Errorf("next after the clock was set back: noon + %v", time.Duration(got-noon))
	}
	a.pass(time.Minute)
	a.answer()
	a.wantTicks(ran(noon+minute), ran(noon+2*minute), ran(noon+3*minute), ran(noon-26*minute))

	// An answer for all up to a time that the clock was taken back from decides nothing.
	b := newAsking(t)
	b.put("s", time.Minute, goTrigger, allow)
	b.answer()
	b.wall += 3650 * 1440 * minute
	b.pass(time.Second)
	far := b.asked
	b.asked = nil
	b.wall -= 3650 * 1440 * minute
	b.pass(time.Second)
	for _, q := range far {
		b.d.Told(q, q.Answer(every(minute)), nil)
	}
	b.answer()
	b.pass(time.Minute)
	b.answer()
	b.wantTicks(ran(noon + minute))
}
