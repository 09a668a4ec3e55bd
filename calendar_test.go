package scheduler_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
)

// Times have a zone for their calendars, and to be shown in.
func TestTimes_in_a_zone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, scheduler.WithTasks("echo"))
		tokyo := scheduler.Zone("Asia/Tokyo") // nine hours ahead
		times := scheduler.Times(epoch.Add(14*time.Hour), epoch.Add(16*time.Hour), epoch.Add(40*time.Hour))
		mustSchedule(t, s, "s", times.With(tokyo, scheduler.Except(scheduler.Days("2000-01-01"))))
		if got := schedule(t, s, "s").Next.Format(time.DateTime); got != "2000-01-02 01:00:00" {
			t.Errorf("next %s", got)
		}
		_, err := times.With(scheduler.Zone("Mars")).Next(epoch, 1)
		wantErr(t, "a zone that is not known", err, scheduler.ErrInvalid)
	})
}
