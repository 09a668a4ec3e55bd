package scheduler_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/escapement-go/scheduler"
)

// A node that is alone knows what it knew. Whoever wants to know what anybody was
// told must not be given that.
func TestSeveral_linearizable_reads_need_a_majority(t *testing.T) {
	c := startSeveral(t, func(string) []scheduler.Option {
		return []scheduler.Option{
			scheduler.WithHandler(square, func(_ context.Context, n int) (int, error) { return n * n, nil }),
			scheduler.WithSchedule("each", scheduler.Every(time.Hour), square.With(1)),
		}
	})
	f, err := square.Enqueue(within(t), c.nodes["c"], 3)
	if err != nil {
		t.Fatal(err)
	}
	c.stop("a")
	c.stop("b")
	s := c.nodes["c"]
	reads := map[string]func(ctx context.Context) error{
		"get": func(ctx context.Context) error { _, err := s.Get(ctx, f.ID()); return err },
		"runs": func(ctx context.Context) (err error) {
			for _, err = range s.Runs(ctx, scheduler.RunFilter{}) {
			}
			return err
		},
		"ticks": func(ctx context.Context) (err error) {
			for _, err = range s.Ticks(ctx, "each", time.Time{}, time.Time{}) {
			}
			return err
		},
		"schedules": func(ctx context.Context) (err error) {
			for _, err = range s.Schedules(ctx) {
			}
			return err
		},
		"events": func(ctx context.Context) (err error) {
			for _, err = range s.Events(ctx, scheduler.EventFilter{}) {
			}
			return err
		},
		"stats":   func(ctx context.Context) error { _, err := s.Stats(ctx); return err },
		"explain": func(ctx context.Context) error { _, err := s.Explain(ctx, f.ID()); return err },
		"nodes":   func(ctx context.Context) error { _, err := s.Nodes(ctx); return err },
	}
	for name, read := range reads {
		if err := read(within(t)); err != nil {
			t.Errorf("%s of what the node knows: %v", name, err)
		}
		short, cancel := context.WithTimeout(within(t), 50*time.Millisecond)
		err := read(scheduler.Linearizable(short))
		cancel()
		if !errors.Is(err, scheduler.ErrNoLeader) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("linearizable %s without a majority: got %v, want no leader", name, err)
		}
	}
}
