package cluster

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// layer is what raft's own transport connects through: raft knows nodes by their
// IDs alone, and each dial looks up where the node is.
type layer struct {
	links *links
	conns chan net.Conn
	ctx   context.Context //nolint:containedctx // ends with raft, and then so does dialing
	end   context.CancelFunc

	mu     sync.Mutex // guards both below
	closed bool
	open   map[net.Conn]bool // of raft, dialed and accepted
}

func (l *links) newLayer() *layer {
	y := &layer{links: l, conns: make(chan net.Conn), open: make(map[net.Conn]bool)}
	y.ctx, y.end = context.WithCancel(l.ctx)
	l.mu.Lock()
	l.layer = y
	l.mu.Unlock()
	return y
}

// hold makes conn one that ends with raft. It is nil if raft has ended.
func (y *layer) hold(conn net.Conn) net.Conn {
	c := &heldConn{conn, y}
	y.mu.Lock()
	closed := y.closed
	if !closed {
		y.open[c] = true
	}
	y.mu.Unlock()
	if closed {
		_ = conn.Close() // nobody needs it
		return nil
	}
	return c
}

// offer gives raft a connection, or closes it.
func (y *layer) offer(conn net.Conn) {
	c := y.hold(conn)
	if c == nil {
		return
	}
	select {
	case y.conns <- c:
	case <-y.ctx.Done():
		_ = c.Close() // as Close does
	}
}

type heldConn struct {
	net.Conn
	of *layer
}

// Close implements [net.Conn].
func (c *heldConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// Accept implements [net.Listener].
func (y *layer) Accept() (net.Conn, error) {
	select {
	case c := <-y.conns:
		return c, nil
	case <-y.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener]: raft's transport is at its end. Raft would keep
// its connections, and wait for a peer that is frozen.
func (y *layer) Close() error {
	y.mu.Lock()
	y.closed = true
	open := slices.Collect(maps.Keys(y.open))
	y.mu.Unlock()
	y.end()
	for _, c := range open {
		_ = c.Close() // whoever uses it finds out
	}
	y.links.mu.Lock()
	if y.links.layer == y {
		y.links.layer = nil
	}
	y.links.mu.Unlock()
	return nil
}

// Addr implements [net.Listener].
func (y *layer) Addr() net.Addr { return nodeAddr(y.links.node.cfg.ID) }

// Dial implements [raft.StreamLayer].
func (y *layer) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(y.ctx, timeout)
	defer cancel()
	conn, err := y.links.dial(ctx, string(to), streamRaft)
	if err != nil {
		return nil, err
	}
	if c := y.hold(conn); c != nil {
		return c, nil
	}
	return nil, net.ErrClosed
}

// nodeAddr is a node ID as an address.
type nodeAddr string

func (nodeAddr) Network() string  { return "node" }
func (a nodeAddr) String() string { return string(a) }
