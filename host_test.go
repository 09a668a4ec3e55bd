package scheduler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler"
)

// An application's own test: in a bubble, hours pass in no time.
func TestScheduler_in_a_bubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		paid := make(chan string, 10) // more than are paid
		payroll := scheduler.NewJob[struct{}]("payroll")
		s, err := scheduler.New(
			scheduler.WithFunc(payroll, func(ctx context.Context, _ struct{}) error {
				paid <- scheduler.Current(ctx).ScheduledAt().Format("Mon 15:04")
				return nil
			}),
			scheduler.WithSchedule("payroll", scheduler.Cron("0 9 * * SAT"), payroll.With(struct{}{})),
		)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9*time.Hour - time.Minute) // a bubble begins on a Saturday, 2000-01-01
		synctest.Wait()
		if len(paid) != 0 {
			t.Errorf("paid too early: %v", <-paid)
		}
		time.Sleep(time.Hour)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		close(paid)
		if got := <-paid; got != "Sat 09:00" || len(paid) > 0 {
			t.Errorf("paid at %q, and %d times more, want it on Saturday at 9", got, len(paid))
		}
	})
}
