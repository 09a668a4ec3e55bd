package spread_test

import (
	"testing"
	"time"

	"github.com/escapement-go/scheduler/bench/internal/spread"
)

func TestSample(t *testing.T) {
	var ds []time.Duration
	for i := range 101 {
		ds = append(ds, time.Duration(100-i)*time.Millisecond)
	}
	s := spread.Of(ds)
	for p, want := range map[float64]time.Duration{
		0: 0, 50: 50 * time.Millisecond, 99: 99 * time.Millisecond, 100: 100 * time.Millisecond,
	} {
		if got := s.At(p); got != want {
			t.Errorf("At(%v) = %v, want %v", p, got, want)
		}
	}
	if got := s.Below(10 * time.Millisecond); got != 10 {
		t.Errorf("Below(10ms) = %d, want 10", got)
	}
	if got := spread.Of(nil).At(50); got != 0 {
		t.Errorf("At of an empty sample = %v, want 0", got)
	}
}

func TestMedian(t *testing.T) {
	if got := spread.Median([]int{5, 1, 3}); got != 3 {
		t.Errorf("Median = %d, want 3", got)
	}
	if got := spread.Median([]int{4, 1, 3, 2}); got != 2 {
		t.Errorf("Median of an even number = %d, want the lower of the two, 2", got)
	}
}
