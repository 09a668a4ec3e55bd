package cron_test

import (
	"errors"
	"fmt"
	"time"

	robfig "github.com/robfig/cron/v3"

	"github.com/escapement-go/scheduler/engine/cron"
)

func ExampleParse() {
	e, err := cron.Parse("0 9 * * mon-fri", cron.WithZone("Asia/Shanghai"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e)
	fmt.Println(e.Next(time.Date(2024, 5, 3, 12, 0, 0, 0, time.UTC)))
	// Output:
	// 0 9 * * MON-FRI
	// 2024-05-06 09:00:00 +0800 CST
}

func ExampleParse_errors() {
	_, err := cron.Parse("0 9 * * MNO")
	fmt.Println(err)

	if syntax, ok := errors.AsType[*cron.SyntaxError](err); ok {
		fmt.Println(syntax.Field, syntax.Pos, syntax.Kind)
	}

	_, err = cron.Parse("0 9 * * *", cron.WithZone("Asia/Peking"))
	fmt.Println(err)
	// Output:
	// cron: parse "0 9 * * MNO": day-of-week at offset 8: "MNO" is no name for this field; did you mean MON?
	// day_of_week 8 bad_name
	// cron: zone "Asia/Peking": unknown zone
}

func ExampleOptions_Parse() {
	// What a schedule stores is enough to rebuild it anywhere.
	stored := cron.Options{Zone: "Europe/Berlin", Dialect: cron.Standard, DST: cron.Skip, HashKey: "invoices"}
	e, err := stored.Parse("H 2 L * *")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Options().Dialect)
	// Output:
	// v1 n/step|wrap|ext|hash|every|tz
}

func ExampleExpr_Next() {
	// 02:30 is missing on 10 March: it fires once, when the missing hour is over.
	e := cron.MustParse("30 2 * * *", cron.WithZone("America/New_York"))
	t := time.Date(2024, 3, 9, 0, 0, 0, 0, e.Location())
	for range 3 {
		t = e.Next(t)
		fmt.Println(t)
	}
	// Output:
	// 2024-03-09 02:30:00 -0500 EST
	// 2024-03-10 03:00:00 -0400 EDT
	// 2024-03-11 02:30:00 -0400 EDT
}

func ExampleExpr_Next_never() {
	e := cron.MustParse("0 0 30 2 *")
	fmt.Println(e.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero())
	// Output: true
}

func ExampleExpr_Prev() {
	e := cron.MustParse("0 0 L * *")
	fmt.Println(e.Prev(time.Date(2024, 3, 15, 0, 0, 0, 0, time.UTC)))
	// Output: 2024-02-29 00:00:00 +0000 UTC
}

func ExampleExpr_All() {
	e := cron.MustParse("0 0 13 * +FRI") // both: Friday the 13th
	for t := range e.All(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)) {
		if t.Year() > 2025 {
			break
		}
		fmt.Println(t.Format(time.DateOnly))
	}
	// Output:
	// 2024-09-13
	// 2024-12-13
	// 2025-06-13
}

func ExampleExpr_Describe() {
	for _, expr := range []string{"0 9 * * MON-FRI", "*/15 9-17 * * *", "0 18 LW * *"} {
		e := cron.MustParse(expr)
		fmt.Printf("%s: %s\n", e.Describe(cron.English), e.Describe(cron.Chinese))
	}
	// Output:
	// at 09:00 on weekdays: 工作日 09:00
	// every 15 minutes from 09:00 to 17:59: 09:00 至 17:59 每 15 分钟
	// at 18:00 on the last working day of every month: 每月最后一个工作日 18:00
}

func ExampleExpr_Lint() {
	e := cron.MustParse("30 2 1-7 * MON", cron.WithZone("America/New_York"), cron.WithDST(cron.Skip))
	from := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, f := range e.Lint(from, from.AddDate(5, 0, 0)) {
		fmt.Println(f)
	}
	// Output:
	// warning: either-day: fires on days 1 to 7 and also on Mondays, since either day field is enough; for the first one of the month write MON#1 and * as day of month
}

func ExampleExpr_AST() {
	a := cron.MustParse("*/5 9-17 L * MON#2").AST()
	fmt.Printf("%+v %+v %+v %+v %+v\n", a.Minute, a.Hour, a.DayOfMonth, a.Month, a.DayOfWeek)
	// Output: {Of:{Question:false} N:5} {From:9 To:17} {Before:0} {Question:false} {Weekday:Monday N:2}
}

func ExampleAdapt() {
	// A schedule written for robfig/cron works here, and an *Expr works there.
	theirs, err := robfig.ParseStandard("@hourly")
	if err != nil {
		fmt.Println(err)
		return
	}
	from := time.Date(2024, 5, 1, 10, 30, 0, 0, time.UTC)
	fmt.Println(cron.NextN(cron.Adapt(theirs), from, 2))

	var ours robfig.Schedule = cron.MustParse("@hourly")
	fmt.Println(ours.Next(from))
	// Output:
	// [2024-05-01 11:00:00 +0000 UTC 2024-05-01 12:00:00 +0000 UTC]
	// 2024-05-01 11:00:00 +0000 UTC
}
