package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/engine/cron"
)

// The dialect is stored with the trigger: it holds after a restart, and in versions.
func TestDialect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		opts := []scheduler.Option{scheduler.WithDataDir(t.TempDir()), scheduler.WithHandler(echo, func(ctx context.Context, id string) (string, error) {
			notes.add("%s %s", id, scheduler.Current(ctx).ScheduledAt().Format("01-02 15:04:05"))
			return "", nil
		})}
		s := start(t, opts...)
		// 2000-01-01 is a Saturday. In Quartz 1 is Sunday; otherwise Monday.
		const expr = "30 0 12 ? * 1"
		mustSchedule(t, s, "own", scheduler.Cron(expr))
		mustSchedule(t, s, "quartz", scheduler.Cron(expr, scheduler.Dialect(cron.Quartz)))
		mustSchedule(t, s, "both", scheduler.Cron("0 6 2 * SUN 2000", scheduler.Dialect(cron.Standard|cron.Year|cron.And)))
		mustSchedule(t, s, "either", scheduler.Cron("0 5 3 * SUN"))
		shutdown(t, s)
		s = start(t, opts...)
		time.Sleep(37 * time.Hour)
		wantLines(t, "starts", notes.take(), "either 01-02 05:00:00", "both 01-02 06:00:00", "quartz 01-02 12:00:30")
		for id, want := range map[string]string{"either": "2000-01-03 05:00:00", "both": "2000-04-02 06:00:00", "own": "2000-01-03 12:00:30", "quartz": "2000-01-09 12:00:30"} {
			if got := schedule(t, s, id).Next.Format(time.DateTime); got != want {
				t.Errorf("%s: next %s, want %s", id, got, want)
			}
		}
		mustSchedule(t, s, "own", scheduler.Cron(expr, scheduler.Dialect(cron.Quartz)))
		want := "dialect: v1 seconds?|n/step|wrap|ext|hash|tz → v1 seconds|year?|n/step|wrap|ext|quartz; trigger: at 12:00:30 on Mondays → at 12:00:30 on Sundays"
		if got := versions(t, s, "own"); len(got) != 2 || !strings.HasSuffix(got[1], want) {
			t.Errorf("versions %q, want %q", got, want)
		}
		mustSchedule(t, s, "own", scheduler.Cron(expr, scheduler.Dialect(cron.Quartz.Pinned())))
		if v := schedule(t, s, "own").Version; v != 2 {
			t.Errorf("version %d: the same dialect is a change", v)
		}
	})
}

func TestDialect_Faults(t *testing.T) {
	syntax := func(err error) bool { _, ok := errors.AsType[*scheduler.SyntaxError](err); return ok }
	option := func(err error) bool { _, ok := errors.AsType[*cron.OptionError](err); return ok }
	for what, c := range map[string]struct {
		trigger scheduler.Trigger
		typed   func(error) bool
	}{
		"five fields in Quartz":    {scheduler.Cron("0 9 * * *", scheduler.Dialect(cron.Quartz)), syntax},
		"six fields in Plain":      {scheduler.Cron("0 0 9 * * *", scheduler.Dialect(cron.Plain)), syntax},
		"a year by default":        {scheduler.Cron("0 0 9 * * * 2026"), syntax},
		"H in Plain":               {scheduler.Cron("H 9 * * *", scheduler.Dialect(cron.Plain)), syntax},
		"no duration":              {scheduler.Cron("@every 5"), syntax},
		"a flag that is not known": {scheduler.Cron("* * * * *", scheduler.Dialect(1<<20)), option},
		"a version of the future":  {scheduler.Cron("* * * * *", scheduler.Dialect(cron.Standard|99<<24)), option},
		"@every in Quartz":         {scheduler.Cron("@every 5m", scheduler.Dialect(cron.Quartz)), nil},
		"times":                    {scheduler.Times(epoch).With(scheduler.Dialect(cron.Standard)), nil},
		"a delay":                  {scheduler.After(time.Minute, scheduler.Dialect(cron.Standard)), nil},
	} {
		_, err := c.trigger.Next(epoch, 1)
		wantErr(t, what, err, scheduler.ErrInvalid)
		if c.typed != nil && !c.typed(err) {
			t.Errorf("%s: %T, %v", what, err, err)
		}
	}
	if next, err := scheduler.Cron(" @every 5m", scheduler.Dialect(cron.Standard)).Next(epoch, 1); err != nil || !next[0].Equal(epoch.Add(5*time.Minute)) {
		t.Errorf("@every in a dialect that has it: %v, %v", next, err)
	}
}

func TestDialect_of_a_file(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "schedules.yaml")
		write(t, path, `schedules:
  - {id: a, cron: '30 0 12 ? * 1', dialect: quartz, task: echo}
  - {id: b, cron: '0 6 2 * SUN 2000', dialect: standard|year|and, task: echo}
`)
		s := start(t, scheduler.WithTasks("echo"), scheduler.WithScheduleFile(path))
		wantLines(t, "schedules", listed(t, s), "a v1 at 12:00:30 on Sundays", "b v1 at 06:00 on the 2nd of every month if it is a Sunday in 2000")
		for entry, want := range map[string]string{
			"cron: '0 9 * * *', dialect: quarz":  `schedules.yaml:2:53: invalid: cron: option dialect: unknown name "quarz"`,
			"cron: '0 9 * * *', dialect: quartz": "schedules.yaml:2:32: scheduler: invalid: cron: parse",
			"every: 1m, dialect: quartz":         "only cron expressions have one",
		} {
			write(t, path, "schedules:\n  - {id: a, task: echo, "+entry+"}\n")
			if _, err := s.Lint(t.Context(), scheduler.WithScheduleFile(path)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", entry, err, want)
			}
		}
	})
}

// The published form of files accepts the names that are read.
func TestDialect_of_the_schema(t *testing.T) {
	data, err := os.ReadFile("internal/schedfile/schedules.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Defs struct {
			Schedule struct {
				Properties struct{ Dialect struct{ Pattern string } }
			}
		} `json:"$defs"`
	}
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	pattern := regexp.MustCompile(schema.Defs.Schedule.Properties.Dialect.Pattern)
	_, all, _ := strings.Cut((cron.Quartz | 1<<11 - 1).String(), " ") // every flag
	for _, text := range []string{all, "plain", "standard | year?", "quartz|and", "", "Quartz", "standard|", "v1 plain", "quartz,and"} {
		if _, err := cron.ParseDialect(text); (err == nil) != pattern.MatchString(text) {
			t.Errorf("%q: read with %v, the form says %v", text, err, pattern.MatchString(text))
		}
	}
}
