package scheduler_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler"
)

// queueStats returns the counts of one queue.
func queueStats(t *testing.T, s *scheduler.Scheduler, name string) scheduler.QueueStats {
	t.Helper()
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range stats.Queues {
		if q.Name == name {
			return q
		}
	}
	t.Fatalf("no queue %q in %+v", name, stats.Queues)
	return scheduler.QueueStats{}
}

func TestQueueLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handle, release := blocker()
		s := start(t, scheduler.WithHandler(block, handle), scheduler.WithConcurrency(10),
			scheduler.WithQueue("narrow", scheduler.QueueLimit(2)))
		var futures []scheduler.Future[int]
		for i := range 5 {
			futures = append(futures, enqueue(t, s, block, i, scheduler.InQueue("narrow")))
		}
		other := enqueue(t, s, block, 9)
		synctest.Wait()
		want := scheduler.QueueStats{Name: "narrow", Limit: 2, Waiting: 3, Leased: 2}
		if diff := cmp.Diff(want, queueStats(t, s, "narrow")); diff != "" {
			t.Errorf("queue (-want +got):\n%s", diff)
		}
		wantState(t, s, other.ID(), scheduler.Running)
		e, err := s.Explain(t.Context(), futures[4].ID())
		if err != nil || e.Gate != "queue_limit" || e.Reason != `queue "narrow" runs 2 at a time and 2 are running` {
			t.Errorf("Explain: got %+v, %v", e, err)
		}
		for i := range 6 {
			release <- struct{}{}
			synctest.Wait()
			if got := queueStats(t, s, "narrow"); got.Leased > 2 {
				t.Errorf("%d at a time after %d", got.Leased, i+1)
			}
		}
		for i, f := range futures {
			if got, err := f.Wait(t.Context()); err != nil || got != i {
				t.Errorf("run %d: got %d, %v", i, got, err)
			}
		}
	})
}

func TestPauseQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handle, release := blocker()
		s := start(t, scheduler.WithHandler(block, handle))
		first := enqueue(t, s, block, 1, scheduler.InQueue("q"))
		delayed := enqueue(t, s, block, 2, scheduler.InQueue("q"), scheduler.In(time.Minute))
		synctest.Wait()
		for range 2 { // pausing twice is no fault
			if err := s.PauseQueue(t.Context(), "q"); err != nil {
				t.Fatal(err)
			}
		}
		second := enqueue(t, s, block, 3, scheduler.InQueue("q"))
		time.Sleep(time.Hour)
		wantState(t, s, first.ID(), scheduler.Running)
		wantState(t, s, second.ID(), scheduler.Ready)
		wantState(t, s, delayed.ID(), scheduler.Ready)
		if e, err := s.Explain(t.Context(), second.ID()); err != nil || e.Gate != "paused" || e.Reason != `queue "q" is paused` {
			t.Errorf("Explain: got %+v, %v", e, err)
		}
		if err := s.ResumeQueue(t.Context(), "q"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, f := range []scheduler.Future[int]{second, delayed} {
			wantState(t, s, f.ID(), scheduler.Running)
		}
		close(release)
	})
}

func TestPauseQueue_InTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithHandler(echo, echoes))
		f := enqueue(t, s, echo, "", scheduler.In(time.Minute), scheduler.InQueue("q"))
		time.Sleep(time.Minute - 5*time.Millisecond) // released ahead already
		wantState(t, s, f.ID(), scheduler.Assigned)
		if e, err := s.Explain(t.Context(), f.ID()); err != nil || e.Gate != "due" || !e.Until.Equal(epoch.Add(time.Minute)) {
			t.Errorf("Explain: got %+v, %v", e, err)
		}
		time.Sleep(5 * time.Millisecond)
		synctest.Wait()
		wantState(t, s, f.ID(), scheduler.Succeeded)
	})
}

func TestPriority(t *testing.T) {
	t.Run("higher classes first, then by the time they are due", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var notes journal
			s := start(t, scheduler.WithConcurrency(1), scheduler.WithHandler(echo, func(_ context.Context, in string) (string, error) {
				notes.add("%s", in)
				return "", nil
			}))
			if err := s.PauseQueue(t.Context(), scheduler.DefaultQueue); err != nil {
				t.Fatal(err)
			}
			classes := []scheduler.PriorityClass{scheduler.Normal, scheduler.Low, scheduler.Critical, scheduler.High}
			for round := range 2 {
				for _, class := range classes {
					enqueue(t, s, echo, fmt.Sprintf("%d.%d", class, round), scheduler.Priority(class))
				}
				time.Sleep(time.Second)
			}
			if err := s.ResumeQueue(t.Context(), scheduler.DefaultQueue); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			wantLines(t, "order", notes.take(), "3.0", "3.1", "2.0", "2.1", "1.0", "1.1", "0.0", "0.1")
		})
	})
	t.Run("waiting raises the class, so nothing starves", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			hold := scheduler.NewTask[string, string]("hold")
			s := start(t, scheduler.WithConcurrency(1), scheduler.WithHandler(hold, func(_ context.Context, in string) (string, error) {
				time.Sleep(2 * time.Second)
				return "", nil
			}))
			var low scheduler.Future[string]
			for i := range 300 { // twice as much High work as there is room for
				enqueue(t, s, hold, "", scheduler.Priority(scheduler.High))
				if i == 0 {
					low = enqueue(t, s, hold, "", scheduler.Priority(scheduler.Low))
				}
				time.Sleep(time.Second)
			}
			r := get(t, s, low.ID())
			if r.State != scheduler.Succeeded || r.Finished.Sub(epoch) > 5*time.Minute {
				t.Errorf("the low run: %v at %v", r.State, r.Finished)
			}
			for range live(t, s) {
				time.Sleep(2 * time.Second)
			}
		})
	})
}

func TestWithQueue_AfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		opts := func(limit uint32) []scheduler.Option {
			return []scheduler.Option{
				scheduler.WithDataDir(dir), scheduler.WithHandler(echo, echoes),
				scheduler.WithQueue("q", scheduler.QueueLimit(limit)),
			}
		}
		s := start(t, opts(3)...)
		if err := s.PauseQueue(t.Context(), "q"); err != nil {
			t.Fatal(err)
		}
		shutdown(t, s)
		s = start(t, opts(4)...)
		want := scheduler.QueueStats{Name: "q", Limit: 4, Paused: true}
		if diff := cmp.Diff(want, queueStats(t, s, "q")); diff != "" {
			t.Errorf("the new limit holds and the pause stays (-want +got):\n%s", diff)
		}
	})
}
