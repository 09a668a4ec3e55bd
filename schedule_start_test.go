package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
)

func TestTrigger(t *testing.T) {
	t.Run("starts a run now, paused or not, that is no tick", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var notes journal
			s := start(t, beat(&notes))
			mustSchedule(t, s, "s", scheduler.Cron("@hourly"), scheduler.Paused())
			time.Sleep(90 * time.Second)
			id, err := s.Trigger(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			r := get(t, s, id)
			if r.State != scheduler.Succeeded || r.Schedule != "s" || !r.Nominal.IsZero() {
				t.Errorf("got %+v", r)
			}
			wantLines(t, "starts", notes.take(), "1m30s")
			wantLines(t, "ledger", ledger(t, s, "s", 0, time.Hour))
			_, err = s.Trigger(t.Context(), "none")
			wantErr(t, "Trigger of none", err, scheduler.ErrNotFound)
		})
	})
	for _, c := range []struct {
		policy scheduler.OverlapPolicy
		runs   int // of three calls
		live   int // after them
	}{
		{scheduler.OverlapSkip, 1, 1},
		{scheduler.OverlapAllow, 3, 3},
		{scheduler.OverlapQueue(1), 2, 1},
		{scheduler.OverlapReplace, 3, 1},
	} {
		t.Run("passes the gate: "+c.policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				handle, release := blocker()
				s := start(t, scheduler.WithHandler(block, handle))
				if err := s.Schedule(t.Context(), "s", scheduler.Cron("@yearly"), block.With(1), scheduler.Overlap(c.policy)); err != nil {
					t.Fatal(err)
				}
				var ids []scheduler.RunID
				for range 3 {
					id, err := s.Trigger(t.Context(), "s")
					var overlap *scheduler.OverlapError
					switch {
					case err == nil:
						ids = append(ids, id)
					case !errors.As(err, &overlap) || !errors.Is(err, scheduler.ErrConflict) || overlap.Run != ids[0]:
						t.Errorf("Trigger: %v, want an OverlapError for %v", err, ids[0])
					}
				}
				time.Sleep(time.Second)
				if n := len(schedule(t, s, "s").Live); len(ids) != c.runs || n != c.live {
					t.Errorf("%d calls were accepted and %d runs are live, want %d and %d", len(ids), n, c.runs, c.live)
				}
				close(release)
				time.Sleep(time.Second)
				for i, id := range ids {
					want := scheduler.Succeeded
					if c.policy == scheduler.OverlapReplace && i < 2 {
						want = scheduler.Canceled
					}
					wantState(t, s, id, want)
				}
			})
		})
	}
}

func TestBackfill(t *testing.T) {
	backfill := func(t *testing.T, s *scheduler.Scheduler, from, to, pace time.Duration, want int) {
		t.Helper()
		n, err := s.Backfill(t.Context(), "s", epoch.Add(from), epoch.Add(to), pace)
		if err != nil || n != want {
			t.Fatalf("Backfill: %d ticks, %v; want %d", n, err, want)
		}
	}
	const minute = time.Minute
	t.Run("runs what has not run, and says what had become of it", func(t *testing.T) {
		for _, restart := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				opts := []scheduler.Option{scheduler.WithDataDir(t.TempDir())}
				var notes journal
				opts = append(opts, beat(&notes))
				s := start(t, opts...)
				mustSchedule(t, s, "s", scheduler.Cron("* * * * *"))
				time.Sleep(90 * time.Second)
				shutdown(t, s)
				time.Sleep(200 * time.Second) // until 4m50s
				s = start(t, opts...)
				time.Sleep(20 * time.Second) // 5m10s
				notes.take()
				backfill(t, s, -2*minute, 10*minute, 30*time.Second, 5)
				backfill(t, s, -2*minute, 10*minute, 0, 0) // all of it waits already
				time.Sleep(35 * time.Second)               // 5m45s
				if restart {
					shutdown(t, s)
					s = start(t, opts...)
				}
				time.Sleep(2 * minute)
				wantStarts(t, notes.take(), "5m10s for -2m0s", "5m40s for -1m0s", "6m0s", "6m10s for 0s", "6m40s for 2m0s", "7m0s", "7m10s for 3m0s")
				const was = "it was backfilled; it was merged before: the scheduler was not running"
				var got []string
				for _, tick := range collect(t, s.Ticks(t.Context(), "s", epoch.Add(-time.Hour), epoch.Add(7*minute))) {
					got = append(got, fmt.Sprint(tick.Nominal.Sub(epoch), " ", tick.Outcome, " ", tick.Backfilled, " ", tick.Reason))
				}
				wantLines(t, "ledger", got, "-2m0s ran true it was backfilled", "-1m0s ran true it was backfilled", "0s ran true it was backfilled",
					"1m0s ran false ", "2m0s ran true "+was, "3m0s ran true "+was, "4m0s ran false the scheduler was not running",
					"5m0s ran false ", "6m0s ran false ")
				backfill(t, s, -2*minute, 7*minute, 0, 0)
			})
		}
	})
	t.Run("runs do not overlap, and go behind the ticks", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var notes journal
			s := start(t, scheduler.WithHandler(echo, func(ctx context.Context, _ string) (string, error) {
				notes.add("%v", scheduler.Current(ctx).ScheduledAt().Sub(epoch))
				time.Sleep(24 * time.Second)
				return "", nil
			}))
			mustSchedule(t, s, "s", scheduler.Cron("* * * * *"), scheduler.Overlap(scheduler.OverlapQueue(1)))
			time.Sleep(10 * time.Second)
			backfill(t, s, -5*minute, 0, 0, 5)
			time.Sleep(125 * time.Second)
			wantLines(t, "starts", notes.take(), "-5m0s", "-4m0s", "-3m0s", "1m0s", "-2m0s", "2m0s")
			ticks := collect(t, s.Ticks(t.Context(), "s", epoch, epoch.Add(2*minute)))
			if len(ticks) != 1 || ticks[0].Late.Round(time.Second) != 22*time.Second || ticks[0].Reason != "it waited for an earlier run" {
				t.Errorf("ledger: got %+v", ticks)
			}
		})
	})
	t.Run("is kept by a pause, and ended by a deletion", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var notes journal
			s := start(t, beat(&notes))
			mustSchedule(t, s, "s", scheduler.Cron("@hourly"))
			backfill(t, s, -3*time.Hour, 0, minute, 3)
			time.Sleep(10 * time.Second)
			if err := s.PauseSchedule(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * minute)
			wantStarts(t, notes.take(), "0s for -3h0m0s")
			if err := s.ResumeSchedule(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			wantStarts(t, notes.take(), "10m10s for -2h0m0s")
			if err := s.DeleteSchedule(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			mustSchedule(t, s, "s", scheduler.Cron("@hourly"))
			time.Sleep(10 * minute)
			wantLines(t, "starts", notes.take())
		})
	})
	t.Run("is refused where it makes no sense", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, scheduler.WithTasks("echo"))
			mustSchedule(t, s, "interval", scheduler.Every(minute))
			mustSchedule(t, s, "seconds", scheduler.Cron("* * * * * *"))
			_, err := s.Backfill(t.Context(), "s", epoch, epoch, 0)
			wantErr(t, "an empty range", err, scheduler.ErrInvalid)
			for what, c := range map[string]struct {
				id   string
				from time.Time
				pace time.Duration
				want error
			}{
				"none": {"none", epoch, 0, scheduler.ErrNotFound}, "an interval": {"interval", epoch, 0, scheduler.ErrInvalid},
				"too many ticks": {"seconds", epoch.AddDate(-10, 0, 0), 0, scheduler.ErrInvalid}, "a pace below zero": {"seconds", epoch, -1, scheduler.ErrInvalid},
			} {
				_, err := s.Backfill(t.Context(), c.id, c.from, epoch.Add(time.Hour), c.pace)
				wantErr(t, what, err, c.want)
			}
		})
	})
}

// What waits for its turn is told of when its schedule changes under it.
func TestSchedule_ChangedWhileTicksWait(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, s *scheduler.Scheduler){
		"the trigger was changed": func(t *testing.T, s *scheduler.Scheduler) {
			t.Helper()
			if err := s.Schedule(t.Context(), "s", scheduler.Cron("@yearly"), block.With(1)); err != nil {
				t.Fatal(err)
			}
		},
		"the schedule was deleted": func(t *testing.T, s *scheduler.Scheduler) {
			t.Helper()
			if err := s.DeleteSchedule(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				handle, release := blocker()
				s := start(t, scheduler.WithHandler(block, handle))
				err := s.Schedule(t.Context(), "s", scheduler.Cron("* * * * *"), block.With(1), scheduler.Overlap(scheduler.OverlapQueue(2)))
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(190 * time.Second)
				change(t, s)
				wantLines(t, "ledger", ledger(t, s, "s", 0, time.Hour), "1m0s ran",
					"2m0s skipped: "+name+" before its turn came", "3m0s skipped: "+name+" before its turn came")
				close(release)
				time.Sleep(time.Minute)
				if n := live(t, s); n != 0 {
					t.Errorf("%d live runs", n)
				}
			})
		})
	}
}
