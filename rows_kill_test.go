package scheduler_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
)

// These tests named TestFieldBugN (see rows_test.go) are the ones about processes
// that are killed.

// killed copies the folder of a scheduler at rest, which is what is left of it
// when its process is killed now.
func killed(t *testing.T, dir string) string {
	t.Helper()
	synctest.Wait()
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return copied
}

// The attempt of a killed node is declared lost, the retry policy applies, and
// later ticks run. Nobody resets anything by hand.
func TestFieldBug05_KilledInTheMiddleOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var notes journal
		opts := func(dir string) []scheduler.Option {
			return []scheduler.Option{scheduler.WithDataDir(dir), scheduler.WithHandler(echo, func(ctx context.Context, _ string) (string, error) {
				x := scheduler.Current(ctx)
				notes.add("%v: attempt %d of %v", time.Since(epoch), x.Attempt(), x.ScheduledAt().Sub(epoch))
				time.Sleep(50 * time.Second)
				return "", nil
			})}
		}
		s := start(t, opts(dir)...)
		mustSchedule(t, s, "s", scheduler.Cron("*/10 * * * * *"))
		time.Sleep(15 * time.Second)
		left := killed(t, dir)
		shutdown(t, s) // takes until 60 s
		notes.take()
		time.Sleep(5 * time.Second)
		s = start(t, opts(left)...)
		time.Sleep(100 * time.Second)
		got := notes.take()
		if len(got) != 2 || !strings.Contains(got[0], "attempt 2 of 10s") || !strings.Contains(got[1], "attempt 1") {
			t.Errorf("attempts: %q, want the second of the lost run, then a new run", got)
		}
		found := false
		for _, r := range collect(t, s.Runs(t.Context(), scheduler.RunFilter{States: []scheduler.RunState{scheduler.Succeeded}})) {
			lost := r.Nominal.Equal(epoch.Add(10 * time.Second))
			found = found || lost
			if lost && (r.Crashes != 1 || r.Attempts[0].Outcome != "crashed" || r.Attempts[0].Error != "worker lost") {
				t.Errorf("the lost attempt is not on record: %+v", r)
			}
		}
		if !found {
			t.Error("the lost run has not succeeded")
		}
	})
}

// A queued job whose worker is killed is taken over; if it was killed after the
// handler's return the handler may run twice, but one result is kept.
func TestFieldBug10_KilledWithATaskInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		handle, release := blocker()
		s := start(t, scheduler.WithDataDir(dir), scheduler.WithHandler(block, handle))
		f := enqueue(t, s, block, 7)
		left := killed(t, dir)
		close(release)
		if _, err := f.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		shutdown(t, s)
		s = start(t, scheduler.WithDataDir(left), scheduler.WithHandler(block, handle))
		got, err := block.Future(s, f.ID()).Wait(t.Context())
		r := get(t, s, f.ID())
		if got != 7 || err != nil || r.Attempt != 2 || r.Crashes != 1 || r.Failures != 0 {
			t.Errorf("got %d, %v: %+v", got, err, r)
		}
	})
}

// A run that kills its process is stopped by the number of its attempts, with the
// reason; the healthy ones beside it run.
func TestFieldBug16_PoisonRun(t *testing.T) {
	for attempts, starts := range map[uint32]int{1: 1, 2: 2, 3: 3, 25: 3} {
		t.Run(fmt.Sprintf("%d attempts", attempts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				started := 0
				work := scheduler.NewTask[string, string]("work")
				opts := func(dir string) []scheduler.Option {
					return []scheduler.Option{
						scheduler.WithDataDir(dir), scheduler.WithConcurrency(2),
						scheduler.WithHandler(work, func(ctx context.Context, in string) (string, error) {
							if in == "poison" {
								started++
								<-ctx.Done() // the copy of the folder is as if it had ended the process
								return "", ctx.Err()
							}
							return "", nil
						}),
					}
				}
				s := start(t, opts(dir)...)
				poison := enqueue(t, s, work, "poison", exact(time.Second, attempts))
				var healthy []scheduler.Future[string]
				for range 10 {
					healthy = append(healthy, enqueue(t, s, work, ""))
				}
				for range 5 {
					synctest.Wait()
					time.Sleep(time.Minute)
					left := killed(t, dir)
					ctx, cancel := context.WithCancel(t.Context())
					cancel()
					s.Shutdown(ctx) // the old process is of no interest any more
					time.Sleep(time.Minute)
					dir = left
					s = start(t, opts(dir)...)
				}
				time.Sleep(time.Minute)
				_, err := work.Future(s, poison.ID()).Wait(t.Context())
				wantErr(t, "Wait for the poison", err, scheduler.ErrWorkerLost)
				r := get(t, s, poison.ID())
				if r.State != scheduler.Failed || r.Error != "worker lost" || started != starts {
					t.Errorf("%d starts, want %d: %+v", started, starts, r)
				}
				for _, f := range healthy {
					wantState(t, s, f.ID(), scheduler.Succeeded)
				}
			})
		})
	}
}
