package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/internal/clock"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// epoch is when every bubble begins: midnight of a Saturday.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// echo is a task whose handler returns its input.
var echo = scheduler.NewTask[string, string]("echo")

func echoes(_ context.Context, in string) (string, error) { return in, nil }

// newScheduler is scheduler.New for a bubble of synctest, whose virtual time begins
// at epoch and moves only while everything waits.
func newScheduler(t *testing.T, opts ...scheduler.Option) *scheduler.Scheduler {
	t.Helper()
	// Cleanups run last first: this one gives what was shut down time to go.
	t.Cleanup(func() { time.Sleep(time.Hour) })
	s, err := scheduler.New(append([]scheduler.Option{scheduler.WithPlainTimers()}, opts...)...)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return s
}

// start starts a scheduler that lives until the test or the bubble ends.
func start(t *testing.T, opts ...scheduler.Option) *scheduler.Scheduler {
	t.Helper()
	s := newScheduler(t, opts...)
	if err := s.Start(t.Context()); err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() { shutdown(t, s) })
	return s
}

// shutdown stops s, which must lose nothing.
func shutdown(t *testing.T, s *scheduler.Scheduler) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

// at returns a clock that shows the given time now.
func at(now time.Time) *clock.Skewed {
	return clock.NewSkewed(clock.System, time.Until(now))
}

// enqueue asks for a run of the task and fails the test if it is refused.
func enqueue[In, Out any](t *testing.T, s *scheduler.Scheduler, task scheduler.Task[In, Out], in In, opts ...scheduler.RunOption) scheduler.Future[Out] {
	t.Helper()
	f, err := task.Enqueue(t.Context(), s, in, opts...)
	if err != nil {
		t.Fatalf("Enqueue of %q: %v", task.Name(), err)
	}
	return f
}

// get returns the run as it is now.
func get(t *testing.T, s *scheduler.Scheduler, id scheduler.RunID) scheduler.Run {
	t.Helper()
	r, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	return r
}

// wantState fails the test unless the run is in the state.
func wantState(t *testing.T, s *scheduler.Scheduler, id scheduler.RunID, want scheduler.RunState) {
	t.Helper()
	if got := get(t, s, id); got.State != want {
		t.Errorf("state: got %v (error %q), want %v", got.State, got.Error, want)
	}
}

// wantErr fails the test unless err is the target.
func wantErr(t *testing.T, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: got error %v, want %v", what, err, target)
	}
}

// collect returns what a listing yields.
func collect[T any](t *testing.T, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for v, err := range seq {
		if err != nil {
			t.Fatalf("listing: %v", err)
		}
		all = append(all, v)
	}
	return all
}

// live returns how many runs have not ended.
func live(t *testing.T, s *scheduler.Scheduler) int {
	t.Helper()
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatalf("Stats: %v", err)
	}
	return stats.Live
}

// A journal notes what handlers did, in order.
type journal struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

// take returns what was noted since the last call.
func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	return lines
}

// wantLines fails the test unless the lines are these.
func wantLines(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
