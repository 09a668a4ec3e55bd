package cron_test

import (
	"math"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/engine/cron"
)

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic(err)
	}
	return t
}

// TestExpr_Next_Bounds asks from the ends of time.
func TestExpr_Next_Bounds(t *testing.T) {
	for _, expr := range []string{"* * * * *", "0 0 1 1 *", "@every 1h", "0 0 30 2 *", "*/15 2 * * *"} {
		for _, policy := range []cron.DSTPolicy{cron.RunOnce, cron.Skip, cron.Shift, cron.Both} {
			e := cron.MustParse(expr, cron.WithZone("America/New_York"), cron.WithDST(policy))
			for _, from := range []time.Time{
				{},
				time.Unix(math.MinInt64/2, 0), time.Unix(math.MaxInt64/2, 0),
				time.Unix(0, 0), time.Unix(-1, 0), at("2199-12-31T23:59:59Z"), at("2200-01-01T05:00:00Z"), at("1969-06-01T00:00:00Z"),
			} {
				next, prev := e.Next(from), e.Prev(from)
				if !next.IsZero() && (!next.After(from) || next.Year() < 1970 || next.Year() > 2199) {
					t.Errorf("%q %s: Next(%v) = %v", expr, policy, from, next)
				}
				if !prev.IsZero() && (!prev.Before(from) || prev.Year() < 1970 || prev.Year() > 2199) {
					t.Errorf("%q %s: Prev(%v) = %v", expr, policy, from, prev)
				}
			}
		}
	}
}

func TestExpr_First_And_Last(t *testing.T) {
	for _, zone := range []string{"UTC", "America/New_York", "Pacific/Kiritimati"} {
		e := cron.MustParse("* * * * * *", cron.WithDialect(cron.Seconds), cron.WithZone(zone))
		first := e.Next(time.Time{})
		if want := time.Date(1970, 1, 1, 0, 0, 0, 0, e.Location()); !first.Equal(want) {
			t.Errorf("%s: first = %v, want %v", zone, first, want)
		}
		last := e.Prev(at("2300-01-01T00:00:00Z"))
		if want := time.Date(2199, 12, 31, 23, 59, 59, 0, e.Location()); !last.Equal(want) {
			t.Errorf("%s: last = %v, want %v", zone, last, want)
		}
		if !e.Next(last).IsZero() || !e.Prev(first).IsZero() {
			t.Errorf("%s: there is more past the ends", zone)
		}
	}
}

func TestExpr_Next_Allocates_Nothing(t *testing.T) {
	from := at("2024-03-09T12:00:00Z")
	for _, expr := range []string{"* * * * *", "30 2 * * *", "0 0 29 2 +MON", "0 0 30 2 *", "@every 5m"} {
		e := cron.MustParse(expr, cron.WithZone("America/New_York"))
		if n := testing.AllocsPerRun(100, func() { e.Next(from); e.Prev(from) }); n != 0 {
			t.Errorf("%q: %v allocations", expr, n)
		}
	}
}

func TestDialect_String(t *testing.T) {
	for d, want := range map[cron.Dialect]string{
		cron.Plain: "v0 plain",
		cron.MustParse("@daily").Options().Dialect: "v1 n/step|wrap|ext|hash|every|tz",
	} {
		if got := d.String(); got != want {
			t.Errorf("%#x is %q, want %q", uint32(d), got, want)
		}
	}
}

// TestDialect_OptionalFields reads six fields as seconds first when both are optional.
func TestDialect_OptionalFields(t *testing.T) {
	d := cron.Standard | cron.OptionalSeconds | cron.OptionalYear
	for expr, want := range map[string]string{
		"5 4 * * *":        "2024-05-02T04:05:00Z",
		"6 5 4 * * *":      "2024-05-02T04:05:06Z",
		"6 5 4 * * * 2030": "2030-01-01T04:05:06Z",
	} {
		got := cron.MustParse(expr, cron.WithDialect(d)).Next(at("2024-05-01T10:00:00Z")).Format(time.RFC3339)
		if got != want {
			t.Errorf("%q fires at %s, want %s", expr, got, want)
		}
	}
}
