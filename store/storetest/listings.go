//nolint:thelper // these are the tests themselves: a failure belongs to its own line
package storetest

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/store"
)

func showKey(k store.SegmentKey) string { return fmt.Sprint(k) }

func reversed(list []string) []string {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

func testFinalRuns(t *testing.T, p Place) {
	var fl flushes
	b := p.Open(t, Bounds{})
	defer closeBackend(t, b)
	// Three hours, the middle one larger than what is read at once.
	var ids []store.RunID
	f := fl.next()
	for n := range uint64(3000) {
		at := start.Add(time.Hour).Add(time.Duration(n) * time.Millisecond)
		switch {
		case n < 10:
			at = at.Add(-time.Hour)
		case n >= 2990:
			at = at.Add(50 * time.Hour)
		}
		ids = append(ids, runID(at, n))
		addFinal(f, finalRun(ids[n], "x"), uint32(n%2), false)
	}
	commit(t, b, f)
	slices.SortFunc(ids, store.RunID.Compare)
	first, last := ids[0].Time().UnixMilli(), ids[len(ids)-1].Time().UnixMilli()
	show := func(r *store.Run) string { return r.ID.String() }
	for _, rng := range [][2]int64{
		{0, math.MaxInt64},
		{math.MinInt64, math.MaxInt64},
		{first, last},
		{first + 1, last + 1},
		{first + hour - 1, first + hour + 500},
		{first + hour + 20, first + hour + 1500},
		{last, last},
		{last + 1, math.MaxInt64},
		{last, first},
		{math.MinInt64, first},
	} {
		var want []string
		for _, id := range ids {
			if ms := id.Time().UnixMilli(); rng[0] <= ms && ms < rng[1] {
				want = append(want, id.String())
			}
		}
		same(t, fmt.Sprint(rng, " oldest first"), list(t, b.FinalRuns(rng[0], rng[1], false), show), want)
		same(t, fmt.Sprint(rng, " newest first"), list(t, b.FinalRuns(rng[0], rng[1], true), show), reversed(want))
	}
	n := 0
	for _, err := range b.FinalRuns(0, math.MaxInt64, true) {
		if n++; err != nil || n == 1500 {
			break
		}
	}
	if n != 1500 {
		t.Errorf("a listing left early gave %d rows, want 1500", n)
	}
}

func testTicks(t *testing.T, p Place) {
	var fl flushes
	b := p.Open(t, Bounds{})
	defer closeBackend(t, b)
	at := func(hours int) time.Time { return start.Add(time.Duration(hours) * time.Hour) }
	f := fl.next()
	addTick(f, 2, at(1), at(1), 0) // other schedules on both sides
	addTick(f, 4, at(1), at(1), 0)
	addTick(f, 3, at(8), at(8), 0) // not in order, and in two parts
	addTick(f, 3, at(1), at(1), 0)
	addTick(f, 3, at(4), at(4), 1)
	addTick(f, 3, at(9), at(200), 0) // a span over days
	addTick(f, 3, at(201), at(201), 0)
	addTick(f, 3, time.Unix(-9, 0), time.Unix(-9, 0), 0)
	for n := range 2000 {
		tick := start.Add(-20*time.Hour + time.Duration(n)*time.Second)
		addTick(f, 5, tick, tick, uint32(n%3))
	}
	addTick(f, 6, at(5), at(100), 0)
	for _, hour := range []int{50, 100, 150} { // two within the span, one of them at its very end
		addTick(f, 6, at(hour), at(hour), 0)
		f.Ticks[len(f.Ticks)-1].Tick.Backfill = true
	}
	commit(t, b, f)
	show := func(tick *store.Tick) string {
		return fmt.Sprint(time.Duration(tick.From-start.UnixNano()).Hours(), time.Duration(tick.To-start.UnixNano()).Hours())
	}
	for _, c := range []struct {
		from, to int
		want     []string
	}{
		{0, 300, []string{"1 1", "4 4", "8 8", "9 200", "201 201"}},
		{1, 8, []string{"1 1", "4 4"}},
		{1, 9, []string{"1 1", "4 4", "8 8"}},
		{5, 10, []string{"8 8", "9 200"}},
		{50, 51, []string{"9 200"}},
		{200, 201, []string{"9 200"}},
		{201, 202, []string{"201 201"}},
		{202, 1000, nil},
		{2, 2, nil},
		{9, 1, nil},
	} {
		got := list(t, b.Ticks(3, at(c.from).UnixNano(), at(c.to).UnixNano()), show)
		same(t, fmt.Sprintf("ticks from %d to %d h", c.from, c.to), got, c.want)
	}
	if got := list(t, b.Ticks(3, math.MinInt64, math.MaxInt64), show); len(got) != 6 {
		t.Errorf("all ticks: %v, want 6", got)
	}
	all := []string{"50 50", "5 100", "100 100", "150 150"}
	same(t, "backfilled ticks beside what they had been", list(t, b.Ticks(6, math.MinInt64, math.MaxInt64), show), all)
	if got := list(t, b.Ticks(6, at(0).UnixNano(), at(10).UnixNano()), show); !slices.Contains(got, "5 100") {
		t.Errorf("a span behind a backfilled tick out of the range is not listed: %v", got)
	}
	last, n := int64(math.MinInt64), 0
	for tick, err := range b.Ticks(5, math.MinInt64, math.MaxInt64) {
		if err != nil || tick.To <= last {
			t.Fatalf("tick %d: %v after %v, %v", n, tick, last, err)
		}
		last, n = tick.To, n+1
	}
	if n != 2000 {
		t.Errorf("%d ticks, want 2000", n)
	}
}

func showEvents(e store.PackedEvents) string { return fmt.Sprint(e.Index, " ", len(e.Data)) }

func testEvents(t *testing.T, p Place) {
	var fl flushes
	b := p.Open(t, Bounds{})
	defer closeBackend(t, b)
	var all []string
	for range 30 {
		f := fl.next()
		for i := range uint64(100) {
			e := store.PackedEvents{Index: f.Meta.Index*100 + 2*i, Data: make([]byte, i)}
			f.Events = append(f.Events, e)
			all = append(all, showEvents(e))
		}
		commit(t, b, f)
	}
	for _, from := range []uint64{0, 1000, 1001, 1002, 1998, 5000, 30198} {
		want := all
		for len(want) > 0 {
			var index uint64
			if _, err := fmt.Sscan(want[0], &index); err != nil || index >= from {
				break
			}
			want = want[1:]
		}
		same(t, fmt.Sprint("from ", from), list(t, b.Events(from), showEvents), want)
	}
	if got := list(t, b.Events(30199), showEvents); len(got) != 0 {
		t.Errorf("past the end: %v", got)
	}
}

func testJournalBound(t *testing.T, p Place) {
	const bound = 100_000
	var fl flushes
	b := p.Open(t, Bounds{JournalBytes: bound})
	defer func() { closeBackend(t, b) }()
	for range 20 {
		f := fl.next()
		for i := range uint64(9) {
			f.Events = append(f.Events, store.PackedEvents{Index: f.Meta.Index - 9 + i, Data: make([]byte, 2000)})
		}
		commit(t, b, f)
		if got := b.Stats().JournalBytes; got > bound {
			t.Fatalf("the journal has %d bytes, bound %d", got, bound)
		}
	}
	closeBackend(t, b)
	b = p.Open(t, Bounds{JournalBytes: bound})
	st := b.Stats()
	got := list(t, b.Events(0), showEvents)
	if st.JournalBytes < bound/2 || st.JournalLast != 199 || len(got) == 0 {
		t.Fatalf("Stats() = %+v with %d rows, want most of the bound in use", st, len(got))
	}
	same(t, "first and last row", []string{got[0], got[len(got)-1]},
		[]string{fmt.Sprint(st.JournalFirst, " 2000"), fmt.Sprint(st.JournalLast, " 2000")})
}
