package engine_test

import (
	"fmt"
	"time"

	"github.com/escapement-go/scheduler/engine"
)

// The caller holds the clock. Here it is a variable; in a program it is the wall clock and the loop sleeps until Next.
func Example() {
	w := engine.New[string](0)
	at := func(d time.Duration) int64 { return int64(d) }

	w.Set(at(1500*time.Millisecond), "tea")
	w.Set(at(time.Hour), "lunch")
	eggs := w.Set(at(time.Minute), "eggs")
	w.Move(eggs, at(2*time.Minute))

	var now int64
	for w.Len() > 0 {
		for {
			what, due, ok := w.Pop(now)
			if !ok {
				break
			}
			fmt.Println(time.Duration(due), what)
		}
		if next, ok := w.Next(); ok {
			now = max(now, next) // sleep
		}
	}
	// Output:
	// 1.5s tea
	// 2m0s eggs
	// 1h0m0s lunch
}

func ExampleWheel_Cancel() {
	w := engine.New[uint64](0)
	h := w.Set(10, 7)
	fmt.Println(w.Cancel(h), w.Cancel(h), w.Len())
	// Output: true false 0
}

// After the wall clock has stepped, what hangs on it is armed anew under the handles it has.
func ExampleWheel_All() {
	w := engine.New[string](0)
	h := w.Set(int64(9*time.Hour), "daily report")

	step := int64(-time.Hour)
	w.Rebase(step)
	for h := range w.All() {
		_, due, _ := w.Lookup(h)
		w.Move(h, due+step)
	}

	what, due, _ := w.Lookup(h)
	fmt.Println(time.Duration(due), what)
	// Output: 8h0m0s daily report
}

func ExampleWheel_Next() {
	w := engine.New[string](0)
	_, ok := w.Next()
	fmt.Println(ok)

	w.Set(int64(40*time.Second), "x")
	at, _ := w.Next() // moved ahead at 20 s; no need to look before that
	fmt.Println(time.Duration(at))
	// Output:
	// false
	// 20s
}
