package scheduler_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/engine/cron"
)

// findings returns what Lint finds as lines, up to the first colon of the text, with the
// places relative to a folder.
func findings(t *testing.T, s *scheduler.Scheduler, dir string, declared ...scheduler.Declaration) (lines []string) {
	t.Helper()
	found, err := s.Lint(t.Context(), declared...)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		f.Text, _, _ = strings.Cut(f.Text, ":")
		lines = append(lines, strings.TrimPrefix(f.String(), dir+string(filepath.Separator)))
	}
	return lines
}

// atFour are n schedules that tick in the same minute.
func atFour(prefix string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  - {id: %s%d, cron: '7 4 * * *', task: echo}\n", prefix, i)
	}
	return b.String()
}

// Files can be checked where nothing runs.
func TestLint_before_Start(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "schedules.yaml")
		file := scheduler.WithScheduleFile(path)
		write(t, path, `schedules:
  - {id: never, cron: '0 0 31 2 *', task: echo}
  - {id: over, cron: '@daily', end: 1999-01-01T00:00:00Z, task: echo}
  - {id: trap, cron: '0 0 13 * FRI', end: 1999-01-01T00:00:00Z, task: echo}
  - {id: night, cron: '30 2 * * *', zone: America/New_York, task: echo}
  - {id: holidays, cron: '@daily', except: [{calendar: holidays}], task: echo}
  - {id: task, cron: '@daily', task: other}
`+atFour("hot", 20))
		want := []string{
			"schedules.yaml:7:10: task: fault: refused: it would be refused",
			"schedules.yaml:2:10: never: fault: never: never fires",
			"schedules.yaml:3:10: over: warning: over: it has no tick any more",
			"schedules.yaml:4:10: trap: warning: either-day: fires on the 13th of the month and also on Fridays, since either day field is enough; for both at once write +FRI",
			"schedules.yaml:4:10: trap: warning: over: it has no tick any more",
			"schedules.yaml:5:10: night: note: gap: 02",
			"note: hot-minute: 20 schedules start in the minute of 2000-01-01 04",
		}
		s, err := scheduler.New(scheduler.WithTasks("echo"))
		if err != nil {
			t.Fatal(err)
		}
		wantLines(t, "a file", findings(t, s, dir, file), want...)
		found, err := s.Lint(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		if gap := found[5]; gap.Rule != cron.RuleGap || !strings.Contains(gap.Text, "on 2000-04-02") || len(gap.Times) != 1 {
			t.Errorf("daylight saving without a date: %+v", gap)
		}
		bare, err := scheduler.New()
		if err != nil {
			t.Fatal(err)
		}
		if got := findings(t, bare, dir, file); len(got) != len(want)-1 {
			t.Errorf("without tasks: %q, want no word of unknown ones", got)
		}
	})
}

func TestLint_of_the_options(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "a.yaml"), "schedules:\n  - {id: file, cron: '0 0 31 2 *', task: echo}\n")
		s, err := scheduler.New(scheduler.WithTasks("echo"), scheduler.WithScheduleFile(dir), scheduler.WithTrigger("each", each),
			scheduler.WithTrigger("nil", func(json.RawMessage) (cron.Schedule, error) { return nil, nil }),
			scheduler.WithSchedule("code", scheduler.Cron("0 0 30 2 *"), echo.With("")),
			scheduler.WithSchedule("go", scheduler.Custom("each", map[string]any{"Every": time.Hour}), echo.With("")),
			scheduler.WithSchedule("nil", scheduler.Custom("nil", nil), echo.With("")),
			scheduler.WithSchedule("unknown", scheduler.Custom("none", nil), echo.With("")))
		if err != nil {
			t.Fatal(err)
		}
		code := []string{"code: fault: never: never fires", "nil: fault: blocked: its trigger cannot be evaluated", "unknown: fault: blocked: its trigger cannot be evaluated"}
		wantLines(t, "the options", findings(t, s, dir), code[0], "a.yaml:2:10: file: fault: never: never fires", code[1], code[2])
		other := filepath.Join(t.TempDir(), "b.yaml")
		write(t, other, "schedules: []")
		wantLines(t, "another file", findings(t, s, dir, scheduler.WithScheduleFile(other)), code...)
		more := scheduler.WithSchedule("more", scheduler.Cron("0 0 30 2 *"), echo.With(""))
		if got := findings(t, s, dir, more); len(got) != 5 {
			t.Errorf("one more: %q", got)
		}
		_, err = s.Lint(t.Context(), scheduler.WithSchedule("code", scheduler.Cron("@daily"), echo.With("")))
		wantErr(t, "one declared twice", err, scheduler.ErrDuplicate)
	})
}

// What is declared is looked at beside the schedules that exist, and not applied.
func TestLint_beside_what_exists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "schedules.yaml")
		s := start(t, scheduler.WithTasks("echo"), scheduler.WithApp("mailer", 4),
			scheduler.WithSchedule("code", scheduler.Cron("0 9 * * *"), echo.With("")))
		mustSchedule(t, s, "trap", scheduler.Cron("0 0 13 * FRI"))
		mustSchedule(t, s, "mine", scheduler.Cron("@daily"), scheduler.MaxRuns(1))
		for i := range 15 {
			mustSchedule(t, s, fmt.Sprint("hot", i), scheduler.Cron("7 4 * * *"))
		}
		const trap = "trap: warning: either-day: fires on the 13th of the month and also on Fridays, since either day field is enough; for both at once write +FRI"
		const hot = "note: hot-minute: %d schedules start in the minute of 2000-01-01 04"
		exist := []string{trap, fmt.Sprintf(hot, 15)}
		wantLines(t, "what exists", findings(t, s, dir), exist...)
		for what, c := range map[string]struct {
			file string
			want []string
		}{
			"one changes, more come": {
				"schedules:\n  - {id: trap, cron: '0 0 13 * +FRI', task: echo}\n" + atFour("more", 10), []string{
					"schedules.yaml:2:10: trap: warning: missing-days: passes over some months, where there is no such day", fmt.Sprintf(hot, 25),
				},
			},
			"of another owner, and in code too": {"owner: other\nschedules:\n  - {id: code, cron: '0 9 * * *', task: echo}\n", append([]string{
				"schedules.yaml:3:10: code: fault: refused: it would be refused", "schedules.yaml:3:10: code: fault: refused: it would be refused",
			}, exist...)},
			"of no known task":         {"schedules:\n  - {id: x, cron: '0 9 * * *', task: x}\n", append([]string{"schedules.yaml:2:10: x: fault: refused: it would be refused"}, exist...)},
			"some are taken out":       {"prune: true\ngeneration: 5\nschedules: []", exist},
			"paused as it exists":      {"schedules:\n  - {id: hot1, cron: '7 4 * * *', task: echo, paused: true}\n", exist},
			"a calendar that is not":   {"schedules:\n  - {id: x, cron: '0 9 * * *', task: echo, except: [{calendar: x}]}\n", append([]string{"schedules.yaml:2:10: x: fault: blocked: its trigger cannot be evaluated"}, exist...)},
			"a new one that is paused": {"schedules:\n  - {id: x, cron: '7 4 * * *', task: echo, paused: true}\n", exist},
		} {
			write(t, path, c.file)
			wantLines(t, what, findings(t, s, dir, scheduler.WithScheduleFile(path)), c.want...)
		}
		wantLines(t, "what exists, untouched", findings(t, s, dir), exist...)
		code := scheduler.WithSchedule("trap", scheduler.Cron("0 9 * * *"), echo.With(""))
		wantLines(t, "in code", findings(t, s, dir, code), exist[1])
	})
}

// Schedules that jitter, or have an H, are not hot: each is spread by its own ID.
func TestLint_of_what_is_spread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithTasks("echo"))
		for i := range 15 {
			mustSchedule(t, s, fmt.Sprint("jitter", i), scheduler.Cron("7 4 * * *", scheduler.Jitter(time.Hour)))
			mustSchedule(t, s, fmt.Sprint("h", i), scheduler.Cron("H 4 * * *"))
		}
		wantLines(t, "spread", findings(t, s, ""))
		loads, err := s.Forecast(t.Context(), epoch, epoch.Add(24*time.Hour))
		if err != nil || len(loads) < 10 {
			t.Errorf("forecast %+v, %v: want a minute of many and those of H", loads, err)
		}
		for i := range 15 {
			mustSchedule(t, s, fmt.Sprint("jitter", i), scheduler.Cron("7 4 * * *", scheduler.Jitter(time.Hour), scheduler.HashKey("all")))
			mustSchedule(t, s, fmt.Sprint("h", i), scheduler.Cron("H 4 * * *"))
		}
		if got := findings(t, s, ""); len(got) != 1 || !strings.HasPrefix(got[0], "note: hot-minute: 1") {
			t.Errorf("of one hash key: %q, want a hot minute", got)
		}
	})
}

func TestLint_of_another_generation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		begin := func(generation uint64, opts ...scheduler.Option) *scheduler.Scheduler {
			return start(t, append(opts, scheduler.WithDataDir(dir), scheduler.WithTasks("echo"), scheduler.WithApp("mailer", generation))...)
		}
		trap := scheduler.WithSchedule("trap", scheduler.Cron("0 0 13 * FRI"), echo.With(""))
		s := begin(5, trap)
		shutdown(t, s)
		s = begin(4)
		exists := findings(t, s, dir)
		better := scheduler.WithSchedule("trap", scheduler.Cron("0 9 * * *"), echo.With(""))
		wantLines(t, "an older one", findings(t, s, dir, better), "trap: warning: refused: it would change nothing", exists[0])
		shutdown(t, s)
		s = begin(6)
		wantLines(t, "a newer one", findings(t, s, dir, better))
		path := filepath.Join(dir, "schedules.yaml")
		write(t, path, "schedules: []")
		wantLines(t, "a file without it", findings(t, s, dir, scheduler.WithScheduleFile(path)), exists...)
		write(t, path, "prune: true\nschedules: []")
		wantLines(t, "a file that deletes it", findings(t, s, dir, scheduler.WithScheduleFile(path)))
	})
}

func TestLint_Faults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := scheduler.New()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "schedules.yaml")
		write(t, path, "schedules:\n  - {id: a, cron: '* 25 * * *', task: echo}\n  - {id: b, cron: '0 9 * * *', zone: Mars, task: echo}\n")
		_, err = s.Lint(t.Context(), scheduler.WithScheduleFile(path))
		wantErr(t, "a faulty file", err, scheduler.ErrInvalid)
		for _, want := range []string{"schedules.yaml:2:22: ", "25 is outside 0-23", "schedules.yaml:3:38: ", `zone "Mars"`} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("a faulty file: %v, want %s", err, want)
			}
		}
		_, err = s.Lint(t.Context(), nil, scheduler.WithScheduleFile(""))
		wantErr(t, "no declaration", err, scheduler.ErrInvalid)
		_, err = s.Lint(t.Context(), scheduler.WithSchedule("x", scheduler.Cron("x"), echo.With("")))
		wantErr(t, "a faulty trigger", err, scheduler.ErrInvalid)
		shutdown(t, s)
		_, err = s.Lint(t.Context())
		wantErr(t, "after Shutdown", err, scheduler.ErrClosed)
	})
}
