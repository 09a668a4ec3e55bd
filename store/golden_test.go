package store_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/tinylib/msgp/msgp"

	"github.com/escapement-go/scheduler/store"
)

var update = flag.Bool("update", false, "write the golden files anew")

// record is anything that is encoded by itself.
type record interface {
	msgp.Marshaler
	msgp.Unmarshaler
}

var goldenSpec = &store.Spec{
	Task: "mail.send", Queue: "default", Tenant: "acme", Priority: store.High, Weight: 2,
	Timeout: 3 * second, ExpireAfter: 4 * second, UniqueFor: 5 * second,
	Retry:  store.Retry{Initial: second, Max: 60 * second, Factor: 1.5, Jitter: 0.25, Attempts: 7},
	Labels: []store.Pair{{Key: "gpu", Value: "yes"}},
}

// goldenRun has every field.
func goldenRun() *store.Run {
	return &store.Run{
		ID: id(1), Spec: goldenSpec, Input: []byte(`{"to":"a"}`), State: store.Failed, Clock: store.Wall,
		Due: epoch, Created: epoch + 1, Started: epoch + 2, Finished: epoch + 3, Fence: 4, Session: 5, Attempt: 6,
		Failures: 7, Crashes: 8, Interrupts: 9, Snoozes: 10,
		More: &store.RunMore{
			Unique: "k", UniqueUntil: 11, Meta: []store.Pair{{Key: "a", Value: "b"}}, ExpireAt: 12,
			Schedule: "nightly", Version: 13, Nominal: 14, Trace: "00-01", Checkpoint: []byte("at 3"),
			Result: []byte("42"), Error: "broke", Panicked: true, Revived: 15, Home: 16,
			Attempts: []store.Attempt{{Number: 1, Fence: 2, Session: 3, Started: 4, Finished: 5, Outcome: store.OutcomeFailed, Error: "e", Panicked: true}},
		},
	}
}

func goldenSchedule() *store.Schedule {
	return &store.Schedule{
		ID: "nightly", Number: 1, Version: 2,
		Trigger: store.Trigger{
			Kind: store.TriggerCron, Expr: "0 3 * * *", Zone: "Europe/Berlin", Dialect: 1, Version: 2, DST: 3, HashKey: "h",
			Every: 4, Times: []int64{5, 6}, Jitter: 7, From: 8, Until: 9, Name: "n", Params: []byte("p"),
			Except: []store.Exclusion{{Days: []int32{1}, Spans: []store.Span{{From: 2, To: 3}}, Expr: "e", Length: 4, ICS: []byte("i"), Calendar: "c"}},
		},
		Spec: goldenSpec, Input: []byte("{}"), Meta: []store.Pair{{Key: "a", Value: "b"}},
		Overlap: store.OverlapAllow, CatchUp: store.CatchUpNone, MaxAge: 3, Paused: true, PausedAt: 4, App: "app", Gen: 5,
		CreatedAt: 6, ChangedAt: 7, Deleted: 11, Next: 8, Decided: []store.Span{{From: 9, To: 10}}, Live: []store.RunID{id(1)},
		MaxRuns: 22, Fired: 23, Since: 24, Last: 25,
		Canary: &store.Canary{
			Version: 1, Spec: goldenSpec, Input: []byte("n"), Meta: []store.Pair{{Key: "a", Value: "b"}}, Share: 2, Allowed: 3,
			MaxTook: 4, Need: 5, Ended: 6, Failures: 7, Author: "u", Note: "o", At: 8,
		},
		QueueMax: 12, MaxCount: 13, Pace: 14, Pause: store.Span{From: 15, To: 16}, Backfills: 17,
		Waiting: []store.Wait{{Kind: store.WaitBackfill, From: 18, To: 19, At: 20, Pace: 21, Run: id(2)}},
		Loose:   []store.Tick{{Schedule: 1, Version: 2, From: 3, To: 4, Outcome: store.TickMerged, Decided: 5}},
	}
}

// goldenRecords are one of each kind of record, every field set.
func goldenRecords() map[string]record {
	result := store.Result{Code: store.CodeUnique, Run: id(1), Text: "k", N: 2, Each: []store.Code{store.OK, store.CodeStale}}
	return map[string]record{
		"run":      goldenRun(),
		"schedule": goldenSchedule(),
		"tick": &store.Tick{
			Schedule: 1, Version: 2, From: 3, To: 4, Outcome: store.TickMissed, Reason: "late", Run: id(1), Decided: 5, Late: 6, Backfill: true,
		},
		"calendar": &store.Calendar{Name: "c", Version: 1, Except: []store.Exclusion{{Days: []int32{1}}}, Changed: 2},
		"version":  &store.ScheduleVersion{Number: 1, Version: 2, At: 3, Author: "a", Note: "n", Trial: "t", Schedule: goldenSchedule()},
		"queue":    &store.Queue{Name: "default", Limit: 3, Paused: true},
		"session":  &store.Session{ID: 1, Node: "a", Opened: 2, Seen: 3, Acked: 4, Ended: true, Results: []store.Kept{{Seq: 5, Result: result}}},
		"segment":  &store.Segment{Kind: store.TickSegment, Time: 1, Part: 2, Rows: 3, Bytes: 4, Last: 5},
		"unique":   &store.Unique{Key: "mail.send\x00k", Holder: id(1), Until: 2},
		"meta": &store.Meta{
			Format: 1, Level: 1, Index: 2, Term: 3, Elapsed: 4, Wall: 5, Fence: 6, Session: 7, Schedule: 8,
			Revivals: []store.Revival{{ID: id(1), Index: 9}}, RevivedBefore: 10,
		},
		"batch": goldenBatch(),
	}
}

// goldenBatch has a command of every kind, every field set.
func goldenBatch() *store.Batch {
	run := &store.RunCommand{ID: id(1), Row: goldenRun(), Segment: store.SegmentKey{Kind: store.RunSegment, Time: 1, Part: 2}, AsOf: 3}
	bodies := []store.Command{
		{Kind: store.KindEnqueue, Session: 1, Seq: 2, Ack: 3, Enqueue: &store.Enqueue{
			Specs: [][]byte{goldenSpec.Encode()},
			Runs: []store.NewRun{{
				ID: id(1), Spec: 1, Clock: store.Wall, Due: 2, Input: []byte("{}"), Unique: "k",
				Meta: []store.Pair{{Key: "a", Value: "b"}}, Trace: "00-01",
			}},
		}},
		lease(id(1), id(2)),
		{Kind: store.KindComplete, Complete: &store.Complete{Session: 1, Reports: []store.Report{{
			Run: id(1), Fence: 2, Outcome: store.OutcomeFailed, Started: 3, Finished: 4, Result: []byte("r"), Error: "e",
			Panicked: true, Delay: 5, Backoff: 6,
		}}}},
		{Kind: store.KindEndLease, EndLease: &store.EndLease{Run: id(1), Fence: 2, Outcome: store.OutcomeCrashed, Reason: "r", Backoff: 3}},
		{Kind: store.KindCheckpoint, Checkpoint: &store.Checkpoint{Run: id(1), Fence: 2, Data: []byte("d")}},
		{Kind: store.KindCancel, Run: run},
		{Kind: store.KindRetryNow, Run: run},
		{Kind: store.KindExpire, Expire: &store.Expire{Runs: []store.RunID{id(1)}}},
		{Kind: store.KindPutSchedule, Schedule: &store.PutSchedule{
			Schedule: *goldenSchedule(), Next: 1, Author: "a", Note: "n", Only: 2, Canary: &store.Canary{Version: 3, Spec: goldenSpec, Share: 4},
		}},
		{Kind: store.KindPauseSchedule, Pause: &store.PauseSchedule{ID: "nightly", Paused: true}},
		{Kind: store.KindDeleteSchedule, Delete: &store.DeleteSchedule{ID: "nightly"}},
		{Kind: store.KindTick, Tick: &store.TickCommand{
			Schedule: "nightly", Version: 1, Armed: 2, Spans: []store.DecidedSpan{{From: 3, To: 4, Outcome: store.TickMerged, Reason: "r"}},
			Waits: []store.Span{{From: 7, To: 8}}, Nominal: 5, Reason: "r", Run: id(1), Delay: 9, Next: 6,
		}},
		{Kind: store.KindRearm, Rearm: &store.Rearm{Ticks: []store.RearmTick{{Schedule: "nightly", Version: 1, Armed: 2, Next: 3}}}},
		{Kind: store.KindPutQueue, Queue: &store.Queue{Name: "default", Limit: 1, Paused: true}},
		{Kind: store.KindOpenSession, Open: &store.OpenSession{Node: "a", Tasks: []string{"mail.send"}}},
		{Kind: store.KindEndSession, End: &store.EndSession{ID: 1}},
		{Kind: store.KindPrune, Prune: &store.Prune{Segments: []store.SegmentKey{{Kind: store.TickSegment, Time: 1, Part: 2}}, Schedules: []string{"gone"}}},
		{Kind: store.KindSetCluster, Cluster: &store.SetCluster{ID: "c", Level: 1, Put: []store.NodeRecord{{ID: "a"}}, Remove: []string{"b"}}},
		{Kind: store.KindStart, Start: &store.StartCommand{
			Schedule: "nightly", Wait: store.Wait{Kind: store.WaitMissed, From: 1, To: 2, At: 3, Pace: 4, Run: id(3)},
			Ticks: []store.RunNow{{Nominal: 1, Run: id(1)}}, Left: 2,
		}},
		{Kind: store.KindRunNow, RunNow: &store.RunNow{Schedule: "nightly", Run: id(1)}},
		{Kind: store.KindBackfill, Backfill: &store.Backfill{Schedule: "nightly", Version: 1, Before: 2, Spans: []store.Span{{From: 3, To: 4}}, Pace: 5}},
		{Kind: store.KindPutCalendar, Calendar: &store.PutCalendar{Calendar: store.Calendar{Name: "c", Except: []store.Exclusion{{Days: []int32{1}}}}, Delete: true}},
		{Kind: store.KindCanary, Canary: &store.EndCanary{Schedule: "nightly", Promote: true, Author: "a"}},
	}
	return &store.Batch{Level: 1, Wall: epoch, Elapsed: epoch + 1, Commands: bodies}
}

// goldenFile returns a file's bytes, which are kept as hex in lines. want are those
// that -update writes.
func goldenFile(t *testing.T, name string, want []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", "format1", name+".hex")
	if *update && want != nil {
		var text strings.Builder
		for line := range chunks(want, 32) {
			fmt.Fprintln(&text, hex.EncodeToString(line))
		}
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func chunks(b []byte, n int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			m := min(n, len(b))
			if !yield(b[:m]) {
				return
			}
			b = b[m:]
		}
	}
}

// ignoreCaches compares records by what of them is stored.
var ignoreCaches = cmp.Options{
	cmpopts.IgnoreUnexported(store.Spec{}, store.Run{}),
}

func TestFormat1_records_read_and_write_as_ever(t *testing.T) {
	for name, want := range goldenRecords() {
		encoded, err := want.MarshalMsg(nil)
		if err != nil {
			t.Fatal(err)
		}
		golden := goldenFile(t, name, encoded)
		if !bytes.Equal(encoded, golden) {
			t.Errorf("%s: written as\n%x\nwant\n%x", name, encoded, golden)
		}
		got := reflect.New(reflect.TypeOf(want).Elem()).Interface().(record)
		if rest, err := got.UnmarshalMsg(golden); err != nil || len(rest) > 0 {
			t.Errorf("%s: %v, %d bytes left", name, err, len(rest))
		}
		if diff := cmp.Diff(want, got, ignoreCaches); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

// Every kind of command is in the golden batch, and DecodeBatch takes it.
func TestFormat1_batch_has_every_command(t *testing.T) {
	b, err := store.DecodeBatch(goldenFile(t, "batch", nil))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range b.Commands {
		if c.Kind != store.Kind(i+1) {
			t.Errorf("command %d has kind %d", i, c.Kind)
		}
	}
	next := &store.Batch{Level: 1, Commands: []store.Command{{Kind: store.Kind(len(b.Commands) + 1)}}}
	data, err := store.EncodeBatch(nil, next)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.DecodeBatch(data); err == nil {
		t.Error("there are commands that the golden batch does not have")
	}
}

func TestFormat1_journal_reads_and_writes_as_ever(t *testing.T) {
	m := newMachine(t)
	row := func() []byte {
		var last store.PackedEvents
		for e := range m.s.UnflushedEvents() {
			last = e
		}
		return last.Data
	}
	script := map[string]func(){
		"journal-run": func() { m.ok(enqueue(mail, store.NewRun{ID: id(1)}, store.NewRun{ID: id(2)})); m.ok(lease(id(1))) },
		"journal-schedule": func() {
			m.ok(store.Command{Kind: store.KindPutSchedule, Schedule: &store.PutSchedule{
				Schedule: store.Schedule{ID: "nightly", Spec: &mail}, Next: epoch + 1,
			}})
			m.ok(store.Command{Kind: store.KindTick, Tick: &store.TickCommand{
				Schedule: "nightly", Version: 1, Armed: epoch + 1, Nominal: epoch + 1, Run: id(3),
			}})
		},
		"journal-queue": func() { m.ok(store.Command{Kind: store.KindPutQueue, Queue: &store.Queue{Name: "q", Limit: 1}}) },
	}
	for _, name := range []string{"journal-run", "journal-schedule", "journal-queue"} {
		script[name]()
		golden := goldenFile(t, name, row())
		if !bytes.Equal(row(), golden) {
			t.Errorf("%s: written as %x, want %x", name, row(), golden)
		}
		n := 0
		for e, err := range store.UnpackEvents(store.PackedEvents{Index: m.index, Data: golden}) {
			if err != nil || e.Index != m.index || e.Wall != epoch {
				t.Errorf("%s: %+v, %v", name, e, err)
			}
			if got := m.events[n]; e.Kind != got.Kind || got.Run != nil && e.Run != got.Run.ID || got.Tick != nil && e.Tick != got.Tick.Outcome {
				t.Errorf("%s: event %d is %+v, want %+v", name, n, e, got)
			}
			n++
		}
		if n != len(m.events) {
			t.Errorf("%s: %d events, want %d", name, n, len(m.events))
		}
	}
}
