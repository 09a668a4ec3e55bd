package cron_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	robfig "github.com/robfig/cron/v3"

	"github.com/escapement-go/scheduler/engine/cron"
)

// Each is usable as the other.
var (
	_ robfig.Schedule = (*cron.Expr)(nil)
	_ cron.Schedule   = robfig.Schedule(nil)
)

// differences from github.com/robfig/cron/v3 v3.0.1 on what both can read, or one
// of them refuses. "error" means refused, "never" the zero Time.
var differences = []struct {
	name, reason     string
	expr, zone, from string
	ours, theirs     string
}{
	{
		"gap", "a missing reading is made up once, theirs is lost",
		"30 2 * * *", "America/New_York", "2024-03-09T12:00:00-05:00",
		"2024-03-10T03:00:00-04:00", "2024-03-11T02:30:00-04:00",
	},
	{
		"overlap", "a fixed time fires on the first pass only, theirs on both",
		"30 1 * * *", "America/New_York", "2024-11-03T01:30:00-04:00",
		"2024-11-04T01:30:00-05:00", "2024-11-03T01:30:00-05:00",
	},
	{
		"five years", "they look five years ahead and then say never",
		"0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z",
		"2104-02-29T00:00:00Z", "never",
	},
	{
		"end of years", "ours end with 2199",
		"0 0 1 1 *", "UTC", "2199-06-01T00:00:00Z",
		"never", "2200-01-01T00:00:00Z",
	},
	{
		"step of one", "*/1 is a restriction here, as any spelling but * and ?; theirs is a *",
		"0 0 */1 * MON", "UTC", "2024-05-01T00:00:00Z",
		"2024-05-02T00:00:00Z", "2024-05-06T00:00:00Z",
	},
	{
		"seven", "7 is Sunday too",
		"0 0 * * 7", "UTC", "2024-05-01T00:00:00Z",
		"2024-05-05T00:00:00Z", "error",
	},
	{
		"backwards", "ranges may run through the end of the field",
		"0 22-2 * * *", "UTC", "2024-05-01T00:30:00Z",
		"2024-05-01T01:00:00Z", "error",
	},
	{
		"last day", "L is the last day of the month",
		"0 0 L * *", "UTC", "2024-02-01T00:00:00Z",
		"2024-02-29T00:00:00Z", "error",
	},
	{
		"question mark", "? belongs in a day field",
		"? * * * *", "UTC", "2024-02-01T00:00:00Z",
		"error", "2024-02-01T00:01:00Z",
	},
	{
		"empty item", "an empty list item is a slip",
		"5,,6 * * * *", "UTC", "2024-02-01T00:00:00Z",
		"error", "2024-02-01T00:05:00Z",
	},
	{
		"short beat", "they lift a beat of less than a second, zero included, to one second",
		"@every 0s", "UTC", "2024-02-01T00:00:00Z",
		"error", "2024-02-01T00:00:01Z",
	},
	{
		"rounded beat", "@every is exact here, theirs is cut to whole seconds",
		"@every 1h", "UTC", "2024-02-01T00:00:00.5Z",
		"2024-02-01T01:00:00.5Z", "2024-02-01T01:00:00Z",
	},
}

// TestExpr_Robfig_Differences shows that each difference is one, and is as told.
func TestExpr_Robfig_Differences(t *testing.T) {
	answer := func(s cron.Schedule, err error, from time.Time) string {
		if err != nil {
			return "error"
		}
		next := s.Next(from)
		if next.IsZero() {
			return "never"
		}
		return next.Format(time.RFC3339Nano)
	}
	for _, d := range differences {
		t.Run(strings.ReplaceAll(d.name, " ", "_"), func(t *testing.T) {
			loc, err := time.LoadLocation(d.zone)
			if err != nil {
				t.Fatal(err)
			}
			if d.ours == d.theirs {
				t.Error("no difference")
			}
			from, err := time.Parse(time.RFC3339Nano, d.from)
			if err != nil {
				t.Fatal(err)
			}
			e, err := cron.Parse(d.expr, cron.WithZone(d.zone))
			if got := answer(e, err, from); got != d.ours {
				t.Errorf("ours: %q after %s = %s, want %s", d.expr, d.from, got, d.ours)
			}
			r, err := robfig.ParseStandard(d.expr)
			if got := answer(r, err, from.In(loc)); got != d.theirs {
				t.Errorf("theirs: %q after %s = %s, want %s", d.expr, d.from, got, d.theirs)
			}
		})
	}
}

// commonExpr makes an expression that both read, and take to mean the same.
func commonExpr(rng *rand.Rand) string {
	field := func(lo, hi int) string {
		n := func() int { return lo + rng.IntN(hi-lo+1) }
		item := func() string {
			a, b := n(), n()
			if a > b {
				a, b = b, a
			}
			switch rng.IntN(6) {
			case 0:
				return fmt.Sprintf("%d-%d", a, b)
			case 1:
				return fmt.Sprintf("%d-%d/%d", a, b, 1+rng.IntN(9))
			case 2:
				return fmt.Sprintf("%d/%d", a, 2+rng.IntN(30))
			default:
				return fmt.Sprint(a)
			}
		}
		switch rng.IntN(5) {
		case 0, 1:
			return "*"
		case 2:
			return fmt.Sprintf("*/%d", 2+rng.IntN(20))
		case 3:
			return item() + "," + item()
		default:
			return item()
		}
	}
	return strings.Join([]string{field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6)}, " ")
}

// checkRobfig compares a few steps from at on. Near a shift theirs is what Skip says
// for gaps and Both for overlaps.
func checkRobfig(t *testing.T, expr, zone string, at time.Time) {
	t.Helper()
	skip, err := cron.Parse(expr, cron.WithZone(zone), cron.WithDST(cron.Skip))
	if err != nil {
		t.Fatalf("ours refuses %q: %v", expr, err)
	}
	both, err := cron.Parse(expr, cron.WithZone(zone), cron.WithDST(cron.Both))
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := robfig.ParseStandard(expr)
	if err != nil {
		t.Fatalf("theirs refuses %q: %v", expr, err)
	}
	at = at.In(skip.Location())
	for range 10 {
		want := theirs.Next(at)
		a, b := skip.Next(at), both.Next(at)
		if want.IsZero() {
			if limit := at.AddDate(5, 0, 0); !a.IsZero() && a.Year() < limit.Year() {
				t.Errorf("%q %s: Next(%v) = %v, theirs is never", expr, zone, at, a)
			}
			return
		}
		if !a.Equal(want) && !b.Equal(want) {
			t.Errorf("%q %s: Next(%v) = %v (skip), %v (both), theirs is %v", expr, zone, at, a, b, want)
			return
		}
		at = want
	}
}

var robfigZones = []string{"UTC", "Asia/Kolkata", "America/New_York", "Europe/Berlin"}

func TestExpr_Robfig(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 1500 {
		at := time.Unix(1.5e9+rng.Int64N(1e9), rng.Int64N(1e9))
		checkRobfig(t, commonExpr(rng), robfigZones[rng.IntN(len(robfigZones))], at)
	}
}

// FuzzRobfig does the same from a seed and an instant that the fuzzer chooses.
func FuzzRobfig(f *testing.F) {
	f.Add(uint64(1), int64(1.7e9), uint8(2))
	f.Add(uint64(2), int64(1.73e9), uint8(3))
	f.Fuzz(func(t *testing.T, seed uint64, at int64, zone uint8) {
		at = 1e9 + (at%2e9+2e9)%2e9
		checkRobfig(t, commonExpr(rand.New(rand.NewPCG(seed, 0))), robfigZones[int(zone)%len(robfigZones)], time.Unix(at, 0))
	})
}

func TestAdapt(t *testing.T) {
	theirs, err := robfig.ParseStandard("@hourly")
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2024, 5, 1, 10, 30, 0, 0, time.UTC)
	got := cron.NextN(cron.Adapt(theirs), from, 3)
	if len(got) != 3 || !got[0].Equal(from.Add(30*time.Minute)) || !got[2].Equal(from.Add(150*time.Minute)) {
		t.Errorf("adapted @hourly gives %v", got)
	}
	for name, s := range map[string]cron.Schedule{
		"same": nextFunc(func(t time.Time) time.Time { return t }),
		"past": nextFunc(func(t time.Time) time.Time { return t.Add(-time.Hour) }),
	} {
		if got := cron.Adapt(s).Next(from); !got.IsZero() {
			t.Errorf("%s: Next = %v, want never", name, got)
		}
	}
	if e := cron.MustParse("@daily"); cron.Adapt(e) != cron.Schedule(e) {
		t.Error("an *Expr is wrapped")
	}
}

type nextFunc func(time.Time) time.Time

func (f nextFunc) Next(t time.Time) time.Time { return f(t) }
