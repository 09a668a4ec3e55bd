package worker

import "github.com/escapement-go/scheduler/store"

// waiting holds attempts that are not due yet: a binary heap by due time, those of equal time by arrival. A canceled one
// stays until its time comes, which is soon.
type waiting struct {
	heap []waiter
	seq  uint64
}

type waiter struct {
	due int64 // ns on the pool's clock
	seq uint64
	x   *Execution
}

func (a *waiter) before(b *waiter) bool { return a.due < b.due || a.due == b.due && a.seq < b.seq }

func (w *waiting) push(x *Execution) {
	w.seq++
	w.heap = append(w.heap, waiter{x.due, w.seq, x})
	h := w.heap
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			return
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

// next returns the earliest due time.
func (w *waiting) next() (due int64, ok bool) {
	if len(w.heap) == 0 {
		return 0, false
	}
	return w.heap[0].due, true
}

// pop removes the attempt that is due first. There must be one.
func (w *waiting) pop() *Execution {
	h := w.heap
	x, last := h[0].x, len(h)-1
	h[0], h[last] = h[last], waiter{}
	h = h[:last]
	w.heap = h
	for i := 0; ; {
		down := 2*i + 1
		if down+1 < last && h[down+1].before(&h[down]) {
			down++
		}
		if down >= last || !h[down].before(&h[i]) {
			return x
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
}

// ready holds attempts that are due and wait for a slot, in the order in which they became ready, by priority class.
// Canceled ones are counted until they come up.
type ready struct {
	lines [store.NumPriorities]ring
	n     int
}

// aging is how long (ns) an attempt waits for a slot until its class no longer counts and it goes by its age alone.
const aging = int64(50e6)

func (r *ready) push(x *Execution) {
	r.lines[x.class].push(x)
	r.n++
}

// pop removes the attempt to start next, or returns nil. If critical, only that class may start.
func (r *ready) pop(now int64, critical bool) *Execution {
	best := -1
	var oldest int64
	for c := len(r.lines) - 1; c >= 0; c-- {
		if r.lines[c].n == 0 || critical && c != int(store.Critical) {
			continue
		}
		since := r.lines[c].at(0).readyAt
		if best < 0 || now-since > aging && since < oldest {
			best, oldest = c, since
		}
	}
	if best < 0 {
		return nil
	}
	r.n--
	return r.lines[best].pop()
}

// overdue removes and returns those that have been ready since limit or longer, but not the first keep in order of class.
func (r *ready) overdue(limit int64, keep int) []*Execution {
	var out []*Execution
	for c := len(r.lines) - 1; c >= 0; c-- {
		line := &r.lines[c]
		kept := min(keep, line.n)
		keep -= kept
		end := kept
		for end < line.n && line.at(end).readyAt <= limit {
			end++
		}
		out = line.cut(out, kept, end)
	}
	r.n -= len(out)
	return out
}

// ring is a first-in, first-out line that grows.
type ring struct {
	buf  []*Execution // its length is a power of two, or zero
	head int
	n    int
}

func (q *ring) at(i int) *Execution { return q.buf[(q.head+i)&(len(q.buf)-1)] }

func (q *ring) push(x *Execution) {
	if q.n == len(q.buf) {
		q.grow()
	}
	q.buf[(q.head+q.n)&(len(q.buf)-1)] = x
	q.n++
}

func (q *ring) pop() *Execution {
	x := q.buf[q.head]
	q.buf[q.head] = nil
	q.head = (q.head + 1) & (len(q.buf) - 1)
	q.n--
	return x
}

func (q *ring) grow() {
	buf := make([]*Execution, max(16, 2*len(q.buf)))
	for i := range q.n {
		buf[i] = q.at(i)
	}
	q.buf, q.head = buf, 0
}

// cut removes the attempts from index i to index j, and appends them to out.
func (q *ring) cut(out []*Execution, i, j int) []*Execution {
	mask := len(q.buf) - 1
	for k := i; k < j; k++ {
		out = append(out, q.at(k))
	}
	for k := j; k < q.n; k++ {
		q.buf[(q.head+i+k-j)&mask] = q.at(k)
	}
	for k := q.n - (j - i); k < q.n; k++ {
		q.buf[(q.head+k)&mask] = nil
	}
	q.n -= j - i
	return out
}
