package engine_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/engine"
)

// The benchmarks measure the wheel beside what one would use instead: the runtime's own timers (time.AfterFunc) and a
// container/heap with a back index. All of them hold the same number of timers, due at random within an hour.

const spread = int64(time.Hour)

var sizes = []int{1_000, 1_000_000, 10_000_000}

type payload16 [16]byte

// yardstick is one way of keeping timers. Handles are numbered by the caller, 0 to size-1.
type yardstick interface {
	set(slot int, due int64)
	cancel(slot int)
}

type wheelStick[P any] struct {
	w       *engine.Wheel[P]
	handles []engine.Handle
	zero    P
}

func newWheelStick[P any](size int) *wheelStick[P] {
	return &wheelStick[P]{w: engine.New[P](0), handles: make([]engine.Handle, size)}
}

func (s *wheelStick[P]) set(slot int, due int64) { s.handles[slot] = s.w.Set(due, s.zero) }
func (s *wheelStick[P]) cancel(slot int)         { s.w.Cancel(s.handles[slot]) }

type runtimeStick struct{ timers []*time.Timer }

func (s *runtimeStick) set(slot int, due int64) {
	// An hour later, so that none fires while it is measured.
	s.timers[slot] = time.AfterFunc(time.Hour+time.Duration(due), func() {})
}
func (s *runtimeStick) cancel(slot int) { s.timers[slot].Stop() }

type heapNode struct {
	due int64
	_   uint64 // the payload
	at  int
}

type nodeHeap []*heapNode

func (h nodeHeap) Len() int           { return len(h) }
func (h nodeHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h nodeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }
func (h *nodeHeap) Push(x any)        { n := x.(*heapNode); n.at = len(*h); *h = append(*h, n) }
func (h *nodeHeap) Pop() any {
	old := *h
	n := old[len(old)-1]
	*h = old[:len(old)-1]
	return n
}

type heapStick struct {
	h     nodeHeap
	nodes []*heapNode
}

func (s *heapStick) set(slot int, due int64) {
	n := &heapNode{due: due}
	s.nodes[slot] = n
	heap.Push(&s.h, n)
}
func (s *heapStick) cancel(slot int) { heap.Remove(&s.h, s.nodes[slot].at) }

var sticks = []struct {
	name    string
	make    func(size int) yardstick
	handles int64 // bytes a timer that the benchmark itself keeps for its handle
}{
	{"wheel8", func(size int) yardstick { return newWheelStick[uint64](size) }, 8},
	{"wheel16", func(size int) yardstick { return newWheelStick[payload16](size) }, 8},
	{"AfterFunc", func(size int) yardstick { return &runtimeStick{make([]*time.Timer, size)} }, 8},
	{"heap", func(size int) yardstick { return &heapStick{nodes: make([]*heapNode, size)} }, 8},
}

func eachStick(b *testing.B, run func(b *testing.B, build func(int) yardstick, size int)) {
	for _, size := range sizes {
		for _, s := range sticks {
			if testing.Short() && size > 1_000_000 || s.name != "wheel8" && s.name != "wheel16" && size > 1_000_000 {
				continue
			}
			b.Run(fmt.Sprintf("%s/pending=%d", s.name, size), func(b *testing.B) { run(b, s.make, size) })
		}
	}
}

// BenchmarkSetCancel arms a timer and cancels it again, beside many others.
func BenchmarkSetCancel(b *testing.B) {
	eachStick(b, func(b *testing.B, build func(int) yardstick, size int) {
		s := build(size + 1)
		rng := rand.New(rand.NewPCG(1, 2))
		fill(s, size, rng)
		defer empty(s, size)
		b.ReportAllocs()
		for b.Loop() {
			s.set(size, rng.Int64N(spread))
			s.cancel(size)
		}
	})
}

// BenchmarkCancelRandom cancels pending timers in an order that has nothing to do with the one they were armed in or
// are due in. Only the canceling is timed.
func BenchmarkCancelRandom(b *testing.B) {
	eachStick(b, func(b *testing.B, mk func(int) yardstick, size int) {
		s := mk(size)
		rng := rand.New(rand.NewPCG(1, 2))
		fill(s, size, rng)
		defer empty(s, size)
		batch := min(size, 1<<16)
		slot := 0
		for b.Loop() {
			s.cancel(slot)
			if slot++; slot%batch == 0 || slot == size {
				b.StopTimer()
				for i := (slot - 1) / batch * batch; i < slot; i++ {
					s.set(i, rng.Int64N(spread))
				}
				slot %= size
				b.StartTimer()
			}
		}
		for i := slot / batch * batch; i < slot; i++ { // leave none out, for empty
			s.set(i, rng.Int64N(spread))
		}
	})
}

// fill arms all timers, in random order, so that a walk over the slots is a walk at random over the memory behind them.
func fill(s yardstick, size int, rng *rand.Rand) {
	for _, slot := range rng.Perm(size) {
		s.set(slot, rng.Int64N(spread))
	}
	runtime.GC()
}

func empty(s yardstick, size int) {
	for i := range size {
		s.cancel(i)
	}
}

// BenchmarkMemory reports the bytes that a pending timer takes, all in, less the benchmark's own table of handles.
func BenchmarkMemory(b *testing.B) {
	for _, s := range sticks {
		b.Run(s.name, func(b *testing.B) {
			const size = 1_000_000
			var before, after runtime.MemStats
			used := int64(0)
			for b.Loop() {
				runtime.GC()
				runtime.ReadMemStats(&before)
				kept := s.make(size)
				fill(kept, size, rand.New(rand.NewPCG(1, 2)))
				runtime.ReadMemStats(&after)
				empty(kept, size)
				used = max(used, int64(after.HeapInuse)-int64(before.HeapInuse))
			}
			b.ReportMetric(float64(used)/size-float64(s.handles), "B/timer")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkHandOut hands out a million timers that are due within one second, all filing ahead included. The clock is
// the benchmark's own and goes on by a millisecond at a time.
func BenchmarkHandOut(b *testing.B) {
	b.Run("wheel8", handOut[uint64])
	b.Run("wheel16", handOut[payload16])
	b.Run("heap", func(b *testing.B) {
		const size = 1_000_000
		rng := rand.New(rand.NewPCG(1, 2))
		s := &heapStick{nodes: make([]*heapNode, size)}
		var total time.Duration
		for b.Loop() {
			b.StopTimer()
			fill(s, size, rng)
			b.StartTimer()
			before := cpuTime()
			for len(s.h) > 0 {
				heap.Pop(&s.h)
			}
			total += cpuTime() - before
		}
		b.ReportMetric(float64(total.Nanoseconds())/float64(b.N)/size, "cpu-ns/timer")
	})
}

func handOut[P any](b *testing.B) {
	const size = 1_000_000
	var zero P
	w := engine.New[P](0)
	rng := rand.New(rand.NewPCG(1, 2))
	now := int64(0)
	var total, best time.Duration
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		start := now + int64(30*time.Second)
		for range size {
			w.Set(start+rng.Int64N(int64(time.Second)), zero)
		}
		b.StartTimer()
		before := cpuTime()
		for w.Len() > 0 {
			if at, _ := w.Next(); at > now {
				now = max(at, now+int64(time.Millisecond))
			}
			for {
				if _, _, ok := w.Pop(now); !ok {
					break
				}
			}
		}
		took := cpuTime() - before
		total += took
		if best == 0 || took < best {
			best = took
		}
	}
	b.ReportMetric(float64(total.Nanoseconds())/float64(b.N)/size, "cpu-ns/timer")
	b.ReportMetric(float64(best.Nanoseconds())/size, "best-cpu-ns/timer")
}

// BenchmarkIdle keeps ten million timers that are due in one to ten years, lets a day pass, and reports how often the
// loop woke up for it and what the whole day cost.
func BenchmarkIdle(b *testing.B) {
	const size = 10_000_000
	if testing.Short() {
		b.Skip("takes 400 MB")
	}
	year := int64(365 * 24 * time.Hour)
	w := engine.New[uint64](0)
	rng := rand.New(rand.NewPCG(1, 2))
	for range size {
		w.Set(year+rng.Int64N(9*year), 0)
	}
	now, wakes := int64(0), 0
	for b.Loop() {
		end := now + int64(24*time.Hour)
		for {
			at, _ := w.Next()
			if at > end {
				break
			}
			now = max(now, at)
			w.Pop(now)
			wakes++
		}
		now = 0 // every turn is the first day again: nothing moves in it
	}
	b.ReportMetric(float64(wakes)/float64(b.N), "wakes/day")
}
