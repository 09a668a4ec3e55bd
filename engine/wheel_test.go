package engine_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/engine"
)

const (
	millisecond = int64(time.Millisecond)
	second      = int64(time.Second)
	year        = 365 * 24 * 3600 * second
)

// drain pops all that is due and checks that the order is that of due times. It returns how many there were.
func drain(t *testing.T, w *engine.Wheel[uint64], now int64) (n int) {
	t.Helper()
	last := int64(-1 << 63)
	for {
		_, due, ok := w.Pop(now)
		if !ok {
			return n
		}
		if due > now {
			t.Fatalf("Pop(%d) handed out a timer due at %d: early", now, due)
		}
		if due < last {
			t.Fatalf("Pop handed out %d after %d", due, last)
		}
		last = due
		n++
	}
}

func TestWheel_Pop(t *testing.T) {
	t.Run("many in one slot come out in order", func(t *testing.T) {
		w := engine.New[uint64](0)
		rng := rand.New(rand.NewPCG(1, 2))
		const n = 50_000
		for range n {
			w.Set(60*second+rng.Int64N(100*millisecond), 0)
		}
		if got, want := drain(t, w, 61*second), n; got != want {
			t.Errorf("handed out: got %d, want %d", got, want)
		}
	})
	t.Run("a leap of fifty years passes over all levels", func(t *testing.T) {
		w := engine.New[uint64](0)
		rng := rand.New(rand.NewPCG(1, 2))
		const n = 10_000
		for i := range uint(n) {
			w.Set(rng.Int64N(100*year)>>(i%40), 0)
		}
		got := drain(t, w, 50*year)
		got += drain(t, w, 100*year)
		if want := n; got != want {
			t.Errorf("handed out: got %d, want %d", got, want)
		}
	})
	t.Run("one at a time with the clock going on beneath", func(t *testing.T) {
		w := engine.New[uint64](0)
		rng := rand.New(rand.NewPCG(1, 2))
		const n = 20_000
		for range n {
			w.Set(rng.Int64N(100*second), 0)
		}
		got, last := 0, int64(-1)
		for now := int64(0); w.Len() > 0; now += 4 * millisecond {
			_, due, ok := w.Pop(now)
			if !ok {
				continue
			}
			if due < last || due > now {
				t.Fatalf("Pop(%d): got a timer due at %d after one due at %d", now, due, last)
			}
			last = due
			got++
		}
		if want := n; got != want {
			t.Errorf("handed out: got %d, want %d", got, want)
		}
	})
}

func TestWheel_Cancel(t *testing.T) {
	t.Run("in the front heap keeps the order of the rest", func(t *testing.T) {
		w := engine.New[uint64](0)
		rng := rand.New(rand.NewPCG(1, 2))
		var handles []engine.Handle
		const n = 3000
		for i := range n {
			handles = append(handles, w.Set(rng.Int64N(100*millisecond), uint64(i)))
		}
		for i, h := range handles {
			if i%10 != 0 && !w.Cancel(h) {
				t.Fatalf("Cancel of timer %d: got false", i)
			}
		}
		if got, want := drain(t, w, second), n/10; got != want {
			t.Errorf("handed out: got %d, want %d", got, want)
		}
		for i, h := range handles {
			if w.Cancel(h) {
				t.Fatalf("Cancel of timer %d after all are gone: got true", i)
			}
		}
	})
	t.Run("of the last in a slot lets the wheel sleep past it", func(t *testing.T) {
		w := engine.New[uint64](0)
		a, b := w.Set(10*second, 0), w.Set(10*second, 0)
		w.Cancel(a)
		if at, ok := w.Next(); !ok || at > 10*second {
			t.Errorf("Next with one left: got %d, %v; want a time up to %d", at, ok, 10*second)
		}
		w.Cancel(b)
		if at, ok := w.Next(); ok {
			t.Errorf("Next with none left: got %d, true; want false", at)
		}
	})
	t.Run("while its slot is being emptied", func(t *testing.T) {
		w := engine.New[uint64](0)
		var handles []engine.Handle
		const n = 3000
		for range n {
			handles = append(handles, w.Set(30*second, 0))
		}
		w.Pop(20 * second) // empties a part of the slot
		for i, h := range handles {
			if i%3 == 0 {
				w.Cancel(h)
			} else if i%3 == 1 {
				w.Move(h, 31*second)
			}
		}
		if got, want := drain(t, w, 30*second), n/3; got != want {
			t.Errorf("handed out at 30 s: got %d, want %d", got, want)
		}
		if got, want := drain(t, w, 31*second), n/3; got != want {
			t.Errorf("handed out at 31 s: got %d, want %d", got, want)
		}
	})
}

// TestWheel_Steady shows that nothing is allocated once the wheel has seen its load.
func TestWheel_Steady(t *testing.T) {
	for _, far := range []int64{millisecond, second, 3600 * second} {
		w := engine.New[uint64](0)
		now := int64(0)
		turn := func() {
			var handles [100]engine.Handle
			for i := range handles {
				handles[i] = w.Set(now+far, 0)
			}
			for i, h := range handles {
				if i%2 == 0 {
					w.Cancel(h)
				} else {
					w.Move(h, now+far/2)
				}
			}
			now += far
			drain(t, w, now)
		}
		if got := testing.AllocsPerRun(100, turn); got != 0 {
			t.Errorf("allocations a turn with timers %v away: got %v, want 0", time.Duration(far), got)
		}
	}
}

// TestWheel_Idle shows that ten thousand timers a year away do not wake anybody today.
func TestWheel_Idle(t *testing.T) {
	w := engine.New[uint64](0)
	for i := range int64(10_000) {
		w.Set(year+i*second, 0)
	}
	if at, ok := w.Next(); !ok || at < year/2 || at > year {
		t.Errorf("Next: got %v, %v; want between half a year and a year", time.Duration(at), ok)
	}
}

func TestWheel_All(t *testing.T) {
	w := engine.New[uint64](0)
	for i := range int64(5000) {
		w.Set(i*second, uint64(i))
	}
	for h, p := range w.All() { // moving and canceling meanwhile is allowed
		if p%2 == 0 {
			w.Cancel(h)
		} else {
			w.Move(h, 10_000*second)
		}
	}
	for h, p := range w.All() {
		if _, due, ok := w.Lookup(h); !ok || p%2 == 0 || due != 10_000*second {
			t.Fatalf("timer %d: got due %d, pending %v", p, due, ok)
		}
	}
	for range w.All() { // ends early
		break
	}
	turns := 0
	for range w.All() { // so is popping: each turn takes itself and the next one away
		w.Pop(20_000 * second)
		w.Pop(20_000 * second)
		turns++
	}
	if got, want := turns, 1250; got != want {
		t.Errorf("turns with two popped in each: got %d, want %d", got, want)
	}
	if got, want := w.Len(), 0; got != want {
		t.Errorf("Len: got %d, want %d", got, want)
	}
}
