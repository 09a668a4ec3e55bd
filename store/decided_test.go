package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler/store"
)

const minute = 60 * second

// minutely is a machine with a schedule that ticks each minute by the wall clock,
// made at the epoch.
func minutely(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	m.ok(put(minute, epoch+minute))
	return m
}

func put(every, next int64) store.Command {
	return store.Command{Kind: store.KindPutSchedule, Schedule: &store.PutSchedule{
		Schedule: store.Schedule{
			ID: "s", Spec: &mail, Overlap: store.OverlapAllow,
			Trigger: store.Trigger{Kind: store.TriggerCron, Every: every},
		},
		Next: next,
	}}
}

// fire decides the tick at a time, and arms the next.
func (m *machine) fire(at, next int64) store.Result {
	sc := m.s.Schedule("s")
	return m.do(store.Command{Kind: store.KindTick, Tick: &store.TickCommand{
		Schedule: "s", Version: sc.Version, Armed: sc.Next, Nominal: at, Run: id(m.index), Next: next,
	}})
}

func (m *machine) rearm(next int64) {
	sc := m.s.Schedule("s")
	m.ok(store.Command{Kind: store.KindRearm, Rearm: &store.Rearm{Ticks: []store.RearmTick{{
		Schedule: "s", Version: sc.Version, Armed: sc.Next, Next: next,
	}}}})
}

// decided returns the spans, in minutes since the epoch.
func (m *machine) decided() [][2]float64 {
	var spans [][2]float64
	for _, d := range m.s.Schedule("s").Decided {
		spans = append(spans, [2]float64{float64(d.From-epoch) / float64(minute), float64(d.To-epoch) / float64(minute)})
	}
	return spans
}

func (m *machine) want(what string, want ...[2]float64) {
	m.tb.Helper()
	if diff := cmp.Diff(want, m.decided()); diff != "" {
		m.tb.Errorf("%s: decided: -want +got\n%s", what, diff)
	}
}

func TestSchedule_Decided_keeps_a_tick_from_firing_twice(t *testing.T) {
	m := minutely(t)
	m.want("made", [2]float64{0, 0})
	for n := range int64(3) {
		m.sleep(minute)
		if res := m.fire(epoch+(n+1)*minute, epoch+(n+2)*minute); res.Code != store.OK {
			t.Fatalf("tick %d: %+v", n, res)
		}
	}
	m.want("three ticks", [2]float64{0, 3})

	m.wall -= 100 * minute
	m.rearm(epoch - 96*minute)
	m.want("clock set back", [2]float64{0, 3}, [2]float64{-97, -97})
	if res := m.fire(epoch-96*minute, epoch+2*minute); res.Code != store.OK {
		t.Fatalf("a tick of the second past: %+v", res)
	}
	if res := m.fire(epoch+2*minute, epoch+4*minute); res.Code != store.CodeInvalid {
		t.Errorf("a tick that was decided: %+v, want it refused", res)
	}
	m.rearm(epoch + 4*minute)
	m.wall += 200 * minute
	if res := m.fire(epoch+4*minute, epoch+5*minute); res.Code != store.OK {
		t.Fatalf("the first tick not decided: %+v", res)
	}
	m.want("caught up", [2]float64{-97, 4})
}

func TestSchedule_Decided_outlives_a_change_of_the_trigger(t *testing.T) {
	m := minutely(t)
	m.sleep(minute)
	if res := m.fire(epoch+minute, epoch+2*minute); res.Code != store.OK {
		t.Fatal(res)
	}
	m.sleep(minute / 2)
	m.ok(put(minute/2, epoch+2*minute))
	m.want("changed", [2]float64{0, 1}, [2]float64{1.5, 1.5})
	m.wall -= minute
	m.rearm(epoch + minute)
	if res := m.fire(epoch+minute, epoch+minute*3/2); res.Code != store.CodeInvalid {
		t.Errorf("the tick that the old trigger decided: %+v, want it refused", res)
	}
}

func TestSchedule_Delete_records_only_ticks_without_an_outcome(t *testing.T) {
	m := minutely(t)
	for n := range int64(10) { // ticks 1 … 10, then back to minute 0
		m.sleep(minute)
		if res := m.fire(epoch+(n+1)*minute, epoch+(n+2)*minute); res.Code != store.OK {
			t.Fatal(res)
		}
	}
	m.wall -= 15 * minute
	m.rearm(epoch - 4*minute)
	m.ok(store.Command{Kind: store.KindPauseSchedule, Pause: &store.PauseSchedule{ID: "s", Paused: true}})
	m.wall += 20 * minute
	m.ok(store.Command{Kind: store.KindDeleteSchedule, Delete: &store.DeleteSchedule{ID: "s"}})
	var got [][2]int64
	for tick := range m.s.UnflushedTicks() {
		if tick.Outcome == store.TickPaused {
			got = append(got, [2]int64{(tick.From - epoch) / minute, (tick.To - epoch) / minute})
		}
	}
	// The bounds are instants, not ticks: one nanosecond beside what is decided.
	if diff := cmp.Diff([][2]int64{{-4, 0}, {10, 15}}, got); diff != "" {
		t.Errorf("paused spans, in minutes: -want +got\n%s", diff)
	}
	sc := m.s.DeletedSchedule("s")
	for _, at := range []int64{-4, 0, 5, 10, 12, 15} {
		if _, decided := sc.DecidedAt(epoch + at*minute); !decided {
			t.Errorf("minute %d of the deleted schedule is not decided", at)
		}
	}
}

func TestSchedule_Decided_is_bounded_and_forgets_no_outcome(t *testing.T) {
	m := minutely(t)
	for n := range int64(60) {
		at := epoch - (n*7919%60)*1000*minute
		m.wall = at - minute/2
		m.rearm(at)
		if _, decided := m.s.Schedule("s").DecidedAt(at); decided {
			continue // two spans that became one
		}
		if res := m.fire(at, at+minute); res.Code != store.OK {
			t.Fatalf("step %d: %+v", n, res)
		}
	}
	if n := len(m.s.Schedule("s").Decided); n > 16 {
		t.Errorf("%d spans are kept", n)
	}
	for tick := range m.s.UnflushedTicks() {
		if _, decided := m.s.Schedule("s").DecidedAt(tick.From); !decided {
			t.Errorf("the tick at %d has an outcome that is forgotten", (tick.From-epoch)/minute)
		}
	}
}

func TestSchedule_Decided_forgets_no_outcome_of_a_clock_that_is_set_back_ever_further(t *testing.T) {
	m := minutely(t)
	for n := range int64(40) {
		at := epoch - (n+1)*1000*minute
		m.wall = at - minute/2
		m.rearm(at)
		if res := m.fire(at, at+minute); res.Code != store.OK {
			t.Fatalf("step %d: %+v", n, res)
		}
	}
	if n := len(m.s.Schedule("s").Decided); n > 16 {
		t.Errorf("%d spans are kept", n)
	}
	for n := range int64(40) {
		if at := epoch - (n+1)*1000*minute; !decidedAt(m, at) {
			t.Errorf("the tick at %d has an outcome that is forgotten", (at-epoch)/minute)
		}
	}
}

func TestSchedule_Decided_takes_in_nothing_when_the_clock_is_set_back_among_what_is_decided(t *testing.T) {
	m := minutely(t)
	at := func(n int64) int64 { return epoch + n*minute }
	jump := func(to int64, next int64) { // merges the ticks up to there
		m.wall = at(to)
		sc := m.s.Schedule("s")
		m.ok(store.Command{Kind: store.KindTick, Tick: &store.TickCommand{
			Schedule: "s", Version: sc.Version, Armed: sc.Next, Nominal: at(to), Run: id(m.index), Next: at(next),
			Spans: []store.DecidedSpan{{From: sc.Next, To: at(to - 1), Outcome: store.TickMerged}},
		}})
	}
	m.wall = at(1)
	m.fire(at(1), at(2))
	jump(100, 101)
	m.wall = at(50) + minute/2
	m.rearm(at(51))
	m.fire(at(51), at(52))
	m.wall = at(1) - minute/2
	m.rearm(at(2))
	m.wall = at(2)
	if res := m.fire(at(2), at(3)); res.Code != store.OK {
		t.Fatalf("the next tick: %+v", res)
	}
	for n := int64(3); n < 50; n++ {
		if decidedAt(m, at(n)) {
			t.Fatalf("minute %d is decided, and never had its turn: %v", n, m.decided())
		}
	}
}

func decidedAt(m *machine, at int64) bool {
	_, is := m.s.Schedule("s").DecidedAt(at)
	return is
}
