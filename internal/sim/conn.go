package sim

import (
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"time"
)

// flow is one direction of a connection. The network's lock guards it.
type flow struct {
	net     *Network
	link    link
	queue   []chunk
	bytes   int           // in queue
	last    time.Time     // when the newest chunk arrives
	changed chan struct{} // closed by the next change; nil while nobody waits
}

// chunk is what one Write has sent, or the end of the stream.
type chunk struct {
	data []byte
	at   time.Time // when it arrives; zero while it is held up
	end  bool
}

// window is how many bytes may be on their way before a writer waits.
const window = 1 << 20

// retransmit is how long after a cut the held bytes are sent again, at most.
const retransmit = 200 * time.Millisecond

func newFlow(n *Network, l link) *flow {
	return &flow{net: n, link: l}
}

// waitLocked returns what the next change closes.
func (f *flow) waitLocked() <-chan struct{} {
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.changed
}

func (f *flow) fireLocked() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

func (f *flow) pushLocked(c chunk) {
	if !f.net.pathLocked(f.link).Cut {
		f.timeLocked(&c, 0)
	}
	f.queue = append(f.queue, c)
	f.bytes += len(c.data)
	f.fireLocked()
}

// timeLocked says when a chunk arrives: not before those sent before it.
func (f *flow) timeLocked(c *chunk, more time.Duration) {
	at := time.Now().Add(f.net.delayLocked(f.link) + more)
	if at.Before(f.last) {
		at = f.last
	}
	c.at, f.last = at, at
}

// rerouteLocked holds up what is on its way, or sends on what is held up.
func (f *flow) rerouteLocked(cut bool) {
	now := time.Now()
	more := time.Duration(f.net.rng.Int64N(int64(retransmit)))
	for i := range f.queue {
		c := &f.queue[i]
		switch {
		case cut && c.at.After(now):
			c.at = time.Time{}
		case !cut && c.at.IsZero():
			f.timeLocked(c, more)
		}
	}
	if cut {
		f.last = now
	}
	f.fireLocked()
}

// conn is one end of a connection.
type conn struct {
	host          *Host
	local, remote net.Addr
	in, out       *flow
	peer          *conn

	// Guarded by the network's lock.
	err     error // of this end, once it is closed or broken
	dropped bool  // its process was killed
	lost    bool  // what it writes goes nowhere
	readBy  time.Time
	writeBy time.Time
}

// breakLocked resets both ends at once.
func (c *conn) breakLocked() {
	for _, end := range []*conn{c, c.peer} {
		if end.err == nil {
			end.err = syscall.ECONNRESET
		}
		end.in.fireLocked()
		end.out.fireLocked()
		delete(end.host.net.conns, end)
	}
}

// closeLocked ends this end.
func (c *conn) closeLocked(err error) {
	if c.err == nil {
		c.err = err
	}
	c.in.fireLocked()
	c.out.fireLocked()
}

// Read implements [net.Conn].
func (c *conn) Read(b []byte) (int, error) {
	n := c.host.net
	for {
		n.mu.Lock()
		got, until, done, err := c.readLocked(b)
		if done {
			n.mu.Unlock()
			return got, err
		}
		changed := c.in.waitLocked()
		n.mu.Unlock()
		await(changed, until)
	}
}

// readLocked returns what Read does, if it is done, and otherwise until when there
// is nothing to be done.
func (c *conn) readLocked(b []byte) (got int, until time.Time, done bool, err error) {
	if c.err != nil {
		return 0, until, true, c.err
	}
	now := time.Now()
	if !c.readBy.IsZero() {
		if !c.readBy.After(now) {
			return 0, until, true, os.ErrDeadlineExceeded
		}
		until = c.readBy
	}
	if len(c.in.queue) == 0 || c.in.queue[0].at.IsZero() {
		return 0, until, false, nil
	}
	head := &c.in.queue[0]
	switch {
	case head.at.After(now):
		if until.IsZero() || head.at.Before(until) {
			until = head.at
		}
		return 0, until, false, nil
	case head.end:
		return 0, until, true, io.EOF
	}
	got = copy(b, head.data)
	head.data = head.data[got:]
	c.in.bytes -= got
	if len(head.data) == 0 {
		c.in.queue = c.in.queue[1:]
	}
	c.in.fireLocked()
	return got, until, true, nil
}

// Write implements [net.Conn]. It returns once the bytes are in the window.
func (c *conn) Write(b []byte) (int, error) {
	n := c.host.net
	for {
		n.mu.Lock()
		done, err := c.writeLocked(b)
		if err != nil {
			n.mu.Unlock()
			return 0, err
		}
		if done {
			n.mu.Unlock()
			return len(b), nil
		}
		changed, until := c.out.waitLocked(), c.writeBy
		n.mu.Unlock()
		await(changed, until)
	}
}

func (c *conn) writeLocked(b []byte) (done bool, err error) {
	switch {
	case c.err != nil:
		return true, c.err
	case !c.writeBy.IsZero() && !c.writeBy.After(time.Now()):
		return true, os.ErrDeadlineExceeded
	case c.lost:
		return true, nil
	case c.peer.err != nil && !c.peer.dropped && !c.host.net.pathLocked(c.in.link).Cut:
		return true, syscall.EPIPE
	case c.out.bytes > 0 && c.out.bytes+len(b) > window:
		return false, nil
	}
	c.out.pushLocked(chunk{data: slices.Clone(b)})
	if p := c.host.net.pathLocked(c.out.link); p.Severs > 0 && c.host.net.rng.IntN(100) < p.Severs {
		c.severLocked(p)
	}
	return true, nil
}

// noticed is by when an end learns that its connection is dead, at most.
const noticed = 20 * time.Millisecond

// severLocked has the connection die for this end. The other one still gets what was
// sent, and then the end of the stream; what it answers is lost.
func (c *conn) severLocked(p Path) {
	n := c.host.net
	n.severed++
	c.lost, c.peer.lost = true, true
	c.in.queue, c.in.bytes = nil, 0
	now, late := time.Now(), time.Duration(0)
	if p.Late > 0 {
		late = time.Duration(n.rng.Int64N(int64(p.Late)))
	}
	for i := range c.out.queue {
		if at := &c.out.queue[i].at; at.After(now) {
			*at = at.Add(late)
		}
	}
	c.out.last = c.out.last.Add(late)
	c.out.pushLocked(chunk{end: true})
	time.AfterFunc(time.Duration(n.rng.Int64N(int64(noticed))), func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		c.closeLocked(syscall.ECONNRESET)
	})
}

// await waits for a change, until a time if it is not zero.
func await(changed <-chan struct{}, until time.Time) {
	if until.IsZero() {
		<-changed
		return
	}
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	}
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	n := c.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.err != nil {
		return nil
	}
	c.out.pushLocked(chunk{end: true})
	c.closeLocked(net.ErrClosed)
	if c.peer.err != nil {
		delete(n.conns, c)
		delete(n.conns, c.peer)
	}
	return nil
}

// LocalAddr implements [net.Conn].
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements [net.Conn].
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(t time.Time) error {
	c.setDeadlines(&t, &t)
	return nil
}

// SetReadDeadline implements [net.Conn].
func (c *conn) SetReadDeadline(t time.Time) error {
	c.setDeadlines(&t, nil)
	return nil
}

// SetWriteDeadline implements [net.Conn].
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.setDeadlines(nil, &t)
	return nil
}

func (c *conn) setDeadlines(read, write *time.Time) {
	n := c.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if read != nil {
		c.readBy = *read
		c.in.fireLocked()
	}
	if write != nil {
		c.writeBy = *write
		c.out.fireLocked()
	}
}
