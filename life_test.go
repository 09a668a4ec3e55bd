package scheduler_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
)

func TestNew_ReportsAllFaultsAtOnce(t *testing.T) {
	bad := scheduler.NewTask[string, string]("")
	_, err := scheduler.New(
		scheduler.WithDataDir(""),
		scheduler.WithNodeID("a\nb"),
		scheduler.WithConcurrency(-1),
		scheduler.WithMaxPayload(0),
		scheduler.WithDrainTimeout(-time.Second),
		scheduler.WithRetention(scheduler.Retention{MaxRuns: -1}),
		scheduler.WithLogger(nil),
		scheduler.WithTasks("ok", "\xff"),
		scheduler.WithQueue(strings.Repeat("q", 256)),
		scheduler.WithApp("", 1),
		scheduler.WithHandler(bad, echoes),
		scheduler.WithHandler[string, string](echo, nil),
		scheduler.WithHandler(scheduler.Task[string, string]{}, echoes),
		scheduler.WithSchedule("s", scheduler.Cron("61 * * * *"), echo.With("")),
		nil,
	)
	wantErr(t, "New", err, scheduler.ErrInvalid)
	if _, ok := errors.AsType[*scheduler.SyntaxError](err); !ok {
		t.Error("the cron expression's fault is not among them")
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("not joined: %v", err)
	}
	if got := len(joined.Unwrap()); got != 15 {
		t.Errorf("%d faults, want 15:\n%v", got, err)
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !strings.HasPrefix(line, "scheduler: ") {
			t.Errorf("fault does not say where it is from: %s", line)
		}
	}
}

func TestNew_Duplicates(t *testing.T) {
	_, err := scheduler.New(
		scheduler.WithHandler(echo, echoes), scheduler.WithHandler(echo, echoes),
		scheduler.WithQueue("q"), scheduler.WithQueue("q"),
		scheduler.WithSchedule("s", scheduler.Every(time.Hour), echo.With("")),
		scheduler.WithSchedule("s", scheduler.Every(time.Hour), echo.With("")),
	)
	wantErr(t, "New", err, scheduler.ErrDuplicate)
	for _, what := range []string{`task "echo"`, `queue "q"`, `schedule "s"`} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s is not named in:\n%v", what, err)
		}
	}
}

// badCalls are calls that can never be accepted.
func badCalls() map[string]scheduler.Call {
	return map[string]scheduler.Call{
		"zero Call":           {},
		"zero Task":           scheduler.Task[int, int]{}.With(1),
		"empty task name":     scheduler.NewTask[int, int]("").With(1),
		"control character":   scheduler.NewTask[int, int]("a\x00b").With(1),
		"invalid UTF-8":       scheduler.NewTask[int, int]("a\xffb").With(1),
		"name of 256 bytes":   scheduler.NewTask[int, int](strings.Repeat("x", 256)).With(1),
		"input without JSON":  scheduler.NewTask[func(), int]("f").With(func() {}),
		"nil option":          echo.With("", nil),
		"negative timeout":    echo.With("", scheduler.Timeout(-1)),
		"zero timeout":        echo.With("", scheduler.Timeout(0)),
		"zero expiry":         echo.With("", scheduler.ExpireAfter(0)),
		"zero unique window":  echo.With("", scheduler.Unique("k"), scheduler.UniqueFor(0)),
		"empty unique key":    echo.With("", scheduler.Unique("")),
		"empty queue":         echo.With("", scheduler.InQueue("")),
		"empty tenant":        echo.With("", scheduler.ForTenant("")),
		"empty meta key":      echo.With("", scheduler.Meta("", "v")),
		"class above all":     echo.With("", scheduler.Priority(scheduler.Critical+1)),
		"zero time":           echo.With("", scheduler.At(time.Time{})),
		"time beyond int64":   echo.With("", scheduler.At(time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC))),
		"zero ID":             echo.With("", scheduler.WithID(scheduler.RunID{})),
		"negative backoff":    echo.With("", scheduler.Retry(scheduler.Backoff{Initial: -1})),
		"shrinking backoff":   echo.With("", scheduler.Retry(scheduler.Backoff{Factor: 0.5})),
		"jitter above 1":      echo.With("", scheduler.Retry(scheduler.Backoff{Jitter: 1.5})),
		"default of the task": scheduler.NewTask[int, int]("t", scheduler.Timeout(-1)).With(1),
	}
}

func TestEnqueue_BadInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithTasks("echo", "f", "t"))
		for name, call := range badCalls() {
			_, err := s.Enqueue(t.Context(), call)
			wantErr(t, name, err, scheduler.ErrInvalid)
			wantErr(t, name+" in a schedule", s.Schedule(t.Context(), "s", scheduler.Every(time.Hour), call), scheduler.ErrInvalid)
		}
		if n := live(t, s); n != 0 {
			t.Errorf("%d runs are there", n)
		}
		if got := collect(t, s.Schedules(t.Context())); len(got) != 0 {
			t.Errorf("schedules are there: %v", got)
		}
	})
}

func TestEnqueue_PayloadLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithTasks("echo"), scheduler.WithMaxPayload(100))
		enqueue(t, s, echo, strings.Repeat("x", 98))
		for _, n := range []int{99, 10_000} {
			_, err := echo.Enqueue(t.Context(), s, strings.Repeat("x", n))
			wantErr(t, "input above the limit", err, scheduler.ErrPayloadTooLarge)
			err = s.Schedule(t.Context(), "s", scheduler.Every(time.Hour), echo.With(strings.Repeat("x", n)))
			wantErr(t, "of a schedule", err, scheduler.ErrPayloadTooLarge)
		}
		_, err := scheduler.New(scheduler.WithMaxPayload(100), scheduler.WithTasks("echo"),
			scheduler.WithSchedule("s", scheduler.Every(time.Hour), echo.With(strings.Repeat("x", 99))))
		wantErr(t, "WithSchedule", err, scheduler.ErrPayloadTooLarge)
		_, err = scheduler.New(scheduler.WithTasks("echo"), // options come in any order
			scheduler.WithSchedule("s", scheduler.Every(time.Hour), echo.With(strings.Repeat("x", 99))), scheduler.WithMaxPayload(100))
		wantErr(t, "WithSchedule before WithMaxPayload", err, scheduler.ErrPayloadTooLarge)
		if n := live(t, s); n != 1 {
			t.Errorf("%d runs, want 1", n)
		}
	})
}

// everyCall is a call of each method that needs a running scheduler.
func everyCall(ctx context.Context, s *scheduler.Scheduler) map[string]func() error {
	id, _ := scheduler.ParseRunID("018cc251-f400-7000-8000-000000000001")
	return map[string]func() error{
		"Enqueue":        func() error { _, err := echo.Enqueue(ctx, s, ""); return err },
		"EnqueueMany":    func() error { _, err := echo.EnqueueMany(ctx, s, []string{""}); return err },
		"Await":          func() error { _, err := s.Await(ctx, id); return err },
		"Get":            func() error { _, err := s.Get(ctx, id); return err },
		"Cancel":         func() error { return s.Cancel(ctx, id) },
		"RetryNow":       func() error { return s.RetryNow(ctx, id) },
		"Explain":        func() error { _, err := s.Explain(ctx, id); return err },
		"Stats":          func() error { _, err := s.Stats(ctx); return err },
		"Backup":         func() error { return s.Backup(ctx, new(strings.Builder)) },
		"PauseQueue":     func() error { return s.PauseQueue(ctx, "q") },
		"ResumeQueue":    func() error { return s.ResumeQueue(ctx, "q") },
		"Schedule":       func() error { return s.Schedule(ctx, "s", scheduler.Every(time.Hour), echo.With("")) },
		"PauseSchedule":  func() error { return s.PauseSchedule(ctx, "s") },
		"ResumeSchedule": func() error { return s.ResumeSchedule(ctx, "s") },
		"DeleteSchedule": func() error { return s.DeleteSchedule(ctx, "s") },
		"Runs": func() error {
			for _, err := range s.Runs(ctx, scheduler.RunFilter{}) {
				return err
			}
			return nil
		},
		"Events": func() error {
			for _, err := range s.Events(ctx, scheduler.EventFilter{}) {
				return err
			}
			return nil
		},
		"Schedules": func() error {
			for _, err := range s.Schedules(ctx) {
				return err
			}
			return nil
		},
		"Ticks": func() error {
			for _, err := range s.Ticks(ctx, "s", epoch, epoch.Add(time.Hour)) {
				return err
			}
			return nil
		},
	}
}

func TestScheduler_Closed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(t, scheduler.WithTasks("echo"))
		for name, call := range everyCall(t.Context(), s) {
			wantErr(t, name+" before Start", call(), scheduler.ErrClosed)
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		shutdown(t, s)
		shutdown(t, s) // again
		for name, call := range everyCall(t.Context(), s) {
			wantErr(t, name+" after Shutdown", call(), scheduler.ErrClosed)
		}
		wantErr(t, "Start after Shutdown", s.Start(t.Context()), scheduler.ErrClosed)
	})
}

func TestShutdown_BeforeStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(t)
		shutdown(t, s)
		wantErr(t, "Start", s.Start(t.Context()), scheduler.ErrClosed)
	})
}

func TestStart_Twice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithHandler(echo, echoes))
		wantErr(t, "a second Start", s.Start(t.Context()), scheduler.ErrClosed)
		if _, err := enqueue(t, s, echo, "").Wait(t.Context()); err != nil {
			t.Errorf("the second Start has harmed the first: %v", err)
		}
	})
}

func TestStart_Ready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(t)
		select {
		case <-s.Ready():
			t.Error("ready before Start")
		default:
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-s.Ready()
		shutdown(t, s)
	})
}

func TestStart_ContextEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		dir := t.TempDir()
		s := newScheduler(t, scheduler.WithDataDir(dir))
		wantErr(t, "Start", s.Start(ctx), context.Canceled)
		shutdown(t, s)
		shutdown(t, start(t, scheduler.WithDataDir(dir))) // the folder was let go
	})
}

func TestStart_Folder(t *testing.T) {
	t.Run("in use", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			first := start(t, scheduler.WithDataDir(dir), scheduler.WithHandler(echo, echoes))
			second := newScheduler(t, scheduler.WithDataDir(dir))
			wantErr(t, "Start", second.Start(t.Context()), scheduler.ErrInUse)
			if _, err := enqueue(t, first, echo, "").Wait(t.Context()); err != nil {
				t.Errorf("the second has harmed the first: %v", err)
			}
			shutdown(t, first)
			shutdown(t, start(t, scheduler.WithDataDir(dir)))
		})
	})
	t.Run("of another node", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			shutdown(t, start(t, scheduler.WithDataDir(dir), scheduler.WithNodeID("a")))
			s := newScheduler(t, scheduler.WithDataDir(dir), scheduler.WithNodeID("b"))
			wantErr(t, "Start", s.Start(t.Context()), scheduler.ErrInvalid)
			shutdown(t, start(t, scheduler.WithDataDir(dir), scheduler.WithNodeID("a")))
		})
	})
	t.Run("is a file", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			s := newScheduler(t, scheduler.WithDataDir(path))
			var pathErr *os.PathError
			if err := s.Start(t.Context()); !errors.As(err, &pathErr) {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("not writable", func(t *testing.T) {
		if os.Getuid() == 0 {
			t.Skip("root may write everywhere")
		}
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Chmod(dir, 0o500); err != nil { //nolint:gosec // not writable is the case
				t.Fatal(err)
			}
			s := newScheduler(t, scheduler.WithDataDir(filepath.Join(dir, "data")))
			wantErr(t, "Start", s.Start(t.Context()), os.ErrPermission)
		})
	})
	t.Run("damaged", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			s := start(t, scheduler.WithDataDir(dir), scheduler.WithTasks("echo"))
			enqueue(t, s, echo, "")
			shutdown(t, s)
			path := filepath.Join(dir, "state.db")
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, data[:len(data)/2], 0o600); err != nil {
				t.Fatal(err)
			}
			s = newScheduler(t, scheduler.WithDataDir(dir))
			wantErr(t, "Start", s.Start(t.Context()), scheduler.ErrCorrupt)
		})
	})
}

func TestShutdown_Drain(t *testing.T) {
	t.Run("lets handlers finish", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			var child scheduler.RunID
			var s *scheduler.Scheduler
			s = start(t, scheduler.WithDataDir(dir), scheduler.WithTasks("child"), scheduler.WithConcurrency(1),
				scheduler.WithHandler(echo, func(ctx context.Context, in string) (string, error) {
					time.Sleep(20 * time.Second)
					f, err := scheduler.NewTask[int, int]("child").Enqueue(ctx, s, 1)
					child = f.ID()
					return in, err
				}))
			running := enqueue(t, s, echo, "running")
			waiting := enqueue(t, s, echo, "waiting")
			synctest.Wait()
			began := time.Now()
			shutdown(t, s)
			if took := time.Since(began); took < 20*time.Second || took > 21*time.Second {
				t.Errorf("Shutdown took %v", took)
			}
			s = start(t, scheduler.WithDataDir(dir), scheduler.WithTasks("echo"))
			if r := get(t, s, running.ID()); r.State != scheduler.Succeeded || string(r.Result) != `"running"` {
				t.Errorf("what ran: %+v", r)
			}
			if r := get(t, s, waiting.ID()); r.State != scheduler.Ready || r.Attempt != 0 {
				t.Errorf("what waited: %+v", r)
			}
			wantState(t, s, child, scheduler.Ready)
		})
	})
	t.Run("stops those that take too long, without spending a retry", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			var cause error
			s := start(t, scheduler.WithDataDir(dir), scheduler.WithHandler(echo, func(ctx context.Context, _ string) (string, error) {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return "", ctx.Err()
			}))
			f := enqueue(t, s, echo, "", exact(time.Second, 1))
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if err := s.Shutdown(ctx); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
			wantErr(t, "cause", cause, scheduler.ErrShutdown)
			s = start(t, scheduler.WithDataDir(dir), scheduler.WithHandler(echo, echoes))
			if _, err := echo.Future(s, f.ID()).Wait(t.Context()); err != nil {
				t.Error(err)
			}
			if r := get(t, s, f.ID()); r.Attempt != 2 || r.Interrupts != 1 || r.Failures != 0 || r.Crashes != 0 {
				t.Errorf("run: %+v", r)
			}
		})
	})
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(t, scheduler.WithDrainTimeout(5*time.Second), scheduler.WithHandler(echo, func(ctx context.Context, in string) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		<-s.Ready()
		enqueue(t, s, echo, "")
		time.Sleep(time.Minute)
		stop()
		began := time.Now()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if took := time.Since(began); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("Run took %v to end", took)
		}
	})
}
