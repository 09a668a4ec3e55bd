package cron_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler/engine/cron"
)

// TestExpr_Lint reads testdata/lint.txt: a line "expression | zone | policy", and
// below it the findings for the years 2024 and 2025.
func TestExpr_Lint(t *testing.T) {
	const file = "testdata/lint.txt"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	policies := map[string]cron.DSTPolicy{"run-once": cron.RunOnce, "skip": cron.Skip, "shift": cron.Shift, "both": cron.Both}
	from, to := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var got strings.Builder
	for block := range strings.SplitSeq(strings.TrimSpace(string(data)), "\n\n") {
		head, _, _ := strings.Cut(block, "\n")
		parts := strings.Split(head, " | ")
		e, err := cron.Parse(parts[0], cron.WithDialect(describeDialect), cron.WithZone(parts[1]), cron.WithDST(policies[parts[2]]))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&got, head)
		for _, f := range e.Lint(from, to) {
			fmt.Fprintln(&got, f)
			if f.Text == "" || f.Rule == "" {
				t.Errorf("%s: incomplete finding %#v", head, f)
			}
		}
		fmt.Fprintln(&got)
	}
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(strings.TrimSpace(string(data)), strings.TrimSpace(got.String())); diff != "" && !*update {
		t.Errorf("findings differ (-want +got):\n%s", diff)
	}
}

// In the dialect of Quartz 2 is Monday, in all others Tuesday.
func TestExpr_Lint_Weekday(t *testing.T) {
	from, to := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		expr    string
		dialect cron.Dialect
		want    string // what the expression could say instead; "": it needs not
	}{
		{"0 0 9 ? * 2", cron.Quartz, "MON"},
		{"CRON_TZ=Asia/Tokyo 0 0 9 ? * 2-6", cron.Quartz | cron.ZonePrefix, "MON-FRI"},
		{"0 0 9 ? * MON,4", cron.Quartz, "MON,WED"},
		{"0 0 9 ? * 6#3", cron.Quartz, "FRI#3"},
		{"0 0 9 ? * 6L 2025", cron.Quartz, "FRI#L"},
		{"0 0 9 ? * MON#2", cron.Quartz, ""},
		{"0 0 9 ? * */2", cron.Quartz, ""},
		{"0 0 9 ? * H(2-6)", cron.Quartz | cron.Hashed, ""},
		{"0 0 9 2 * ?", cron.Quartz, ""},
		{"@daily", cron.Quartz, ""},
		{"0 9 * * 2", cron.Standard, ""},
	} {
		e, err := cron.Parse(c.expr, cron.WithDialect(c.dialect), cron.WithHashKey("k"))
		if err != nil {
			t.Errorf("%q: %v", c.expr, err)
			continue
		}
		got := ""
		for _, f := range e.Lint(from, to) {
			if f.Rule == cron.RuleWeekday {
				got += f.Text
			}
		}
		if c.want == "" && got != "" || c.want != "" && !strings.HasSuffix(got, "; "+c.want+" says the same") {
			t.Errorf("%q: got %q, want %q", c.expr, got, c.want)
		}
	}
}

// TestExpr_Lint_Times wants the instants of the shifts, for programs.
func TestExpr_Lint_Times(t *testing.T) {
	e := cron.MustParse("30 1 * * *", cron.WithZone("America/New_York"))
	from, to := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	found := e.Lint(from, to)
	if len(found) != 1 || found[0].Rule != cron.RuleOverlap {
		t.Fatalf("got %v, want one overlap", found)
	}
	want := []time.Time{time.Date(2024, 11, 3, 6, 0, 0, 0, time.UTC), time.Date(2025, 11, 2, 6, 0, 0, 0, time.UTC)}
	if diff := cmp.Diff(want, found[0].Times); diff != "" {
		t.Errorf("times differ (-want +got):\n%s", diff)
	}
}
