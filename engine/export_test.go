package engine

import "fmt"

// SetSteps sets how many timers are filed ahead by a Pop that hands one out, and by one that does not.
func SetSteps[P any](w *Wheel[P], busy, idle int) { w.stepsBusy, w.stepsIdle = busy, idle }

// Check returns an error if the inside of w is not as it must be between two calls.
func Check[P any](w *Wheel[P]) error {
	listed := 0
	safe := ^uint64(0)
	for l := range levelCount {
		width := slotTicks(l)
		low := w.edge[l] // what may be in this level begins here
		if w.draining[l] {
			low -= width
		}
		safe = min(safe, low)
		if w.edge[l] <= w.tick || w.edge[l] > w.tick+2*width {
			return fmt.Errorf("level %d: edge %d with the clock at tick %d", l, w.edge[l], w.tick)
		}
		first, count := headsUp+(l-1)*slotsUp, slotsUp
		if l == 0 {
			first, count = 0, slots0
		}
		if l+1 < levelCount && w.edge[l+1] > low && (w.edge[l+1]-low)/width > uint64(count) {
			return fmt.Errorf("level %d: %d to %d is more than %d slots", l, low, w.edge[l+1], count)
		}
		for head := uint32(first); head < uint32(first+count); head++ {
			n, err := checkList(w, l, head, low)
			if err != nil {
				return err
			}
			listed += n
		}
	}
	if w.safe != safe {
		return fmt.Errorf("safe: got %d, want %d", w.safe, safe)
	}
	live := 0
	for i := frontTop; i < w.front.end; i++ {
		it := w.front.at(i)
		if i > frontTop && it.before(w.front.at(i/4+2)) {
			return fmt.Errorf("front heap: item %d is before its parent", i)
		}
		if !w.isStale(it) {
			live++
		}
	}
	if got := w.front.len() - w.front.stale; got != live {
		return fmt.Errorf("front heap: %d items counted as live, want %d", got, live)
	}
	if listed+live != w.n {
		return fmt.Errorf("%d timers in lists and %d in the front heap, want %d in all", listed, live, w.n)
	}
	return nil
}

// checkList checks one list and returns its length.
func checkList[P any](w *Wheel[P], l int, head uint32, low uint64) (n int, err error) {
	last := head
	for i := w.link(head).next; i != head; i = w.link(i).next {
		if w.link(i).prev != last {
			return 0, fmt.Errorf("list %d: timer %d does not lead back to %d", head, i, last)
		}
		tick := tickOf(w.entry(i).due)
		if headOf(l, slotNumber(l, tick)) != head || tick < low {
			return 0, fmt.Errorf("list %d: timer %d, of tick %d, is in the wrong list", head, i, tick)
		}
		if l+1 < levelCount && tick >= w.edge[l+1] {
			return 0, fmt.Errorf("list %d: timer %d, of tick %d, belongs above level %d", head, i, tick, l)
		}
		last = i
		n++
	}
	if occupied := w.occupied[head/64]>>(head%64)&1 == 1; occupied != (n > 0) {
		return 0, fmt.Errorf("list %d: occupied is %v with %d timers", head, occupied, n)
	}
	if w.link(head).prev != last {
		return 0, fmt.Errorf("list %d: its end is %d, want %d", head, w.link(head).prev, last)
	}
	return n, nil
}
