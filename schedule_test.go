package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler"
)

// ledger returns the ticks of a schedule in [from, to), as lines with times since
// epoch.
func ledger(t *testing.T, s *scheduler.Scheduler, id string, from, to time.Duration) []string {
	t.Helper()
	var lines []string
	for _, tick := range collect(t, s.Ticks(t.Context(), id, epoch.Add(from), epoch.Add(to))) {
		line := tick.Nominal.Sub(epoch).String()
		if !tick.Until.IsZero() {
			line += "…" + tick.Until.Sub(epoch).String()
		}
		line += " " + tick.Outcome.String()
		if tick.Late > 0 {
			line += " late " + tick.Late.String()
		}
		if tick.Reason != "" {
			line += ": " + tick.Reason
		}
		lines = append(lines, line)
	}
	return lines
}

// schedule returns the named schedule.
func schedule(t *testing.T, s *scheduler.Scheduler, id string) scheduler.Schedule {
	t.Helper()
	for _, sc := range collect(t, s.Schedules(t.Context())) {
		if sc.ID == id {
			return sc
		}
	}
	t.Fatalf("no schedule %q", id)
	return scheduler.Schedule{}
}

// mustSchedule sets a schedule of echo.
func mustSchedule(t *testing.T, s *scheduler.Scheduler, id string, trigger scheduler.Trigger, opts ...scheduler.ScheduleOption) {
	t.Helper()
	if err := s.Schedule(t.Context(), id, trigger, echo.With(id), opts...); err != nil {
		t.Fatalf("Schedule: %v", err)
	}
}

// beat is a handler of echo that notes the start of each run and for which tick
// it is, since epoch.
func beat(notes *journal) scheduler.Option {
	return scheduler.WithHandler(echo, func(ctx context.Context, _ string) (string, error) {
		now, tick := time.Since(epoch), scheduler.Current(ctx).ScheduledAt().Sub(epoch)
		if now == tick {
			notes.add("%v", now)
		} else {
			notes.add("%v for %v", now, tick)
		}
		return "", nil
	})
}

func TestSchedule_Triggers(t *testing.T) {
	for _, c := range []struct {
		name    string
		trigger scheduler.Trigger
		from    time.Duration // since epoch, which is midnight of a Saturday in UTC
		forHow  time.Duration
		want    string // starts since epoch
	}{
		{"five fields", scheduler.Cron("*/20 1 * * SAT"), 59 * time.Minute, 62 * time.Minute, "1h0m0s 1h20m0s 1h40m0s"},
		{"five fields on another weekday", scheduler.Cron("*/20 1 * * SUN"), 59 * time.Minute, 62 * time.Minute, ""},
		{"six fields", scheduler.Cron("*/20 * * * * *"), 0, time.Minute, "20s 40s 1m0s"},
		{"hourly macro", scheduler.Cron("@hourly"), 59 * time.Minute, 62 * time.Minute, "1h0m0s 2h0m0s"},
		{"weekly macro", scheduler.Cron("@weekly"), 24*time.Hour - time.Minute, 2 * time.Minute, "24h0m0s"},
		{"zone", scheduler.Cron("0 9 * * *", scheduler.Zone("Asia/Shanghai")), 59 * time.Minute, 2 * time.Minute, "1h0m0s"},
		{"zone prefix", scheduler.Cron("TZ=Asia/Shanghai 0 9 * * *"), 59 * time.Minute, 2 * time.Minute, "1h0m0s"},
		{"@every", scheduler.Cron("@every 90s"), 0, 5 * time.Minute, "1m30s 3m0s 4m30s"},
		{"Every", scheduler.Every(1500 * time.Millisecond), 0, 5 * time.Second, "1.5s 3s 4.5s"},
		{
			"Times", scheduler.Times(epoch.Add(3*time.Minute), epoch.Add(-time.Hour), epoch.Add(time.Minute), epoch.Add(3*time.Minute)),
			0, 10 * time.Minute, "1m0s 3m0s",
		},
		{"Between", scheduler.Cron("* * * * *", scheduler.Between(epoch.Add(2*time.Minute), epoch.Add(4*time.Minute))), 0, 10 * time.Minute, "2m0s 3m0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clk := at(epoch.Add(c.from))
				var notes journal
				s := start(t, scheduler.WithClock(clk), scheduler.WithHandler(echo, func(ctx context.Context, _ string) (string, error) {
					now, tick := clk.Now().Sub(epoch), scheduler.Current(ctx).ScheduledAt().Sub(epoch)
					if now != tick {
						notes.add("at %v:", now)
					}
					notes.add("%v", tick)
					return "", nil
				}))
				mustSchedule(t, s, "s", c.trigger)
				time.Sleep(c.forHow)
				synctest.Wait()
				var want []string
				for at := range strings.FieldsSeq(c.want) {
					want = append(want, at+" ran")
				}
				wantLines(t, "ledger", ledger(t, s, "s", -24*time.Hour, 1000*time.Hour), want...)
				wantLines(t, "starts", notes.take(), strings.Fields(c.want)...)
			})
		})
	}
}

func TestSchedule_RunsAreAsTheCallSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithTasks("echo"))
		call := echo.With("x", scheduler.InQueue("q"), scheduler.Priority(scheduler.High), scheduler.Meta("k", "v"),
			scheduler.ExpireAfter(time.Minute))
		if err := s.Schedule(t.Context(), "s", scheduler.Cron("@hourly"), call); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		runs := collect(t, s.Runs(t.Context(), scheduler.RunFilter{Schedule: "s"}))
		if len(runs) != 1 {
			t.Fatalf("%d runs", len(runs))
		}
		r := runs[0]
		nominal := epoch.Add(time.Hour)
		if !r.ID.Time().Equal(nominal) {
			t.Errorf("ID.Time: got %v, want the nominal time %v", r.ID.Time(), nominal)
		}
		want := scheduler.Run{
			ID: r.ID, Task: "echo", Queue: "q", Priority: scheduler.High, State: scheduler.Ready, Due: nominal, Created: r.Created,
			Schedule: "s", Nominal: nominal, Meta: map[string]string{"k": "v"}, Input: []byte(`"x"`),
		}
		if diff := cmp.Diff(want, r, cmp.AllowUnexported(scheduler.Run{})); diff != "" {
			t.Errorf("run (-want +got):\n%s", diff)
		}
		time.Sleep(30 * time.Second)
		wantState(t, s, r.ID, scheduler.Ready)
		time.Sleep(31 * time.Second)
		wantState(t, s, r.ID, scheduler.Expired)
	})
}

func TestSchedule_Overlap(t *testing.T) {
	const (
		skipped  = " skipped: an earlier run has not ended"
		full     = skipped + ", and the queue of 1 is full"
		waited   = ": it waited for an earlier run"
		replaces = " ran: it took the place of an earlier run"
	)
	for _, c := range []struct {
		policy scheduler.OverlapPolicy
		starts string
		ledger []string
	}{
		{scheduler.OverlapSkip, "10s 40s", []string{
			"10s ran", "20s" + skipped, "30s" + skipped, "40s ran", "50s" + skipped,
		}},
		{scheduler.OverlapAllow, "10s 20s 30s 40s 50s 1m0s", []string{
			"10s ran", "20s ran", "30s ran", "40s ran", "50s ran",
		}},
		{scheduler.OverlapQueue(1), "10s 35s 1m0s", []string{
			"10s ran", "20s ran late 15s" + waited, "30s" + full, "40s ran late 20s" + waited, "50s" + full,
		}},
		{scheduler.OverlapQueue(9), "10s 35s 1m0s", []string{ // 40 s and 50 s still wait
			"10s ran", "20s ran late 15s" + waited, "30s ran late 30s" + waited,
		}},
		{scheduler.OverlapReplace, "10s 20s 30s 40s 50s 1m0s", []string{
			"10s ran", "20s" + replaces, "30s" + replaces, "40s" + replaces, "50s" + replaces,
		}},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, restart %v", c.policy, restart), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var notes journal
					opts := []scheduler.Option{scheduler.WithDataDir(t.TempDir()), scheduler.WithHandler(echo, func(ctx context.Context, _ string) (string, error) {
						notes.add("%v", time.Since(epoch).Truncate(time.Millisecond))
						select {
						case <-time.After(25 * time.Second):
						case <-ctx.Done():
						}
						return "", context.Cause(ctx)
					})}
					s := start(t, opts...)
					mustSchedule(t, s, "s", scheduler.Cron("*/10 * * * * *"), scheduler.Overlap(c.policy))
					time.Sleep(34 * time.Second)
					if restart { // what waits is in the state
						time.Sleep(200 * time.Millisecond)
						shutdown(t, s)
						s = start(t, opts...)
					}
					time.Sleep(61*time.Second - time.Since(epoch))
					if !restart {
						wantLines(t, "starts", notes.take(), strings.Fields(c.starts)...)
						wantLines(t, "ledger", ledger(t, s, "s", 0, time.Minute), c.ledger...)
					}
					if c.policy == scheduler.OverlapSkip {
						ticks := collect(t, s.Ticks(t.Context(), "s", epoch, epoch.Add(time.Minute)))
						if ticks[1].Run != ticks[0].Run || ticks[2].Run != ticks[0].Run {
							t.Errorf("a skipped tick names the run that was in its way: %+v", ticks)
						}
					}
					time.Sleep(3 * time.Minute)
					for i, tick := range collect(t, s.Ticks(t.Context(), "s", epoch, epoch.Add(2*time.Minute))) {
						if want := epoch.Add(time.Duration(i+1) * 10 * time.Second); !tick.Nominal.Equal(want) {
							t.Fatalf("outcome %d is of %v, want that of %v", i, tick.Nominal, want)
						}
					}
					if n := schedule(t, s, "s").Waiting; n > 9 {
						t.Errorf("%d starts wait", n)
					}
				})
			})
		}
	}
}

func TestSchedule_OverlapDecidedAtTheDueTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The run before ends a moment before the tick, within the release ahead.
		s := start(t, scheduler.WithHandler(echo, func(context.Context, string) (string, error) {
			time.Sleep(10*time.Second - time.Millisecond)
			return "", nil
		}))
		mustSchedule(t, s, "s", scheduler.Cron("*/10 * * * * *"))
		time.Sleep(31 * time.Second)
		wantLines(t, "ledger", ledger(t, s, "s", 0, 31*time.Second), "10s ran", "20s ran", "30s ran")
	})
}

func TestSchedule_Versions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithHandler(echo, echoes))
		set := func(trigger scheduler.Trigger, call scheduler.Call, opts ...scheduler.ScheduleOption) int {
			t.Helper()
			time.Sleep(time.Second)
			if err := s.Schedule(t.Context(), "s", trigger, call, opts...); err != nil {
				t.Fatal(err)
			}
			return schedule(t, s, "s").Version
		}
		daily := scheduler.Cron("@daily")
		for i, c := range []struct {
			what string
			got  int
			want int
		}{
			{"created", set(daily, echo.With("a")), 1},
			{"unchanged", set(daily, echo.With("a")), 1},
			{"built anew, the same", set(scheduler.Cron("@daily"), echo.With("a")), 1},
			{"another input", set(daily, echo.With("b")), 2},
			{"another option", set(daily, echo.With("b", scheduler.Priority(scheduler.High))), 3},
			{"another trigger", set(scheduler.Every(time.Hour), echo.With("b", scheduler.Priority(scheduler.High))), 4},
			{"another overlap", set(scheduler.Every(time.Hour), echo.With("b", scheduler.Priority(scheduler.High)), scheduler.Overlap(scheduler.OverlapAllow)), 5},
			{"and again", set(scheduler.Every(time.Hour), echo.With("b", scheduler.Priority(scheduler.High)), scheduler.Overlap(scheduler.OverlapAllow)), 5},
		} {
			if c.got != c.want {
				t.Errorf("step %d, %s: version %d, want %d", i, c.what, c.got, c.want)
			}
		}
		sc := schedule(t, s, "s")
		if !sc.Created.Equal(epoch.Add(time.Second)) || !sc.Changed.Equal(epoch.Add(7*time.Second)) || sc.Task != "echo" {
			t.Errorf("got %+v", sc)
		}
	})
}

// What becomes of the ticks met in a pause is for the catch-up policy to say.
func TestPauseSchedule(t *testing.T) {
	const paused = " paused: the schedule was paused"
	for _, c := range []struct {
		name   string
		policy scheduler.CatchUp
		starts []string
		ledger []string
	}{
		{"none", scheduler.CatchUp{Policy: scheduler.CatchUpNone}, nil, []string{"2m0s" + paused, "3m0s" + paused, "4m0s" + paused}},
		{
			"latest",
			scheduler.CatchUp{},
			[]string{"4m10s for 4m0s"},
			[]string{"2m0s" + paused, "3m0s" + paused, "4m0s ran late 10s"},
		},
		{
			"latest, not too old",
			scheduler.CatchUp{MaxAge: 9 * time.Second},
			nil,
			[]string{"2m0s" + paused, "3m0s" + paused, "4m0s" + paused},
		},
		{
			"all",
			scheduler.CatchUp{Policy: scheduler.CatchUpAll},
			[]string{"4m10s for 2m0s", "4m10s for 3m0s", "4m10s for 4m0s"},
			[]string{"2m0s ran late 2m10s: it was made up", "3m0s ran late 1m10s: it was made up", "4m0s ran late 10s: it was made up"},
		},
		{
			"all, at most two, at a pace",
			scheduler.CatchUp{Policy: scheduler.CatchUpAll, MaxCount: 2, Pace: 10 * time.Second},
			[]string{"4m10s for 3m0s", "4m20s for 4m0s"},
			[]string{"2m0s" + paused, "3m0s ran late 1m10s: it was made up", "4m0s ran late 20s: it was made up"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var notes journal
				s := start(t, beat(&notes))
				mustSchedule(t, s, "s", scheduler.Cron("* * * * *"), scheduler.Misfire(c.policy))
				time.Sleep(90 * time.Second)
				for range 2 {
					if err := s.PauseSchedule(t.Context(), "s"); err != nil {
						t.Fatal(err)
					}
				}
				if sc := schedule(t, s, "s"); !sc.Paused || !sc.Next.IsZero() {
					t.Errorf("paused: %+v", sc)
				}
				time.Sleep(160 * time.Second)
				wantLines(t, "starts before the end", notes.take(), "1m0s")
				wantLines(t, "ledger of the pause", ledger(t, s, "s", 61*time.Second, time.Hour), "2m0s paused: the schedule is paused",
					"3m0s paused: the schedule is paused", "4m0s paused: the schedule is paused")
				for range 2 {
					if err := s.ResumeSchedule(t.Context(), "s"); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(45 * time.Second)
				if sc := schedule(t, s, "s"); sc.Paused || !sc.Next.Equal(epoch.Add(5*time.Minute)) || sc.Version != 1 {
					t.Errorf("resumed: %+v", sc)
				}
				time.Sleep(30 * time.Second)
				wantStarts(t, notes.take(), append(c.starts, "5m0s")...)
				wantLines(t, "ledger", ledger(t, s, "s", 0, time.Hour), append(append([]string{"1m0s ran"}, c.ledger...), "5m0s ran")...)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := start(t)
		wantErr(t, "PauseSchedule of none", s.PauseSchedule(t.Context(), "none"), scheduler.ErrNotFound)
		wantErr(t, "ResumeSchedule of none", s.ResumeSchedule(t.Context(), "none"), scheduler.ErrNotFound)
	})
}

// wantStarts compares starts that beat has noted; what is made up may start some
// hundredths of a second later than it could.
func wantStarts(t *testing.T, got []string, want ...string) {
	t.Helper()
	for i, line := range got {
		if at, tick, late := strings.Cut(line, " for "); late {
			if d, err := time.ParseDuration(at); err == nil {
				got[i] = d.Truncate(100*time.Millisecond).String() + " for " + tick
			}
		}
	}
	wantLines(t, "starts", got, want...)
}

func TestPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		s := start(t, beat(&notes))
		mustSchedule(t, s, "s", scheduler.Cron("* * * * *"), scheduler.Paused())
		time.Sleep(150 * time.Second)
		wantLines(t, "starts", notes.take())
		if err := s.ResumeSchedule(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantLines(t, "starts", notes.take(), "2m30s for 2m0s")
		mustSchedule(t, s, "s", scheduler.Cron("* * * * *"), scheduler.Paused()) // of one that exists
		time.Sleep(time.Minute)
		synctest.Wait()
		wantLines(t, "starts", notes.take(), "3m0s")
	})
}

func TestDeleteSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handle, release := blocker()
		s := start(t, scheduler.WithHandler(block, handle))
		every := scheduler.Every(time.Minute)
		if err := s.Schedule(t.Context(), "s", every, block.With(1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Second)
		run := schedule(t, s, "s").Live[0]
		if err := s.DeleteSchedule(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "DeleteSchedule again", s.DeleteSchedule(t.Context(), "s"), scheduler.ErrNotFound)
		wantLines(t, "ledger of the deleted", ledger(t, s, "s", 0, time.Hour), "1m0s ran")
		time.Sleep(time.Hour)
		wantState(t, s, run, scheduler.Running)
		if n := len(collect(t, s.Runs(t.Context(), scheduler.RunFilter{}))); n != 1 {
			t.Errorf("%d runs, want 1", n)
		}
		close(release)
		synctest.Wait()
		wantState(t, s, run, scheduler.Succeeded)

		if err := s.Schedule(t.Context(), "s", every, block.With(1)); err != nil { // under the same name
			t.Fatal(err)
		}
		if sc := schedule(t, s, "s"); sc.Version != 2 || len(sc.Live) != 0 {
			t.Errorf("the new one does not go on after the old: %+v", sc)
		}
		wantLines(t, "ledger that goes on", ledger(t, s, "s", 0, 24*time.Hour), "1m0s ran")
	})
}

func TestDeleteSchedule_AndCreateWhileItsRunIsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handle, release := blocker()
		s := start(t, scheduler.WithHandler(block, handle))
		for range 2 {
			if err := s.Schedule(t.Context(), "s", scheduler.Every(time.Minute), block.With(1)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(90 * time.Second)
			if err := s.DeleteSchedule(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
		}
		if n := live(t, s); n != 2 {
			t.Errorf("%d live runs, want one of each schedule", n)
		}
		close(release)
	})
}

// The key of the ledger is the schedule's ID and the nominal time: a tick that was
// released ahead is not decided again for one that is made under the same ID.
func TestDeleteSchedule_AndCreateWhileTheTickIsReleased(t *testing.T) {
	for kind, trigger := range map[string]scheduler.Trigger{
		"cron": scheduler.Cron("* * * * *"), "another cron": scheduler.Cron("*/2 * * * *"), "every": scheduler.Every(time.Minute),
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart %v", kind, restart), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					dir := t.TempDir()
					var notes journal
					s := start(t, scheduler.WithDataDir(dir), beat(&notes))
					mustSchedule(t, s, "s", scheduler.Cron("* * * * *"))
					time.Sleep(2*time.Minute - 20*time.Millisecond)
					if err := s.DeleteSchedule(t.Context(), "s"); err != nil {
						t.Fatal(err)
					}
					if restart {
						shutdown(t, s)
						s = start(t, scheduler.WithDataDir(dir), beat(&notes))
					}
					mustSchedule(t, s, "s", trigger)
					time.Sleep(30 * time.Second)
					synctest.Wait()
					wantLines(t, "starts", notes.take(), "1m0s", "2m0s")
					wantLines(t, "ledger", ledger(t, s, "s", 0, 150*time.Second), "1m0s ran", "2m0s ran")
				})
			})
		}
	}
}

// What was decided stays so over a deletion, also if the clock is set back.
func TestDeleteSchedule_AndCreateAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := at(epoch)
		var notes journal
		s := start(t, scheduler.WithClock(c), ticker(&notes, c))
		mustSchedule(t, s, "s", scheduler.Cron("* * * * *"))
		time.Sleep(150 * time.Second)
		notes.take()
		if err := s.DeleteSchedule(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		c.Step(-time.Minute)
		mustSchedule(t, s, "s", scheduler.Cron("* * * * *"))
		time.Sleep(2 * time.Minute)
		wantLines(t, "firings", notes.take(), "s 2000-01-01T00:03:00Z")
	})
}

func TestMisfire(t *testing.T) {
	const gone = "the scheduler was not running"
	for _, c := range []struct {
		name   string
		policy scheduler.CatchUp
		down   time.Duration // from 1m30s on
		starts []string
		ledger []string
	}{
		{"latest", scheduler.CatchUp{}, 200 * time.Second, []string{"4m50s for 4m0s", "5m0s"}, []string{
			"1m0s ran", "2m0s merged: " + gone, "3m0s merged: " + gone, "4m0s ran late 50s: the scheduler was not running", "5m0s ran",
		}},
		{"none", scheduler.CatchUp{Policy: scheduler.CatchUpNone}, 200 * time.Second, []string{"5m0s"}, []string{
			"1m0s ran", "2m0s missed: " + gone, "3m0s missed: " + gone, "4m0s missed: " + gone, "5m0s ran",
		}},
		{"none, the last one hardly late", scheduler.CatchUp{Policy: scheduler.CatchUpNone}, 155 * time.Second, []string{"4m5s for 4m0s", "5m0s"}, []string{
			"1m0s ran", "2m0s missed: " + gone, "3m0s missed: " + gone, "4m0s ran late 5s", "5m0s ran",
		}},
		{"too old", scheduler.CatchUp{MaxAge: 49 * time.Second}, 200 * time.Second, []string{"5m0s"}, []string{
			"1m0s ran", "2m0s missed: it was older than the schedule allows", "3m0s missed: it was older than the schedule allows",
			"4m0s missed: it was older than the schedule allows", "5m0s ran",
		}},
		{"not too old", scheduler.CatchUp{MaxAge: 50 * time.Second}, 200 * time.Second, []string{"4m50s for 4m0s", "5m0s"}, []string{
			"1m0s ran", "2m0s merged: " + gone, "3m0s merged: " + gone, "4m0s ran late 50s: the scheduler was not running", "5m0s ran",
		}},
	} {
		for kind, trigger := range map[string]scheduler.Trigger{"cron": scheduler.Cron("* * * * *"), "every": scheduler.Every(time.Minute)} {
			t.Run(c.name+" of "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					dir := t.TempDir()
					var notes journal
					s := start(t, scheduler.WithDataDir(dir), beat(&notes))
					mustSchedule(t, s, "s", trigger, scheduler.Misfire(c.policy))
					time.Sleep(90 * time.Second)
					notes.take()
					shutdown(t, s)
					time.Sleep(c.down)
					s = start(t, scheduler.WithDataDir(dir), beat(&notes))
					time.Sleep(330*time.Second - time.Since(epoch))
					wantLines(t, "starts", notes.take(), c.starts...)
					wantLines(t, "ledger", ledger(t, s, "s", 0, time.Hour), c.ledger...)
				})
			})
		}
	}
}

func TestTicks(t *testing.T) {
	t.Run("a span is taken apart within the range that is asked for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			opts := []scheduler.Option{scheduler.WithDataDir(dir), scheduler.WithHandler(echo, echoes)}
			s := start(t, opts...)
			mustSchedule(t, s, "s", scheduler.Cron("*/10 * * * *"))
			shutdown(t, s)
			time.Sleep(30 * 24 * time.Hour)
			s = start(t, opts...)
			synctest.Wait()
			const gone = " merged: the scheduler was not running"
			for _, flushed := range []bool{false, true} {
				if flushed {
					time.Sleep(time.Minute)
				}
				wantLines(t, "in the middle", ledger(t, s, "s", 100*time.Hour, 100*time.Hour+20*time.Minute), "100h0m0s"+gone, "100h10m0s"+gone)
				wantLines(t, "off the beat", ledger(t, s, "s", 100*time.Hour+1, 100*time.Hour+20*time.Minute+1), "100h10m0s"+gone, "100h20m0s"+gone)
				wantLines(t, "nothing there", ledger(t, s, "s", 100*time.Hour+1, 100*time.Hour+10*time.Minute))
				if got := len(ledger(t, s, "s", 0, 31*24*time.Hour)); got != 30*24*6 {
					t.Errorf("%d ticks in all, want %d", got, 30*24*6)
				}
			}
		})
	})
	t.Run("those of an older version stay readable, and do not spoil the newer ones", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, scheduler.WithHandler(echo, echoes))
			pause := func() {
				if err := s.PauseSchedule(t.Context(), "s"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Hour)
				if err := s.ResumeSchedule(t.Context(), "s"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
			}
			time.Sleep(time.Minute)
			none := scheduler.Misfire(scheduler.CatchUp{Policy: scheduler.CatchUpNone})
			mustSchedule(t, s, "s", scheduler.Cron("@hourly"), none)
			pause()
			mustSchedule(t, s, "s", scheduler.Cron("30 * * * *"), none)
			pause()
			const was = " paused: the schedule was paused"
			wantLines(t, "ledger", ledger(t, s, "s", 0, 24*time.Hour), "1h0m0s…2h0m0s"+was, "2h30m0s"+was, "3h30m0s"+was)
		})
	})
}

func TestSchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithTasks("echo"))
		mustSchedule(t, s, "b", scheduler.Cron("@daily"))
		mustSchedule(t, s, "a", scheduler.Every(time.Hour))
		mustSchedule(t, s, "c", scheduler.Times(epoch)) // has passed
		var got []string
		for _, sc := range collect(t, s.Schedules(t.Context())) {
			next := "never"
			if !sc.Next.IsZero() {
				next = sc.Next.Sub(epoch).String()
			}
			got = append(got, fmt.Sprintf("%s %s %s", sc.ID, sc.Task, next))
		}
		wantLines(t, "schedules", got, "a echo 1h0m0s", "b echo 24h0m0s", "c echo never")
		ticks, err := schedule(t, s, "b").Trigger.Next(epoch, 2)
		if err != nil || len(ticks) != 2 || !ticks[1].Equal(epoch.Add(48*time.Hour)) {
			t.Errorf("Trigger of a schedule that was read: got %v, %v", ticks, err)
		}
	})
}

func TestSchedule_BadInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithTasks("echo"))
		hourly := scheduler.Every(time.Hour)
		for name, c := range map[string]struct {
			id      string
			trigger scheduler.Trigger
			call    scheduler.Call
			opts    []scheduler.ScheduleOption
			want    error
		}{
			"unknown task":           {"s", hourly, block.With(1), nil, scheduler.ErrUnknownTask},
			"empty ID":               {"", hourly, echo.With(""), nil, scheduler.ErrInvalid},
			"newline in ID":          {"a\nb", hourly, echo.With(""), nil, scheduler.ErrInvalid},
			"zero trigger":           {"s", scheduler.Trigger{}, echo.With(""), nil, scheduler.ErrInvalid},
			"no times":               {"s", scheduler.Times(), echo.With(""), nil, scheduler.ErrInvalid},
			"interval of nothing":    {"s", scheduler.Every(0), echo.With(""), nil, scheduler.ErrInvalid},
			"negative interval":      {"s", scheduler.Cron("@every -1h"), echo.With(""), nil, scheduler.ErrInvalid},
			"interval not a time":    {"s", scheduler.Cron("@every soon"), echo.With(""), nil, scheduler.ErrInvalid},
			"delay":                  {"s", hourly, echo.With("", scheduler.In(time.Hour)), nil, scheduler.ErrInvalid},
			"time":                   {"s", hourly, echo.With("", scheduler.At(epoch)), nil, scheduler.ErrInvalid},
			"unique key":             {"s", hourly, echo.With("", scheduler.Unique("k")), nil, scheduler.ErrInvalid},
			"negative age":           {"s", hourly, echo.With(""), []scheduler.ScheduleOption{scheduler.Misfire(scheduler.CatchUp{MaxAge: -1})}, scheduler.ErrInvalid},
			"no such overlap":        {"s", hourly, echo.With(""), []scheduler.ScheduleOption{scheduler.Overlap(99)}, scheduler.ErrInvalid},
			"no such catch-up":       {"s", hourly, echo.With(""), []scheduler.ScheduleOption{scheduler.Misfire(scheduler.CatchUp{Policy: 99})}, scheduler.ErrInvalid},
			"nil option":             {"s", hourly, echo.With(""), []scheduler.ScheduleOption{nil}, scheduler.ErrInvalid},
			"nil trigger option":     {"s", scheduler.Cron("@daily", nil), echo.With(""), nil, scheduler.ErrInvalid},
			"no such DST policy":     {"s", scheduler.Cron("@daily", scheduler.DST(99)), echo.With(""), nil, scheduler.ErrInvalid},
			"zone of an interval":    {"s", scheduler.Every(time.Hour, scheduler.Zone("Europe/Paris")), echo.With(""), nil, scheduler.ErrInvalid},
			"range that is empty":    {"s", scheduler.Cron("@daily", scheduler.Between(epoch, epoch)), echo.With(""), nil, scheduler.ErrInvalid},
			"time not representable": {"s", scheduler.Times(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)), echo.With(""), nil, scheduler.ErrInvalid},
		} {
			func() {
				defer func() {
					if r := recover(); r != nil {
						t.Errorf("%s: panic: %v", name, r)
					}
				}()
				wantErr(t, name, s.Schedule(t.Context(), c.id, c.trigger, c.call, c.opts...), c.want)
				if errors.Is(c.want, scheduler.ErrInvalid) {
					_, err := scheduler.New(scheduler.WithTasks("echo"), scheduler.WithSchedule(c.id, c.trigger, c.call, c.opts...))
					wantErr(t, name+" in New", err, c.want)
				}
			}()
		}
		if got := collect(t, s.Schedules(t.Context())); len(got) != 0 {
			t.Errorf("schedules are there: %v", got)
		}
	})
}

func TestSchedule_BadCron(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithTasks("echo"))
		for expr, pos := range map[string]int{
			"":               0,
			"* * * *":        -1,
			"* * * * * * *":  -1,
			"0 24 * * *":     2,
			"0 9 * * MOO":    8,
			"0 9 */0 * *":    -1,
			"@fortnightly":   0,
			"* 10-5-3 * * *": -1,
		} {
			err := s.Schedule(t.Context(), "s", scheduler.Cron(expr), echo.With(""))
			var syntax *scheduler.SyntaxError
			if !errors.As(err, &syntax) {
				t.Errorf("%q: got %v, want a SyntaxError", expr, err)
				continue
			}
			wantErr(t, expr, err, scheduler.ErrInvalid)
			if syntax.Expr != expr || syntax.Msg == "" || pos >= 0 && syntax.Pos != pos {
				t.Errorf("%q: got %+v, want position %d", expr, syntax, pos)
			}
			if _, err := scheduler.Cron(expr).Next(epoch, 1); !errors.As(err, &syntax) {
				t.Errorf("%q: Next: got %v", expr, err)
			}
		}
		for _, zone := range []string{"Europe/Atlantis", "../../etc/passwd", "PST8", "UTC+1"} {
			err := s.Schedule(t.Context(), "s", scheduler.Cron("@daily", scheduler.Zone(zone)), echo.With(""))
			if !errors.Is(err, scheduler.ErrInvalid) || !strings.Contains(err.Error(), zone) {
				t.Errorf("zone %q: got %v", zone, err)
			}
		}
	})
}

func TestTicks_ZeroTimesAreNoBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithHandler(echo, echoes))
		mustSchedule(t, s, "s", scheduler.Every(time.Minute))
		time.Sleep(3*time.Minute + time.Second)
		if got := collect(t, s.Ticks(t.Context(), "s", time.Time{}, time.Time{})); len(got) != 3 {
			t.Errorf("got %d ticks, want 3", len(got))
		}
		if got := collect(t, s.Ticks(t.Context(), "s", epoch.Add(2*time.Minute), time.Time{})); len(got) != 2 {
			t.Errorf("got %d ticks from the second on, want 2", len(got))
		}
	})
}

// A tick is released a little before it is due. An edit in that moment, and back,
// does not bring it about again.
func TestSchedule_EditedWhileATickIsReleasedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithHandler(echo, echoes))
		set := func(trigger scheduler.Trigger) {
			t.Helper()
			if err := s.Schedule(t.Context(), "s", trigger, echo.With(""), scheduler.Overlap(scheduler.OverlapAllow)); err != nil {
				t.Fatal(err)
			}
		}
		hourly := scheduler.Cron("0 * * * *")
		set(hourly)
		next, err := hourly.Next(time.Now(), 1)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(next[0]) - 10*time.Millisecond)
		set(scheduler.Every(time.Hour))
		set(hourly)
		time.Sleep(time.Minute)
		runs := collect(t, s.Runs(t.Context(), scheduler.RunFilter{Schedule: "s"}))
		if len(runs) != 1 {
			t.Errorf("runs: got %d, want 1", len(runs))
		}
		time.Sleep(time.Hour)
		if runs := collect(t, s.Runs(t.Context(), scheduler.RunFilter{Schedule: "s"})); len(runs) != 2 {
			t.Errorf("runs an hour later: got %d, want 2", len(runs))
		}
	})
}
