package cron_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler/engine/cron"
)

// FuzzParse feeds any bytes, in any dialect. Whatever parses must search both ways
// consistently and survive being written and read again; whatever does not must say
// so with a typed error that points into the text.
func FuzzParse(f *testing.F) {
	for _, c := range loadCorpus(f) {
		o := c.options()
		f.Add(c.Expr, uint32(o.Dialect), uint8(0), c.From.Unix())
	}
	f.Add("H(1-5)/2 H * * H(1-3)", uint32(cron.Standard), uint8(3), int64(1.7e9))
	f.Add(strings.Repeat("1,", 600), uint32(cron.Standard), uint8(0), int64(0))
	f.Add(strings.Repeat("H(", 400), uint32(cron.Standard), uint8(0), int64(0))
	f.Fuzz(func(t *testing.T, expr string, dialect uint32, policy uint8, at int64) {
		o := cron.Options{
			Zone: "America/New_York", Dialect: cron.Dialect(dialect), DST: cron.DSTPolicy(policy), HashKey: "k",
		}
		e, err := o.Parse(expr)
		if err != nil {
			checkTyped(t, expr, err)
			return
		}
		checkRoundTrip(t, e)
		after := time.Unix(at, 0)
		for _, text := range []string{e.Describe(cron.English), e.Describe(cron.Chinese), fmt.Sprint(e.Lint(after, after.AddDate(1, 0, 0)))} {
			if text == "" || strings.Contains(text, "%!") || strings.Contains(text, "  ") {
				t.Errorf("%q: botched text %q", expr, text)
			}
		}
		next, prev := e.Next(after), e.Prev(after)
		if !next.IsZero() && !next.After(after) {
			t.Errorf("%q: Next(%v) = %v, which is not after it", expr, after, next)
		}
		if !prev.IsZero() && !prev.Before(after) {
			t.Errorf("%q: Prev(%v) = %v, which is not before it", expr, after, prev)
		}
		if !next.IsZero() && e.AST().Every == 0 {
			if back := e.Prev(next.Add(1)); !back.Equal(next) {
				t.Errorf("%q: Prev just behind Next(%v) = %v, want %v", expr, after, back, next)
			}
			if back := e.Prev(next); !back.IsZero() && back.After(after) {
				t.Errorf("%q: Prev(%v) = %v, which Next(%v) left out", expr, next, back, after)
			}
		}
	})
}

func checkTyped(t *testing.T, expr string, err error) {
	t.Helper()
	var syntax *cron.SyntaxError
	var zone *cron.ZoneError
	var option *cron.OptionError
	switch {
	case errors.As(err, &syntax):
		if syntax.Pos < 0 || syntax.Pos > len(expr) || syntax.Msg == "" || syntax.Kind == "" {
			t.Errorf("%q: incomplete error %#v", expr, syntax)
		}
	case errors.As(err, &zone), errors.As(err, &option):
	default:
		t.Errorf("%q: untyped error %T: %v", expr, err, err)
	}
	if len(err.Error()) > 8*cron.MaxLength {
		t.Errorf("error text of %d bytes for an expression of %d", len(err.Error()), len(expr))
	}
}

// checkRoundTrip wants what String writes to be the same schedule.
func checkRoundTrip(t *testing.T, e *cron.Expr) {
	t.Helper()
	again := readAgain(t, e)
	at := time.Date(2024, 2, 27, 12, 0, 0, 0, time.UTC)
	if diff := cmp.Diff(e.NextN(at, 50), again.NextN(at, 50)); diff != "" {
		t.Errorf("%q is written %q, which fires otherwise:\n%s", e.Source(), again.Source(), diff)
	}
}

// readAgain parses what String writes, and wants the same tree and text.
func readAgain(t *testing.T, e *cron.Expr) *cron.Expr {
	t.Helper()
	text := e.String()
	again, err := e.Options().Parse(text)
	if err != nil {
		t.Fatalf("%q (%v) is written %q, which does not parse: %v", e.Source(), e.Options().Dialect, text, err)
	}
	if got := again.String(); got != text {
		t.Errorf("%q is written %q and then %q", e.Source(), text, got)
	}
	if got, want := tree(again), tree(e); !reflect.DeepEqual(got, want) {
		t.Errorf("%q is read as %+v, and written %q as %+v", e.Source(), want, text, got)
	}
	return again
}

// tree returns the AST without the one thing that canonical text may drop: whether a day field was * or ?.
func tree(e *cron.Expr) cron.AST {
	a := e.AST()
	for _, n := range []*cron.Node{&a.DayOfMonth, &a.DayOfWeek} {
		if _, ok := (*n).(cron.Wildcard); ok {
			*n = cron.Wildcard{}
		}
	}
	return a
}
