package cron_test

import (
	"errors"
	"fmt"
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

func checkRoundTrip(t *testing.T, e *cron.Expr) {
	t.Helper()
	text := e.String()
	again, err := e.Options().Parse(text)
	if err != nil {
		t.Fatalf("%q is written %q, which does not parse: %v", e.Source(), text, err)
	}
	if got := again.String(); got != text {
		t.Errorf("%q is written %q and then %q", e.Source(), text, got)
	}
	at := time.Date(2024, 2, 27, 12, 0, 0, 0, time.UTC)
	if diff := cmp.Diff(e.NextN(at, 50), again.NextN(at, 50)); diff != "" {
		t.Errorf("%q is written %q, which fires otherwise:\n%s", e.Source(), text, diff)
	}
}

func TestExpr_String(t *testing.T) {
	for _, c := range []struct {
		in, want string
		dialect  cron.Dialect
	}{
		{"  00   09 *\t* MON-FRI ", "0 9 * * MON-FRI", cron.Standard},
		{"0 9 * * 1-5", "0 9 * * MON-FRI", cron.Standard},
		{"0 9 ? jan,FEB 7", "0 9 * 1,2 SUN", cron.Standard},
		{"0 0 * * 0-7", "0 0 * * 0-7", cron.Standard},
		{"0 0 * * 7-2/2", "0 0 * * SUN-TUE/2", cron.Standard},
		{"0 0 * * FRI-7", "0 0 * * FRI-SUN", cron.Standard},
		{"5-5 0 L-0 * 5L", "5 0 L * FRI#L", cron.Standard},
		{"0 0 LW * +mon#2,fri#L", "0 0 LW * +MON#2,FRI#L", cron.Standard},
		{"0 0 L-3W * *", "0 0 L-3W * *", cron.Standard},
		{"H H(1-5) 1/10 */3 H(0-4)/2", "H H(1-5) 1/10 */3 H(0-4)/2", cron.Standard},
		{"TZ=Asia/Tokyo @midnight", "CRON_TZ=Asia/Tokyo @daily", cron.Standard},
		{"@annually", "@yearly", cron.Standard},
		{"@every 90m", "@every 1h30m0s", cron.Standard},
		{"0 15 10 ? * 6L 2024-2025", "0 15 10 ? * FRI#L 2024-2025", cron.Quartz},
		{"0 0 0 L * ?", "0 0 0 L * ?", cron.Quartz},
		{"0 0 0 ? * L", "0 0 0 ? * SAT", cron.Quartz},
		{"0 0 0 ? * 6-2", "0 0 0 ? * FRI-MON", cron.Quartz},
	} {
		e, err := cron.Parse(c.in, cron.WithDialect(c.dialect), cron.WithHashKey("k"))
		if err != nil {
			t.Errorf("Parse(%q): %v", c.in, err)
			continue
		}
		if got := e.String(); got != c.want {
			t.Errorf("%q is written %q, want %q", c.in, got, c.want)
		}
		checkRoundTrip(t, e)
	}
}
