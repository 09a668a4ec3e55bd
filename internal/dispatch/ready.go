package dispatch

import (
	"cmp"
	"container/heap"
	"iter"
	"slices"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// What waits is ranked so that finding the next run costs the logarithm of what
// waits, however many queues and tasks there are:
//
//	crew ─▶ pools, by class and care ─▶ groups, one a queue ─▶ lines ─▶ entries
//
// All heads of a pool wait for the same workers, in the order of their due times:
// if its first is held back by anything but its queue, so are all behind it. What a
// queue holds back is one group of the pool, which leaves it until the queue changes.

// A crew is all workers that have the handler of a task, and what waits for them.
// Tasks that the same workers have share one, so there are few. It is made anew
// when a worker comes or goes.
type crew struct {
	workers []*worker // by session
	pools   [store.NumPriorities][2]pool
}

// A pool holds the groups of one class whose heads are all careful (see look), or
// none of them. Those whose queue is known to hold them back are not in it.
type pool struct {
	groups ranking[*group]
}

// A group holds the lines of a queue that belong to one pool.
type group struct {
	pool   *pool
	queue  *queue
	lines  ranking[*line]
	at     int // its place in the pool, -1 if it is not in it
	parked bool
}

// ranked is what has a head: a line, or a group of them.
type ranked interface {
	head() *entry
	place() *int // in its ranking
}

// ranking is a heap of what has a head, the earliest first.
type ranking[T ranked] []T

func (r ranking[T]) Len() int           { return len(r) }
func (r ranking[T]) Less(i, j int) bool { return r[i].head().before(r[j].head()) }
func (r ranking[T]) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	*r[i].place(), *r[j].place() = i, j
}

// Push implements [heap.Interface].
func (r *ranking[T]) Push(x any) {
	t := x.(T)
	*t.place() = len(*r)
	*r = append(*r, t)
}

// Pop implements [heap.Interface].
func (r *ranking[T]) Pop() any {
	var none T
	last := len(*r) - 1
	t := (*r)[last]
	(*r)[last] = none
	*r = (*r)[:last]
	*t.place() = -1
	return t
}

func (w *line) head() *entry  { return &w.heap[0] }
func (w *line) place() *int   { return &w.at }
func (g *group) head() *entry { return g.lines[0].head() }
func (g *group) place() *int  { return &g.at }

// seat ranks the line anew after its head has changed.
func (w *line) seat() {
	var to *group
	if len(w.heap) > 0 {
		careful := 0
		if w.head().careful {
			careful = 1
		}
		to = w.lane.queue.group(&w.lane.crew.pools[w.class][careful])
	}
	if from := w.group; from != nil && from != to {
		heap.Remove(&from.lines, w.at)
		w.group = nil
		from.seat()
	}
	switch {
	case to == nil:
		return
	case w.group == nil:
		w.group = to
		heap.Push(&to.lines, w)
	default:
		heap.Fix(&to.lines, w.at)
	}
	to.seat()
}

// seat ranks the group anew after its head has changed.
func (g *group) seat() {
	switch {
	case len(g.lines) == 0:
		g.leave()
		g.queue.groups = slices.DeleteFunc(g.queue.groups, func(o *group) bool { return o == g })
	case g.parked:
	case g.at < 0:
		heap.Push(&g.pool.groups, g)
	default:
		heap.Fix(&g.pool.groups, g.at)
	}
}

func (g *group) leave() {
	if g.at >= 0 {
		heap.Remove(&g.pool.groups, g.at)
	}
}

// queue is what the gates know of a queue, and what of it waits.
type queue struct {
	limit  uint32
	paused bool
	leased int // granted or about to be
	groups []*group
}

func (d *Dispatcher) queue(name string) *queue {
	q := d.queues[name]
	if q == nil {
		q = new(queue)
		d.queues[name] = q
	}
	return q
}

// idle reports whether nothing is lost if the queue is forgotten.
func (q *queue) idle() bool {
	return q.limit == 0 && !q.paused && q.leased == 0 && len(q.groups) == 0
}

// group returns the queue's group of the pool, a new one if it has none.
func (q *queue) group(p *pool) *group {
	for _, g := range q.groups {
		if g.pool == p {
			return g
		}
	}
	g := &group{pool: p, queue: q, at: -1}
	q.groups = append(q.groups, g)
	return g
}

// changed puts the groups that the queue held back into their pools again.
func (q *queue) changed() {
	for _, g := range q.groups {
		if g.parked {
			g.parked = false
			g.seat()
		}
	}
}

// crew returns the workers that have the handler of a task.
func (d *Dispatcher) crew(task string) *crew {
	if c := d.crewOf[task]; c != nil {
		return c
	}
	var workers []*worker
	for _, w := range d.workers {
		if w.tasks[task] {
			workers = append(workers, w)
		}
	}
	slices.SortFunc(workers, func(a, b *worker) int { return cmp.Compare(a.session, b.session) })
	i := slices.IndexFunc(d.crews, func(c *crew) bool { return slices.Equal(c.workers, workers) })
	if i < 0 {
		i = len(d.crews)
		d.crews = append(d.crews, &crew{workers: workers})
	}
	d.crewOf[task] = d.crews[i]
	return d.crews[i]
}

// muster makes the crews anew and ranks all that waits.
func (d *Dispatcher) muster() {
	d.crews, d.crewOf = nil, make(map[string]*crew)
	for _, q := range d.queues {
		q.groups = nil
	}
	for _, l := range d.lanes {
		l.crew = d.crew(l.key.task)
		for c := range l.lines {
			l.lines[c].group = nil
			l.lines[c].seat()
		}
	}
}

// front returns the first run of a pool that its queue does not hold back, and the
// gate that holds it, nil if none does. The line is nil if there is no such run.
func (d *Dispatcher) front(p *pool, wall, elapsed int64) (*line, look, *gate) {
	for len(p.groups) > 0 {
		first := p.groups[0]
		w := first.lines[0]
		e := w.head()
		lk := look{d, w.lane.key, w.class, e.clock, e.due, e.careful, wall, elapsed}
		g := lk.blocked()
		if g == nil || !g.ofQueue {
			return w, lk, g
		}
		first.parked = true
		first.leave()
	}
	return nil, look{}, nil
}

// laneWait returns the ns until a waiting run could be granted without any other
// event, as far as time alone decides. It looks at the first of each pool, which is
// enough: they are the earliest.
func (d *Dispatcher) laneWait(wall, elapsed int64) int64 {
	wait := int64(time.Hour)
	for p := range d.pools() {
		w, lk, g := d.front(p, wall, elapsed)
		switch {
		case w == nil:
		case g == nil:
			return 0
		case g.opens(&lk) != 0:
			wait = min(wait, lk.left()-lk.ahead())
		case lk.left() > 0: // it may pass when it is due
			wait = min(wait, lk.left())
		}
	}
	return wait
}

// pools yields the pools of all crews.
func (d *Dispatcher) pools() iter.Seq[*pool] {
	return func(yield func(*pool) bool) {
		for _, c := range d.crews {
			for class := range c.pools {
				for i := range c.pools[class] {
					if !yield(&c.pools[class][i]) {
						return
					}
				}
			}
		}
	}
}
