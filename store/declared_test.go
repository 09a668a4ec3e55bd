package store_test

import (
	"fmt"
	"testing"

	"github.com/escapement-go/scheduler/store"
)

// declare puts the schedule s as a generation of an application declares it; by
// hand, if the application has no name.
func declare(app string, generation uint64, input string) store.Command {
	c := put(minute, epoch+minute)
	c.Schedule.Schedule.App, c.Schedule.Schedule.Gen = app, generation
	c.Schedule.Schedule.Input = []byte(input)
	return c
}

func TestSchedule_Generation_is_kept_over_a_change_by_hand(t *testing.T) {
	m := newMachine(t)
	m.ok(declare("app", 2, "two"))
	m.ok(declare("", 0, "by hand"))
	m.ok(declare("app", 1, "one"))
	if got, want := string(m.s.Schedule("s").Input), "by hand"; got != want {
		t.Errorf("after an older generation has started: got %q, want %q", got, want)
	}
	m.ok(declare("app", 3, "three"))
	if got, want := string(m.s.Schedule("s").Input), "three"; got != want {
		t.Errorf("after a newer generation has started: got %q, want %q", got, want)
	}
}

func TestState_Queues_forgets_those_that_were_merely_used(t *testing.T) {
	m := newMachine(t)
	m.ok(store.Command{Kind: store.KindPutQueue, Queue: &store.Queue{Name: "kept", Limit: 1}})
	before := m.s.Digest()
	for n := range uint64(2000) {
		spec := mail
		spec.Queue = fmt.Sprintf("user-%d", n)
		m.ok(store.Command{Kind: store.KindEnqueue, Enqueue: &store.Enqueue{
			Specs: [][]byte{spec.Encode()}, Runs: []store.NewRun{{ID: id(n)}},
		}})
		if n > 0 {
			m.ok(store.Command{Kind: store.KindCancel, Run: &store.RunCommand{ID: id(n)}})
		}
	}
	m.s.Flushed(m.s.TakeFlush())
	var got []string
	for _, q := range m.s.Queues() {
		got = append(got, q.Name)
	}
	if len(got) != 2 || got[0] != "kept" || got[1] != "user-0" {
		t.Errorf("got %d queues %.100q, want the configured one and the one in use", len(got), got)
	}
	if m.s.Digest() == before {
		t.Error("the digest says that nothing has happened")
	}
}

// Whoever has not asked a Go trigger for its next tick, because it would not count, may
// have looked at an older state.
func TestSchedule_a_tick_that_is_to_be_kept(t *testing.T) {
	m := newMachine(t)
	c := put(minute, 0)
	c.Schedule.Keep, c.Schedule.Declared = true, 1
	want := func(what string, want store.Code) {
		t.Helper()
		if res := m.do(c); res.Code != want {
			t.Errorf("%s: %+v, want %v", what, res, want)
		}
	}
	want("a new schedule", store.CodeConflict)
	first := put(minute, epoch+minute)
	first.Schedule.Declared = 1
	m.ok(first)
	want("the same", store.OK)
	c.Schedule.Schedule.Input, c.Schedule.Declared = []byte("2"), 2
	want("what keeps its tick", store.OK)
	m.ok(put(2*minute, epoch+2*minute)) // by hand
	want("a declaration that counts no more", store.OK)
	m.ok(func() store.Command { // what it is, is declared
		c := put(2*minute, 0)
		c.Schedule.Declared = 3
		return c
	}())
	want("one that counts again", store.CodeConflict)
	if sc := m.s.Schedule("s"); sc.Version != 3 || sc.Next != epoch+2*minute || sc.Declared != 3 {
		t.Errorf("it is %+v", sc)
	}
	m.do(store.Command{Kind: store.KindRearm, Rearm: &store.Rearm{Ticks: []store.RearmTick{{Schedule: "s", Version: 3, Armed: epoch + 2*minute}}}})
	c = put(2*minute, 0)
	c.Schedule.Keep, c.Schedule.Schedule.Input = true, []byte("3")
	want("one that has no tick", store.CodeConflict)
}
