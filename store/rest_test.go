package store_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler/store"
)

// resting reports whether a schedule's record is made anew each time it is asked for.
func (m *machine) resting(id string) bool {
	one, other := m.s.Schedule(id), m.s.Schedule(id)
	return one != other
}

// flush flushes, and changes something before that is durable.
func (m *machine) flush(meanwhile func()) {
	f := m.s.TakeFlush()
	f.Rest()
	meanwhile()
	m.s.Flushed(f)
}

func TestSchedule_rests_unchanged(t *testing.T) {
	m := newMachine(t)
	m.ok(store.Command{Kind: store.KindPutCalendar, Calendar: &store.PutCalendar{
		Calendar: store.Calendar{Name: "holidays", Except: []store.Exclusion{{Days: []int32{1}}}},
	}})
	whole := put(0, m.wall+minute)
	sc := &whole.Schedule.Schedule
	sc.Trigger = store.Trigger{
		Kind: store.TriggerCron, Expr: "0 9 * * *", Zone: "Asia/Shanghai", Dialect: 3, Version: 1, DST: 2, HashKey: "key",
		Jitter: 5, From: 1, Until: m.wall * 2, Except: []store.Exclusion{{Spans: []store.Span{{From: 1, To: 2}}}, {Calendar: "holidays"}},
	}
	sc.Input, sc.Meta, sc.App, sc.Gen = []byte("{}"), []store.Pair{{Key: "a", Value: "b"}}, "payroll", 3
	sc.CatchUp, sc.MaxAge, sc.MaxCount, sc.Pace, sc.MaxRuns, sc.QueueMax = store.CatchUpAll, 4, 5, 6, 7, 8
	m.ok(whole)
	before, digest := m.s.Schedule("s"), m.s.Digest()
	if m.resting("s") {
		t.Error("it rests before it is durable")
	}
	m.flush(func() {})
	if !m.resting("s") {
		t.Error("it does not rest once it is durable")
	}
	same := cmp.Comparer(func(a, b *store.Spec) bool { return a == b })
	if diff := cmp.Diff(before, m.s.Schedule("s"), same); diff != "" {
		t.Errorf("at rest: -want +got\n%s", diff)
	}
	if got := m.s.Digest(); got != digest {
		t.Errorf("digest at rest: got %x, want %x", got, digest)
	}
	for calendar, want := range map[string]int{"holidays": 1, "other": 0} {
		if got := len(slices.Collect(m.s.SchedulesWithout(calendar))); got != want {
			t.Errorf("schedules without %s: got %d, want %d", calendar, got, want)
		}
	}
	if m.s.NumSchedules() != 1 || len(slices.Collect(m.s.Schedules())) != 1 {
		t.Error("it is not counted once")
	}
}

func TestSchedule_does_not_rest(t *testing.T) {
	far := func(m *machine) int64 { return m.wall + minute }
	pause := store.Command{Kind: store.KindPauseSchedule, Pause: &store.PauseSchedule{ID: "s", Paused: true}}
	for name, c := range map[string]struct {
		next      func(m *machine) int64
		before    func(m *machine)
		meanwhile func(m *machine)
		except    []store.Exclusion
		rests     bool
	}{
		"far from its tick": {next: far, rests: true},
		"with an iCalendar": {next: far, except: []store.Exclusion{{ICS: []byte("BEGIN:VCALENDAR")}}},
		"near its tick":     {next: func(m *machine) int64 { return m.wall + 1e9 }},
		"paused near it":    {next: func(m *machine) int64 { return m.wall + 1e9 }, before: func(m *machine) { m.ok(pause) }, rests: true},
		"with a live run":   {next: far, before: func(m *machine) { m.fire(m.wall+minute, m.wall+2*minute) }},
		"changed meanwhile": {next: far, meanwhile: func(m *machine) { m.ok(pause) }},
		"deleted meanwhile": {next: far, meanwhile: func(m *machine) {
			m.ok(store.Command{Kind: store.KindDeleteSchedule, Delete: &store.DeleteSchedule{ID: "s"}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			first := put(0, c.next(m))
			if c.except != nil {
				first.Schedule.Schedule.Trigger.Except = c.except
			}
			m.ok(first)
			if c.before != nil {
				c.before(m)
			}
			m.flush(func() {
				if c.meanwhile != nil {
					c.meanwhile(m)
				}
			})
			if got := m.resting("s"); got != c.rests {
				t.Errorf("it rests: got %t, want %t", got, c.rests)
			}
			m.ok(put(1, c.next(m))) // whatever it was, it goes on
			if sc := m.s.Schedule("s"); sc == nil || sc.Trigger.Every != 1 || m.resting("s") {
				t.Errorf("after a change: %+v", sc)
			}
		})
	}
}
