// Package engine knows when: it is a timing wheel that keeps any number of timers and hands each one out when it is
// due, in exact order, to the nanosecond.
//
// It is pure. There is no goroutine, lock, clock or log in it: the caller says what time it is, gets back what is due,
// and is told when to come back. The loop around it is the caller's:
//
//	for {
//		for {
//			p, due, ok := w.Pop(now())
//			if !ok {
//				break
//			}
//			fire(p, due)
//		}
//		at, ok := w.Next()
//		... sleep until at (for ever if !ok), or until something new is armed
//	}
//
// What holds, whatever the order of calls:
//
//   - Never early: Pop(now) hands out nothing whose due time is after now.
//   - Never late: everything due at or before now is handed out by calling Pop(now) until it says no, and Next never
//     names a moment after the next due time.
//   - Exact order: of all that is pending and due, Pop hands out the earliest; of equal due times, the one armed first.
//   - No pauses: timers move towards their moment in small steps, ahead of time. See DESIGN.md beside this file.
//
// Times are int64 nanoseconds since an origin of the caller's choice; all values are valid.
package engine
