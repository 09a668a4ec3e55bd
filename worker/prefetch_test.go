package worker_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/worker"
)

func TestPool_Capacity(t *testing.T) {
	t.Run("keeps slots for critical runs", func(t *testing.T) {
		for slots, want := range map[int]int{1: 0, 3: 0, 4: 1, 8: 1, 15: 1, 16: 2, 100: 12} {
			l := new(leader)
			p, err := worker.New(worker.Config{Slots: slots, Report: l.report, Checkpoint: l.checkpoint})
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Reserved(); got != want || p.Capacity() != slots-want {
				t.Errorf("%d slots: got %d reserved and %d, want %d and the rest", slots, got, p.Capacity(), want)
			}
		}
	})

	t.Run("grows with short handlers and shrinks with long ones", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, 2, handlers{"job": func(_ context.Context, x *worker.Execution) ([]byte, error) {
				time.Sleep(time.Duration(x.Run().Due))
				return nil, nil
			}})
			for _, c := range []struct {
				took     time.Duration
				from, to int
			}{
				{time.Millisecond, 11, 12},
				{10 * time.Microsecond, 800, 1002},
				{0, 8194, 8194},
				{time.Second, 2, 2},
				{100 * time.Microsecond, 80, 102},
			} {
				for range 300 {
					r.assign("job", func(run *store.Run) { run.Due = int64(c.took) })
					time.Sleep(c.took + 1)
				}
				synctest.Wait()
				if got := r.Capacity(); got < c.from || got > c.to {
					t.Errorf("handlers of %v: got %d, want %d to %d", c.took, got, c.from, c.to)
				}
				r.mu.Lock()
				told := r.capacity[len(r.capacity)-1]
				r.mu.Unlock()
				if got := r.Capacity(); max(told, got)-min(told, got) > told/8 {
					t.Errorf("told %d, is %d", told, got)
				}
			}
		})
	})
}

func TestPool_hands_back_what_waits_too_long(t *testing.T) {
	type counts map[store.Outcome]int
	outcomes := func(r *rig) counts {
		got := counts{}
		for _, rep := range r.all() {
			got[rep.Outcome]++
		}
		return got
	}

	t.Run("behind slow ones", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, 2, handlers{"ok": ok, "slow": sleep(time.Hour)})
			for range 100 { // grow the prefetch
				r.assign("ok")
			}
			time.Sleep(time.Second) // what has just been started counts no longer
			if got := r.Capacity(); got < 1000 {
				t.Fatalf("capacity: got %d", got)
			}
			r.assign("slow")
			r.assign("slow")
			synctest.Wait()
			begin := time.Now()
			for range 10 {
				r.assign("ok")
			}
			r.Assign([]worker.Assignment{r.grant("ok", time.Second)}) // waits from its due time on
			time.Sleep(50 * time.Millisecond)
			late := r.assign("ok") // not with them, but when its own time is over
			time.Sleep(49 * time.Millisecond)
			synctest.Wait()
			if got := outcomes(r)[store.OutcomeReleased]; got != 0 {
				t.Errorf("handed back after 99 ms: got %d, want none", got)
			}
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			if got := outcomes(r)[store.OutcomeReleased]; got != 10 {
				t.Errorf("handed back after %v: got %d, want 10", time.Since(begin), got)
			}
			time.Sleep(99 * time.Millisecond)
			if got := r.outcome(t, late).Outcome; got != store.OutcomeReleased {
				t.Errorf("the later one: got %v", got)
			}
			if got := r.Capacity(); got != 2 {
				t.Errorf("capacity afterwards: got %d, want 2", got)
			}
			time.Sleep(899 * time.Millisecond) // 99 ms after the last one's due time
			synctest.Wait()
			if got := outcomes(r)[store.OutcomeReleased]; got != 11 {
				t.Errorf("handed back: got %d, want 11 yet", got)
			}
			time.Sleep(time.Minute)
			if got, want := outcomes(r), (counts{store.OutcomeSucceeded: 100, store.OutcomeReleased: 12}); cmp.Diff(want, got) != "" {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	})

	t.Run("but not those whose turn is near", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, 2, handlers{"job": sleep(10 * time.Millisecond)}) // 20 in 100 ms
			for range 100 {
				r.assign("job")
			}
			time.Sleep(time.Hour)
			// About 20 have run when the others are looked at, and as many are kept.
			if got := outcomes(r)[store.OutcomeReleased]; got < 55 || got > 63 {
				t.Errorf("handed back: got %d, want 55 to 63", got)
			}
		})
	})

	t.Run("nor any while all are quick", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, 1, handlers{"job": sleep(100 * time.Microsecond)})
			for range 500 {
				r.assign("job")
				r.assign("job")
				time.Sleep(100 * time.Microsecond) // the line grows to half of them
			}
			time.Sleep(time.Hour)
			if got, want := outcomes(r), (counts{store.OutcomeSucceeded: 1000}); cmp.Diff(want, got) != "" {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	})

	t.Run("and an ordinary one that waits for a critical one's slot", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, 4, handlers{"slow": sleep(time.Hour)})
			for range 4 {
				r.assign("slow")
			}
			time.Sleep(time.Minute)
			if got := fmt.Sprint(outcomes(r), r.Snapshot().Used, r.Capacity()); got != "map[released:1] 3 3" {
				t.Errorf("got %s", got)
			}
		})
	})
}

func TestPool_Capacity_makes_up_for_slow_commits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Handlers of 5 ms and commits of 20: without anything prefetched a slot would be idle most of the time.
		d := &slowDisk{take: 20 * time.Millisecond}
		r := start(t, 3, handlers{"job": sleep(5 * time.Millisecond)}, func(c *worker.Config) { c.Report = d.report })
		for range 100 {
			r.assign("job")
			time.Sleep(20 * time.Millisecond)
		}
		if got, want := r.Capacity(), 3+3*45/5; got < want-2 || got > want {
			t.Errorf("got %d, want about %d", got, want)
		}
	})
}
