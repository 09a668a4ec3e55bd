// Command cron measures reading cron expressions and finding their next firing, beside robfig/cron, gronx and cronexpr in
// the same run.
//
//	go run ./cron
package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/adhocore/gronx"
	"github.com/hashicorp/cronexpr"
	robfig "github.com/robfig/cron/v3"

	"github.com/escapement-go/scheduler/bench/internal/program"
	"github.com/escapement-go/scheduler/engine/cron"
)

// exprs are common expressions, and two that are far to the next firing. All are in UTC: not every library knows zones.
var exprs = []string{
	"* * * * *", "*/15 9-17 * * 1-5", "0 9 * * 1-5", "30 2 * * *", "0 0 1 * *", "5,20,35,50 0,6,12,18 1,15 * *", "0 0 29 2 *", "0 0 13 * 5",
}

// A library reads an expression and gives what finds its next firing.
type library struct {
	name  string
	parse func(string) (next func(time.Time) time.Time, err error)
}

var libraries = []library{
	{"escapement", func(s string) (func(time.Time) time.Time, error) {
		e, err := cron.Parse(s)
		if err != nil {
			return nil, err
		}
		return e.Next, nil
	}},
	{"robfig", func(s string) (func(time.Time) time.Time, error) {
		e, err := robfig.ParseStandard(s)
		if err != nil {
			return nil, err
		}
		return e.Next, nil
	}},
	{"cronexpr", func(s string) (func(time.Time) time.Time, error) {
		e, err := cronexpr.Parse(s)
		if err != nil {
			return nil, err
		}
		return e.Next, nil
	}},
	// gronx has no parsed form: its next firing is found from the text, and its parsing is its check.
	{"gronx", func(s string) (func(time.Time) time.Time, error) {
		if !gronx.IsValid(s) {
			return nil, fmt.Errorf("gronx refuses %q", s)
		}
		return func(after time.Time) time.Time {
			t, err := gronx.NextTickAfter(s, after, false)
			if err != nil {
				return time.Time{}
			}
			return t
		}, nil
	}},
}

func main() { program.Main(run) }

func run(ctx context.Context, p *program.Program) error {
	rounds, share := program.Pick(p, 9, 3), program.Pick(p, 20*time.Millisecond, time.Millisecond)
	from := time.Date(2024, 5, 1, 10, 7, 30, 0, time.UTC)
	fmt.Printf("\nmedian of %d rounds, ns an operation\n\n%-34s", rounds, "")
	for _, l := range libraries {
		fmt.Printf("%22s", l.name)
	}
	fmt.Printf("\n%-34s", "expression")
	for range libraries {
		fmt.Printf("%11s%11s", "parse", "next")
	}
	fmt.Println()
	for _, expr := range exprs {
		fmt.Printf("%-34s", expr)
		for _, l := range libraries {
			next, err := l.parse(expr)
			if err != nil {
				return err
			}
			parse := measure(rounds, share, func() { _, _ = l.parse(expr) })
			at := from
			find := measure(rounds, share, func() {
				if at = next(at); at.IsZero() || at.Year() > 2100 {
					at = from
				}
			})
			fmt.Printf("%11d%11d", parse, find)
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		fmt.Println()
	}
	return nil
}

// measure returns the median of rounds, each about as long as share, in ns a call of f.
func measure(rounds int, share time.Duration, f func()) int64 {
	n, took := 1, time.Duration(0)
	for ; took < share && n < 1<<24; n *= 2 {
		took = loop(n, f)
	}
	all := make([]int64, rounds)
	for i := range all {
		all[i] = loop(n, f).Nanoseconds() / int64(n)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func loop(n int, f func()) time.Duration {
	began := time.Now()
	for range n {
		f()
	}
	return time.Since(began)
}
