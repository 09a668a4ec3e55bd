package cron_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/engine/cron"
)

// The model is the policy in its plainest form: walk through real time minute by
// minute and look at the wall clock. It shares nothing with the package but the tree.

// reading is what a wall clock shows, as the UTC time with the same fields.
func reading(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// modelFits reports whether a reading fits the tree.
func modelFits(a cron.AST, r time.Time) bool {
	if !nodeFits(a.Minute, r.Minute(), 0, 59) || !nodeFits(a.Hour, r.Hour(), 0, 23) || !nodeFits(a.Month, int(r.Month()), 1, 12) {
		return false
	}
	if a.Year != nil && !nodeFits(a.Year, r.Year(), 1970, 2199) {
		return false
	}
	_, anyDOM := a.DayOfMonth.(cron.Wildcard)
	_, anyDOW := a.DayOfWeek.(cron.Wildcard)
	dom, dow := dayFits(a.DayOfMonth, r), weekdayFits(a.DayOfWeek, r)
	if !a.Both && !anyDOM && !anyDOW {
		return dom || dow
	}
	return dom && dow
}

func nodeFits(n cron.Node, v, lo, hi int) bool {
	switch n := n.(type) {
	case cron.Wildcard:
		return true
	case cron.Value:
		return v == n.N
	case cron.Range:
		if n.From > n.To {
			return v >= n.From || v <= n.To
		}
		return v >= n.From && v <= n.To || hi == 6 && v == 0 && n.To == 7
	case cron.Step:
		from := lo
		switch of := n.Of.(type) {
		case cron.Value:
			from = of.N
			if v < from {
				return false
			}
		case cron.Range:
			from = of.From
		}
		if !nodeFits(n.Of, v, lo, hi) {
			if _, ok := n.Of.(cron.Value); !ok {
				return false
			}
		}
		if v < from {
			v += hi - lo + 1
		}
		return (v-from)%n.N == 0
	case cron.List:
		return slices.ContainsFunc(n.Items, func(n cron.Node) bool { return nodeFits(n, v, lo, hi) })
	}
	panic(fmt.Sprintf("model does not know %T", n))
}

func dayFits(n cron.Node, r time.Time) bool {
	size := time.Date(r.Year(), r.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
	switch n := n.(type) {
	case cron.List:
		return slices.ContainsFunc(n.Items, func(n cron.Node) bool { return dayFits(n, r) })
	case cron.Last:
		return r.Day() == size-n.Before
	case cron.NearestWeekday:
		day := n.Day
		if n.Last {
			day = size - n.Day
		}
		if day < 1 || day > size {
			return false
		}
		best := 0
		for _, off := range []int{0, -1, 1, -2, 2} { // nearest first
			d := day + off
			w := time.Date(r.Year(), r.Month(), d, 0, 0, 0, 0, time.UTC).Weekday()
			if d >= 1 && d <= size && w != time.Saturday && w != time.Sunday {
				best = d
				break
			}
		}
		return r.Day() == best
	case cron.NthWeekday:
		if r.Weekday() != n.Weekday {
			return false
		}
		if n.N == cron.LastWeek {
			return r.Day()+7 > size
		}
		return (r.Day()-1)/7+1 == n.N
	}
	return nodeFits(n, r.Day(), 1, 31)
}

func weekdayFits(n cron.Node, r time.Time) bool {
	switch n := n.(type) {
	case cron.List:
		return slices.ContainsFunc(n.Items, func(n cron.Node) bool { return weekdayFits(n, r) })
	case cron.NthWeekday:
		return dayFits(n, r)
	}
	return nodeFits(n, int(r.Weekday()), 0, 6)
}

// modelFirings returns all firings in [from, to), from which must be a whole minute.
func modelFirings(a cron.AST, loc *time.Location, p cron.DSTPolicy, from, to time.Time) []time.Time {
	fixed := !isBeat(a.Minute) && !isBeat(a.Hour)
	seen := map[int64]bool{} // readings that have been
	firings := map[time.Time]bool{}
	add := func(t time.Time) {
		if !t.Before(from) && t.Before(to) {
			firings[t.UTC()] = true
		}
	}
	start := from.Add(-50 * time.Hour) // for what was seen, and for what is shifted into the window
	next := reading(start.In(loc))     // what the clock shows now, if nothing has happened to it
	for t := start; t.Before(to); t = t.Add(time.Minute) {
		now := reading(t.In(loc))
		for missing := next; fixed && missing.Before(now); missing = missing.Add(time.Minute) {
			if seen[missing.Unix()] || !modelFits(a, missing) {
				continue
			}
			switch p {
			case cron.RunOnce, cron.Both:
				add(t)
			case cron.Shift:
				add(t.Add(missing.Sub(next)))
			}
		}
		if modelFits(a, now) && (!fixed || p == cron.Both || !seen[now.Unix()]) {
			add(t)
		}
		seen[now.Unix()] = true
		next = now.Add(time.Minute)
	}
	var all []time.Time
	for t := range firings {
		all = append(all, t)
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

func isBeat(n cron.Node) bool {
	if s, ok := n.(cron.Step); ok {
		n = s.Of
	}
	_, ok := n.(cron.Wildcard)
	return ok
}

// shifts are instants near which clocks were changed, all kinds of them.
var shifts = []struct{ zone, at string }{
	{"America/New_York", "2024-03-10T07:00:00Z"},
	{"America/New_York", "2024-11-03T06:00:00Z"},
	{"America/New_York", "2150-03-08T07:00:00Z"},
	{"Europe/London", "2025-03-30T01:00:00Z"},
	{"Europe/Dublin", "2024-10-27T01:00:00Z"},
	{"America/Sao_Paulo", "2018-11-04T03:00:00Z"},
	{"America/Sao_Paulo", "2018-02-18T02:00:00Z"},
	{"America/St_Johns", "2011-03-13T03:31:00Z"},
	{"America/St_Johns", "2010-11-07T02:31:00Z"},
	{"Australia/Lord_Howe", "2024-10-05T15:30:00Z"},
	{"Australia/Lord_Howe", "2024-04-06T15:00:00Z"},
	{"Antarctica/Troll", "2024-03-31T01:00:00Z"},
	{"Antarctica/Troll", "2024-10-27T01:00:00Z"},
	{"Pacific/Apia", "2011-12-30T10:00:00Z"},
	{"Pacific/Kwajalein", "1993-08-21T12:00:00Z"},
	{"Africa/Casablanca", "2024-03-10T02:00:00Z"},
	{"Asia/Pyongyang", "2018-05-04T15:00:00Z"},
	{"America/Caracas", "2016-05-01T07:00:00Z"},
	{"Pacific/Auckland", "2040-12-31T00:00:00Z"},
	{"Asia/Shanghai", "2024-02-29T00:00:00Z"},
}

// TestExpr_Model compares Next and Prev with the model around shifts of all kinds,
// for random expressions and all policies.
func TestExpr_Model(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, s := range shifts {
		t.Run(s.zone+"/"+s.at, func(t *testing.T) {
			at, err := time.Parse(time.RFC3339, s.at)
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				checkModel(t, randomExpr(rng), s.zone, cron.DSTPolicy(rng.IntN(4)), at)
			}
		})
	}
}

func checkModel(t *testing.T, expr, zone string, p cron.DSTPolicy, at time.Time) {
	t.Helper()
	e, err := cron.Parse(expr, cron.WithZone(zone), cron.WithDST(p))
	if err != nil {
		t.Fatal(err)
	}
	from, to := at.Add(-30*time.Hour), at.Add(50*time.Hour)
	want := modelFirings(e.AST(), e.Location(), p, from, to)
	var got []time.Time
	for f := range e.All(from.Add(-time.Nanosecond)) {
		if !f.Before(to) {
			break
		}
		got = append(got, f.UTC())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q %s %s: Next gives\n%v, want\n%v", expr, zone, p, got, want)
	}
	got = got[:0]
	for f := e.Prev(to); !f.Before(from) && len(got) <= len(want); f = e.Prev(f) {
		got = append(got, f.UTC())
	}
	slices.Reverse(got)
	if !slices.Equal(got, want) {
		t.Errorf("%q %s %s: Prev gives\n%v, want\n%v", expr, zone, p, got, want)
	}
	// Asked from any instant, not just from one firing to the next, and often near the shift.
	for i := range 100 {
		after := at.Add(time.Duration(i-50) * 97 * time.Second)
		if i%3 == 0 {
			after = from.Add(time.Duration(i) * (to.Sub(from) / 100)).Truncate(time.Minute).Add(time.Duration(i%2) * time.Second)
		}
		n, _ := slices.BinarySearchFunc(want, after.Add(1), time.Time.Compare)
		if next := e.Next(after); n < len(want) && !next.Equal(want[n]) {
			t.Errorf("%q %s %s: Next(%v) = %v, want %v", expr, zone, p, after, next, want[n])
		}
		n, _ = slices.BinarySearchFunc(want, after, time.Time.Compare)
		if prev := e.Prev(after); n > 0 && !prev.Equal(want[n-1]) {
			t.Errorf("%q %s %s: Prev(%v) = %v, want %v", expr, zone, p, after, prev, want[n-1])
		}
	}
}

// TestExpr_Model_FromAfar asks for firings on the date of a shift from ten years before
// and after, over all the shifts between.
func TestExpr_Model_FromAfar(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, s := range shifts {
		shift := at(s.at)
		for range 10 {
			loc := cron.MustParse("@daily", cron.WithZone(s.zone)).Location()
			day := shift.Add(time.Duration(rng.IntN(3)-1) * time.Hour).In(loc)
			minute, hour, _ := strings.Cut(randomExpr(rng), " ")
			hour, _, _ = strings.Cut(hour, " ")
			expr := fmt.Sprintf("%s %s %d %d * %d", minute, hour, day.Day(), day.Month(), day.Year())
			p := cron.DSTPolicy(rng.IntN(4))
			e, err := cron.Parse(expr, cron.WithDialect(cron.Standard|cron.Year), cron.WithZone(s.zone), cron.WithDST(p))
			if err != nil {
				t.Fatal(err)
			}
			var first, last time.Time
			if want := modelFirings(e.AST(), loc, p, shift.Add(-52*time.Hour), shift.Add(52*time.Hour)); len(want) > 0 {
				first, last = want[0], want[len(want)-1]
			}
			if got := e.Next(shift.AddDate(-10, 0, 0)); !got.Equal(first) {
				t.Errorf("%q %s %s: first = %v, want %v", expr, s.zone, p, got, first)
			}
			if got := e.Prev(shift.AddDate(10, 0, 0)); !got.Equal(last) {
				t.Errorf("%q %s %s: last = %v, want %v", expr, s.zone, p, got, last)
			}
		}
	}
}

// randomExpr makes an expression that fires often enough to be interesting near a shift.
func randomExpr(rng *rand.Rand) string {
	pick := func(ss ...string) string { return ss[rng.IntN(len(ss))] }
	n := func(hi int) int { return rng.IntN(hi) }
	minute := pick("*", "0", "30", "15", "*/20", "*/7", "0,30", "0-59/15", "50-10/5", "45/5", fmt.Sprint(n(60)), fmt.Sprintf("%d,%d", n(60), n(60)))
	hour := pick("*", "*/2", "*/5", "0", "1", "2", "3", "23", "0-3", "1,2", "22-3", "*", "2", fmt.Sprint(n(24)), fmt.Sprintf("%d-%d", n(24), n(24)), fmt.Sprintf("%d,%d", n(24), n(24)))
	dom := pick("*", "*", "*", "*", "L", "*/2", "1-15", "30", "31", "15W", "LW", "L-1", "28-3")
	month := pick("*", "*", "*", "*/2", "3,10,11,12", "OCT-APR")
	dow := pick("*", "*", "*", "SUN", "MON-FRI", "+SUN", "SUN#1,SUN#2", "SUNL", "FRI-MON", "+*/2", "5-7")
	return minute + " " + hour + " " + dom + " " + month + " " + dow
}
