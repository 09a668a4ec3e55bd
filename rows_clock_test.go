package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/internal/clock"
)

// The tests named TestFieldBugN are after faults that people have reported of
// job schedulers; what is in their comments is the right behaviour. These are the
// ones about time.

// ticker is a handler of echo that notes the nominal times of its runs.
func ticker(notes *journal, c *clock.Skewed) scheduler.Option {
	return scheduler.WithHandler(echo, func(ctx context.Context, in string) (string, error) {
		tick := scheduler.Current(ctx).ScheduledAt().UTC()
		if c.Now().Before(tick) {
			notes.add("%s early: %s", in, tick.Format(time.RFC3339))
		}
		notes.add("%s %s", in, tick.Format(time.RFC3339))
		return "", nil
	})
}

// jump sets the clock forward to a time in steps, a few seconds apart.
func jump(c *clock.Skewed, to time.Time, step time.Duration) {
	for c.Now().Before(to) {
		const between = 3 * time.Second
		time.Sleep(between)
		c.Step(min(step, to.Sub(c.Now())))
	}
	time.Sleep(3 * time.Second)
}

// The made-up hour of the spring night runs once after it; then the next day. The
// scheduler does little more than that.
func TestFieldBug01_SpringNight(t *testing.T) {
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2024, 3, 9, 12, 0, 0, 0, zone)
	to := from.Add(47 * time.Hour) // noon of the 11th, after a day of 23 hours
	for name, pass := range map[string]func(c *clock.Skewed){
		"second by second": func(c *clock.Skewed) { time.Sleep(to.Sub(c.Now())) },
		"in jumps":         func(c *clock.Skewed) { jump(c, to, 10*time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := at(from)
				var notes journal
				s := start(t, scheduler.WithClock(c), ticker(&notes, c))
				mustSchedule(t, s, "nightly", scheduler.Cron("0 2 * * *", scheduler.Zone("America/New_York")))
				before := s.Health(t.Context()).Applied
				pass(c)
				wantLines(t, "firings", notes.take(), "nightly 2024-03-10T07:00:00Z", "nightly 2024-03-11T06:00:00Z")
				if n := s.Health(t.Context()).Applied - before; n > 20 {
					t.Errorf("%d log entries for two firings", n)
				}
			})
		})
	}
}

// Each month once, whatever its last day is.
func TestFieldBug02_LastDayOfTheMonth(t *testing.T) {
	from := time.Date(2024, 1, 19, 0, 0, 0, 0, time.UTC)
	for expr, want := range map[string]string{
		"0 0 L * *":   "01-31 02-29 03-31 04-30 05-31 06-30",
		"0 0 L-1 * *": "01-30 02-28 03-30 04-29 05-30 06-29",
		"0 0 31 * *":  "01-31 03-31 05-31 07-31 08-31 10-31",
	} {
		ticks, err := scheduler.Cron(expr).Next(from, 6)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, tick := range ticks {
			got = append(got, tick.Format("01-02"))
		}
		wantLines(t, "ticks of "+expr, got, strings.Fields(want)...)
	}
	synctest.Test(t, func(t *testing.T) {
		c := at(from)
		var notes journal
		s := start(t, scheduler.WithClock(c), ticker(&notes, c))
		mustSchedule(t, s, "last", scheduler.Cron("0 0 L * *"))
		jump(c, time.Date(2024, 7, 1, 0, 0, 0, 0, time.UTC), 6*time.Hour)
		wantLines(t, "firings", notes.take(), "last 2024-01-31T00:00:00Z", "last 2024-02-29T00:00:00Z", "last 2024-03-31T00:00:00Z",
			"last 2024-04-30T00:00:00Z", "last 2024-05-31T00:00:00Z", "last 2024-06-30T00:00:00Z")
	})
}

// What is counted in elapsed time keeps its beat, what is counted in minutes is
// back at once, and no instant runs a second time.
func TestFieldBug03_ClockSetBack(t *testing.T) {
	for _, back := range []time.Duration{3 * time.Second, 2 * time.Hour, 400 * 24 * time.Hour} {
		t.Run(back.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := at(time.Date(2024, 5, 10, 11, 59, 15, 0, time.UTC))
				type firing struct {
					job        string
					after, due time.Duration
				}
				var mu sync.Mutex // guards starts
				var starts []firing
				handle := func(ctx context.Context, in string) (string, error) {
					mu.Lock()
					defer mu.Unlock()
					starts = append(starts, firing{in, time.Since(epoch), time.Duration(scheduler.Current(ctx).ScheduledAt().UnixNano())})
					return "", nil
				}
				s := start(t, scheduler.WithClock(c), scheduler.WithHandler(echo, handle))
				mustSchedule(t, s, "beat", scheduler.Every(10*time.Second))
				mustSchedule(t, s, "minute", scheduler.Cron("* * * * *"))
				mustSchedule(t, s, "daily", scheduler.Cron("0 12 * * *"))
				time.Sleep(2 * time.Minute)
				c.Step(-back)
				time.Sleep(10 * time.Minute)
				synctest.Wait()

				seen := make(map[string]time.Duration)
				first := make(map[string]time.Duration)
				last := make(map[string]time.Duration)
				for _, r := range starts {
					key := fmt.Sprint(r.job, r.due)
					if _, twice := seen[key]; twice {
						t.Errorf("%s ran twice for %v", r.job, time.Unix(0, int64(r.due)).UTC())
					}
					seen[key] = r.after
					if r.after > 2*time.Minute && first[r.job] == 0 {
						first[r.job] = r.after
					}
					if before := last[r.job]; r.job == "beat" && before != 0 && r.after-before != 10*time.Second {
						t.Errorf("the beat of 10 s was %v at %v", r.after-before, r.after)
					}
					last[r.job] = r.after
				}
				if first["minute"] > 4*time.Minute {
					t.Errorf("the minute job was back %v after the step", first["minute"]-2*time.Minute)
				}
				if now := 12 * time.Minute; last["minute"] < now-time.Minute || last["beat"] < now-10*time.Second {
					t.Errorf("silent at the end: last starts %v of %v", last, now)
				}
			})
		})
	}
}

// Work and memory do not grow with the instants that were jumped over: the policy
// decides of one make-up run or none, and the next is counted from now.
func TestFieldBug04_ClockJumpsForward(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, 10 * 365 * 24 * time.Hour, 50 * 365 * 24 * time.Hour} {
		for name, c := range map[string]struct {
			policy scheduler.CatchUp
			made   []time.Duration // nominal times since the jump, which is half a second after a tick
		}{
			"latest": {scheduler.CatchUp{}, []time.Duration{-500 * time.Millisecond, 500 * time.Millisecond, 1500 * time.Millisecond}},
			"all, at most 100": {
				scheduler.CatchUp{Policy: scheduler.CatchUpAll, MaxCount: 100}, allOf(100),
			},
			"none, the last instant is not missed": {
				scheduler.CatchUp{Policy: scheduler.CatchUpNone},
				[]time.Duration{-500 * time.Millisecond, 500 * time.Millisecond, 1500 * time.Millisecond},
			},
		} {
			t.Run(fmt.Sprintf("%v/%s", by, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					clk := at(epoch)
					ran := make(chan time.Time, 1000)
					s := start(t, scheduler.WithClock(clk), scheduler.WithHandler(echo, func(ctx context.Context, _ string) (string, error) {
						ran <- scheduler.Current(ctx).ScheduledAt()
						return "", nil
					}))
					mustSchedule(t, s, "s", scheduler.Cron("* * * * * *"), scheduler.Misfire(c.policy), scheduler.Overlap(scheduler.OverlapAllow))
					time.Sleep(10*time.Second + 500*time.Millisecond)
					before := s.Health(t.Context()).Applied
					for len(ran) > 0 {
						<-ran
					}
					clk.Step(by)
					jumped := clk.Now()
					time.Sleep(1900 * time.Millisecond)
					var got []time.Duration
					for len(ran) > 0 {
						got = append(got, (<-ran).Sub(jumped))
					}
					slices.Sort(got) // what is made up beside others starts in no order
					if diff := cmp.Diff(c.made, got); diff != "" {
						t.Errorf("instants that ran (-want +got):\n%s", diff)
					}
					if n := s.Health(t.Context()).Applied - before; n > 20+3*uint64(c.policy.MaxCount) {
						t.Errorf("%d log entries", n)
					}
					n := 0
					for tick, err := range s.Ticks(t.Context(), "s", epoch.Add(30*time.Minute), jumped) {
						if err != nil || tick.Outcome == scheduler.TickRan {
							t.Fatalf("tick %+v, %v", tick, err)
						}
						if n++; n == 1000 {
							break
						}
					}
					if n != 1000 {
						t.Errorf("%d ticks are on record, want each of them", n)
					}
				})
			})
		}
	}
}

// allOf are the last n instants at the jump, and the two after it.
func allOf(n int) (made []time.Duration) {
	for i := range n + 2 {
		made = append(made, time.Duration(i-n+1)*time.Second-500*time.Millisecond)
	}
	return made
}

// What was decided before the clock was set back is not decided again, and does not
// stand in the way when it is right again.
func TestFieldBug03_ClockSetBackAndForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := at(epoch.Add(12 * time.Hour))
		var notes journal
		s := start(t, scheduler.WithClock(c), ticker(&notes, c))
		mustSchedule(t, s, "s", scheduler.Cron("* * * * *"))
		time.Sleep(150 * time.Second) // 12:02:30
		c.Step(-2 * time.Hour)
		time.Sleep(2 * time.Minute) // 10:04:30
		notes.take()
		c.Step(2 * time.Hour)
		time.Sleep(2 * time.Minute) // 12:06:30
		wantLines(t, "firings", notes.take(), "s 2000-01-01T12:04:00Z", "s 2000-01-01T12:05:00Z", "s 2000-01-01T12:06:00Z")
		seen := make(map[time.Time]bool)
		for _, tick := range collect(t, s.Ticks(t.Context(), "s", epoch, epoch.Add(24*time.Hour))) {
			if seen[tick.Nominal] {
				t.Errorf("two outcomes of %v", tick.Nominal)
			}
			seen[tick.Nominal] = true
		}
	})
}

// A run that has to wait for its time again does not hold up those behind it.
func TestFieldBug03_ClockSetBackWhileRunsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := at(time.Date(2024, 5, 10, 12, 0, 0, 0, time.UTC))
		s := start(t, scheduler.WithClock(c), scheduler.WithConcurrency(1), scheduler.WithHandler(echo, func(_ context.Context, in string) (string, error) {
			if in == "long" {
				time.Sleep(10 * time.Second)
			}
			return in, nil
		}))
		enqueue(t, s, echo, "long")
		time.Sleep(time.Second)
		wall := enqueue(t, s, echo, "wall", scheduler.At(c.Now()))
		c.Step(-time.Hour)
		time.Sleep(3 * time.Second)
		after := enqueue(t, s, echo, "after")
		time.Sleep(10 * time.Second)
		wantState(t, s, after.ID(), scheduler.Succeeded)
		wantState(t, s, wall.ID(), scheduler.Scheduled)
		time.Sleep(time.Hour)
		wantState(t, s, wall.ID(), scheduler.Succeeded)
	})
}

// The ledger of a pause over instants of which some had been decided before the
// clock was set back has each of them once.
func TestFieldBug03_ClockSetBackAndPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := at(epoch.Add(12*time.Hour + 10*time.Second))
		s := start(t, scheduler.WithClock(c), scheduler.WithHandler(echo, echoes))
		mustSchedule(t, s, "s", scheduler.Cron("* * * * *"), scheduler.Misfire(scheduler.CatchUp{Policy: scheduler.CatchUpNone}))
		time.Sleep(150 * time.Second) // 12:02:40
		c.Step(-time.Hour)
		time.Sleep(time.Minute) // 11:03:40
		if err := s.PauseSchedule(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		c.Step(2 * time.Hour) // 13:03:40
		time.Sleep(time.Minute)
		if err := s.ResumeSchedule(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		counts := make(map[scheduler.TickOutcome]int)
		for i, tick := range collect(t, s.Ticks(t.Context(), "s", epoch, epoch.Add(24*time.Hour))) {
			counts[tick.Outcome]++
			if want := epoch.Add(11*time.Hour + time.Duration(i+3)*time.Minute); !tick.Nominal.Equal(want) || !tick.Until.IsZero() {
				t.Fatalf("tick %d: got %+v, want that of %v", i, tick, want)
			}
		}
		if diff := cmp.Diff(map[scheduler.TickOutcome]int{scheduler.TickRan: 4, scheduler.TickPaused: 119}, counts); diff != "" {
			t.Errorf("ledger (-want +got):\n%s", diff)
		}
	})
}

// Last fired instants travel as instants: a restart at nine is no reason to run
// the job of eight again, in whatever zone.
func TestFieldBug07_RestartAfterTheRun(t *testing.T) {
	for _, zone := range []string{"Europe/Paris", "America/Los_Angeles", "Pacific/Kiritimati", "Pacific/Pago_Pago"} {
		t.Run(zone, func(t *testing.T) {
			loc, err := time.LoadLocation(zone)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				c := at(time.Date(2024, 6, 3, 7, 59, 0, 0, loc))
				var notes journal
				opts := []scheduler.Option{scheduler.WithDataDir(dir), scheduler.WithClock(c), ticker(&notes, c)}
				s := start(t, opts...)
				trigger := scheduler.Cron("0 8 * * *", scheduler.Zone(zone))
				mustSchedule(t, s, "s", trigger)
				time.Sleep(2 * time.Minute)
				eight := time.Date(2024, 6, 3, 8, 0, 0, 0, loc)
				wantLines(t, "firings", notes.take(), "s "+eight.UTC().Format(time.RFC3339))
				for restart := range 3 {
					shutdown(t, s)
					c.Step(20 * time.Minute)
					s = start(t, opts...)
					if restart == 1 {
						mustSchedule(t, s, "s", trigger) // saved once more, too
					}
					time.Sleep(time.Minute)
				}
				jump(c, eight.Add(23*time.Hour), time.Hour)
				wantLines(t, "firings before the next day", notes.take())
				jump(c, eight.Add(24*time.Hour), time.Hour)
				wantLines(t, "firings", notes.take(), "s "+eight.Add(24*time.Hour).UTC().Format(time.RFC3339))
			})
		})
	}
}

// A job of each week runs each week, however often its process is restarted; what
// was due during a restart runs under its own instant.
func TestFieldBug09_RestartsMoreOftenThanRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var notes journal
		opts := []scheduler.Option{scheduler.WithDataDir(dir), beat(&notes)}
		s := start(t, opts...)
		mustSchedule(t, s, "weekly", scheduler.Cron("@every 168h"))
		for range 22 {
			time.Sleep(time.Minute)
			shutdown(t, s)
			time.Sleep(24*time.Hour - time.Minute)
			s = start(t, opts...)
		}
		synctest.Wait()
		wantLines(t, "starts", notes.take(), "168h0m0s", "336h0m0s", "504h0m0s")
	})
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var notes journal
		opts := []scheduler.Option{scheduler.WithDataDir(dir), beat(&notes)}
		s := start(t, opts...)
		mustSchedule(t, s, "noon", scheduler.Cron("0 12 * * *"))
		shutdown(t, s)
		time.Sleep(12*time.Hour + 40*time.Second)
		s = start(t, opts...)
		synctest.Wait()
		wantLines(t, "starts", notes.take(), "12h0m40s for 12h0m0s")
		wantLines(t, "ledger", ledger(t, s, "noon", 0, 24*time.Hour), "12h0m0s ran late 40s: the scheduler was not running")
	})
}

// After a pause, or a time in which nothing ran, the next run comes within a
// minute, and the policy bounds what is made up.
func TestFieldBug22_PauseAndResume(t *testing.T) {
	for _, c := range []struct {
		policy scheduler.CatchUp
		madeUp []string
	}{
		{scheduler.CatchUp{Policy: scheduler.CatchUpNone}, nil},
		{scheduler.CatchUp{}, []string{"s 2000-01-02T12:00:00Z"}},
		{
			scheduler.CatchUp{Policy: scheduler.CatchUpAll, MaxCount: 3},
			[]string{"s 2000-01-02T11:58:00Z", "s 2000-01-02T11:59:00Z", "s 2000-01-02T12:00:00Z"},
		},
	} {
		t.Run(fmt.Sprint(c.policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clk := at(epoch)
				var notes journal
				s := start(t, scheduler.WithClock(clk), ticker(&notes, clk))
				mustSchedule(t, s, "s", scheduler.Cron("* * * * *"), scheduler.Misfire(c.policy))
				time.Sleep(30 * time.Second)
				if err := s.PauseSchedule(t.Context(), "s"); err != nil {
					t.Fatal(err)
				}
				jump(clk, epoch.Add(36*time.Hour), 10*time.Minute)
				if err := s.ResumeSchedule(t.Context(), "s"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2*time.Minute + time.Second)
				wantLines(t, "firings", notes.take(), append(c.madeUp, "s 2000-01-02T12:01:00Z", "s 2000-01-02T12:02:00Z")...)
				outcomes := make(map[scheduler.TickOutcome]int)
				for _, tick := range collect(t, s.Ticks(t.Context(), "s", epoch, clk.Now())) {
					outcomes[tick.Outcome]++
				}
				n := len(c.madeUp)
				if diff := cmp.Diff(map[scheduler.TickOutcome]int{scheduler.TickPaused: 36*60 - n, scheduler.TickRan: 2 + n}, outcomes); diff != "" {
					t.Errorf("ledger (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestFieldBug22_DownFor36Hours(t *testing.T) {
	for policy, made := range map[scheduler.CatchUpPolicy][]string{
		scheduler.CatchUpLatest: {"s 2000-01-02T12:00:00Z", "s 2000-01-02T12:01:00Z", "s 2000-01-02T12:02:00Z"},
		scheduler.CatchUpNone:   {"s 2000-01-02T12:01:00Z", "s 2000-01-02T12:02:00Z"},
	} {
		for _, cause := range []string{"time passes", "the clock is moved"} {
			t.Run(fmt.Sprintf("policy %d, %s", policy, cause), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					dir := t.TempDir()
					c := at(epoch)
					var notes journal
					opts := []scheduler.Option{scheduler.WithDataDir(dir), scheduler.WithClock(c), ticker(&notes, c)}
					s := start(t, opts...)
					mustSchedule(t, s, "s", scheduler.Cron("* * * * *"), scheduler.Misfire(scheduler.CatchUp{Policy: policy}))
					shutdown(t, s)
					if cause == "time passes" {
						time.Sleep(36*time.Hour + 30*time.Second)
					} else {
						c.Step(36*time.Hour + 30*time.Second)
					}
					start(t, opts...)
					time.Sleep(2 * time.Minute)
					wantLines(t, "firings", notes.take(), made...)
				})
			})
		}
	}
}

// An edit counts from itself: nothing is missed under the new rule that was due
// before, and saving it unchanged changes nothing.
func TestFieldBug23_ScheduleEdited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := at(time.Date(2024, 5, 9, 0, 0, 0, 0, time.UTC)) // a Thursday
		var notes journal
		s := start(t, scheduler.WithClock(c), ticker(&notes, c))
		friday := time.Date(2024, 5, 10, 0, 0, 0, 0, time.UTC)
		mustSchedule(t, s, "s", scheduler.Cron("30 11 * * 5"))
		jump(c, friday.Add(12*time.Hour), time.Hour)
		wantLines(t, "firings", notes.take(), "s 2024-05-10T11:30:00Z")
		jump(c, friday.Add(7*24*time.Hour-11*time.Minute), 12*time.Hour) // Thursday, 23:49

		expect := func(what string, next time.Time) {
			t.Helper()
			time.Sleep(5 * time.Second)
			if sc := schedule(t, s, "s"); !sc.Next.Equal(next) {
				t.Errorf("%s: next %v, want %v", what, sc.Next, next)
			}
			wantLines(t, "firings after: "+what, notes.take())
		}
		next := friday.Add(7 * 24 * time.Hour)
		mustSchedule(t, s, "s", scheduler.Cron("0 11 * * 5"))
		expect("an earlier hour", next.Add(11*time.Hour))
		mustSchedule(t, s, "s", scheduler.Cron("* * * * *"))
		expect("each minute", next.Add(-10*time.Minute))
		mustSchedule(t, s, "s", scheduler.Cron("30 11 * * 5"))
		expect("and back", next.Add(11*time.Hour+30*time.Minute))
		mustSchedule(t, s, "s", scheduler.Cron("30 11 * * 5"))
		expect("unchanged", next.Add(11*time.Hour+30*time.Minute))
		if err := s.Schedule(t.Context(), "s", scheduler.Cron("30 11 * * 5"), echo.With("other")); err != nil {
			t.Fatal(err)
		}
		expect("another input", next.Add(11*time.Hour+30*time.Minute))
		jump(c, next.Add(12*time.Hour), time.Hour)
		wantLines(t, "firings", notes.take(), "other 2024-05-17T11:30:00Z")
	})
}

// A retry of an old run is not touched by an edit.
func TestFieldBug23_RetryOfAnOldRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		s := start(t, scheduler.WithHandler(echo, func(ctx context.Context, in string) (string, error) {
			notes.add("%v %s", time.Since(epoch), in)
			return "", fmt.Errorf("no")
		}))
		hourly := scheduler.Cron("@hourly")
		if err := s.Schedule(t.Context(), "s", hourly, echo.With("old", exact(20*time.Minute, 2))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(70 * time.Minute)
		if err := s.Schedule(t.Context(), "s", hourly, echo.With("new", exact(20*time.Minute, 1))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(60 * time.Minute)
		wantLines(t, "attempts", notes.take(), "1h0m0s old", "1h20m0s old", "2h0m0s new")
	})
}

// Saving a schedule while its tick is on its way neither loses nor doubles it.
func TestFieldBug23_SavedWhileTheTickIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		s := start(t, beat(&notes))
		for i := range 60 {
			trigger := scheduler.Cron("*/10 * * * * *")
			mustSchedule(t, s, "s", trigger)
			if err := s.Schedule(t.Context(), "s", trigger, echo.With(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second - time.Duration(i)*time.Millisecond)
		}
		synctest.Wait()
		wantLines(t, "starts", notes.take(), "10s", "20s", "30s", "40s", "50s")
	})
}

// A clock that was far ahead for a while lets nothing freeze once it is right
// again: the ticks that it had let go come about.
func TestFieldBug04_ClockJumpsForwardAndBack(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, 50 * 365 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			c := at(epoch)
			var notes journal
			s := start(t, scheduler.WithClock(c), ticker(&notes, c))
			mustSchedule(t, s, "s", scheduler.Cron("* * * * *"))
			time.Sleep(90 * time.Second)
			c.Step(by)
			time.Sleep(80 * time.Second)
			c.Step(-by)
			notes.take()
			time.Sleep(3 * time.Minute)
			wantLines(t, "firings", notes.take(), "s 2000-01-01T00:03:00Z", "s 2000-01-01T00:04:00Z", "s 2000-01-01T00:05:00Z")
			var got []string
			for tick, err := range s.Ticks(t.Context(), "s", epoch, epoch.Add(8*time.Minute)) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, tick.Nominal.Format("15:04 ")+tick.Outcome.String())
			}
			wantLines(t, "ledger", got, "00:01 ran", "00:02 merged", "00:03 ran", "00:04 ran", "00:05 ran", "00:06 merged", "00:07 merged")
		})
	}
}
