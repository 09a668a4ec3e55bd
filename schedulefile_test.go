package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
)

// write writes a file of schedules; each call has another modification time.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, time.Now()); err != nil {
		t.Fatal(err)
	}
}

// listed returns the schedules as lines.
func listed(t *testing.T, s *scheduler.Scheduler) (lines []string) {
	t.Helper()
	for _, sc := range collect(t, s.Schedules(t.Context())) {
		lines = append(lines, fmt.Sprintf("%s v%d %s", sc.ID, sc.Version, sc.Trigger.Describe()))
	}
	return lines
}

const (
	dailyA  = "schedules:\n  - {id: a, cron: '@daily', task: echo, input: x}\n"
	hourlyB = "  - {id: b, cron: '@hourly', task: echo, input: y}\n"
)

func TestWithScheduleFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "schedules.yaml")
		write(t, path, dailyA+hourlyB)
		var notes journal
		s := start(t, beat(&notes), scheduler.WithApp("mailer", 1), scheduler.WithScheduleFile(path))
		const a, b = "a v1 at 00:00 every day", "b v1 every hour"
		wantLines(t, "at the start", listed(t, s), a, b)
		fault := func(want string) {
			t.Helper()
			h := s.Health(t.Context())
			if got := strings.Join(h.Reasons, "; "); !h.OK || !strings.Contains(got, want) || want == "" && got != "" {
				t.Errorf("health %v, %q; want %q", h.OK, got, want)
			}
		}
		change := func(text string) {
			t.Helper()
			time.Sleep(time.Second)
			write(t, path, text)
			time.Sleep(3 * time.Second)
		}
		change("schedules:\n  - {id: a, cron: '@daily', task: echo, input: z}\n" + hourlyB)
		wantLines(t, "one has changed", listed(t, s), "a v2 at 00:00 every day", b)
		fault("")
		for text, want := range map[string]string{
			"schedules: [": "schedules.yaml:",
			dailyA + "  - {id: c, cron: '* 25 * * *', task: echo}\n":                                "schedules.yaml:3:22: scheduler: invalid: ",
			dailyA + "  - {id: c, cron: '@daily', task: none}\n":                                    `schedules.yaml:3:10: schedule "c": unknown task "none"`,
			dailyA + "  - {id: c, task: echo}\n":                                                    "schedules.yaml:3:5: want one of cron, every, after, times and custom",
			dailyA + "  - {id: a, cron: '@daily', task: echo}\n":                                    `schedules.yaml:3:10: schedule "a": declared twice: it is in `,
			dailyA + "  - {id: c, cron: '@daily', task: echo, overlap: queue(0)}\n":                 `schedules.yaml:3:50: overlap policy "queue(0)"`,
			dailyA + "  - {id: c, cron: '@daily', task: echo, except: [{calendar: none}]}\n":        `schedules.yaml:3:10: schedule "c": scheduler: invalid: unknown calendar "none"`,
			dailyA + "  - {id: c, cron: '@daily', task: echo, zone: Atlantis/Town}\n":               "schedules.yaml:3:47: scheduler: invalid: ",
			dailyA + "  - {id: c, cron: '@daily', task: echo, catch_up: none, catch_up_count: 1}\n": "schedules.yaml:3:51: catch-up count 1",
			dailyA + "  - {id: c, cron: '@daily', task: echo, timeout: 1s, priority: urgent}\n":     `schedules.yaml:3:64: priority "urgent"`,
			dailyA + "  - {id: c, cron: '@daily', task: echo, input: {n: 1}}\n":                     `schedules.yaml:3:48: input of task "echo"`,
			dailyA + "  - {id: c, cron: '@daily', task: echo, dst: sometimes}\n":                    `schedules.yaml:3:46: policy "sometimes"`,
		} {
			change(text)
			wantLines(t, "after a fault", listed(t, s), "a v2 at 00:00 every day", b)
			fault(want)
		}
		change(dailyA) // b is not in it, and stays
		wantLines(t, "without prune", listed(t, s), "a v3 at 00:00 every day", b)
		fault("")
		mustSchedule(t, s, "by hand", scheduler.Cron("@yearly"))
		change("prune: true\n" + dailyA)
		wantLines(t, "pruned", listed(t, s), "a v3 at 00:00 every day", "by hand v1 at 00:00 on the 1st of January")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		wantLines(t, "the file is gone", listed(t, s), "a v3 at 00:00 every day", "by hand v1 at 00:00 on the 1st of January")
		fault("no such file")
		time.Sleep(25 * time.Hour)
		if got := notes.take(); len(got) != 1 { // of a: b was deleted within its first hour
			t.Errorf("starts %q", got)
		}
	})
}

func TestWithScheduleFile_prunes_nothing_that_is_in_code(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "schedules.yaml")
		write(t, path, "prune: true\n"+dailyA)
		s := start(t, scheduler.WithTasks("echo"), scheduler.WithApp("mailer", 1), scheduler.WithScheduleFile(path),
			scheduler.WithSchedule("in code", scheduler.Cron("@yearly"), echo.With("")))
		time.Sleep(3 * time.Second)
		wantLines(t, "schedules", listed(t, s), "a v1 at 00:00 every day", "in code v1 at 00:00 on the 1st of January")
	})
}

func TestWithScheduleFile_applies_all_or_nothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "schedules.yaml")
		write(t, path, dailyA+"  - {id: never, cron: '0 0 30 2 *', task: echo}\n")
		s := start(t, scheduler.WithTasks("echo"), scheduler.WithScheduleFile(path))
		time.Sleep(3 * time.Second)
		wantLines(t, "with one that never fires", listed(t, s))
		if h := s.Health(t.Context()); !strings.Contains(strings.Join(h.Reasons, ";"), ":3:") {
			t.Errorf("health: %q, want the line of the fault", h.Reasons)
		}

		// What a file names may come to be later.
		write(t, path, dailyA+"  - {id: work, cron: '@daily', task: echo, except: [{calendar: holidays}]}\n")
		time.Sleep(3 * time.Second)
		wantLines(t, "without its calendar", listed(t, s))
		if err := s.SetCalendar(t.Context(), "holidays", scheduler.Days("2000-01-02")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if got := listed(t, s); len(got) != 2 {
			t.Errorf("with its calendar: %q", got)
		}
	})
}

func TestWithScheduleFile_Folder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, data := t.TempDir(), t.TempDir()
		write(t, filepath.Join(dir, "a.yaml"), dailyA)
		write(t, filepath.Join(dir, "b.json"), `{"schedules": [{"id": "b", "every": "90s", "task": "echo", "input": {"n": 1}}]}`)
		write(t, filepath.Join(dir, "notes.txt"), "nonsense")
		opts := []scheduler.Option{scheduler.WithDataDir(data), scheduler.WithTasks("echo")}
		s := start(t, append(opts, scheduler.WithApp("mailer", 2), scheduler.WithScheduleFile(dir))...)
		want := []string{"a v1 at 00:00 every day", "b v1 every 1m30s"}
		wantLines(t, "of both files", listed(t, s), want...)
		write(t, filepath.Join(dir, "c.yml"), "prune: true\nschedules:\n  - {id: c, after: 1m, task: echo}\n")
		if err := os.Remove(filepath.Join(dir, "b.json")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		want = []string{"a v1 at 00:00 every day", "c v1 1m after the run before has ended"}
		wantLines(t, "a file more and one less", listed(t, s), want...)
		shutdown(t, s)

		// An older release that comes back takes nothing back; another owner takes nothing.
		write(t, filepath.Join(dir, "c.yml"), "prune: true\nschedules: []\n")
		write(t, filepath.Join(dir, "a.yaml"), "schedules:\n  - {id: a, cron: '@hourly', task: echo}\n")
		s = start(t, append(opts, scheduler.WithApp("mailer", 1), scheduler.WithScheduleFile(dir))...)
		wantLines(t, "an older release", listed(t, s), want...)
		shutdown(t, s)
		s = start(t, append(opts, scheduler.WithApp("other", 9), scheduler.WithScheduleFile(dir))...)
		wantLines(t, "another owner", listed(t, s), want...)
		if h := s.Health(t.Context()); len(h.Reasons) != 1 || !strings.Contains(h.Reasons[0], `a.yaml:2:10: schedule "a": it is declared by "mailer"`) {
			t.Errorf("health: %q", h.Reasons)
		}
	})
	_, err := scheduler.New(scheduler.WithScheduleFile(""))
	wantErr(t, "no path", err, scheduler.ErrInvalid)
	_, err = scheduler.New(scheduler.WithScheduleFile("a"), scheduler.WithScheduleFile("b"))
	wantErr(t, "two paths", err, scheduler.ErrDuplicate)
}

func TestWithScheduleFile_Calendars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path, holidays := filepath.Join(dir, "schedules.yaml"), filepath.Join(dir, "holidays.ics")
		holiday := func(minute string) string {
			return "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:1\r\nDTSTAMP:20000101T000000Z\r\n" +
				"DTSTART:20000101T00" + minute + "00Z\r\nDURATION:PT1M\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
		}
		entry := func(except string) string {
			return "schedules:\n  - {id: a, cron: '* * * * *', task: echo, except: [" + except + "]}\n"
		}
		write(t, holidays, holiday("02"))
		write(t, path, entry("{ics: holidays.ics}, {from: 2000-01-01T00:03:00Z, to: 2000-01-01T00:05:00Z}"))
		var notes journal
		s := start(t, scheduler.WithScheduleFile(path), beat(&notes))
		time.Sleep(6*time.Minute + time.Second)
		wantLines(t, "starts", notes.take(), "1m0s", "5m0s", "6m0s")
		write(t, holidays, holiday("08")) // the file of schedules itself is left alone
		time.Sleep(3 * time.Minute)
		wantLines(t, "starts", notes.take(), "7m0s", "9m0s")
		const forms = ":2:53: want one of days, calendar, window with length, from with to, and ics"
		for text, want := range map[string]string{
			"{ics: none.ics}":                   "none.ics: no such file",
			"{ics: schedules.yaml}":             ":2:53: scheduler: invalid: ",
			"{from: 2000-01-03T00:00:00Z}":      ":2:53: scheduler: time 0001-01-01",
			"{days: [2000-01-01], calendar: x}": forms,
			"{window: 0 0 * * *}":               ":2:53: scheduler: ",
			"{length: 1h}":                      forms,
			"{from: yesterday, to: never}":      `:2:60: "yesterday" is not a time`,
			"{}":                                forms,
			"{ics: holidays.ics, window: '@daily', length: 1h}": forms,
		} {
			write(t, path, entry(text))
			time.Sleep(3 * time.Second)
			wantReason(t, s, want)
		}
	})
}

func TestWithScheduleFile_Custom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "schedules.json")
		write(t, path, `{"schedules": [{"id": "s", "custom": {"name": "each", "params": {"Every": 90000000000}}, "task": "echo"}]}`)
		var notes journal
		s := start(t, beat(&notes), scheduler.WithTrigger("each", each), scheduler.WithScheduleFile(path))
		time.Sleep(200 * time.Second)
		wantLines(t, "starts", notes.take(), "1m30s", "3m0s")
		write(t, path, `{"schedules": [{"id": "s", "custom": {"name": "none"}, "task": "echo"}]}`)
		time.Sleep(3 * time.Second)
		wantReason(t, s, `schedules.json:1:24: schedule "s": invalid: trigger "none": no node that can be asked has it`)
		write(t, path, `{"schedules": [{"id": "s", "custom": {"name": "each", "params": 1}, "task": "echo"}]}`)
		time.Sleep(3 * time.Second)
		wantReason(t, s, `want a period`)
	})
}

// A trial that a file asks for is made once: neither a change of the file elsewhere nor a
// restart begins it anew.
func TestWithScheduleFile_Canary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "schedules.yaml")
		opts := []scheduler.Option{scheduler.WithDataDir(t.TempDir()), scheduler.WithScheduleFile(path), scheduler.WithHandler(echo,
			func(_ context.Context, in string) (string, error) {
				if in == "bad" {
					return "", scheduler.Permanent(errors.New("bad"))
				}
				return "", nil
			})}
		entry := func(input, more string) string {
			return "schedules:\n  - {id: s, cron: '* * * * *', task: echo, input: " + input + ", canary: {share: 1, runs: 3}}\n" + more
		}
		write(t, path, entry("good", ""))
		s := start(t, opts...)
		state := func(what string, version, trial int) {
			t.Helper()
			if sc := schedule(t, s, "s"); sc.Version != version || sc.Trial != trial {
				t.Errorf("%s: version %d, trial %d; want %d and %d", what, sc.Version, sc.Trial, version, trial)
			}
		}
		change := func(text string) {
			write(t, path, text)
			time.Sleep(3 * time.Second)
		}
		state("a new schedule", 1, 0)
		change(entry("better", ""))
		state("a change", 1, 2)
		change(entry("better", hourlyB))
		state("a change elsewhere", 1, 2)
		shutdown(t, s)
		s = start(t, opts...)
		state("a restart", 1, 2)
		time.Sleep(4 * time.Minute)
		state("after three runs", 2, 0)
		change(entry("better", ""))
		state("what has taken over", 2, 0)
		change(entry("bad", ""))
		state("another change", 2, 3)
		time.Sleep(2 * time.Minute)
		state("one that fails", 2, 0)
		change(entry("bad", hourlyB))
		shutdown(t, s)
		s = start(t, opts...)
		state("what was reverted", 2, 0)
		wantReason(t, s, "")
		change(entry("best", ""))
		state("a further change", 2, 4)
		change(strings.ReplaceAll(entry("bad", ""), "'* * * * *'", "'@hourly'"))
		wantReason(t, s, `schedules.yaml:2:10: schedule "s": invalid: a trial changes what runs, not when`)
	})
}

func TestWithScheduleFile_Owners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "a.yaml"), "owner: mail\n"+dailyA)
		write(t, filepath.Join(dir, "b.yaml"), "schedules:\n"+hourlyB) // goes with the other
		s := start(t, scheduler.WithTasks("echo"), scheduler.WithScheduleFile(dir),
			scheduler.WithSchedule("in code", scheduler.Cron("@yearly"), echo.With("")))
		wantReason(t, s, "")
		want := listed(t, s)
		write(t, filepath.Join(dir, "c.yaml"), "prune: true\nowner: ops\nschedules: []\n")
		time.Sleep(3 * time.Second)
		wantReason(t, s, `c.yaml:2:8: owner "ops": it is "mail" in `)
		write(t, filepath.Join(dir, "c.yaml"), "prune: true\nschedules:\n  - {id: in code, cron: '@daily', task: echo}\n")
		time.Sleep(3 * time.Second)
		wantReason(t, s, `c.yaml:3:10: schedule "in code": declared twice: WithSchedule declares it too`)
		wantLines(t, "after faults", listed(t, s), want...)
	})
}

// A folder whose files are swapped by a link, as a ConfigMap's are, has changed though no
// size and no time did.
func TestWithScheduleFile_Links(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		at := time.Now()
		version := func(name, cron string) {
			folder := filepath.Join(dir, name)
			if err := os.Mkdir(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(folder, "s.yaml"), "schedules:\n  - {id: s, cron: '"+cron+"', task: echo}\n")
			if err := os.Chtimes(filepath.Join(folder, "s.yaml"), at, at); err != nil {
				t.Fatal(err)
			}
			link := filepath.Join(dir, "..new")
			if err := errors.Join(os.Symlink(name, link), os.Rename(link, filepath.Join(dir, "..data"))); err != nil {
				t.Fatal(err)
			}
		}
		version("..1", "0 1 * * *")
		if err := os.Symlink(filepath.Join("..data", "s.yaml"), filepath.Join(dir, "s.yaml")); err != nil {
			t.Fatal(err)
		}
		s := start(t, scheduler.WithTasks("echo"), scheduler.WithScheduleFile(dir))
		wantLines(t, "at first", listed(t, s), "s v1 at 01:00 every day")
		time.Sleep(5 * time.Second)
		version("..2", "0 2 * * *")
		time.Sleep(3 * time.Second)
		wantLines(t, "swapped", listed(t, s), "s v2 at 02:00 every day")
	})
}
