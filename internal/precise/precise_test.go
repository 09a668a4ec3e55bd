package precise_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/escapement-go/scheduler/internal/precise"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// each runs a test with both kinds of Timer.
func each(t *testing.T, run func(t *testing.T, timer *precise.Timer)) {
	t.Helper()
	for name, make := range map[string]func() *precise.Timer{"New": precise.New, "Plain": precise.Plain} {
		t.Run(name, func(t *testing.T) {
			timer := make()
			defer timer.Close()
			run(t, timer)
		})
	}
}

func pending(timer *precise.Timer) bool {
	select {
	case <-timer.C():
		return true
	default:
		return false
	}
}

func TestTimer_Reset(t *testing.T) {
	t.Run("fires once and not early", func(t *testing.T) {
		each(t, func(t *testing.T, timer *precise.Timer) {
			t.Helper()
			for _, d := range []time.Duration{-time.Second, 0, 1, time.Microsecond, 3 * time.Millisecond} {
				start := time.Now()
				timer.Reset(d)
				at := <-timer.C()
				if took := time.Since(start); took < d {
					t.Errorf("Reset(%v) fired after %v: early", d, took)
				}
				if got := at.Sub(start); got < d {
					t.Errorf("Reset(%v): the value received is %v after it: early", d, got)
				}
				if pending(timer) {
					t.Errorf("Reset(%v) fired twice", d)
				}
			}
		})
	})
	t.Run("a later one takes the place of an earlier one", func(t *testing.T) {
		each(t, func(t *testing.T, timer *precise.Timer) {
			t.Helper()
			timer.Reset(time.Hour)
			timer.Reset(time.Millisecond)
			<-timer.C()
			timer.Reset(time.Millisecond)
			timer.Reset(2 * time.Millisecond)
			start := time.Now()
			timer.Reset(3 * time.Millisecond)
			<-timer.C()
			if took := time.Since(start); took < 3*time.Millisecond {
				t.Errorf("fired after %v: a stale one", took)
			}
		})
	})
	t.Run("leaves nothing stale, whatever it runs into", func(t *testing.T) {
		each(t, func(t *testing.T, timer *precise.Timer) {
			t.Helper()
			for range 5000 {
				timer.Reset(rand.N(20 * time.Microsecond))
				for range rand.N(50) {
					runtime.Gosched() // let it fire, or nearly, or not
				}
				timer.Reset(time.Hour)
				for range 3 {
					if pending(timer) {
						t.Fatal("fired after Reset(time.Hour)")
					}
					runtime.Gosched()
				}
			}
		})
	})
}

func TestTimer_Stop(t *testing.T) {
	each(t, func(t *testing.T, timer *precise.Timer) {
		t.Helper()
		timer.Stop()
		for range 5000 {
			timer.Reset(rand.N(20 * time.Microsecond))
			for range rand.N(50) {
				runtime.Gosched()
			}
			timer.Stop()
			for range 3 {
				if pending(timer) {
					t.Fatal("fired after Stop")
				}
				runtime.Gosched()
			}
		}
		timer.Reset(0)
		<-timer.C()
	})
}

func TestTimer_Close(t *testing.T) {
	t.Run("ends it for good", func(t *testing.T) {
		each(t, func(t *testing.T, timer *precise.Timer) {
			t.Helper()
			timer.Reset(0)
			timer.Close()
			timer.Reset(0)
			timer.Stop()
			timer.Close()
			if pending(timer) {
				t.Error("fired after Close")
			}
		})
	})
	t.Run("while others use it", func(t *testing.T) {
		each(t, func(t *testing.T, timer *precise.Timer) {
			t.Helper()
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for i := range 500 {
						timer.Reset(time.Duration(i) * time.Microsecond)
						pending(timer)
						if i%7 == 0 {
							timer.Stop()
						}
					}
					timer.Close()
				})
			}
			wg.Wait()
		})
	})
}

// TestPlain_Bubble shows that Plain follows the clock of a bubble.
func TestPlain_Bubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := precise.Plain()
		defer timer.Close()
		start := time.Now()
		timer.Reset(time.Hour)
		<-timer.C()
		if got, want := time.Since(start), time.Hour; got != want {
			t.Errorf("fired after %v, want %v", got, want)
		}
		if got := timer.Exact(); got {
			t.Error("Exact: got true for Plain")
		}
	})
}

func TestNew_Exact(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("exact timers are timerfds, which only Linux has")
	}
	timer := precise.New()
	defer timer.Close()
	if !timer.Exact() {
		t.Error("Exact: got false on Linux")
	}
}
