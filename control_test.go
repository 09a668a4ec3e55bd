package scheduler_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
)

// inState makes a run of the task "work" that is in the given state, on a
// scheduler of its own with one slot. The handler of the run does as its input
// says, and what it says by then.
func inState(t *testing.T, state string) (*scheduler.Scheduler, scheduler.Future[string]) {
	t.Helper()
	work := scheduler.NewTask[string, string]("work")
	s := start(t, scheduler.WithConcurrency(1), scheduler.WithHandler(work, func(ctx context.Context, in string) (string, error) {
		switch in {
		case "fail":
			return "", errors.New("failure")
		case "busy":
			<-ctx.Done()
			return "", ctx.Err()
		}
		return "ok", nil
	}))
	var f scheduler.Future[string]
	switch state {
	case "scheduled":
		f = enqueue(t, s, work, "", scheduler.In(time.Hour))
	case "waiting for a retry":
		f = enqueue(t, s, work, "fail", exact(time.Hour, 3))
	case "ready":
		enqueue(t, s, work, "busy")
		f = enqueue(t, s, work, "")
		time.Sleep(time.Second)
	case "assigned":
		f = enqueue(t, s, work, "", scheduler.In(time.Minute))
		time.Sleep(time.Minute - 5*time.Millisecond)
	case "running":
		f = enqueue(t, s, work, "busy")
	case "succeeded":
		f = enqueue(t, s, work, "")
	case "failed":
		f = enqueue(t, s, work, "fail", exact(time.Second, 1))
	case "canceled":
		f = enqueue(t, s, work, "", scheduler.In(time.Hour))
		if err := f.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
	case "expired":
		busy := enqueue(t, s, work, "busy")
		f = enqueue(t, s, work, "", scheduler.ExpireAfter(time.Minute))
		time.Sleep(2 * time.Minute)
		if err := busy.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
	want := state
	if state == "waiting for a retry" {
		want = "scheduled"
	}
	if got := get(t, s, f.ID()); got.State.String() != want {
		t.Fatalf("set up: run is %v, want %s", got.State, state)
	}
	return s, f
}

func TestCancel(t *testing.T) {
	for state, want := range map[string]struct {
		err error
		end scheduler.RunState
	}{
		"scheduled":           {nil, scheduler.Canceled},
		"waiting for a retry": {nil, scheduler.Canceled},
		"ready":               {nil, scheduler.Canceled},
		"assigned":            {nil, scheduler.Canceled},
		"running":             {nil, scheduler.Canceled},
		"succeeded":           {scheduler.ErrConflict, scheduler.Succeeded},
		"failed":              {scheduler.ErrConflict, scheduler.Failed},
		"canceled":            {scheduler.ErrConflict, scheduler.Canceled},
		"expired":             {scheduler.ErrConflict, scheduler.Expired},
	} {
		t.Run(state, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, f := inState(t, state)
				before := get(t, s, f.ID()).Attempt
				wantErr(t, "Cancel", f.Cancel(t.Context()), want.err)
				wantState(t, s, f.ID(), want.end)
				time.Sleep(2 * time.Hour) // in which it must not come back
				r := get(t, s, f.ID())
				if r.State != want.end || r.Attempt != before {
					t.Errorf("two hours later: %v, attempt %d of %d", r.State, r.Attempt, before)
				}
				wantErr(t, "Cancel again", f.Cancel(t.Context()), scheduler.ErrConflict)
				if want.end == scheduler.Canceled {
					_, err := f.Wait(t.Context())
					wantErr(t, "Wait", err, scheduler.ErrCanceled)
				}
			})
		})
	}
	t.Run("no run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t)
			wantErr(t, "Cancel", s.Cancel(t.Context(), scheduler.RunID{}), scheduler.ErrNotFound)
		})
	})
}

func TestCancel_FreesTheSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := inState(t, "running")
		next := enqueue(t, s, scheduler.NewTask[string, string]("work"), "")
		if err := f.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, err := next.Wait(t.Context()); got != "ok" || err != nil {
			t.Errorf("the next run: got %q, %v", got, err)
		}
	})
}

// A handler that goes on after it was canceled keeps its slot. Nothing is leased
// for that slot meanwhile, only to be handed back.
func TestCancel_OfAHandlerThatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithConcurrency(1), scheduler.WithHandler(echo, func(_ context.Context, in string) (string, error) {
			if in == "long" {
				time.Sleep(time.Hour)
			}
			return in, nil
		}))
		long := enqueue(t, s, echo, "long")
		time.Sleep(time.Second)
		if err := long.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		next := enqueue(t, s, echo, "next")
		time.Sleep(time.Minute)
		if r := get(t, s, next.ID()); r.State != scheduler.Ready || r.Fence > 2 { // one lease at most, before the pool has told
			t.Errorf("the next run is %v with fence %d", r.State, r.Fence)
		}
		if got, err := next.Wait(t.Context()); got != "next" || err != nil {
			t.Errorf("the next run: got %q, %v", got, err)
		}
	})
}

func TestRetryNow(t *testing.T) {
	for state, want := range map[string]struct {
		err error
		end scheduler.RunState
	}{
		"scheduled":           {nil, scheduler.Succeeded},
		"waiting for a retry": {nil, scheduler.Scheduled}, // after one more failure
		"ready":               {nil, scheduler.Ready},     // there is no slot
		"assigned":            {scheduler.ErrConflict, scheduler.Assigned},
		"running":             {scheduler.ErrConflict, scheduler.Running},
		"succeeded":           {scheduler.ErrConflict, scheduler.Succeeded},
		"failed":              {nil, scheduler.Failed}, // once more
		"canceled":            {nil, scheduler.Succeeded},
		"expired":             {nil, scheduler.Succeeded},
	} {
		t.Run(state, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, f := inState(t, state)
				before := get(t, s, f.ID())
				wantErr(t, "RetryNow", s.RetryNow(t.Context(), f.ID()), want.err)
				synctest.Wait()
				r := get(t, s, f.ID())
				if r.State != want.end {
					t.Errorf("state: got %v, want %v", r.State, want.end)
				}
				if want.err != nil {
					return
				}
				switch state {
				case "ready":
				case "failed":
					if r.Attempt != 2 || r.Failures != 1 || len(r.Attempts) != 2 {
						t.Errorf("a failed run has fresh budgets and keeps its past: %+v", r)
					}
				default:
					if r.Attempt != before.Attempt+1 || r.Fence <= before.Fence {
						t.Errorf("attempt %d with fence %d after %d with %d", r.Attempt, r.Fence, before.Attempt, before.Fence)
					}
				}
			})
		})
	}
	t.Run("no run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t)
			wantErr(t, "RetryNow", s.RetryNow(t.Context(), scheduler.RunID{}), scheduler.ErrNotFound)
		})
	})
}

func TestRetryNow_FromTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		ok := false
		opts := []scheduler.Option{scheduler.WithDataDir(dir), scheduler.WithHandler(echo, func(_ context.Context, in string) (string, error) {
			if !ok {
				return "", scheduler.Permanent(errors.New("no"))
			}
			return in, nil
		})}
		s := start(t, opts...)
		f := enqueue(t, s, echo, "x")
		time.Sleep(time.Hour)
		shutdown(t, s)
		s = start(t, opts...)
		wantState(t, s, f.ID(), scheduler.Failed)
		ok = true
		if err := s.RetryNow(t.Context(), f.ID()); err != nil {
			t.Fatal(err)
		}
		if got, err := echo.Future(s, f.ID()).Wait(t.Context()); got != "x" || err != nil {
			t.Errorf("Wait: got %q, %v", got, err)
		}
		time.Sleep(time.Hour)
		shutdown(t, s)
		s = start(t, opts...)
		runs := collect(t, s.Runs(t.Context(), scheduler.RunFilter{}))
		if len(runs) != 1 || runs[0].State != scheduler.Succeeded {
			t.Errorf("after all: %+v", runs)
		}
		wantErr(t, "RetryNow of what has succeeded", s.RetryNow(t.Context(), f.ID()), scheduler.ErrConflict)
	})
}

func TestRetryNow_OfARunWhoseUniqueKeyIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithTasks("echo"))
		first := enqueue(t, s, echo, "", scheduler.Unique("k"))
		if err := first.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := enqueue(t, s, echo, "", scheduler.Unique("k"))
		var ue *scheduler.UniqueError
		if err := s.RetryNow(t.Context(), first.ID()); !errors.As(err, &ue) || ue.Holder != second.ID() {
			t.Errorf("got %v", err)
		}
		wantState(t, s, first.ID(), scheduler.Canceled)
		if err := second.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.RetryNow(t.Context(), first.ID()); err != nil {
			t.Fatal(err)
		}
		_, err := echo.Enqueue(t.Context(), s, "", scheduler.Unique("k"))
		wantErr(t, "the key is held again", err, scheduler.ErrConflict)
	})
}

func TestRetryNow_WhileTheCanceledHandlerStillRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan string)
		s := start(t, scheduler.WithConcurrency(2), scheduler.WithHandler(echo, func(context.Context, string) (string, error) {
			return <-release, nil // deaf to its context
		}))
		f := enqueue(t, s, echo, "")
		synctest.Wait()
		if err := f.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.RetryNow(t.Context(), f.ID()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		release <- "from the canceled attempt" // the first one receives first
		synctest.Wait()
		wantState(t, s, f.ID(), scheduler.Running)
		release <- "from the second"
		if got, err := f.Wait(t.Context()); got != "from the second" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestSchedule_OverlapSeesARunTakenUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		s := start(t, scheduler.WithHandler(echo, func(ctx context.Context, _ string) (string, error) {
			if first {
				first = false
				return "", scheduler.Permanent(errors.New("no"))
			}
			time.Sleep(100 * time.Second)
			return "", nil
		}))
		mustSchedule(t, s, "s", scheduler.Cron("* * * * *"))
		time.Sleep(90 * time.Second)
		runs := collect(t, s.Runs(t.Context(), scheduler.RunFilter{Schedule: "s"}))
		if err := s.RetryNow(t.Context(), runs[0].ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(60 * time.Second)
		wantLines(t, "ledger", ledger(t, s, "s", 0, time.Hour), "1m0s ran", "2m0s skipped: an earlier run has not ended")
	})
}

func TestCancel_WhileItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithHandler(echo, echoes))
		for range 300 {
			f := enqueue(t, s, echo, "")
			if err := f.Cancel(t.Context()); err != nil && !errors.Is(err, scheduler.ErrConflict) {
				t.Fatalf("Cancel: got %v, want nil or a conflict", err)
			}
		}
	})
}
