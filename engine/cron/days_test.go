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

// TestExpr_Days compares the days on which random day fields fit with the model, day by
// day over two years anywhere in the calendar, forwards and backwards.
func TestExpr_Days(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 1500 {
		expr := "0 0 " + randomDays(rng)
		e, err := cron.Parse(expr)
		if err != nil {
			t.Fatal(err)
		}
		from := time.Date(1970+rng.IntN(228), time.Month(1+rng.IntN(12)), 1+rng.IntN(28), 0, 0, 0, 0, time.UTC)
		to := from.AddDate(2, 0, 0)
		var want []time.Time
		for a, day := e.AST(), from; day.Before(to); day = day.AddDate(0, 0, 1) {
			if modelFits(a, day) {
				want = append(want, day)
			}
		}
		var got, back []time.Time
		for at := e.Next(from.Add(-1)); !at.IsZero() && at.Before(to); at = e.Next(at) {
			got = append(got, at)
		}
		for at := e.Prev(to); !at.Before(from); at = e.Prev(at) {
			back = append(back, at)
		}
		slices.Reverse(back)
		if !slices.Equal(got, want) || !slices.Equal(back, want) {
			t.Errorf("%q from %v: Next gives %d days, Prev %d, want %d\nnext %v\nprev %v\nwant %v", expr, from, len(got), len(back), len(want), got, back, want)
		}
	}
}

// randomDays makes day of month, month and weekday fields with everything they may have.
func randomDays(rng *rand.Rand) string {
	pick := func(ss ...string) string { return ss[rng.IntN(len(ss))] }
	span := func(lo, hi int) string {
		return fmt.Sprintf("%d-%d/%d", lo+rng.IntN(hi-lo+1), lo+rng.IntN(hi-lo+1), 1+rng.IntN(5))
	}
	dom := pick("*", "*", "L", "LW", "31", "30", "29", "*/3", "1/9", span(1, 31),
		fmt.Sprintf("%dW", 1+rng.IntN(31)), fmt.Sprintf("L-%d", rng.IntN(31)), fmt.Sprintf("L-%dW", rng.IntN(31)),
		fmt.Sprintf("%d,L-%d,%s", 1+rng.IntN(31), rng.IntN(31), span(1, 31)))
	month := pick("*", "*", "*", "2", "2", span(1, 12), fmt.Sprintf("%d,%d", 1+rng.IntN(12), 1+rng.IntN(12)))
	day := func() string { return strings.ToUpper(time.Weekday(rng.IntN(7)).String()[:3]) }
	dow := pick("*", "*", day(), day()+"L", fmt.Sprintf("%s#%d", day(), 1+rng.IntN(5)), fmt.Sprintf("%s#5,%s#1,%s#L", day(), day(), day()),
		fmt.Sprintf("%s,%s#%d", day(), day(), 1+rng.IntN(5)), span(0, 6), "5-7", "MON-FRI", "*/3", day()+"-"+day())
	return dom + " " + month + " " + pick("", "+") + dow
}
