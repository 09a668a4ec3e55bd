package storetest

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler/store"
)

// start is the time of the flushes made by hand: the start of an hour and a day.
var start = time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)

const hour = 3_600_000 // ms

func runID(at time.Time, n uint64) store.RunID {
	var entropy [10]byte
	binary.BigEndian.PutUint64(entropy[2:], n)
	return store.NewRunID(at, entropy)
}

var someSpec = &store.Spec{Task: "mail.send", Queue: "default", Retry: store.Retry{Initial: 1, Max: 2, Factor: 1, Attempts: 3}}

func liveRun(id store.RunID, text string) *store.Run {
	return &store.Run{ID: id, Spec: someSpec, Input: []byte(text), Due: 7, Created: 8}
}

func finalRun(id store.RunID, text string) *store.Run {
	r := liveRun(id, text)
	r.State, r.Finished = store.Succeeded, 9
	r.More = &store.RunMore{Result: []byte(text)}
	return r
}

func hourSegment(id store.RunID, part uint32) store.SegmentKey {
	return store.SegmentKey{Kind: store.RunSegment, Time: uint32(id.Time().UnixMilli() / hour), Part: part}
}

// flushes makes flushes with growing indexes.
type flushes struct{ index uint64 }

func (f *flushes) next() *store.Flush {
	f.index += 10
	return &store.Flush{
		Meta:      store.Meta{Format: store.FormatLevel, Level: store.FormatLevel, Index: f.index, Term: 2, Wall: 3},
		Schedules: map[string]*store.Schedule{},
		Queues:    map[string]*store.Queue{},
		Sessions:  map[uint64]*store.Session{},
		Uniques:   map[string]*store.Unique{},
		Calendars: map[string]*store.Calendar{},
		Versions:  map[store.VersionKey]*store.ScheduleVersion{},
		Segments:  map[store.SegmentKey]*store.Segment{},
	}
}

func addFinal(f *store.Flush, r *store.Run, part uint32, wasLive bool) {
	f.Runs = append(f.Runs, store.ChangedRun{ID: r.ID, Run: r, Final: true, Segment: hourSegment(r.ID, part), Gone: wasLive})
}

func addLive(f *store.Flush, r *store.Run) {
	f.Runs = append(f.Runs, store.ChangedRun{ID: r.ID, Run: r})
}

// changed returns the record of a run in the flush.
func changed(f *store.Flush, id store.RunID) *store.Run {
	for _, c := range f.Runs {
		if c.ID == id {
			return c.Run
		}
	}
	return nil
}

func addTick(f *store.Flush, schedule uint64, from, to time.Time, part uint32) {
	day := uint32(max(to.UnixNano(), 0) / int64(24*time.Hour))
	f.Ticks = append(f.Ticks, store.TickRow{
		Segment: store.SegmentKey{Kind: store.TickSegment, Time: day, Part: part},
		Tick:    store.Tick{Schedule: schedule, From: from.UnixNano(), To: to.UnixNano(), Outcome: store.TickMissed},
	})
}

// fullFlush has a row of everything.
func fullFlush(f *store.Flush) {
	live, final := runID(start, 1), runID(start, 2)
	addLive(f, liveRun(live, "live"))
	addFinal(f, finalRun(final, "final"), 0, false)
	f.Schedules["nightly"] = &store.Schedule{ID: "nightly", Number: 1, Spec: someSpec, Decided: []store.Span{{From: 1, To: 2}}, Live: []store.RunID{live}}
	f.Queues["default"] = &store.Queue{Name: "default", Limit: 3}
	f.Sessions[1] = &store.Session{ID: 1, Node: "a", Results: []store.Kept{{Seq: 4, Result: store.Result{Code: store.CodeUnique, Run: live}}}}
	f.Uniques["mail.send\x00k"] = &store.Unique{Key: "mail.send\x00k", Holder: final, Until: 99}
	f.Calendars["holidays"] = &store.Calendar{Name: "holidays", Version: 2, Except: []store.Exclusion{{Days: []int32{1}}}}
	f.Versions[store.VersionKey{Number: 1, Version: 2}] = &store.ScheduleVersion{Number: 1, Version: 2, Schedule: &store.Schedule{ID: "nightly", Spec: someSpec}}
	f.Versions[store.VersionKey{Number: 1, Version: 1}] = &store.ScheduleVersion{Number: 1, Version: 1, Schedule: &store.Schedule{ID: "nightly", Spec: someSpec}}
	f.Tasks = []string{"mail.send", "report.build"}
	f.Segments[hourSegment(final, 0)] = &store.Segment{Time: hourSegment(final, 0).Time, Rows: 1}
	addTick(f, 1, start, start, 0)
	f.Events = []store.PackedEvents{{Index: f.Meta.Index, Data: []byte("events")}}
	f.Meta.Revivals = []store.Revival{{ID: live, Index: 3}}
}

// contents is everything a backend has, readable.
type contents struct {
	Meta                                                   string
	Runs, Schedules, Queues, Sessions, Uniques, Segments   map[string]string
	Tasks                                                  map[string]bool
	Calendars                                              map[string]string
	FinalRuns, Ticks, Versions                             []string
	Events                                                 []string
	Configuration                                          string
	LiveRuns, FinalRows, TickRows, JournalFrom, JournalEnd int64
}

// read reads everything: ticks of the schedules 1 … 9.
func read(tb testing.TB, b Backend) contents {
	tb.Helper()
	img, err := b.Image()
	if err != nil {
		tb.Fatalf("Image: %v", err)
	}
	c := contents{
		Meta: encode(&img.Meta), Tasks: map[string]bool{},
		Runs: map[string]string{}, Schedules: map[string]string{}, Queues: map[string]string{},
		Sessions: map[string]string{}, Uniques: map[string]string{}, Segments: map[string]string{}, Calendars: map[string]string{},
		Configuration: string(b.Configuration()),
	}
	for _, err := range []error{
		img.Runs(func(r *store.Run) error { c.Runs[r.ID.String()] = encode(r); return nil }),
		img.Schedules(func(s *store.Schedule) error { c.Schedules[s.ID] = encode(s); return nil }),
		img.Queues(func(q *store.Queue) error { c.Queues[q.Name] = encode(q); return nil }),
		img.Sessions(func(s *store.Session) error { c.Sessions[fmt.Sprint(s.ID)] = encode(s); return nil }),
		img.Uniques(func(u *store.Unique) error { c.Uniques[u.Key] = encode(u); return nil }),
		img.Calendars(func(cal *store.Calendar) error { c.Calendars[cal.Name] = encode(cal); return nil }),
		img.Segments(func(s *store.Segment) error { c.Segments[fmt.Sprint(s.Key())] = encode(s); return nil }),
		img.Tasks(func(name string) error { c.Tasks[name] = true; return nil }),
	} {
		if err != nil {
			tb.Fatalf("read image: %v", err)
		}
	}
	c.FinalRuns = list(tb, b.FinalRuns(0, 1<<50, false), func(r *store.Run) string { return encode(r) })
	for schedule := uint64(1); schedule < 10; schedule++ {
		c.Ticks = append(c.Ticks, list(tb, b.Ticks(schedule, -1<<62, 1<<62), func(t *store.Tick) string { return encode(t) })...)
		c.Versions = append(c.Versions, list(tb, b.Versions(schedule), func(v *store.ScheduleVersion) string { return encode(v) })...)
	}
	c.Events = list(tb, b.Events(0), func(e store.PackedEvents) string { return fmt.Sprintf("%d %x", e.Index, e.Data) })
	st := b.Stats()
	c.LiveRuns, c.FinalRows, c.TickRows = st.LiveRuns, st.FinalRuns, st.Ticks
	c.JournalFrom, c.JournalEnd = int64(st.JournalFirst), int64(st.JournalLast)
	return c
}

func list[T any](tb testing.TB, seq func(func(T, error) bool), show func(T) string) []string {
	tb.Helper()
	var all []string
	for rec, err := range seq {
		if err != nil {
			tb.Fatalf("listing: %v", err)
		}
		all = append(all, show(rec))
	}
	return all
}

func commit(tb testing.TB, b Backend, f *store.Flush) {
	tb.Helper()
	if err := b.Commit(f, []byte("configuration")); err != nil {
		tb.Fatalf("Commit: %v", err)
	}
}

func closeBackend(tb testing.TB, b Backend) {
	tb.Helper()
	if err := b.Close(); err != nil {
		tb.Fatalf("Close: %v", err)
	}
}

// reopened closes b and opens it again.
func reopened(tb testing.TB, p Place, b Backend) Backend {
	tb.Helper()
	closeBackend(tb, b)
	return p.Open(tb, Bounds{})
}

func same(tb testing.TB, what string, got, want any) {
	tb.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Errorf("%s: -want +got\n%s", what, diff)
	}
}
