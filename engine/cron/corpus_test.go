package cron_test

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/engine/cron"
)

// corpusCase is one case of testdata/cron_cases.json, which explains itself.
type corpusCase struct {
	ID      string
	Expr    string
	Dialect struct {
		Base          string
		Seconds, Year bool
		Flags         []string
	}
	TZ           string
	From         time.Time
	Expect       string
	Next         []time.Time
	Final        bool
	Alternatives map[string][]time.Time
	Error        struct{ Kind, Field, Why string }
	Property     struct {
		Window   string
		From     time.Time
		Count    [2]int
		MinuteIn [2]int `json:"minute_in"`
		HourIn   [2]int `json:"hour_in"`
		DayIn    [2]int `json:"day_in"`
		EveryMin int    `json:"every_min"`
	}
}

// options returns the dialect of the case, exactly: nothing that it does not name.
func (c corpusCase) options() cron.Options {
	o := cron.Options{Zone: c.TZ}
	if c.Dialect.Base == "quartz" {
		o.Dialect = cron.Quartz &^ cron.OptionalYear
	}
	if c.Dialect.Seconds {
		o.Dialect |= cron.Seconds
	}
	if c.Dialect.Year {
		o.Dialect |= cron.Year
	}
	flags := map[string]cron.Dialect{
		"and": cron.And, "every": cron.Every, "ext": cron.Ext, "hash": cron.Hashed,
		"nstep": cron.NStep, "tzprefix": cron.ZonePrefix, "wrap": cron.Wrap,
	}
	for _, f := range c.Dialect.Flags {
		o.Dialect |= flags[f]
		if f == "hash" {
			o.HashKey = "nightly-report"
		}
	}
	return o
}

func loadCorpus(tb testing.TB) []corpusCase {
	tb.Helper()
	data, err := os.ReadFile("testdata/cron_cases.json")
	if err != nil {
		tb.Fatal(err)
	}
	var file struct{ Cases []corpusCase }
	if err := json.Unmarshal(data, &file); err != nil {
		tb.Fatal(err)
	}
	if got, want := len(file.Cases), 558; got != want {
		tb.Fatalf("%d cases in the corpus, want %d", got, want)
	}
	return file.Cases
}

func TestCorpus(t *testing.T) {
	for _, c := range loadCorpus(t) {
		t.Run(c.ID, func(t *testing.T) {
			e, err := c.options().Parse(c.Expr)
			if c.Expect == "error" {
				checkError(t, c, err)
				return
			}
			if err != nil {
				t.Fatalf("Parse(%q): %v", c.Expr, err)
			}
			switch c.Expect {
			case "times":
				checkTimes(t, e, c.From, c.Next, c.Final)
			case "never":
				checkTimes(t, e, c.From, nil, true)
			case "property":
				checkProperty(t, e, c)
			default:
				t.Fatalf("case expects %q, which this test does not know", c.Expect)
			}
		})
	}
}

// TestCorpus_Standard: the Standard dialect changes no expression that Plain accepts.
func TestCorpus_Standard(t *testing.T) {
	n := 0
	for _, c := range loadCorpus(t) {
		if c.Dialect.Base != "std" || c.Expect != "times" && c.Expect != "never" {
			continue
		}
		o := c.options()
		o.Dialect |= cron.Standard
		e, err := o.Parse(c.Expr)
		if err != nil {
			t.Errorf("%s: Parse(%q): %v", c.ID, c.Expr, err)
			continue
		}
		n++
		t.Run(c.ID, func(t *testing.T) { checkTimes(t, e, c.From, c.Next, c.Final || c.Expect == "never") })
	}
	if n < 300 {
		t.Errorf("%d cases, want hundreds", n)
	}
}

// TestCorpus_Alternatives runs the cases under the other policies and rules that
// are offered: gap_skip, gap_shift, overlap_both and and.
func TestCorpus_Alternatives(t *testing.T) {
	ran := 0
	for _, c := range loadCorpus(t) {
		for name, want := range c.Alternatives {
			o := c.options()
			switch name {
			case "gap_skip":
				o.DST = cron.Skip
			case "gap_shift":
				o.DST = cron.Shift
			case "overlap_both":
				o.DST = cron.Both
			case "and":
				o.Dialect |= cron.And
			case "overlap_last", "clamp", "interval_once":
				continue // not offered
			default:
				t.Fatalf("%s: unknown alternative %q", c.ID, name)
			}
			ran++
			t.Run(c.ID+"/"+name, func(t *testing.T) {
				e, err := o.Parse(c.Expr)
				if err != nil {
					t.Fatalf("Parse(%q): %v", c.Expr, err)
				}
				checkTimes(t, e, c.From, want, len(want) == 0)
			})
		}
	}
	if ran < 80 {
		t.Errorf("ran %d alternatives, want at least 80", ran)
	}
}

// checkTimes asks for the times one by one, and back again.
func checkTimes(t *testing.T, e *cron.Expr, from time.Time, want []time.Time, final bool) {
	t.Helper()
	at := from
	for i, w := range want {
		got := e.Next(at)
		if !got.Equal(w) {
			t.Fatalf("firing %d: Next(%v) = %v, want %v", i, at, got, w)
		}
		if name, _ := w.Zone(); name != "" && name != "UTC" {
			t.Fatalf("case has a named zone %q", name)
		}
		_, gotOff := got.Zone()
		if _, wantOff := w.Zone(); gotOff != wantOff {
			t.Errorf("firing %d: offset of %v is %d, want %d", i, got, gotOff, wantOff)
		}
		at = got
	}
	if final {
		if got := e.Next(at); !got.IsZero() {
			t.Errorf("Next(%v) = %v, want never", at, got)
		}
	}
	if e.AST().Every > 0 {
		return
	}
	for i := len(want) - 2; i >= 0; i-- {
		if got := e.Prev(want[i+1]); !got.Equal(want[i]) {
			t.Fatalf("Prev(%v) = %v, want %v", want[i+1], got, want[i])
		}
	}
	if len(want) > 0 {
		if got := e.Prev(want[0]); got.After(from) {
			t.Errorf("Prev(%v) = %v, which Next(%v) has left out", want[0], got, from)
		}
	}
}

// checkError wants the field to match, and the kind too.
func checkError(t *testing.T, c corpusCase, err error) {
	t.Helper()
	if err == nil {
		t.Fatalf("Parse(%q) succeeded, want %s: %s", c.Expr, c.Error.Kind, c.Error.Why)
	}
	if zone := (*cron.ZoneError)(nil); errors.As(err, &zone) {
		if c.Error.Kind != "bad_timezone" || c.Error.Field != "timezone" || !errors.Is(err, cron.ErrUnknownZone) {
			t.Errorf("got %v, want %s in %s", err, c.Error.Kind, c.Error.Field)
		}
		return
	}
	syntax := (*cron.SyntaxError)(nil)
	if !errors.As(err, &syntax) || !errors.Is(err, cron.ErrSyntax) {
		t.Fatalf("got %T, want *SyntaxError", err)
	}
	if got, want := syntax.Field.String(), c.Error.Field; got != want {
		t.Errorf("field = %s, want %s (%v)", got, want, err)
	}
	if got, want := string(syntax.Kind), c.Error.Kind; got != want {
		t.Errorf("kind = %s, want %s (%v)", got, want, err)
	}
	if syntax.Pos < 0 || syntax.Pos > len(c.Expr) {
		t.Errorf("pos = %d, outside of %q", syntax.Pos, c.Expr)
	}
}

// checkProperty counts the firings of a window, for several hash keys.
func checkProperty(t *testing.T, e *cron.Expr, c corpusCase) {
	t.Helper()
	window, err := time.ParseDuration(c.Property.Window)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"nightly-report", "a", "b", "c", "ключ", "\xff"} {
		o := e.Options()
		o.HashKey = key
		first, err := o.Parse(c.Expr)
		if err != nil {
			t.Fatal(err)
		}
		again, err := o.Parse(c.Expr)
		if err != nil {
			t.Fatal(err)
		}
		n, last := 0, time.Time{}
		for at := range first.All(c.Property.From.Add(-time.Second)) {
			if !at.Before(c.Property.From.Add(window)) {
				break
			}
			n++
			in := func(what string, v int, bounds [2]int) {
				if bounds != [2]int{} && (v < bounds[0] || v > bounds[1]) {
					t.Errorf("key %q: %s of %v is outside %v", key, what, at, bounds)
				}
			}
			in("minute", at.Minute(), c.Property.MinuteIn)
			in("hour", at.Hour(), c.Property.HourIn)
			in("day", at.Day(), c.Property.DayIn)
			if d := c.Property.EveryMin; d > 0 && !last.IsZero() && last.Hour() == at.Hour() && at.Sub(last) != time.Duration(d)*time.Minute {
				t.Errorf("key %q: %v after %v", key, at, last)
			}
			if got := again.Next(at.Add(-time.Nanosecond)); !got.Equal(at) {
				t.Errorf("key %q: parsed again it fires at %v, want %v", key, got, at)
			}
			last = at
		}
		if n < c.Property.Count[0] || n > c.Property.Count[1] {
			t.Errorf("key %q: %d firings, want %v", key, n, c.Property.Count)
		}
	}
}
