package store_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escapement-go/scheduler/store"
)

func TestRetry_Delay_stays_within_its_bounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := store.Retry{
			Initial: rapid.Int64Range(-1, math.MaxInt64).Draw(t, "initial"),
			Max:     rapid.Int64Range(0, math.MaxInt64).Draw(t, "max"),
			Factor:  rapid.Float64().Draw(t, "factor"),
			Jitter:  rapid.SampledFrom([]float64{0, 0.1, 0.5, 1, -3, 7, math.NaN(), math.Inf(1)}).Draw(t, "jitter"),
		}
		failures := rapid.Uint32().Draw(t, "failures")
		rnd := rapid.Uint64().Draw(t, "rnd")
		got := r.Delay(failures, rnd)
		if floor := min(int64(time.Millisecond), r.Max); got < floor || got > r.Max {
			t.Fatalf("Delay = %d, want %d … %d", got, floor, r.Max)
		}
		if again := r.Delay(failures, rnd); again != got {
			t.Fatalf("Delay = %d, then %d for the same bits", got, again)
		}
	})
}

// A thousand attempts have overflowed other schedulers' backoff into the past.
func TestRetry_Delay_of_a_thousand_attempts(t *testing.T) {
	r := store.Retry{Initial: second, Max: 3600 * second, Factor: 2, Attempts: store.Unlimited}
	last := int64(0)
	for n := uint32(1); n <= 1000; n++ {
		got := r.Delay(n, 0)
		if got < last || got > r.Max {
			t.Fatalf("retry %d after %d ns, the one before after %d", n, got, last)
		}
		last = got
	}
	if last != r.Max {
		t.Errorf("the last delay is %d, want the cap", last)
	}
	for want, failures := second, uint32(1); want < r.Max; want, failures = want*2, failures+1 {
		if got := r.Delay(failures, 0); got != want {
			t.Errorf("retry %d after %d ns, want %d", failures, got, want)
		}
	}
}

func TestRetry_Delay_takes_off_up_to_its_jitter(t *testing.T) {
	r := store.Retry{Initial: 10 * second, Max: 10 * second, Factor: 1, Jitter: 0.5}
	if got := r.Delay(1, 0); got != 10*second {
		t.Errorf("with no bits set: %d", got)
	}
	if got := r.Delay(1, math.MaxUint64); got < 5*second || got > 5*second+1000 {
		t.Errorf("with all bits set: %d, want about half", got)
	}
	if got := r.Delay(1, 1<<63); got < 7*second || got > 8*second {
		t.Errorf("with half the bits: %d, want three quarters", got)
	}
	r.Jitter = 1
	if got := r.Delay(1, math.MaxUint64); got != int64(time.Millisecond) {
		t.Errorf("with full jitter: %d, want the floor", got)
	}
}
