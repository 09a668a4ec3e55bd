package scheduler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/escapement-go/scheduler"
)

func TestRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := scheduler.NewTask[string, string]("fails", scheduler.InQueue("other"))
		s := start(t, scheduler.WithDataDir(t.TempDir()), scheduler.WithHandler(echo, echoes),
			scheduler.WithHandler(fails, func(context.Context, string) (string, error) {
				return "", scheduler.Permanent(errors.New("no"))
			}))
		names := make(map[scheduler.RunID]string)
		note := func(name string, id scheduler.RunID) { names[id] = name }
		note("old", enqueue(t, s, echo, "").ID())
		note("later", enqueue(t, s, echo, "", scheduler.In(24*time.Hour)).ID())
		time.Sleep(time.Hour) // long flushed
		note("failed", enqueue(t, s, fails, "").ID())
		time.Sleep(time.Minute)
		if err := s.Schedule(t.Context(), "sched", scheduler.Times(time.Now().Add(time.Second)), echo.With("")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second + time.Millisecond) // the scheduled run has an ID of its nominal time
		note("recent", enqueue(t, s, echo, "").ID())
		synctest.Wait() // ended, and not flushed yet

		type states = []scheduler.RunState
		for _, c := range []struct {
			name   string
			filter scheduler.RunFilter
			want   string
		}{
			{"all, the newest first", scheduler.RunFilter{}, "recent scheduled failed later old"},
			{"by task", scheduler.RunFilter{Tasks: []string{"fails", "none"}}, "failed"},
			{"by queue", scheduler.RunFilter{Queues: []string{"default"}}, "recent scheduled later old"},
			{"by state", scheduler.RunFilter{States: states{scheduler.Failed, scheduler.Scheduled}}, "failed later"},
			{"that live", scheduler.RunFilter{States: states{scheduler.Scheduled, scheduler.Ready, scheduler.Running}}, "later"},
			{"by schedule", scheduler.RunFilter{Schedule: "sched"}, "scheduled"},
			{"from a time on", scheduler.RunFilter{From: epoch.Add(time.Hour)}, "recent scheduled failed"},
			{"before a time", scheduler.RunFilter{To: epoch.Add(time.Hour)}, "later old"},
			{"in a range", scheduler.RunFilter{From: epoch.Add(time.Hour), To: epoch.Add(time.Hour + time.Minute)}, "failed"},
			{"by several", scheduler.RunFilter{Tasks: []string{"echo"}, States: states{scheduler.Succeeded}, To: epoch.Add(time.Minute)}, "old"},
			{"none", scheduler.RunFilter{Tasks: []string{"none"}}, ""},
		} {
			var got []string
			for _, r := range collect(t, s.Runs(t.Context(), c.filter)) {
				name := names[r.ID]
				if r.Schedule == "sched" {
					name = "scheduled"
				}
				got = append(got, name)
			}
			if diff := cmp.Diff(strings.Fields(c.want), got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.name, diff)
			}
		}
		for _, err := range s.Runs(t.Context(), scheduler.RunFilter{}) {
			if err != nil {
				t.Error(err)
			}
			break // leaving early is no fault
		}
	})
}

func TestGet_FromEachPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		opts := []scheduler.Option{scheduler.WithDataDir(dir), scheduler.WithHandler(echo, echoes)}
		s := start(t, opts...)
		f := enqueue(t, s, echo, "x", scheduler.Meta("k", "v"))
		if _, err := f.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := get(t, s, f.ID())
		if string(want.Result) != `"x"` || want.Meta["k"] != "v" || !want.Finished.Equal(epoch) || !want.Started.Equal(epoch) {
			t.Errorf("just ended: %+v", want)
		}
		same := func(where string) {
			t.Helper()
			if diff := cmp.Diff(want, get(t, s, f.ID()), cmp.AllowUnexported(scheduler.Run{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", where, diff)
			}
		}
		time.Sleep(time.Hour)
		same("in the history")
		shutdown(t, s)
		s = start(t, opts...)
		same("after a restart")
		if got, err := echo.Future(s, f.ID()).Wait(t.Context()); got != "x" || err != nil {
			t.Errorf("Wait after a restart: got %q, %v", got, err)
		}
	})
}

func TestExplain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handle, release := blocker()
		flaky := scheduler.NewTask[string, string]("flaky")
		s := start(t, scheduler.WithConcurrency(1), scheduler.WithHandler(block, handle), scheduler.WithTasks("nobody"),
			scheduler.WithHandler(flaky, func(context.Context, string) (string, error) { return "", errors.New("first line\nsecond") }))
		explain := func(id scheduler.RunID) string {
			e, err := s.Explain(t.Context(), id)
			if err != nil {
				return err.Error()
			}
			until := ""
			if !e.Until.IsZero() {
				until = " until " + e.Until.Sub(epoch).String()
			}
			return fmt.Sprintf("%v [%s] %s%s", e.Run.State, e.Gate, e.Reason, until)
		}
		retried := enqueue(t, s, flaky, "", exact(time.Minute, 2))
		synctest.Wait()
		running := enqueue(t, s, block, 1)
		synctest.Wait()
		busy := enqueue(t, s, block, 2)
		time.Sleep(time.Second)
		later := enqueue(t, s, block, 3, scheduler.In(time.Hour))
		nobody := enqueue(t, s, scheduler.NewTask[int, int]("nobody"), 1)
		wantLines(t, "explanations", []string{
			explain(retried.ID()), explain(running.ID()), explain(busy.ID()), explain(later.ID()), explain(nobody.ID()),
		},
			`scheduled [due] it waits for its next attempt after: first line until 1m0s`,
			`running [] attempt 1 runs since 2000-01-01T00:00:00Z`,
			`ready [worker] every worker with a handler for task "block" is busy`,
			`scheduled [due] it is not due yet until 1h0m1s`,
			`ready [handler] no live worker has a handler for task "nobody"`)
		close(release)
		if _, err := retried.Wait(t.Context()); err == nil {
			t.Error("flaky has succeeded")
		}
		if err := later.Cancel(t.Context()); err != nil {
			t.Error(err)
		}
		wantLines(t, "explanations", []string{explain(retried.ID()), explain(busy.ID()), explain(later.ID())},
			`failed [] it has failed: first line`, `succeeded [] it has succeeded`, `canceled [] it was canceled`)
		_, err := s.Explain(t.Context(), scheduler.RunID{})
		wantErr(t, "Explain of no run", err, scheduler.ErrNotFound)
	})
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		opts := []scheduler.Option{scheduler.WithDataDir(dir), scheduler.WithHandler(echo, func(_ context.Context, in string) (string, error) {
			if in == "fail" {
				return "", errors.New("no")
			}
			return "", nil
		})}
		s := start(t, opts...)
		f := enqueue(t, s, echo, "fail", exact(time.Minute, 2))
		if _, err := f.Wait(t.Context()); err == nil {
			t.Fatal("it has succeeded")
		}
		history := func() (lines []string, last uint64) {
			for _, e := range collect(t, s.Events(t.Context(), scheduler.EventFilter{Run: f.ID()})) {
				lines = append(lines, fmt.Sprintf("%v %s %v %s %d", e.Time.Sub(epoch), e.Kind, e.State, e.Outcome, e.Attempt))
				last = e.Index
			}
			return lines, last
		}
		want := []string{
			"0s enqueued scheduled  0", "0s leased running  1", "0s rescheduled scheduled failed 1",
			"1m0s leased running  2", "1m0s finished failed failed 2",
		}
		got, last := history()
		if len(got) == len(want) { // the lease is granted a moment ahead
			want[3] = strings.Replace(got[3], "59.99s", "1m0s", 1)
		}
		wantLines(t, "at once", got, append(slices.Clone(want[:3]), got[3], want[4])...)
		time.Sleep(time.Hour)
		flushed, _ := history()
		wantLines(t, "from the folder", flushed, got...)
		shutdown(t, s)
		s = start(t, opts...)
		again, _ := history()
		wantLines(t, "after a restart", again, got...)

		enqueue(t, s, echo, "ok")
		synctest.Wait()
		var kinds []string
		for _, e := range collect(t, s.Events(t.Context(), scheduler.EventFilter{After: last})) {
			kinds = append(kinds, e.Kind)
		}
		wantLines(t, "after an index", kinds, "session_opened", "enqueued", "leased", "finished")
	})
}

func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithDataDir(t.TempDir()), scheduler.WithHandler(echo, echoes))
		enqueue(t, s, echo, "")
		enqueue(t, s, echo, "", scheduler.In(time.Hour), scheduler.InQueue("q"))
		if err := s.Schedule(t.Context(), "s", scheduler.Every(24*time.Hour), echo.With("")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		got, err := s.Stats(t.Context())
		want := scheduler.Stats{
			Live: 1, Schedules: 1, History: 1,
			Queues: []scheduler.QueueStats{{Name: "default"}, {Name: "q", Waiting: 1}},
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("Stats: %v (-want +got):\n%s", err, diff)
		}
	})
}

// A run that is taken up again is no part of the history until it has ended again.
func TestStats_OfARunThatWasTakenUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := start(t, scheduler.WithDataDir(dir), scheduler.WithTasks("echo"))
		f := enqueue(t, s, echo, "")
		want := func(live int, history int64) {
			t.Helper()
			got, err := s.Stats(t.Context())
			if err != nil || got.Live != live || got.History != history {
				t.Errorf("Stats: got %d live and %d ended, %v, want %d and %d", got.Live, got.History, err, live, history)
			}
		}
		for range 3 {
			want(1, 0)
			if err := f.Cancel(t.Context()); err != nil {
				t.Fatal(err)
			}
			want(0, 1)
			if err := s.RetryNow(t.Context(), f.ID()); err != nil {
				t.Fatal(err)
			}
		}
		want(1, 0)
		shutdown(t, s)
		s = start(t, scheduler.WithDataDir(dir), scheduler.WithTasks("echo"))
		want(1, 0)
	})
}

func TestBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithDataDir(t.TempDir()), scheduler.WithHandler(echo, echoes))
		enqueue(t, s, echo, "")
		var whole, cut bytes.Buffer
		if err := s.Backup(t.Context(), &whole); err != nil || whole.Len() == 0 {
			t.Errorf("Backup: %d bytes, %v", whole.Len(), err)
		}
		if err := s.Backup(t.Context(), &failing{w: &cut, left: whole.Len() / 2}); !errors.Is(err, errFull) {
			t.Errorf("Backup to a writer that fails: %v", err)
		}
		if _, err := enqueue(t, s, echo, "").Wait(t.Context()); err != nil {
			t.Errorf("after a failed backup: %v", err)
		}
	})
}

var errFull = errors.New("no room")

// failing is a writer that fails after some bytes.
type failing struct {
	w    *bytes.Buffer
	left int
}

func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errFull
	}
	return f.w.Write(b)
}

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(t, scheduler.WithNodeID("one"))
		if h := s.Health(t.Context()); h.OK || h.Role != "stopped" || h.Node != "one" || len(h.Reasons) != 1 {
			t.Errorf("before Start: %+v", h)
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		h := s.Health(t.Context())
		if !h.OK || h.Role != "leader" || h.Leader != "one" || !h.Volatile || h.Applied == 0 || len(h.Reasons) != 0 {
			t.Errorf("running: %+v", h)
		}
		shutdown(t, s)
		if h := s.Health(t.Context()); h.OK || h.Role != "stopped" {
			t.Errorf("after Shutdown: %+v", h)
		}
	})
}
