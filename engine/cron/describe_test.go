package cron_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler/engine/cron"
)

var update = flag.Bool("update", false, "write the golden files")

// describeDialect lets an expression have seconds in front and a year behind.
const describeDialect = cron.Standard | cron.OptionalSeconds | cron.OptionalYear

// TestExpr_Describe reads testdata/describe.txt: an expression, and below it what it
// is in English and in Chinese.
func TestExpr_Describe(t *testing.T) {
	const file = "testdata/describe.txt"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	n := 0
	for block := range strings.SplitSeq(strings.TrimSpace(string(data)), "\n\n") {
		expr, _, _ := strings.Cut(block, "\n")
		e, err := cron.Parse(expr, cron.WithDialect(describeDialect), cron.WithHashKey("nightly-report"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%s\n%s\n%s\n\n", expr, e.Describe(cron.English), e.Describe(cron.Chinese))
		n++
	}
	if n < 40 {
		t.Errorf("%d expressions, want a few dozen", n)
	}
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(strings.TrimSpace(string(data)), strings.TrimSpace(got.String())); diff != "" && !*update {
		t.Errorf("descriptions differ (-want +got):\n%s", diff)
	}
}

func TestLang_Duration(t *testing.T) {
	for d, want := range map[time.Duration][2]string{
		0:                       {"0s", "0 秒"},
		time.Hour:               {"1h", "1 小时"},
		90 * time.Minute:        {"1h30m", "1 小时 30 分钟"},
		1500 * time.Millisecond: {"1.5s", "1 秒 500 毫秒"},
	} {
		if en, zh := cron.English.Duration(d), cron.Chinese.Duration(d); en != want[0] || zh != want[1] {
			t.Errorf("%v: %q, %q, want %q", d, en, zh, want)
		}
	}
}
