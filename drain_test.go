package scheduler_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/worker"
)

// Of nodes that all stop, the last one has no majority to report to.
func TestShutdown_gives_up_what_nobody_takes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, end := make(chan struct{}), make(chan struct{})
		slow := scheduler.NewJob[int]("slow")
		c := startThree(t, func(id string) []scheduler.Option {
			if id != "a" {
				return nil
			}
			return []scheduler.Option{scheduler.WithFunc(slow, func(context.Context, int) error {
				close(began)
				<-end
				return nil
			})}
		})
		last := c.nodes["a"]
		if _, err := last.Enqueue(t.Context(), slow.With(1)); err != nil {
			t.Fatal(err)
		}
		<-began
		c.stop("b")
		c.stop("c")
		delete(c.nodes, "a")
		close(end)
		if err := last.Shutdown(context.WithoutCancel(t.Context())); !errors.Is(err, worker.ErrNotDrained) {
			t.Errorf("shutdown: got %v, want %v", err, worker.ErrNotDrained)
		}
	})
}
