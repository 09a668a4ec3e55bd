package clock_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler/internal/clock"
)

func TestSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		if got, want := clock.System.Now(), time.Now(); !got.Equal(want) {
			t.Errorf("Now: got %v, want %v", got, want)
		}
	})
}

func TestSkewed(t *testing.T) {
	t.Run("is off by its offset and keeps pace", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := clock.NewSkewed(clock.System, -time.Minute)
			time.Sleep(time.Hour)
			if got, want := s.Now(), time.Now().Add(-time.Minute); !got.Equal(want) {
				t.Errorf("Now: got %v, want %v", got, want)
			}
		})
	})
	t.Run("shows its steps in differences", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := clock.NewSkewed(clock.System, 0)
			before, start := s.Now(), time.Now()
			time.Sleep(time.Second)
			s.Step(-time.Hour)
			if got, want := s.Now().Sub(before), time.Second-time.Hour; got != want {
				t.Errorf("difference of the wall clock: got %v, want %v", got, want)
			}
			if got, want := time.Since(start), time.Second; got != want {
				t.Errorf("elapsed time: got %v, want %v", got, want)
			}
		})
	})
	t.Run("steps add up, from many goroutines", func(t *testing.T) {
		s := clock.NewSkewed(clock.System, time.Second)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				s.Step(time.Millisecond)
				s.Now()
			})
		}
		wg.Wait()
		if got, want := s.Offset(), 1100*time.Millisecond; got != want {
			t.Errorf("Offset: got %v, want %v", got, want)
		}
	})
}

func ExampleSkewed() {
	node := clock.NewSkewed(fixed{}, 0)
	fmt.Println(node.Now())
	node.Step(50 * 365 * 24 * time.Hour)
	fmt.Println(node.Now())
	// Output:
	// 2026-01-01 00:00:00 +0000 UTC
	// 2075-12-20 00:00:00 +0000 UTC
}

type fixed struct{}

func (fixed) Now() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }
