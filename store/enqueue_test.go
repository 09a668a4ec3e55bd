package store_test

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler/store"
)

const second = int64(time.Second)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano()

// machine applies one command at a time.
type machine struct {
	tb            testing.TB
	s             *store.State
	index         uint64
	wall, elapsed int64
	events        []store.Event // of the last command
}

// newMachine has the task mail.send and session 1.
func newMachine(tb testing.TB) *machine {
	tb.Helper()
	m := &machine{tb: tb, s: store.NewState(), wall: epoch, elapsed: epoch}
	m.ok(store.Command{Kind: store.KindOpenSession, Open: &store.OpenSession{Node: "a", Tasks: []string{"mail.send"}}})
	return m
}

func (m *machine) do(c store.Command) store.Result {
	m.index++
	b := &store.Batch{Level: 1, Wall: m.wall, Elapsed: m.elapsed, Commands: []store.Command{c}}
	results, events := m.s.Apply(m.index, 1, b)
	m.events = events
	return results[0]
}

func (m *machine) ok(c store.Command) store.Result {
	m.tb.Helper()
	res := m.do(c)
	if res.Code != store.OK || res.Each != nil {
		m.tb.Fatalf("command of kind %d: %+v", c.Kind, res)
	}
	return res
}

func (m *machine) sleep(ns int64) { m.wall, m.elapsed = m.wall+ns, m.elapsed+ns }

func id(n uint64) store.RunID {
	var entropy [10]byte
	binary.BigEndian.PutUint64(entropy[2:], n)
	return store.NewRunID(time.Unix(0, epoch), entropy)
}

var mail = store.Spec{Task: "mail.send", Queue: "default", Retry: store.Retry{Initial: second, Max: 60 * second, Factor: 2, Attempts: 3}}

func enqueue(spec store.Spec, runs ...store.NewRun) store.Command {
	return store.Command{Kind: store.KindEnqueue, Enqueue: &store.Enqueue{Specs: [][]byte{spec.Encode()}, Runs: runs}}
}

func lease(ids ...store.RunID) store.Command {
	return store.Command{Kind: store.KindLease, Lease: &store.Lease{Session: 1, Runs: ids}}
}

func TestState_Enqueue_that_fails_changes_nothing(t *testing.T) {
	held := store.NewRun{ID: id(1), Unique: "held"}
	expired := store.NewRun{ID: id(2), Unique: "expired"}
	for name, c := range map[string]struct {
		runs []store.NewRun
		want store.Result
	}{
		"an ID that is live": {
			[]store.NewRun{{ID: id(10)}, {ID: id(1)}},
			store.Result{Code: store.CodeConflict, Run: id(1)},
		},
		"an ID twice": {
			[]store.NewRun{{ID: id(10)}, {ID: id(11)}, {ID: id(10)}},
			store.Result{Code: store.CodeConflict, Run: id(10)},
		},
		"an ID twice in a row": {
			[]store.NewRun{{ID: id(10)}, {ID: id(10)}},
			store.Result{Code: store.CodeConflict, Run: id(10)},
		},
		"no ID": {
			[]store.NewRun{{ID: id(10)}, {}},
			store.Result{Code: store.CodeInvalid, Text: "run ID is not a UUIDv7"},
		},
		"no such spec": {
			[]store.NewRun{{ID: id(10)}, {ID: id(11), Spec: 1}},
			store.Result{Code: store.CodeInvalid, Run: id(11), Text: "no such spec"},
		},
		"a key that is held": {
			[]store.NewRun{{ID: id(10), Unique: "free"}, {ID: id(11), Unique: "held"}},
			store.Result{Code: store.CodeUnique, Run: id(1), Text: "held"},
		},
		"a key twice": {
			[]store.NewRun{{ID: id(10), Unique: "free"}, {ID: id(11), Unique: "free"}},
			store.Result{Code: store.CodeUnique, Run: id(10), Text: "free"},
		},
		"a key whose time is over, then another fault": {
			[]store.NewRun{{ID: id(10), Unique: "expired"}, {}},
			store.Result{Code: store.CodeInvalid, Text: "run ID is not a UUIDv7"},
		},
	} {
		m, still := newMachine(t), newMachine(t)
		for _, x := range []*machine{m, still} {
			short := mail
			short.UniqueFor = second
			x.ok(enqueue(short, expired))
			x.ok(store.Command{Kind: store.KindCancel, Run: &store.RunCommand{ID: expired.ID}})
			x.sleep(2 * second)
			x.ok(enqueue(mail, held))
		}
		got := m.do(enqueue(mail, c.runs...))
		still.index++
		still.s.Apply(still.index, 1, &store.Batch{Level: 1, Wall: still.wall, Elapsed: still.elapsed})
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
		if len(m.events) != 0 {
			t.Errorf("%s: %d events", name, len(m.events))
		}
		if m.s.Digest() != still.s.Digest() {
			t.Errorf("%s: the state has changed", name)
		}
		if got, want := m.s.Unflushed(), still.s.Unflushed(); got != want {
			t.Errorf("%s: %d rows wait to be flushed, want %d", name, got, want)
		}
	}
}

// What a node has flushed is its own affair: it must not show in results.
func TestState_decides_alike_whatever_is_flushed(t *testing.T) {
	late, early := newMachine(t), newMachine(t)
	flush := func(m *machine) { m.s.Flushed(m.s.TakeFlush()) }
	both := func(c store.Command) {
		t.Helper()
		if a, b := late.do(c), early.do(c); !cmp.Equal(a, b) {
			t.Errorf("command of kind %d: %+v without a flush, %+v with", c.Kind, a, b)
		}
		flush(early)
	}
	cancel := store.Command{Kind: store.KindCancel, Run: &store.RunCommand{ID: id(1)}}
	both(enqueue(mail, store.NewRun{ID: id(1)}))
	both(cancel)
	both(cancel)
	both(enqueue(mail, store.NewRun{ID: id(1)}))
	both(cancel)
	if late.s.Digest() != early.s.Digest() {
		t.Error("the states differ")
	}
}

// A run that ends, is taken up again and ends in one window of flushes must take
// the live row of an earlier window along.
func TestState_Flush_of_a_run_that_ends_twice_removes_its_live_row(t *testing.T) {
	for _, again := range []string{"retried", "enqueued"} {
		m := newMachine(t)
		m.ok(enqueue(mail, store.NewRun{ID: id(1)}))
		m.s.Flushed(m.s.TakeFlush()) // the live row
		cancel := store.Command{Kind: store.KindCancel, Run: &store.RunCommand{ID: id(1)}}
		m.ok(cancel)
		if again == "retried" {
			m.ok(store.Command{Kind: store.KindRetryNow, Run: &store.RunCommand{ID: id(1), Row: m.s.Run(id(1)), AsOf: m.index}})
		} else {
			m.ok(enqueue(mail, store.NewRun{ID: id(1)}))
		}
		m.ok(cancel)
		f := m.s.TakeFlush()
		if len(f.Runs) != 1 || !f.Runs[0].Final || !f.Runs[0].Gone {
			t.Errorf("%s: the flush has %+v, want one final run whose live row goes", again, f.Runs)
		}
	}
}

func TestState_Prune_of_a_segment_that_is_filled_again_drops_it_first(t *testing.T) {
	m := newMachine(t)
	cancel := func(n uint64) {
		m.ok(enqueue(mail, store.NewRun{ID: id(n)}))
		m.ok(store.Command{Kind: store.KindCancel, Run: &store.RunCommand{ID: id(n)}})
	}
	cancel(1)
	m.s.Flushed(m.s.TakeFlush())
	key := m.s.Segments()[0].Key()
	m.ok(store.Command{Kind: store.KindPrune, Prune: &store.Prune{Segments: []store.SegmentKey{key}}})
	cancel(2)
	f := m.s.TakeFlush()
	if diff := cmp.Diff([]store.SegmentKey{key}, f.Dropped); diff != "" {
		t.Errorf("dropped: -want +got\n%s", diff)
	}
	if seg := f.Segments[key]; seg == nil || seg.Rows != 1 {
		t.Errorf("segment %+v, want one row", seg)
	}
}

// Delays that reach beyond the clock's range have ended runs, or started them, at
// once.
func TestEnqueue_for_ever(t *testing.T) {
	m := newMachine(t)
	spec := mail
	spec.ExpireAfter, spec.UniqueFor = math.MaxInt64, math.MaxInt64
	m.ok(store.Command{Kind: store.KindEnqueue, Enqueue: &store.Enqueue{
		Specs: [][]byte{spec.Encode()}, Runs: []store.NewRun{{ID: id(1), Due: math.MaxInt64, Unique: "k"}},
	}})
	r := m.s.LiveRun(id(1))
	if r.Due != math.MaxInt64 || r.More.ExpireAt != math.MaxInt64 || r.More.UniqueUntil != math.MaxInt64 {
		t.Errorf("due %d, expires at %d, key held until %d: want the end of time", r.Due, r.More.ExpireAt, r.More.UniqueUntil)
	}
}

func TestState_a_queue_is_set_in_parts(t *testing.T) {
	m := newMachine(t)
	m.ok(store.Command{Kind: store.KindPutQueue, Queue: &store.Queue{Name: "q", Limit: 3}, QueuePart: store.QueueConfig})
	m.ok(store.Command{Kind: store.KindPutQueue, Queue: &store.Queue{Name: "q", Paused: true}, QueuePart: store.QueuePause})
	m.ok(store.Command{Kind: store.KindPutQueue, Queue: &store.Queue{Name: "q", Limit: 4}, QueuePart: store.QueueConfig})
	if q := m.s.Queue("q").Queue; q != (store.Queue{Name: "q", Limit: 4, Paused: true}) {
		t.Errorf("it is %+v", q)
	}
	m.ok(store.Command{Kind: store.KindPutQueue, Queue: &store.Queue{Name: "q"}, QueuePart: store.QueuePause})
	if q := m.s.Queue("q").Queue; q != (store.Queue{Name: "q", Limit: 4}) {
		t.Errorf("resumed it is %+v", q)
	}
}

// A try to open a session that was given up may arrive after the one that was made in
// its place.
func TestOpenSession_LateTryEndsNothing(t *testing.T) {
	m := newMachine(t)
	open := func(below uint64) store.Command {
		return store.Command{Kind: store.KindOpenSession, Open: &store.OpenSession{Node: "a", Below: below}}
	}
	late := open(2)
	res := m.ok(open(2))
	if got := m.do(late); got.Code != store.CodeConflict || len(m.events) != 0 {
		t.Errorf("the late try: got %+v and %d events, want a conflict", got, len(m.events))
	}
	if ses, ok := m.s.Session(res.N); !ok || ses.Ended {
		t.Errorf("session %d: %+v, want one that goes on", res.N, ses)
	}
	next := m.ok(open(res.N + 1))
	if ses, ok := m.s.Session(res.N); !ok || !ses.Ended || next.N == res.N {
		t.Errorf("session %d after session %d: %+v, want one that has ended", res.N, next.N, ses)
	}
	m.ok(store.Command{Kind: store.KindOpenSession, Open: &store.OpenSession{Node: "b", Below: 1}})
}
