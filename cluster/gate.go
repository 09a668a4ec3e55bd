package cluster

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// gate is a lock that is held across waits. It is no mutex, because waiting for it
// can be given up, and because waiting for a mutex does not count as idle in virtual
// time.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

// enter locks, or returns the error of ctx.
func (g gate) enter(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g gate) leave() { <-g }

// usage counts those who use something that is to be closed.
type usage struct {
	mu     sync.Mutex // guards all below
	n      int
	closed bool
	unused chan struct{} // closed when closed is set and n is 0
}

func newUsage() *usage { return &usage{unused: make(chan struct{})} }

// begin reports whether the thing may still be used, until end is called.
func (u *usage) begin() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	u.n++
	return true
}

func (u *usage) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n--
	if u.closed && u.n == 0 {
		close(u.unused)
	}
}

// close lets nobody begin any more. The channel is closed once all have ended.
func (u *usage) close() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.closed && u.n == 0 {
		close(u.unused)
	}
	u.closed = true
	return u.unused
}

// connections are those that end together.
type connections struct {
	mu     sync.Mutex // guards both below
	closed bool
	open   map[*heldConn]bool
}

type heldConn struct {
	net.Conn
	of *connections
}

// Close implements [net.Conn].
func (c *heldConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// hold makes conn one of them. If they have ended it ends conn too, and returns nil.
func (c *connections) hold(conn net.Conn) net.Conn {
	held := &heldConn{conn, c}
	c.mu.Lock()
	closed := c.closed
	if c.open == nil {
		c.open = make(map[*heldConn]bool)
	}
	if !closed {
		c.open[held] = true
	}
	c.mu.Unlock()
	if closed {
		_ = conn.Close() // nobody needs it
		return nil
	}
	return held
}

// close ends all of them, and those that come later.
func (c *connections) close() {
	c.mu.Lock()
	c.closed = true
	open := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	for _, conn := range open {
		_ = conn.Close() // whoever uses it finds out
	}
}

// frames writes the frames of a connection, which several goroutines may send.
type frames struct {
	conn net.Conn
	busy gate
	buf  []byte // guarded by busy
}

func newFrames(conn net.Conn) *frames { return &frames{conn: conn, busy: newGate()} }

// Bounds of frames that are sent.
const (
	// writeTime bounds the writing of a frame: a peer that takes nothing for that
	// long is given up.
	writeTime = 10 * time.Second

	// maxKeptFrame is how large a buffer is kept for the next frame.
	maxKeptFrame = 256 << 10
)

// send writes a frame. After an error the connection is closed.
func (f *frames) send(kind frameKind, body marshaler) error {
	f.busy <- struct{}{}
	defer f.busy.leave()
	f.buf = appendFrame(f.buf[:0], kind, body)
	_ = f.conn.SetWriteDeadline(time.Now().Add(writeTime)) // a failing deadline shows as a failing write
	_, err := f.conn.Write(f.buf)
	if cap(f.buf) > maxKeptFrame {
		f.buf = nil
	}
	if err != nil {
		_ = f.conn.Close() // the error says more
	}
	return err
}
