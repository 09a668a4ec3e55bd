package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler/store"
)

// waiting is a machine whose schedule, which overlaps as given, has a live run and
// three ticks to be made up.
func waiting(t *testing.T, overlap store.Overlap) *machine {
	t.Helper()
	m := newMachine(t)
	c := put(minute, epoch+minute)
	c.Schedule.Schedule.Overlap, c.Schedule.Schedule.QueueMax = overlap, 1
	m.ok(c)
	m.sleep(minute)
	m.fire(epoch+minute, epoch+2*minute)
	m.sleep(3 * minute)
	sc := m.s.Schedule("s")
	m.ok(store.Command{Kind: store.KindTick, Tick: &store.TickCommand{
		Schedule: "s", Version: sc.Version, Armed: sc.Next, Next: epoch + 5*minute,
		Waits: []store.Span{{From: epoch + 2*minute, To: epoch + 4*minute}},
	}})
	return m
}

// begin starts waiting ticks, given in minutes, from the first of the span on.
func (m *machine) begin(left int64, ticks ...int64) store.Result {
	c := &store.StartCommand{Schedule: "s", Wait: m.s.Schedule("s").Waiting[0]}
	for _, at := range ticks {
		c.Ticks = append(c.Ticks, store.RunNow{Nominal: epoch + at*minute, Run: id(100 + uint64(at))})
	}
	if left != 0 {
		c.Left = epoch + left*minute
	}
	return m.do(store.Command{Kind: store.KindStart, Start: c})
}

func TestSchedule_Start_checks_again_what_the_leader_decided(t *testing.T) {
	m := waiting(t, store.OverlapSkip)
	if res := m.begin(3, 2); res.Code != store.CodeConflict {
		t.Errorf("beside a live run: %+v, want it refused", res)
	}
	m.ok(store.Command{Kind: store.KindCancel, Run: &store.RunCommand{ID: m.s.Schedule("s").Live[0]}})
	for what, res := range map[string]store.Result{
		"a tick before the span": m.begin(2, 1), "ticks out of order": m.begin(0, 3, 2), "more than is left": m.begin(5, 2),
		"none": m.begin(2),
	} {
		if res.Code != store.CodeInvalid {
			t.Errorf("%s: %+v, want it refused", what, res)
		}
	}
	stale := *m.s.Schedule("s")
	if res := m.begin(0, 2, 3, 4); res.Code != store.OK { // one starts, the others wait on
		t.Fatal(res)
	}
	sc := m.s.Schedule("s")
	if len(sc.Live) != 1 || len(sc.Waiting) != 1 || sc.Waiting[0].From != epoch+3*minute {
		t.Errorf("one has started: %+v", sc)
	}
	res := m.do(store.Command{Kind: store.KindStart, Start: &store.StartCommand{
		Schedule: "s", Wait: stale.Waiting[0], Ticks: []store.RunNow{{Nominal: epoch + 2*minute, Run: id(200)}},
	}})
	if res.Code != store.CodeConflict {
		t.Errorf("a start that was decided before: %+v, want it refused", res)
	}
}

func TestSchedule_Waiting_keeps_the_order_of_turns(t *testing.T) {
	m := waiting(t, store.OverlapQueue)
	m.ok(store.Command{Kind: store.KindBackfill, Backfill: &store.Backfill{
		Schedule: "s", Version: 1, Spans: []store.Span{{From: epoch - 2*minute, To: epoch - minute}},
	}})
	m.sleep(minute)
	m.fire(epoch+5*minute, epoch+6*minute)
	if res := m.do(store.Command{Kind: store.KindRunNow, RunNow: &store.RunNow{Schedule: "s", Run: id(300)}}); res.Code != store.CodeOverlap {
		t.Errorf("a start by hand behind a full queue: %+v", res)
	}
	var kinds []store.WaitKind
	for _, w := range m.s.Schedule("s").Waiting {
		kinds = append(kinds, w.Kind)
	}
	if diff := cmp.Diff([]store.WaitKind{store.WaitQueued, store.WaitMissed, store.WaitBackfill}, kinds); diff != "" {
		t.Errorf("waiting: -want +got\n%s", diff)
	}
	for what, b := range map[string]*store.Backfill{
		"another version": {Schedule: "s", Version: 2, Before: 1}, "another ledger": {Schedule: "s", Version: 1},
		"ticks to come": {Schedule: "s", Version: 1, Before: 1, Spans: []store.Span{{From: epoch, To: epoch + 6*minute}}},
	} {
		if res := m.do(store.Command{Kind: store.KindBackfill, Backfill: b}); res.Code == store.OK {
			t.Errorf("%s: accepted", what)
		}
	}
}
