package worker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/escapement-go/scheduler/internal/precise"
	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A leader is the scheduler's side of a pool, as much of it as there must be: it makes runs, grants fences, and commits
// what the pool reports, while it can be reached.
type leader struct {
	mu          sync.Mutex
	fence       uint64
	cut         bool // it cannot be reached
	reports     []store.Report
	calls       int // of Report
	checkpoints []store.Checkpoint
	capacity    []int
}

var errCut = errors.New("no contact")

func (l *leader) report(_ context.Context, reports []store.Report) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if l.cut {
		return errCut
	}
	l.reports = append(l.reports, reports...)
	return nil
}

func (l *leader) checkpoint(_ context.Context, c store.Checkpoint) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return errCut
	}
	l.checkpoints = append(l.checkpoints, c)
	return nil
}

func (l *leader) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
}

// all returns the reports so far.
func (l *leader) all() []store.Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]store.Report(nil), l.reports...)
}

// of returns the reports about one assignment.
func (l *leader) of(a worker.Assignment) []store.Report {
	var out []store.Report
	for _, r := range l.all() {
		if r.Run == a.Run.ID && r.Fence == a.Fence {
			out = append(out, r)
		}
	}
	return out
}

// grant leases a new run of the task.
func (l *leader) grant(task string, in time.Duration, change ...func(*store.Run)) worker.Assignment {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fence++
	id := store.NewRunID(time.Unix(1e9, 0), [10]byte{9: byte(l.fence), 8: byte(l.fence >> 8), 7: byte(l.fence >> 16)})
	r := &store.Run{
		ID: id, Spec: &store.Spec{Task: task, Priority: store.Normal}, State: store.Running,
		Due: time.Now().Add(in).UnixNano(), Fence: l.fence, Attempt: 1,
	}
	for _, f := range change {
		f(r)
	}
	return worker.Assignment{Run: r, Fence: l.fence, In: in}
}

// plain is the alarm for a bubble.
func plain() worker.Alarm { return precise.Plain() }

func class(p store.Priority) func(*store.Run) { return func(r *store.Run) { r.Spec.Priority = p } }

func timeout(d time.Duration) func(*store.Run) {
	return func(r *store.Run) { r.Spec.Timeout = int64(d) }
}

// A rig is a running pool with its leader.
type rig struct {
	*leader
	*worker.Pool
	stopped chan struct{}
	runErr  error // of Pool.Run, once stopped is closed
}

type handlers = map[string]worker.Handler

// start runs a pool in the bubble of t; it is drained, with an hour for its handlers, when the test ends.
func start(t *testing.T, slots int, hs handlers, change ...func(*worker.Config)) *rig {
	t.Helper()
	l := new(leader)
	cfg := worker.Config{
		Slots: slots, Handlers: hs, Report: l.report, Checkpoint: l.checkpoint,
		OnCapacity: func(n int) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.capacity = append(l.capacity, n)
		},
		NewAlarm: plain,
	}
	for _, f := range change {
		f(&cfg)
	}
	p, err := worker.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{leader: l, Pool: p, stopped: make(chan struct{})}
	go func() { // awaited below
		defer close(r.stopped)
		r.runErr = p.Run(context.WithoutCancel(t.Context())) // which ends before the cleanup
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Hour)
		defer cancel()
		_ = p.Drain(ctx) // a test that cares has called it itself
		<-r.stopped
	})
	return r
}

// assign makes and assigns one run that is due now.
func (r *rig) assign(task string, change ...func(*store.Run)) worker.Assignment {
	a := r.grant(task, 0, change...)
	r.Assign([]worker.Assignment{a})
	return a
}

// outcome waits for the bubble to be idle and returns the single report about a.
func (r *rig) outcome(t *testing.T, a worker.Assignment) store.Report {
	t.Helper()
	synctest.Wait()
	got := r.of(a)
	if len(got) != 1 {
		t.Fatalf("reports of run %v: got %d, want 1: %+v", a.Run.ID, len(got), got)
	}
	return got[0]
}

func ok(context.Context, *worker.Execution) ([]byte, error) { return nil, nil }

// sleep is a handler that takes d, whatever happens.
func sleep(d time.Duration) worker.Handler {
	return func(context.Context, *worker.Execution) ([]byte, error) {
		time.Sleep(d)
		return nil, nil
	}
}
