package session

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/store"
)

// link is the leader's end of one connection: the worker, as the dispatcher sees it.
type link struct {
	conn    net.Conn
	clock   steady
	silence time.Duration
	// fail ends the connection for a reason; the first one counts. It does not block and may be called under any lock.
	fail context.CancelCauseFunc

	session uint64             // this and what follows is set once, before the dispatcher knows the link
	term    uint64             // of this node's leadership
	has     map[lease]struct{} // what the worker had when it was attached: it need not be sent again

	wake chan struct{} // capacity 1, a token: the queue is no longer empty

	mu    sync.Mutex // guards what follows; nothing else is locked under it
	queue []message
}

// message is what waits to be written.
type message struct {
	run   *store.Run // an assignment
	due   int64      // ns on the leader's steady clock
	ended ended      // a cancel, if Why is set
	frame frame      // anything else
}

const (
	// maxQueue is the most messages that wait for the writer. A dispatcher never grants as much, even if it gives a
	// worker all that it holds for a second time, so it is only kept from growing without end if the dispatcher errs.
	maxQueue = 1 << 17
	maxSpare = 1 << 13 // messages that an empty queue keeps room for

	maxPacked = 256 << 10 // bytes of runs in a frame, about, unless a single one has more
	flushAt   = 64 << 10  // bytes that are written at once, unless a frame has more
)

func newLink(conn net.Conn, clock steady, silence time.Duration, fail context.CancelCauseFunc) *link {
	return &link{conn: conn, clock: clock, silence: silence, fail: fail, wake: make(chan struct{}, 1)}
}

// Assign implements [dispatch.Worker].
func (l *link) Assign(grants []dispatch.Grant) {
	now := l.clock.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range grants {
		g := &grants[i]
		if _, ok := l.has[lease{g.Run.ID, g.Run.Fence}]; !ok {
			l.pushLocked(message{run: g.Run, due: after(now, g.In)})
		}
	}
}

// Cancel implements [dispatch.Worker].
func (l *link) Cancel(run *store.Run, fence uint64) {
	why := causeLost
	if run.State == store.Canceled {
		why = causeCanceled
	}
	l.push(message{ended: ended{run.ID, fence, why}})
}

func (l *link) push(m message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pushLocked(m)
}

func (l *link) pushLocked(m message) {
	if len(l.queue) >= maxQueue {
		l.fail(ErrSlow)
		return
	}
	l.queue = append(l.queue, m)
	if len(l.queue) == 1 {
		select {
		case l.wake <- struct{}{}:
		default: // the token of an earlier message is still there
		}
	}
}

// take returns all that waits, in exchange for what it has returned before.
func (l *link) take(done []message) []message {
	clear(done)
	if cap(done) > maxSpare {
		done = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	queue := l.queue
	l.queue = done[:0]
	return queue
}

// write writes the greeting, and then what is pushed, until ctx ends.
func (l *link) write(ctx context.Context, greeting frame) error {
	out := writer{conn: l.conn, timeout: l.silence}
	if err := out.add(greeting); err != nil {
		return err
	}
	var queue []message
	for {
		if err := out.flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.wake:
		}
		queue = l.take(queue)
		for rest := queue; len(rest) > 0; {
			f, n := l.pack(rest)
			if err := out.add(f); err != nil {
				return err
			}
			if r, ok := f.(*refused); ok {
				return cmp.Or(out.flush(), fmt.Errorf("%w: %v", ErrRefused, r.Why))
			}
			rest = rest[n:]
		}
	}
}

// refuse is for a connection that has no writer yet.
func (l *link) refuse(why refusal) error {
	out := writer{conn: l.conn, timeout: l.silence}
	if err := out.add(&refused{why}); err != nil {
		return err
	}
	return cmp.Or(out.flush(), fmt.Errorf("%w: %v", ErrRefused, why))
}

// pack makes a frame of as many of the messages as go into one, and returns their number.
func (l *link) pack(queue []message) (frame, int) {
	switch m := &queue[0]; {
	case m.run != nil:
		return l.packAssign(queue)
	case m.ended.Why != 0:
		c := new(cancel)
		for i := range queue {
			if queue[i].ended.Why == 0 || i == maxListed {
				break
			}
			c.Ended = append(c.Ended, queue[i].ended)
		}
		return c, len(c.Ended)
	default:
		if p, ok := m.frame.(*pong); ok {
			p.At = l.clock.now()
		}
		return m.frame, 1
	}
}

func (l *link) packAssign(queue []message) (*assign, int) {
	a := &assign{At: l.clock.now()}
	specs := make(map[*store.Spec]uint32) // equal ones are mostly shared
	for i, size := 0, 0; i < len(queue) && queue[i].run != nil && size < maxPacked; i++ {
		r := *queue[i].run
		n, ok := specs[r.Spec]
		if !ok {
			n = uint32(len(specs))
			specs[r.Spec] = n
			a.Specs = append(a.Specs, r.Spec.Encode())
			size += len(a.Specs[n])
		}
		r.Spec = nil
		size += r.Msgsize()
		a.Grants = append(a.Grants, grant{queue[i].due, n, &r})
	}
	return a, len(a.Grants)
}

// next reads a frame, for which it waits as long as the other end may be silent.
func (l *link) next(in *reader) (frame, error) { return nextWithin(l.conn, in, l.silence) }

func nextWithin(conn net.Conn, in *reader, silence time.Duration) (frame, error) {
	if err := conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
		return nil, err
	}
	return in.next()
}

// writer gathers frames and writes them.
type writer struct {
	conn    net.Conn
	timeout time.Duration
	buf     []byte
}

// add gathers a frame, and writes if that are enough.
func (w *writer) add(f frame) (err error) {
	if w.buf, err = appendFrame(w.buf, f); err != nil {
		return err
	}
	if len(w.buf) >= flushAt {
		return w.flush()
	}
	return nil
}

// flush writes what is gathered.
func (w *writer) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	if err := w.conn.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
		return err
	}
	_, err := w.conn.Write(w.buf)
	if w.buf = w.buf[:0]; cap(w.buf) > maxKept {
		w.buf = nil
	}
	return err
}
