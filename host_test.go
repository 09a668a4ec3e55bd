package scheduler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
)

// An application's own test: in a bubble, days pass in no time.
func TestScheduler_in_a_bubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var paid []string
		payroll := scheduler.NewJob[struct{}]("payroll")
		s, err := scheduler.New(
			scheduler.WithFunc(payroll, func(ctx context.Context, _ struct{}) error {
				paid = append(paid, scheduler.Current(ctx).ScheduledAt().Format("Mon 15:04"))
				return nil
			}),
			scheduler.WithSchedule("payroll", scheduler.Cron("0 9 * * MON-FRI"), payroll.With(struct{}{})),
		)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * 24 * time.Hour) // a bubble begins on a Saturday, 2000-01-01
		if len(paid) != 0 {
			t.Errorf("paid on a weekend: %v", paid)
		}
		time.Sleep(24 * time.Hour)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if len(paid) != 1 || paid[0] != "Mon 09:00" {
			t.Errorf("paid: got %v, want it on Monday at 9", paid)
		}
	})
}
