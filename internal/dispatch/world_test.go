package dispatch_test

import (
	"encoding/binary"
	"log/slog"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/store"
)

// world is a leader without a log: batches are applied as soon as they are
// prepared, at times the test sets.
type world struct {
	t       *testing.T
	st      *store.State
	d       *dispatch.Dispatcher
	wall    int64
	elapsed int64
	index   uint64
	session uint64
	minted  uint64
	kicked  int
	worker  fakeWorker
	rules   map[string]dispatch.Rule
}

// fakeWorker keeps what it is granted.
type fakeWorker struct {
	grants   []dispatch.Grant
	canceled []store.RunID
}

func (w *fakeWorker) Assign(g []dispatch.Grant)           { w.grants = append(w.grants, g...) }
func (w *fakeWorker) Cancel(run *store.Run, fence uint64) { w.canceled = append(w.canceled, run.ID) }

const (
	second = int64(time.Second)
	minute = int64(time.Minute)
)

// noon is where every world begins.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC).UnixNano()

type option func(*dispatch.Config)

func newWorld(t *testing.T, capacity int, opts ...option) *world {
	t.Helper()
	w := &world{t: t, st: store.NewState(), wall: noon, elapsed: noon, rules: make(map[string]dispatch.Rule)}
	cfg := dispatch.Config{
		Kick:      func() { w.kicked++ },
		Now:       func() (int64, int64) { return w.wall, w.elapsed },
		Compile:   func(_ *store.State, sc *store.Schedule) (dispatch.Rule, error) { return every(sc.Trigger.Every), nil },
		Random:    func() uint64 { w.minted++; return w.minted },
		Logger:    slog.New(slog.DiscardHandler),
		LostAfter: 10 * time.Second,
	}
	for _, o := range opts {
		o(&cfg)
	}
	w.d = dispatch.New(cfg)
	w.d.Lead(w.st, true)
	res := w.batch(store.Command{Kind: store.KindOpenSession, Open: &store.OpenSession{Node: "n", Tasks: []string{"work", "other"}}})
	w.session = res[0].N
	w.d.Attach(w.session, &w.worker, []string{"work", "other"}, 1)
	w.d.SetCapacity(w.session, capacity, 0)
	return w
}

// every is a rule with a tick at each multiple of itself.
type every int64

func (e every) Next(after int64) int64     { return (after/int64(e) + 1) * int64(e) }
func (e every) Last(armed, at int64) int64 { return max(armed, at/int64(e)*int64(e)) }

// pass moves both clocks and lets the leader decide.
func (w *world) pass(d time.Duration) {
	w.wall += int64(d)
	w.elapsed += int64(d)
	w.batch()
}

// batch prepares and applies one entry, through the codec.
func (w *world) batch(cmds ...store.Command) []store.Result {
	w.t.Helper()
	b := &store.Batch{Level: store.FormatLevel, Wall: w.wall, Elapsed: w.elapsed, Commands: cmds}
	w.d.Prepare(b, w.st)
	if len(b.Commands) == 0 {
		return nil
	}
	data, err := store.EncodeBatch(nil, b)
	if err != nil {
		w.t.Fatal(err)
	}
	decoded, err := store.DecodeBatch(data)
	if err != nil {
		w.t.Fatal(err)
	}
	w.index++
	results, events := w.st.Apply(w.index, 1, decoded)
	w.d.Applied(w.st, decoded, results, events)
	return results
}

func (w *world) id() store.RunID {
	w.minted++
	var entropy [10]byte
	binary.BigEndian.PutUint64(entropy[:], w.minted)
	return store.NewRunID(time.Unix(0, w.wall), entropy)
}

func spec(change ...func(*store.Spec)) *store.Spec {
	s := &store.Spec{
		Task: "work", Queue: "default", Priority: store.Normal,
		Retry: store.Retry{Initial: second, Max: minute, Factor: 2, Attempts: 3},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

// enqueue adds one run due after a delay and returns its ID.
func (w *world) enqueue(s *store.Spec, delay time.Duration) store.RunID {
	w.t.Helper()
	id := w.id()
	res := w.batch(store.Command{Kind: store.KindEnqueue, Enqueue: &store.Enqueue{
		Specs: [][]byte{s.Encode()}, Runs: []store.NewRun{{ID: id, Due: int64(delay)}},
	}})
	if res[0].Code != store.OK {
		w.t.Fatalf("enqueue: got %+v, want OK", res[0])
	}
	return id
}

// complete reports the outcome of a grant.
func (w *world) complete(g dispatch.Grant, o store.Outcome) store.Result {
	w.t.Helper()
	return w.batch(store.Command{Kind: store.KindComplete, Complete: &store.Complete{
		Session: w.session,
		Reports: []store.Report{{Run: g.Run.ID, Fence: g.Run.Fence, Outcome: o, Error: "failed"}},
	}})[0]
}

// take returns the grants made since the last call.
func (w *world) take() []dispatch.Grant {
	g := w.worker.grants
	w.worker.grants = nil
	return g
}

func (w *world) wantGranted(ids ...store.RunID) []dispatch.Grant {
	w.t.Helper()
	got := w.take()
	if len(got) != len(ids) {
		w.t.Fatalf("grants: got %d, want %d", len(got), len(ids))
	}
	for i, g := range got {
		if g.Run.ID != ids[i] {
			w.t.Fatalf("grant %d: got run %v, want %v", i, g.Run.ID, ids[i])
		}
	}
	return got
}

// put makes a schedule that ticks at each multiple of period on the elapsed
// clock.
func (w *world) put(id string, period time.Duration, change ...func(*store.Schedule)) {
	w.t.Helper()
	sc := store.Schedule{
		ID: id, Spec: spec(),
		Trigger: store.Trigger{Kind: store.TriggerEvery, Every: int64(period)},
	}
	for _, c := range change {
		c(&sc)
	}
	now := w.elapsed
	if sc.Trigger.TickClock() == store.Wall {
		now = w.wall
	}
	res := w.batch(store.Command{Kind: store.KindPutSchedule, Schedule: &store.PutSchedule{
		Schedule: sc, Next: every(sc.Trigger.Every).Next(now),
	}})
	if res[0].Code != store.OK {
		w.t.Fatalf("put schedule: got %+v, want OK", res[0])
	}
}

// onWall makes a schedule count on the wall clock, as cron does.
func onWall(sc *store.Schedule) { sc.Trigger.Kind = store.TriggerCron }

// ticks returns the ledger's rows that are not flushed, which is all of it here.
func (w *world) ticks() []store.Tick {
	var rows []store.Tick
	for t := range w.st.UnflushedTicks() {
		rows = append(rows, *t)
	}
	return rows
}
