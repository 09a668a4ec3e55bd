package cron_test

import (
	"testing"
	"time"

	robfig "github.com/robfig/cron/v3"

	"github.com/escapement-go/scheduler/engine/cron"
)

// Each benchmark runs an expression here and in github.com/robfig/cron/v3, so that
// the two figures come from the same machine in the same minute.
var benchExprs = []struct{ name, expr, zone string }{
	{"every_minute", "* * * * *", "UTC"},
	{"quarter_hours", "*/15 9-17 * * MON-FRI", "America/New_York"},
	{"weekday_mornings", "0 9 * * MON-FRI", "Asia/Shanghai"},
	{"daily_dst", "30 2 * * *", "America/New_York"},
	{"monthly", "0 0 1 * *", "Europe/Berlin"},
	{"list", "5,20,35,50 0,6,12,18 1,15 * *", "UTC"},
	{"leap_day", "0 0 29 2 *", "America/New_York"},
	{"never", "0 0 30 2 *", "UTC"},
}

var benchFrom = time.Date(2024, 5, 1, 10, 7, 30, 0, time.UTC)

func BenchmarkParse(b *testing.B) {
	for _, c := range benchExprs {
		b.Run(c.name+"/escapement", func(b *testing.B) {
			o := cron.Options{Zone: c.zone, Dialect: cron.Standard}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := o.Parse(c.expr); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/robfig", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := robfig.ParseStandard("TZ=" + c.zone + " " + c.expr); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNext walks from firing to firing, a hundred at a time, so that near and
// far jumps and changes of the clock are all in the figure.
func BenchmarkNext(b *testing.B) {
	for _, c := range benchExprs {
		ours, err := cron.Options{Zone: c.zone, Dialect: cron.Standard}.Parse(c.expr)
		if err != nil {
			b.Fatal(err)
		}
		theirs, err := robfig.ParseStandard("TZ=" + c.zone + " " + c.expr)
		if err != nil {
			b.Fatal(err)
		}
		for _, s := range []struct {
			name     string
			schedule cron.Schedule
		}{{"escapement", ours}, {"robfig", theirs}} {
			b.Run(c.name+"/"+s.name, func(b *testing.B) {
				b.ReportAllocs()
				at := benchFrom.In(ours.Location())
				for i := 0; b.Loop(); i++ {
					if at = s.schedule.Next(at); at.IsZero() || i%100 == 0 {
						at = benchFrom.In(ours.Location())
					}
				}
			})
		}
	}
}

// BenchmarkNext_Worst reports the dearest single Next of the corpus under any policy, each
// as the best of many tries: what the search itself costs at worst.
func BenchmarkNext_Worst(b *testing.B) {
	type query struct {
		id   string
		e    *cron.Expr
		from time.Time
	}
	var queries []query
	for _, c := range loadCorpus(b) {
		for _, policy := range []cron.DSTPolicy{cron.RunOnce, cron.Skip, cron.Shift, cron.Both} {
			o := c.options()
			o.DST = policy
			if e, err := o.Parse(c.Expr); err == nil {
				queries = append(queries, query{c.ID + " " + policy.String(), e, c.From})
			}
		}
	}
	var dearest query
	var worst time.Duration
	for b.Loop() {
		worst = 0
		for _, q := range queries {
			best := time.Hour
			for range 50 {
				start := time.Now()
				q.e.Next(q.from)
				best = min(best, time.Since(start))
			}
			if best > worst {
				dearest, worst = q, best
			}
		}
	}
	b.ReportMetric(float64(worst.Nanoseconds()), "worst-ns")
	b.Logf("dearest of %d: %s %q", len(queries), dearest.id, dearest.e.Source())
}

func BenchmarkPrev(b *testing.B) {
	e := cron.MustParse("0 9 * * MON-FRI", cron.WithZone("America/New_York"))
	b.ReportAllocs()
	for b.Loop() {
		e.Prev(benchFrom)
	}
}
