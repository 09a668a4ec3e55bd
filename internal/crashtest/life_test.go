//go:build unix

package crashtest_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/escapement-go/scheduler"
)

// leaks wants the test to leave no goroutine behind.
func leaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

func TestLife_start_whose_context_has_ended_leaves_the_folder_free(t *testing.T) {
	leaks(t)
	dir := t.TempDir()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s := newEcho(t, dir)
	if err := s.Start(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("start: got %v, want %v", err, context.Canceled)
	}
	if err := s.Start(guarded(t)); !errors.Is(err, scheduler.ErrClosed) {
		t.Errorf("start again: got %v, want %v", err, scheduler.ErrClosed)
	}
	_ = s.Shutdown(guarded(t)) // it says what became of the start
	s = newEcho(t, dir)
	if err := s.Start(guarded(t)); err != nil {
		t.Fatalf("start of another: %v", err)
	}
	mustEcho(t, s, "free")
	if err := s.Shutdown(guarded(t)); err != nil {
		t.Error(err)
	}
}

// However the context ends, the folder is free afterwards.
func TestLife_start_whose_context_ends_meanwhile_is_all_or_nothing(t *testing.T) {
	leaks(t)
	dir := t.TempDir()
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		s := newEcho(t, dir)
		go cancel() // ends at once
		if err := s.Start(ctx); err == nil {
			mustEcho(t, s, "in time")
		} else if !errors.Is(err, context.Canceled) {
			t.Errorf("start: got %v, want %v", err, context.Canceled)
		}
		cancel()
		_ = s.Shutdown(guarded(t))
	}
	s := newEcho(t, dir)
	if err := s.Start(guarded(t)); err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(guarded(t)); err != nil {
		t.Error(err)
	}
}

func TestLife_of_many_starts_one_succeeds(t *testing.T) {
	leaks(t)
	s := newEcho(t, t.TempDir())
	ctx := guarded(t)
	errs := make([]error, 8)
	var starts sync.WaitGroup
	for i := range errs {
		starts.Go(func() { errs[i] = s.Start(ctx) })
	}
	starts.Wait()
	n := 0
	for _, err := range errs {
		if err == nil {
			n++
		} else if !errors.Is(err, scheduler.ErrClosed) {
			t.Errorf("start: got %v, want %v", err, scheduler.ErrClosed)
		}
	}
	if n != 1 {
		t.Errorf("successful starts: got %d, want 1", n)
	}
	mustEcho(t, s, "once")
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

func TestLife_shutdowns_at_the_same_time_as_the_start_and_each_other(t *testing.T) {
	leaks(t)
	dir := t.TempDir()
	for range 10 {
		s := newEcho(t, dir)
		ctx := guarded(t)
		after := time.Duration(rand.IntN(150)) * time.Millisecond
		var calls sync.WaitGroup
		calls.Go(func() {
			if err := s.Start(ctx); err != nil && !errors.Is(err, scheduler.ErrClosed) {
				t.Errorf("start: got %v, want nil or %v", err, scheduler.ErrClosed)
			}
		})
		for range 3 {
			calls.Go(func() {
				_ = pause(ctx, after)
				if err := s.Shutdown(ctx); ctx.Err() != nil {
					t.Errorf("shutdown hangs: %v", err)
				}
			})
		}
		calls.Wait()
		_ = s.Shutdown(ctx)
		if _, err := echo.Enqueue(ctx, s, "late"); !errors.Is(err, scheduler.ErrClosed) {
			t.Errorf("call: got %v, want %v", err, scheduler.ErrClosed)
		}
	}
	s := newEcho(t, dir)
	if err := s.Start(guarded(t)); err != nil {
		t.Fatalf("the folder is not free: %v", err)
	}
	if err := s.Shutdown(guarded(t)); err != nil {
		t.Error(err)
	}
}

func TestLife_shutdown_twice_returns_the_same(t *testing.T) {
	leaks(t)
	s := started(t, t.TempDir())
	if err := s.Shutdown(guarded(t)); err != nil {
		t.Errorf("first: %v", err)
	}
	if err := s.Shutdown(guarded(t)); err != nil {
		t.Errorf("second: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Shutdown(ended); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("third: %v", err)
	}
}

// A handler that ignores its context is left behind, its run is not, and the
// folder is free.
func TestLife_shutdown_does_not_wait_for_ever_for_a_stubborn_handler(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begun, release, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	stubborn := scheduler.NewTask[string, string]("stubborn")
	s := started(t, dir, scheduler.WithHandler(stubborn, func(context.Context, string) (string, error) {
		defer close(gone)
		close(begun)
		<-release
		return "too late", nil
	}))
	ctx := guarded(t)
	f, err := stubborn.Enqueue(ctx, s, "x")
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	stop, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Shutdown(stop); err == nil {
		t.Error("shutdown: got nil, want to be told of the handler that was left behind")
	}
	if ctx.Err() != nil {
		t.Fatal("shutdown hangs")
	}
	s = started(t, dir, scheduler.WithHandler(stubborn, func(context.Context, string) (string, error) { return "second", nil }))
	got, err := stubborn.Future(s, f.ID()).Wait(ctx)
	if err != nil || got != "second" {
		t.Errorf("run: got %q, %v, want %q", got, err, "second")
	}
	close(release)
	<-gone
	if r, err := s.Get(ctx, f.ID()); err != nil || string(r.Result) != `"second"` {
		t.Errorf("result once the first handler has returned: got %s, %v, want the second's", r.Result, err)
	}
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

// Callers that wait when the scheduler stops are let go.
func TestLife_shutdown_lets_waiting_callers_go(t *testing.T) {
	leaks(t)
	s := started(t, t.TempDir(), scheduler.WithConcurrency(1))
	ctx := guarded(t)
	f, err := echo.Enqueue(ctx, s, "later", scheduler.In(hang))
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() { // ends with the scheduler
		_, err := f.Wait(ctx)
		waited <- err
	}()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if err := <-waited; !errors.Is(err, scheduler.ErrClosed) {
		t.Errorf("wait: got %v, want %v", err, scheduler.ErrClosed)
	}
}
