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
