package engine

import (
	"math"
	"testing"
)

// TestWheel_Advance needs the inside: that the work of one Pop is bounded cannot be seen in what it returns.
func TestWheel_Advance(t *testing.T) {
	t.Run("a full slot is emptied ahead of time in small steps", func(t *testing.T) {
		const n, slot = 20_000, 500 * tickNanos // level 1, then level 0
		w := New[uint64](0)
		for i := range int64(n) {
			w.Set(slot+i, 0)
		}
		lastFront := 0
		for w.front.len() < n {
			at, ok := w.Next()
			if !ok || at >= slot {
				t.Fatalf("Next: got %d, %v with %d of %d in the front heap; want a time before %d", at, ok, w.front.len(), n, slot)
			}
			if _, due, ok := w.Pop(max(at, nanosOf(w.tick))); ok {
				t.Fatalf("Pop(%d): got a timer due at %d", at, due)
			}
			if got := w.front.len() - lastFront; got > stepsWhileIdle {
				t.Fatalf("one Pop filed %d timers, want at most %d", got, stepsWhileIdle)
			}
			lastFront = w.front.len()
		}
		if at, _ := w.Next(); at != slot {
			t.Errorf("Next when all is prepared: got %d, want the first due time, %d", at, slot)
		}
	})
	t.Run("a leap of the clock does not hurry what is not due yet", func(t *testing.T) {
		w := fullSlot(t)
		w.Pop(250 * tickNanos) // begins to empty it
		before := w.filed()
		w.Pop(350 * tickNanos)
		if got := w.filed() - before; got > stepsWhileIdle {
			t.Errorf("one Pop filed %d timers, want at most %d", got, stepsWhileIdle)
		}
		if w.safe <= w.tick {
			t.Errorf("safe: got tick %d, want one after %d", w.safe, w.tick)
		}
	})
	t.Run("goes on while others are handed out", func(t *testing.T) {
		const n = 5000
		w := fullSlot(t)
		for range n {
			w.Set(1, 0)
		}
		for i := range n {
			if _, _, ok := w.Pop(250 * tickNanos); !ok {
				t.Fatalf("Pop %d: got nothing", i)
			}
		}
		if got, want := w.filed(), 20_000; got != want {
			t.Errorf("timers moved out of level 1 with %d handed out: got %d, want %d", n, got, want)
		}
	})
}

// fullSlot returns a wheel with 20,000 timers in one slot of level 1, which begins at tick 400 and is to be emptied from
// tick 200 on.
func fullSlot(t *testing.T) *Wheel[uint64] {
	t.Helper()
	w := New[uint64](0)
	for range 20_000 {
		w.Set(500*tickNanos, 0)
	}
	if got := w.filed(); got != 0 {
		t.Fatalf("timers in level 0: got %d, want 0", got)
	}
	return w
}

// filed returns how many timers wait for tick 500 in level 0.
func (w *Wheel[P]) filed() (n int) {
	head := headOf(0, tickOf(500*tickNanos))
	for i := w.link(head).next; i != head; i = w.link(i).next {
		n++
	}
	return n
}

func TestTick(t *testing.T) {
	for _, ns := range []int64{
		math.MinInt64, math.MinInt64 + tickNanos, -tickNanos - 1, -tickNanos, -1, 0, 1, tickNanos - 1,
		tickNanos, math.MaxInt64,
	} {
		begin := nanosOf(tickOf(ns))
		if begin > ns || uint64(ns)-uint64(begin) >= tickNanos {
			t.Errorf("the tick of %d begins at %d", ns, begin)
		}
	}
	for l := range levelCount {
		if got := tickOf(0) % slotTicks(l); got != 0 {
			t.Errorf("level %d: time 0 is %d ticks into a slot, want 0", l, got)
		}
	}
}

func TestWheel_Tidy(t *testing.T) {
	t.Run("canceling in the front heap does not fill it", func(t *testing.T) {
		w := New[uint64](0)
		for range 100_000 {
			w.Cancel(w.Set(1, 0))
		}
		if got, limit := w.front.len(), 200; got > limit {
			t.Errorf("items in the front heap: got %d, want at most %d", got, limit)
		}
	})
	t.Run("moving in the front heap does not fill it", func(t *testing.T) {
		w := New[uint64](0)
		h := w.Set(1, 0)
		for i := range int64(100_000) {
			w.Move(h, i%2)
		}
		if got, limit := w.front.len(), 200; got > limit {
			t.Errorf("items in the front heap: got %d, want at most %d", got, limit)
		}
	})
}

func TestSlab(t *testing.T) {
	t.Run("places are used again", func(t *testing.T) {
		w := New[uint64](0)
		for range 10 {
			handles := make([]Handle, 5000)
			for i := range handles {
				handles[i] = w.Set(int64(i)*tickNanos, 0)
			}
			for _, h := range handles {
				w.Cancel(h)
			}
		}
		if got, want := w.fresh-firstIndex, uint32(5000); got != want {
			t.Errorf("places: got %d, want %d", got, want)
		}
	})
	t.Run("a handle of another wheel does no damage", func(t *testing.T) {
		a, b := New[uint64](0), New[uint64](0)
		h := a.Set(1, 0)
		if b.Cancel(h) || b.Move(h, 5) {
			t.Errorf("a wheel without timers: got true for a foreign handle")
		}
		b.Cancel(b.Set(1, 0))
		b.Cancel(Handle{index: firstIndex, gen: 2}) // free, with the gen that comes next
		b.Cancel(Handle{index: 5, gen: 0})
		b.Cancel(Handle{index: 1 << 31, gen: 1})
		if got := b.Len(); got != 0 {
			t.Errorf("Len: got %d, want 0", got)
		}
	})
}
