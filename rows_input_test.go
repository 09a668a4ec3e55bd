package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler"
)

// These tests named TestFieldBugN (see rows_test.go) are the ones about what is
// handed in: zones, inputs, errors and names.

// lines is a log that keeps what it is told.
type lines struct {
	mu sync.Mutex // guards b
	b  strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var _ io.Writer = (*lines)(nil)

// Zones come with the library, one that is unknown is refused, and a schedule
// whose zone this build does not know stands still, is reported, and stops nobody.
func TestFieldBug19_UnknownZone(t *testing.T) {
	if _, err := scheduler.Cron("0 9 * * *", scheduler.Zone("Europe/Isle_of_Man")).Next(epoch, 1); err != nil {
		t.Errorf("Europe/Isle_of_Man: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := start(t, scheduler.WithDataDir(dir), scheduler.WithTasks("echo"))
		for i := range 99 {
			mustSchedule(t, s, fmt.Sprintf("good %d", i), scheduler.Cron("0 * * * *", scheduler.Zone("Europe/Paris")))
		}
		if err := scheduler.ScheduleUnchecked(t.Context(), s, "odd", "0 * * * *", "Mars/Olympus_Mons", epoch.Add(time.Hour), echo.With("odd")); err != nil {
			t.Fatal(err)
		}
		shutdown(t, s)

		var log lines
		done := make(map[string]int)
		s = start(t, scheduler.WithDataDir(dir), scheduler.WithConcurrency(1), scheduler.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
			scheduler.WithHandler(echo, func(_ context.Context, in string) (string, error) {
				done[in]++
				return "", nil
			}))
		time.Sleep(2*time.Hour + time.Minute)
		synctest.Wait()
		if len(done) != 99 || done["good 0"] != 2 || done["odd"] != 0 {
			t.Errorf("%d schedules ran, good 0 %d times, odd %d times", len(done), done["good 0"], done["odd"])
		}
		if got := log.String(); !strings.Contains(got, "schedule_id=odd") || !strings.Contains(got, "Mars/Olympus_Mons") {
			t.Errorf("it is not reported:\n%s", got)
		}
		if n := strings.Count(log.String(), "schedule_id=odd"); n > 5 {
			t.Errorf("it is reported %d times", n)
		}
		if n := len(collect(t, s.Schedules(t.Context()))); n != 100 {
			t.Errorf("%d schedules are listed", n)
		}
		mustSchedule(t, s, "odd", scheduler.Cron("0 * * * *")) // mended
		time.Sleep(time.Hour)
		synctest.Wait()
		if done["odd"] != 1 {
			t.Errorf("after it was mended: %d runs", done["odd"])
		}
	})
}

// Texts of errors are cut, with a mark; inputs over the limit are refused.
func TestFieldBug20_HugePayloads(t *testing.T) {
	for _, size := range []int{2 << 10, 1 << 20, 64 << 20} {
		t.Run(fmt.Sprintf("error of %d KiB", size>>10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				run, starts, err := attempts(t, func(_ context.Context, n int) error {
					if n == 1 {
						return errors.New(strings.Repeat("ü", size/2))
					}
					return nil
				}, exact(time.Second, 2))
				if err != nil || len(starts) != 2 {
					t.Fatalf("%d attempts, %v", len(starts), err)
				}
				text := run.Attempts[0].Error
				const limit = 8 << 10
				if len(text) > limit || size > limit != strings.HasSuffix(text, fmt.Sprintf("[cut: %d bytes in all]", size)) {
					t.Errorf("text of %d bytes, ends in %q", len(text), text[max(0, len(text)-40):])
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithHandler(echo, echoes))
		const limit = scheduler.DefaultMaxPayload
		got, err := enqueue(t, s, echo, strings.Repeat("x", limit-2)).Wait(t.Context())
		if err != nil || len(got) != limit-2 {
			t.Errorf("at the limit: %d bytes, %v", len(got), err)
		}
		for _, n := range []int{limit - 1, 100 * limit} {
			_, err := echo.Enqueue(t.Context(), s, strings.Repeat("x", n))
			wantErr(t, fmt.Sprintf("%d bytes", n), err, scheduler.ErrPayloadTooLarge)
		}
		if got, err := enqueue(t, s, echo, "after").Wait(t.Context()); got != "after" || err != nil {
			t.Errorf("after the refusals: %q, %v", got, err)
		}
	})
}

// A name is taken as it is and found again under exactly that name, or refused.
func TestFieldBug21_SpecialNames(t *testing.T) {
	names := []string{
		".", "..", "a/b", "a b", " ", "#x", "%00", "🗓", "שלום", "jobs", "all", "1am", "Case", "case", "é", "e\u0301",
		"\u202eright to left", strings.Repeat("x", 255),
	}
	refused := []string{"", "a\nb", "\x00", "\x7f", "\xff\xfe", strings.Repeat("x", 256), strings.Repeat("x", 10<<10)}
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		opts := []scheduler.Option{scheduler.WithDataDir(dir)}
		done := make(map[string]int)
		var mu sync.Mutex
		for _, name := range names {
			opts = append(opts, scheduler.WithHandler(scheduler.NewTask[string, string](name), func(_ context.Context, in string) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				done[name+"|"+in]++
				return name, nil
			}))
		}
		s := start(t, opts...)
		for _, name := range names {
			task := scheduler.NewTask[string, string](name)
			f := enqueue(t, s, task, "call", scheduler.InQueue(name), scheduler.Unique(name), scheduler.Meta(name, name), scheduler.ForTenant(name))
			if got, err := f.Wait(t.Context()); got != name || err != nil {
				t.Errorf("task %q: got %q, %v", name, got, err)
			}
			r := get(t, s, f.ID())
			if r.Task != name || r.Queue != name || r.UniqueKey != name || r.Meta[name] != name || r.Tenant != name {
				t.Errorf("names of %q: %+v", name, r)
			}
			if err := s.Schedule(t.Context(), name, scheduler.Times(epoch.Add(time.Hour)), task.With("tick")); err != nil {
				t.Errorf("schedule %q: %v", name, err)
			}
		}
		shutdown(t, s)
		s = start(t, opts...)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		for _, name := range names {
			if done[name+"|call"] != 1 || done[name+"|tick"] != 1 {
				t.Errorf("%q: %d calls and %d ticks", name, done[name+"|call"], done[name+"|tick"])
			}
			if n := len(collect(t, s.Runs(t.Context(), scheduler.RunFilter{Tasks: []string{name}, Queues: []string{name}}))); n != 1 {
				t.Errorf("%q: %d runs are found", name, n)
			}
			if n := len(collect(t, s.Runs(t.Context(), scheduler.RunFilter{Schedule: name}))); n != 1 {
				t.Errorf("%q: %d runs of the schedule are found", name, n)
			}
			if n := len(collect(t, s.Ticks(t.Context(), name, epoch, epoch.Add(24*time.Hour)))); n != 1 {
				t.Errorf("%q: %d ticks", name, n)
			}
			before := len(collect(t, s.Schedules(t.Context())))
			if err := s.DeleteSchedule(t.Context(), name); err != nil {
				t.Errorf("delete %q: %v", name, err)
			}
			if n := len(collect(t, s.Schedules(t.Context()))); n != before-1 {
				t.Errorf("deleting %q: %d schedules of %d are left", name, n, before)
			}
		}
		task := scheduler.NewTask[string, string]("all")
		for _, name := range refused {
			for what, err := range map[string]error{
				"schedule": s.Schedule(t.Context(), name, scheduler.Every(time.Hour), task.With("")),
				"pause":    s.PauseQueue(t.Context(), name),
				"queue":    second(task.Enqueue(t.Context(), s, "", scheduler.InQueue(name))),
				"unique":   second(task.Enqueue(t.Context(), s, "", scheduler.Unique(name))),
				"meta":     second(task.Enqueue(t.Context(), s, "", scheduler.Meta(name, ""))),
				"task":     second(scheduler.NewTask[string, string](name).Enqueue(t.Context(), s, "")),
			} {
				wantErr(t, fmt.Sprintf("%s %.20q", what, name), err, scheduler.ErrInvalid)
			}
		}
		if diff := cmp.Diff(0, live(t, s)); diff != "" {
			t.Errorf("live runs (-want +got):\n%s", diff)
		}
	})
}

func second[T any](_ T, err error) error { return err }
