package scheduler_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/engine/cron"
)

// idOf returns an ID from which H in an expression draws a time of day.
func idOf(t *testing.T, expr, want string) (id string) {
	t.Helper()
	for i := range 10_000 {
		id = fmt.Sprint("report/", i)
		if cron.MustParse(expr, cron.WithHashKey(id)).Next(epoch).Format("15:04") == want {
			return id
		}
	}
	t.Fatalf("no ID draws %s from %s", want, expr)
	return ""
}

// Whatever evaluates the trigger of a schedule draws H from the schedule's ID, or from the
// hash key that it names.
func TestSchedules_draw_H_from_their_ID(t *testing.T) {
	const expr = "30 H * * *"
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithTasks("echo"))
		own, keyed := idOf(t, expr, "02:30"), idOf(t, expr, "05:30")
		zone := scheduler.Zone("America/New_York")
		mustSchedule(t, s, own, scheduler.Cron(expr, zone))
		mustSchedule(t, s, keyed, scheduler.Cron(expr, zone, scheduler.HashKey(own)))
		mustSchedule(t, s, "plain", scheduler.Cron("30 2 * * *", zone))
		gaps := make(map[string]bool)
		found, err := s.Lint(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			gaps[f.Schedule] = gaps[f.Schedule] || f.Rule == cron.RuleGap
		}
		for _, id := range []string{own, keyed, "plain"} {
			sc := schedule(t, s, id)
			versions := collect(t, s.ScheduleVersions(t.Context(), id))
			if got := sc.Next.Format("15:04 MST"); got != "02:30 EST" {
				t.Errorf("%s: the next tick is at %s", id, got)
			}
			for what, trigger := range map[string]scheduler.Trigger{"schedule": sc.Trigger, "version": versions[0].Trigger} {
				if next, err := trigger.Next(epoch, 1); err != nil || !next[0].Equal(sc.Next) {
					t.Errorf("%s, Trigger.Next of the %s: %v, %v, want %v", id, what, next, err, sc.Next)
				}
				if got, want := trigger.Describe(), "at 02:30 every day (America/New_York)"; got != want {
					t.Errorf("%s, Describe of the %s: %q, want %q", id, what, got, want)
				}
				if found := trigger.Lint(epoch); len(found) == 0 || found[0].Rule != cron.RuleGap {
					t.Errorf("%s, Lint of the %s: %v, want the gap in spring", id, what, found)
				}
			}
			if !gaps[id] {
				t.Errorf("%s: Scheduler.Lint does not tell of the gap in spring", id)
			}
		}
		loads, err := s.Forecast(t.Context(), epoch, epoch.Add(24*time.Hour))
		if err != nil || len(loads) != 1 || loads[0].Schedules != 3 || !loads[0].Minute.Equal(schedule(t, s, "plain").Next) {
			t.Errorf("forecast %+v, %v, want three in one minute", loads, err)
		}
		mustSchedule(t, s, own, scheduler.Cron("45 H * * *", zone))
		if got := versions(t, s, own); !strings.Contains(got[1], "trigger: at 02:30 every day (America/New_York) → at 02:45 every day (America/New_York)") {
			t.Errorf("versions: %q", got)
		}
		if err := s.RollbackSchedule(t.Context(), own, 1); err != nil {
			t.Fatal(err)
		}
		if got := schedule(t, s, own).Next.Format("15:04"); got != "02:30" {
			t.Errorf("rolled back, the next tick is at %s", got)
		}
	})
}
