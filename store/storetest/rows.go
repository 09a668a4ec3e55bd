//nolint:thelper // these are the tests themselves: a failure belongs to its own line
package storetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/store"
)

func testEmpty(t *testing.T, p Place) {
	b := p.Open(t, Bounds{})
	defer closeBackend(t, b)
	got := read(t, b)
	want := contents{
		Meta: encode(&store.Meta{}), Tasks: map[string]bool{},
		Runs: map[string]string{}, Schedules: map[string]string{}, Queues: map[string]string{},
		Sessions: map[string]string{}, Uniques: map[string]string{}, Segments: map[string]string{}, Calendars: map[string]string{},
	}
	same(t, "contents", got, want)
	if c := b.Configuration(); c != nil {
		t.Errorf("Configuration() = %q, want nil", c)
	}
	if r, at, err := b.FinalRun(runID(start, 1)); r != nil || !at.IsZero() || err != nil {
		t.Errorf("FinalRun = %v, %v, %v, want nothing", r, at, err)
	}
}

func testRoundTrip(t *testing.T, p Place) {
	var fl flushes
	b := p.Open(t, Bounds{})
	f := fl.next()
	fullFlush(f)
	commit(t, b, f)
	want := contents{
		Meta: encode(&f.Meta), Configuration: "configuration",
		Runs:      map[string]string{runID(start, 1).String(): encode(changed(f, runID(start, 1)))},
		Schedules: map[string]string{"nightly": encode(f.Schedules["nightly"])},
		Queues:    map[string]string{"default": encode(f.Queues["default"])},
		Sessions:  map[string]string{"1": encode(f.Sessions[1])},
		Uniques:   map[string]string{"mail.send\x00k": encode(f.Uniques["mail.send\x00k"])},
		Calendars: map[string]string{"holidays": encode(f.Calendars["holidays"])},
		Versions: []string{
			encode(f.Versions[store.VersionKey{Number: 1, Version: 1}]), encode(f.Versions[store.VersionKey{Number: 1, Version: 2}]),
		},
		Segments: map[string]string{}, Tasks: map[string]bool{"mail.send": true, "report.build": true},
		FinalRuns: []string{encode(changed(f, runID(start, 2)))},
		Ticks:     []string{encode(&f.Ticks[0].Tick)},
		Events:    []string{"10 6576656e7473"},
		LiveRuns:  1, FinalRows: 1, TickRows: 1, JournalFrom: 10, JournalEnd: 10,
	}
	for key, seg := range f.Segments {
		want.Segments[showKey(key)] = encode(seg)
	}
	same(t, "before a restart", read(t, b), want)
	b = reopened(t, p, b)
	same(t, "after a restart", read(t, b), want)

	gone := fl.next()
	gone.Runs = append(gone.Runs, store.ChangedRun{ID: runID(start, 1), Gone: true})
	gone.Schedules["nightly"], gone.Sessions[1], gone.Uniques["mail.send\x00k"] = nil, nil, nil
	gone.Calendars["holidays"], gone.Versions[store.VersionKey{Number: 1, Version: 1}] = nil, nil
	commit(t, b, gone)
	want.Calendars, want.Versions = map[string]string{}, want.Versions[1:]
	want.Meta, want.LiveRuns = encode(&gone.Meta), 0
	want.Runs, want.Schedules, want.Sessions, want.Uniques = map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}
	same(t, "after deleting", read(t, b), want)
	closeBackend(t, b)
}

func testFinalMoves(t *testing.T, p Place) {
	var fl flushes
	b := p.Open(t, Bounds{})
	id := runID(start, 1)
	f := fl.next()
	addLive(f, liveRun(id, "x"))
	commit(t, b, f)

	f = fl.next()
	addFinal(f, finalRun(id, "x"), 0, true)
	commit(t, b, f)
	b = reopened(t, p, b)
	defer closeBackend(t, b)
	if got := b.Stats(); got.LiveRuns != 0 || got.FinalRuns != 1 {
		t.Errorf("Stats() = %+v, want one final run and none live", got)
	}
	r, at, err := b.FinalRun(id)
	if err != nil || r == nil || r.State != store.Succeeded || at != hourSegment(id, 0) {
		t.Errorf("FinalRun = %+v, %v, %v", r, at, err)
	}
	for _, near := range []store.RunID{runID(start, 0), runID(start, 2), runID(start.Add(time.Hour), 1)} {
		if r, _, err := b.FinalRun(near); r != nil || err != nil {
			t.Errorf("FinalRun(%v) = %v, %v, want nothing", near, r, err)
		}
	}
}

func testRevival(t *testing.T, p Place) {
	var fl flushes
	b := p.Open(t, Bounds{})
	id := runID(start, 1)
	f := fl.next()
	addFinal(f, finalRun(id, "first"), 0, false)
	commit(t, b, f)

	f = fl.next()
	addLive(f, liveRun(id, "again"))
	commit(t, b, f)
	if got := b.Stats(); got.LiveRuns != 1 || got.FinalRuns != 1 {
		t.Errorf("Stats() = %+v, want the run live and its older row", got)
	}

	f = fl.next()
	addFinal(f, finalRun(id, "second"), 0, true)
	commit(t, b, f)
	b = reopened(t, p, b)
	defer closeBackend(t, b)
	if got := b.Stats(); got.LiveRuns != 0 || got.FinalRuns != 1 {
		t.Errorf("Stats() = %+v, want one row: the newer in place of the older", got)
	}
	if r, _, err := b.FinalRun(id); err != nil || r == nil || string(r.Input) != "second" {
		t.Errorf("FinalRun = %+v, %v, want the second row", r, err)
	}
}

func testParts(t *testing.T, p Place) {
	var fl flushes
	b := p.Open(t, Bounds{})
	defer closeBackend(t, b)
	f := fl.next()
	for n := uint64(1); n <= 6; n++ {
		addFinal(f, finalRun(runID(start, n), "old"), uint32(n%2), false)
	}
	commit(t, b, f)
	f = fl.next()
	for n := uint64(3); n <= 4; n++ {
		addFinal(f, finalRun(runID(start, n), "new"), 2, false)
	}
	commit(t, b, f)
	want := []string{"1 old", "2 old", "3 new", "4 new", "5 old", "6 old"}
	show := func(r *store.Run) string { return string('0'+r.ID[15]) + " " + string(r.Input) }
	ms := start.UnixMilli()
	same(t, "oldest first", list(t, b.FinalRuns(ms, ms+1, false), show), want)
	same(t, "newest first", list(t, b.FinalRuns(ms, ms+1, true), show), reversed(want))
	if r, at, err := b.FinalRun(runID(start, 3)); err != nil || r == nil || string(r.Input) != "new" || at.Part != 2 {
		t.Errorf("FinalRun = %+v, %v, %v, want the row of part 2", r, at, err)
	}
	if r, at, err := b.FinalRun(runID(start, 5)); err != nil || r == nil || at.Part != 1 {
		t.Errorf("FinalRun = %+v, %v, %v, want the row of part 1", r, at, err)
	}
}

func testDrop(t *testing.T, p Place) {
	var fl flushes
	b := p.Open(t, Bounds{})
	stays, goes := runID(start, 1), runID(start.Add(time.Hour), 1)
	f := fl.next()
	addFinal(f, finalRun(stays, "x"), 0, false)
	addFinal(f, finalRun(goes, "x"), 0, false)
	addTick(f, 1, start, start, 0)
	f.Segments[hourSegment(goes, 0)] = &store.Segment{Time: hourSegment(goes, 0).Time, Rows: 1}
	commit(t, b, f)

	tick := f.Ticks[0].Segment
	f = fl.next()
	f.Segments[hourSegment(goes, 0)], f.Segments[tick] = nil, nil
	f.Segments[store.SegmentKey{Time: 1}] = nil // there is none
	commit(t, b, f)
	b = reopened(t, p, b)
	defer closeBackend(t, b)
	got := read(t, b)
	same(t, "final runs", got.FinalRuns, []string{encode(finalRun(stays, "x"))})
	if len(got.Ticks) != 0 || len(got.Segments) != 0 || got.FinalRows != 1 || got.TickRows != 0 {
		t.Errorf("after the drop: %+v", got)
	}
}

func testDropAndRefill(t *testing.T, p Place) {
	var fl flushes
	b := p.Open(t, Bounds{})
	older, newer := runID(start, 1), runID(start, 2)
	f := fl.next()
	addFinal(f, finalRun(older, "x"), 0, false)
	commit(t, b, f)

	f = fl.next()
	addFinal(f, finalRun(newer, "x"), 0, false)
	f.Dropped = []store.SegmentKey{hourSegment(newer, 0)}
	f.Segments[hourSegment(newer, 0)] = &store.Segment{Time: hourSegment(newer, 0).Time, Rows: 1}
	commit(t, b, f)
	b = reopened(t, p, b)
	defer closeBackend(t, b)
	same(t, "final runs", read(t, b).FinalRuns, []string{encode(finalRun(newer, "x"))})
}

func testKeys(t *testing.T, p Place) {
	var fl flushes
	b := p.Open(t, Bounds{})
	long := strings.Repeat("long ", 20_000)
	f := fl.next()
	f.Tasks = []string{"", long, "long"}
	for _, key := range []string{"", long, long + "er", "ключ\x00"} {
		f.Uniques[key] = &store.Unique{Key: key, Until: 1}
		f.Queues[key] = &store.Queue{Name: key, Limit: 1}
	}
	commit(t, b, f)
	b = reopened(t, p, b)
	defer closeBackend(t, b)
	got := read(t, b)
	same(t, "tasks", got.Tasks, map[string]bool{"": true, long: true, "long": true})
	for key := range f.Uniques {
		if got.Uniques[key] != encode(f.Uniques[key]) || got.Queues[key] != encode(f.Queues[key]) {
			t.Errorf("key of %d bytes: not what was committed", len(key))
		}
	}
	if len(got.Uniques) != len(f.Uniques) {
		t.Errorf("%d unique keys, want %d", len(got.Uniques), len(f.Uniques))
	}
}

func testRepeatedCommit(t *testing.T, p Place) {
	var fl flushes
	b := p.Open(t, Bounds{})
	f := fl.next()
	fullFlush(f)
	commit(t, b, f)
	want := read(t, b)
	commit(t, b, f)
	same(t, "repeated at once", read(t, b), want)
	b = reopened(t, p, b)
	defer closeBackend(t, b)
	commit(t, b, f)
	same(t, "repeated after a restart", read(t, b), want)
	if err := b.Commit(f, []byte("changed")); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	want.Configuration = "changed"
	same(t, "repeated with another configuration", read(t, b), want)
	f = fl.next()
	if err := b.Commit(f, nil); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	want.Meta = encode(&f.Meta)
	same(t, "the next one without a configuration", read(t, b), want)
}

func testBehind(t *testing.T, p Place) {
	var fl flushes
	b := p.Open(t, Bounds{})
	defer closeBackend(t, b)
	older, newer := fl.next(), fl.next()
	fullFlush(newer)
	commit(t, b, newer)
	want := read(t, b)
	if err := b.Commit(older, nil); !errors.Is(err, store.ErrBehind) {
		t.Errorf("Commit of an older flush: %v, want ErrBehind", err)
	}
	same(t, "after it", read(t, b), want)
}
