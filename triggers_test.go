package scheduler_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/engine/cron"
	"github.com/escapement-go/scheduler/internal/sim"
)

// each ticks at the multiples of its parameter.
func each(params json.RawMessage) (cron.Schedule, error) {
	var p struct{ Every time.Duration }
	if err := json.Unmarshal(params, &p); err != nil || p.Every <= 0 {
		return nil, fmt.Errorf("want a period: %w", errors.Join(err))
	}
	return beats(p.Every), nil
}

type beats time.Duration

func (b beats) Next(after time.Time) time.Time {
	return after.Truncate(time.Duration(b)).Add(time.Duration(b))
}

func TestCustom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		opts := []scheduler.Option{scheduler.WithDataDir(t.TempDir()), beat(&notes)}
		with := append(opts, scheduler.WithTrigger("each", each))
		s := start(t, with...)
		custom := scheduler.Custom("each", map[string]any{"Every": 90 * time.Second})
		mustSchedule(t, s, "s", custom, scheduler.Misfire(scheduler.CatchUp{Policy: scheduler.CatchUpAll}))
		time.Sleep(200 * time.Second)
		wantLines(t, "starts", notes.take(), "1m30s", "3m0s")
		for what, trigger := range map[string]scheduler.Trigger{
			"another name": scheduler.Custom("none", nil), "bad parameters": scheduler.Custom("each", 1), "no JSON": scheduler.Custom("each", func() {}),
		} {
			wantErr(t, what, s.Schedule(t.Context(), "x", trigger, echo.With("")), scheduler.ErrInvalid)
		}
		shutdown(t, s)

		// A build without it: the schedule stands still and says so, others go on.
		s = start(t, opts...)
		mustSchedule(t, s, "other", scheduler.Cron("* * * * *"))
		time.Sleep(400*time.Second - time.Since(epoch))
		wantLines(t, "starts of the other", notes.take(), "4m0s", "5m0s", "6m0s")
		ticks := collect(t, s.Ticks(t.Context(), "s", epoch.Add(200*time.Second), epoch.Add(time.Hour)))
		if len(ticks) != 1 || ticks[0].Outcome != scheduler.TickBlocked || ticks[0].Nominal.Sub(epoch) != 270*time.Second {
			t.Errorf("ledger: got %+v, want the tick of 4m30s to be blocked", ticks)
		}
		shutdown(t, s)

		start(t, with...)
		time.Sleep(time.Second)
		if got := notes.take(); len(got) != 2 {
			t.Errorf("starts: %v, want the ticks of 4m30s and 6m0s to be made up", got)
		}
	})
}

// moody ticks each minute, in the way that its mood says.
type moody struct {
	mood  atomic.Pointer[func()] // called before each answer; nil: nothing
	stuck atomic.Int64           // calls that have not returned
}

func (m *moody) set(f func()) { m.mood.Store(&f) }

func (m *moody) trigger(name string) scheduler.Option {
	return scheduler.WithTrigger(name, func(json.RawMessage) (cron.Schedule, error) { return m, nil })
}

func (m *moody) Next(after time.Time) time.Time {
	if f := m.mood.Load(); f != nil && *f != nil {
		m.stuck.Add(1)
		defer m.stuck.Add(-1)
		(*f)()
	}
	return after.Truncate(time.Minute).Add(time.Minute)
}

// wantReason fails the test unless one of the reasons of the node's health has the text;
// "" is for none at all.
func wantReason(t *testing.T, s *scheduler.Scheduler, text string) {
	t.Helper()
	h := s.Health(t.Context())
	if got := strings.Join(h.Reasons, "; "); !h.OK || !strings.Contains(got, text) || text == "" && got != "" {
		t.Errorf("health: %v, %q; want %q", h.OK, got, text)
	}
}

// wantExplained fails the test unless the explanation of a tick has the text.
func wantExplained(t *testing.T, s *scheduler.Scheduler, id string, at time.Duration, text string) {
	t.Helper()
	e, err := s.ExplainTick(t.Context(), id, epoch.Add(at))
	if err != nil || !strings.Contains(e.Reason, text) {
		t.Errorf("tick of %v: %q, %v; want %q", at, e.Reason, err, text)
	}
}

func TestCustom_a_panic_holds_up_its_own_schedule_alone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		var m moody
		s := start(t, beat(&notes), m.trigger("moody"),
			scheduler.WithTrigger("at once", func(json.RawMessage) (cron.Schedule, error) { panic("no") }))
		mustSchedule(t, s, "s", scheduler.Custom("moody", nil))
		mustSchedule(t, s, "other", scheduler.Cron("*/4 * * * *"))
		if err := s.Schedule(t.Context(), "x", scheduler.Custom("at once", nil), echo.With("")); err == nil {
			t.Error("a trigger that panics when it is made was accepted")
		}
		time.Sleep(90 * time.Second)
		m.set(func() { panic("on fire") })
		time.Sleep(40 * time.Second)
		wantExplained(t, s, "s", 3*time.Minute, `it is to come in 50s, but its trigger "moody" gives no answer for `)
		time.Sleep(2*time.Minute + 21*time.Second)
		wantLines(t, "starts", notes.take(), "1m0s", "2m0s", "4m0s") // what follows 2m was known
		const told = `its trigger "moody" gives no answer for `
		wantReason(t, s, `schedule "s" waits: `+told)
		wantReason(t, s, "it panics: on fire")
		wantExplained(t, s, "s", 3*time.Minute, "it was blocked: "+told)
		m.set(nil)
		time.Sleep(31 * time.Second)
		wantReason(t, s, "")
		if got := notes.take(); len(got) != 1 {
			t.Errorf("starts: %v, want the last that was missed", got)
		}
		const why = "the trigger had given no answer"
		wantLines(t, "ledger", ledger(t, s, "s", 0, 5*time.Minute), "1m0s ran", "2m0s ran", "3m0s merged: "+why, "4m0s merged: "+why)
	})
}

func TestCustom_one_that_hangs_holds_up_its_own_schedule_alone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		var m moody
		release := make(chan struct{})
		s := start(t, beat(&notes), m.trigger("moody"))
		mustSchedule(t, s, "s", scheduler.Custom("moody", nil))
		mustSchedule(t, s, "other", scheduler.Cron("*/2 * * * *"))
		time.Sleep(time.Second)
		m.set(func() { <-release })
		time.Sleep(10*time.Minute + time.Second)
		wantLines(t, "starts", notes.take(), "1m0s", "2m0s", "4m0s", "6m0s", "8m0s", "10m0s")
		wantReason(t, s, "it has not answered in time")
		wantExplained(t, s, "s", 2*time.Minute, "it was blocked: ")
		loads, err := s.Forecast(t.Context(), time.Now(), time.Now().Add(time.Hour))
		wantErr(t, "Forecast", err, scheduler.ErrTriggerUnavailable)
		if len(loads) != 30 {
			t.Errorf("Forecast: %d minutes, want the thirty of the other schedule", len(loads))
		}
		for range 10 { // queries do not pile up what hangs
			err := s.Schedule(t.Context(), "s", scheduler.Custom("moody", 1), echo.With(""))
			if !errors.Is(err, scheduler.ErrTriggerUnavailable) || errors.Is(err, scheduler.ErrInvalid) {
				t.Errorf("Schedule: %v", err)
			}
			_, err = s.Backfill(t.Context(), "s", epoch, epoch.Add(time.Minute), 0)
			wantErr(t, "Backfill", err, scheduler.ErrTriggerUnavailable)
			wantExplained(t, s, "s", 30*time.Second, "it has not answered in time")
		}
		if n := m.stuck.Load(); n > 2 {
			t.Errorf("%d calls of the trigger hang, want one for the schedule and one for queries at most", n)
		}
		m.set(nil)
		close(release)
		time.Sleep(31 * time.Second)
		wantReason(t, s, "")
		time.Sleep(2 * time.Minute)
		if got := notes.take(); len(got) < 3 {
			t.Errorf("starts after it has come back: %v", got)
		}
		release = make(chan struct{}) // it hangs over the shutdown
		m.set(func() { <-release })
		time.Sleep(5 * time.Minute)
		shutdown(t, s)
		close(release)
	})
}

// One that needs longer than the patience for a question, and less than an interval,
// makes no tick late.
func TestCustom_a_slow_one_is_asked_in_time(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		var m moody
		opts := []scheduler.Option{scheduler.WithDataDir(t.TempDir()), beat(&notes), m.trigger("moody")}
		s := start(t, opts...)
		mustSchedule(t, s, "s", scheduler.Custom("moody", nil))
		m.set(func() { time.Sleep(12 * time.Second) })
		time.Sleep(4*time.Minute + time.Second)
		wantLines(t, "starts", notes.take(), "1m0s", "2m0s", "3m0s", "4m0s")
		shutdown(t, s) // an outage: it takes a few calls to find out what was missed
		time.Sleep(3 * time.Minute)
		s = start(t, opts...)
		time.Sleep(5 * time.Minute)
		got := notes.take()
		if len(got) < 3 {
			t.Errorf("starts after the outage: %v", got)
		}
		m.set(nil)
		for at := 5 * time.Minute; at < 12*time.Minute; at += time.Minute {
			if rows := ledger(t, s, "s", at, at+time.Second); len(rows) != 1 {
				t.Errorf("tick of %v: %v", at, rows)
			}
		}
	})
}

// What is asked of an older definition is no answer for the newer one; a pause has its
// say over ticks that were asked for before it.
func TestCustom_changed_while_it_is_asked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		var m moody
		s := start(t, beat(&notes), m.trigger("moody"), scheduler.WithTrigger("each", each))
		mustSchedule(t, s, "s", scheduler.Custom("moody", nil), scheduler.Misfire(scheduler.CatchUp{Policy: scheduler.CatchUpNone}))
		m.set(func() { time.Sleep(4 * time.Second) })
		time.Sleep(61 * time.Second) // 2m is armed, and asked about
		if err := s.PauseSchedule(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if err := s.ResumeSchedule(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(70 * time.Second)
		if got := notes.take(); len(got) != 2 { // 1m and 7m
			t.Errorf("starts: %v", got)
		}
		m.set(nil)
		const why = " paused: the schedule was paused"
		wantLines(t, "ledger", ledger(t, s, "s", 0, 7*time.Minute), "1m0s ran", "2m0s"+why, "3m0s"+why, "4m0s"+why, "5m0s"+why, "6m0s"+why)
		m.set(func() { time.Sleep(4 * time.Second) })
		time.Sleep(time.Until(epoch.Add(8*time.Minute + 2*time.Second))) // 9m is armed, and asked about
		mustSchedule(t, s, "s", scheduler.Custom("each", map[string]any{"Every": 90 * time.Second}))
		time.Sleep(5 * time.Minute)
		wantLines(t, "starts", notes.take(), "8m0s", "9m0s", "10m30s", "12m0s")
	})
}

// three is a cluster in virtual time; only the options of a node tell it from the others.
type three struct {
	t     *testing.T
	net   *sim.Network
	dirs  map[string]string
	nodes map[string]*scheduler.Scheduler
}

func startThree(t *testing.T, opts func(id string) []scheduler.Option) *three {
	t.Helper()
	c := &three{t: t, net: sim.NewNetwork(1, sim.Path{Latency: time.Millisecond}), dirs: make(map[string]string), nodes: make(map[string]*scheduler.Scheduler)}
	started := make(chan error)
	for _, id := range []string{"a", "b", "c"} {
		c.dirs[id] = t.TempDir()
		s := c.make(id, opts(id))
		c.nodes[id] = s
		go func() { started <- s.Start(t.Context()) }()
	}
	for range c.nodes {
		if err := <-started; err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, s := range c.nodes {
			shutdown(t, s)
		}
	})
	return c
}

func (c *three) make(id string, opts []scheduler.Option) *scheduler.Scheduler {
	cfg := cluster.Config{ID: id, Bind: id + ":1", Network: c.net.Host(id)}
	for _, peer := range []string{"a", "b", "c"} {
		cfg.Peers = append(cfg.Peers, cluster.Peer{ID: peer, Address: peer + ":1"})
	}
	return newScheduler(c.t, append(opts, scheduler.WithDataDir(c.dirs[id]), scheduler.WithCluster(cfg))...)
}

func (c *three) leader() string {
	c.t.Helper()
	for range 1000 {
		for id, s := range c.nodes {
			if s.Health(c.t.Context()).Role == "leader" {
				return id
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatal("nobody leads")
	return ""
}

func (c *three) stop(id string) {
	shutdown(c.t, c.nodes[id])
	delete(c.nodes, id)
}

func TestCustom_is_asked_of_a_node_that_has_it(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		plain := func(string) []scheduler.Option { return []scheduler.Option{beat(&notes)} }
		c := startThree(t, plain)
		// One of the followers is replaced by a build that has the trigger.
		lead := c.leader()
		has := map[string]string{"a": "b", "b": "c", "c": "a"}[lead]
		first := c.nodes[lead]
		minutely := scheduler.Custom("each", map[string]any{"Every": time.Minute})
		wantErr(t, "a trigger that no node has", first.Schedule(t.Context(), "s", minutely, echo.With("")), scheduler.ErrInvalid)
		c.stop(has)
		with := func() {
			c.nodes[has] = c.make(has, append(plain(has), scheduler.WithTrigger("each", each)))
			if err := c.nodes[has].Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		with()
		if c.leader() != lead {
			t.Fatalf("%s leads, want %s", c.leader(), lead)
		}
		at := func() time.Duration { return time.Since(epoch) }
		wait := func(until time.Duration) { time.Sleep(until - at()) }
		wait(10 * time.Minute)
		mustSchedule(t, first, "s", minutely) // by a node that lacks it
		wait(13*time.Minute + time.Second)
		wantLines(t, "starts", notes.take(), "11m0s", "12m0s", "13m0s")
		wantReason(t, first, "")

		// It goes away, and comes back.
		c.stop(has)
		wait(16*time.Minute + time.Second)
		wantLines(t, "starts", notes.take(), "14m0s")
		wantReason(t, first, "no node that can be asked has it")
		wantErr(t, "a trigger that no node has that is there", first.Schedule(t.Context(), "x", minutely, echo.With("")), scheduler.ErrTriggerUnavailable)
		mustSchedule(t, first, "s", minutely) // as it is
		mustSchedule(t, first, "s", minutely, scheduler.Overlap(scheduler.OverlapAllow))
		for id, s := range c.nodes {
			if e, err := s.ExplainTick(t.Context(), "s", epoch.Add(15*time.Minute)); err != nil || e.Tick.Outcome != scheduler.TickBlocked ||
				!strings.Contains(e.Reason, "no node that can be asked has it") {
				t.Errorf("node %s: tick of 15m: %+v, %v", id, e, err)
			}
		}
		with()
		time.Sleep(5 * time.Second) // long before the pause of a question is over
		if got := notes.take(); len(got) != 1 {
			t.Errorf("starts: %v, want the last that was missed", got)
		}
		wantReason(t, first, "")

		// Another leads, that lacks it too or has it.
		c.stop(lead)
		time.Sleep(5 * time.Second)
		wait(at().Truncate(time.Minute) + 3*time.Minute + time.Second)
		if got := notes.take(); len(got) != 3 {
			t.Errorf("starts under another leader: %v, want three", got)
		}
		for id, s := range c.nodes {
			wantReason(t, s, "")
			for i, row := range ledger(t, s, "s", 11*time.Minute, at()) {
				if want := fmt.Sprint(11*time.Minute + time.Duration(i)*time.Minute); !strings.HasPrefix(row, want) {
					t.Errorf("node %s: row %d: %s, want %s", id, i, row, want)
				}
			}
		}
	})
}

// A calendar that a follower has just set is found by what it asks next.
func TestCustom_finds_the_calendar_that_was_just_set(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		c := startThree(t, func(string) []scheduler.Option {
			return []scheduler.Option{beat(&notes), scheduler.WithTrigger("each", each)}
		})
		lead := c.leader()
		for id, s := range c.nodes {
			if id == lead {
				continue
			}
			name := "holidays of " + id
			if err := s.SetCalendar(t.Context(), name, scheduler.Days("2100-01-01")); err != nil {
				t.Fatal(err)
			}
			mustSchedule(t, s, id, scheduler.Custom("each", map[string]any{"Every": time.Minute}, scheduler.Except(scheduler.NamedCalendar(name))))
		}
	})
}

// A trigger that cannot be asked keeps its own schedule out of force, not the scheduler
// from starting. One that was in force before is not asked.
func TestWithSchedule_Custom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		var m moody
		release := make(chan struct{})
		m.set(func() { <-release })
		opts := []scheduler.Option{
			scheduler.WithDataDir(t.TempDir()), beat(&notes), m.trigger("moody"), scheduler.WithTrigger("each", each),
			scheduler.WithSchedule("hangs", scheduler.Custom("moody", nil), echo.With("")),
			scheduler.WithSchedule("missing", scheduler.Custom("none", nil), echo.With("")),
			scheduler.WithSchedule("well", scheduler.Custom("each", map[string]any{"Every": time.Hour}), echo.With("")),
		}
		s := start(t, opts...)
		ids := func() (ids []string) {
			for _, sc := range collect(t, s.Schedules(t.Context())) {
				ids = append(ids, sc.ID)
			}
			return ids
		}
		wantLines(t, "schedules", ids(), "well")
		wantReason(t, s, `not in force yet: schedule "hangs": trigger "moody": no answer of the Go trigger: it has not answered in time`)
		wantReason(t, s, `schedule "missing": invalid: trigger "none": no node that can be asked has it`)
		m.set(nil)
		close(release)
		time.Sleep(40 * time.Second)
		wantLines(t, "schedules", ids(), "hangs", "well")
		shutdown(t, s)

		release = make(chan struct{})
		m.set(func() { <-release })
		began := time.Now()
		s = start(t, opts...)
		if took := time.Since(began); took > time.Second {
			t.Errorf("a start with schedules that are in force took %v", took)
		}
		m.set(nil)
		close(release)

		bad := newScheduler(t, scheduler.WithTrigger("each", each), scheduler.WithSchedule("bad", scheduler.Custom("each", 1), echo.With("")))
		wantErr(t, "a parameter that the trigger does not take", bad.Start(t.Context()), scheduler.ErrInvalid)
	})
}

func TestWithScheduleFile_a_trigger_holds_up_its_own_schedule_alone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "schedules.yaml")
		custom := func(id, trigger string) string {
			return fmt.Sprintf("  - {id: %s, custom: {name: %s, params: {Every: 60000000000}}, task: echo}\n", id, trigger)
		}
		head := "owner: mail\nprune: true\nschedules:\n" + hourlyB
		write(t, path, head+custom("hangs", "moody")+custom("missing", "none")+custom("panics", "fire")+custom("well", "each"))
		var notes journal
		var m, fire moody
		release := make(chan struct{})
		m.set(func() { <-release })
		fire.set(func() { panic("on fire") })
		s := start(t, beat(&notes), m.trigger("moody"), fire.trigger("fire"), scheduler.WithTrigger("each", each), scheduler.WithScheduleFile(path))
		ids := func() (ids []string) {
			for _, sc := range collect(t, s.Schedules(t.Context())) {
				ids = append(ids, fmt.Sprint(sc.ID, " v", sc.Version))
			}
			return ids
		}
		wantLines(t, "schedules", ids(), "b v1", "well v1")
		for _, why := range []string{
			`schedules.yaml:5:10: schedule "hangs": trigger "moody": no answer of the Go trigger: it has not answered in time`,
			`schedules.yaml:6:10: schedule "missing": invalid: trigger "none": no node that can be asked has it`,
			`schedules.yaml:7:10: schedule "panics": trigger "fire": no answer of the Go trigger: it panics: on fire`,
		} {
			wantReason(t, s, why)
		}
		fire.set(nil)
		m.set(nil)
		close(release)
		time.Sleep(10 * time.Second)
		wantLines(t, "schedules", ids(), "b v1", "hangs v1", "panics v1", "well v1")

		// What is in force is not asked again when something else changes.
		release = make(chan struct{})
		m.set(func() { <-release })
		write(t, path, head+custom("hangs", "moody")+custom("new", "each"))
		time.Sleep(3 * time.Second)
		wantReason(t, s, "")
		wantLines(t, "schedules", ids(), "b v1", "hangs v1", "new v1")
		m.set(nil)
		close(release)

		// What a trigger does not take is a fault of the files.
		write(t, path, head+"  - {id: bad, custom: {name: each, params: 1}, task: echo}\n")
		time.Sleep(3 * time.Second)
		wantLines(t, "schedules", ids(), "b v1", "hangs v1", "new v1")
		wantReason(t, s, "the schedule files are not in force: ")
	})
}
