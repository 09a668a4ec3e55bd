package cluster

import (
	"context"
	"net"
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

	open connections // of raft, dialed and accepted
}

func (l *links) newLayer() *layer {
	y := &layer{links: l, conns: make(chan net.Conn)}
	y.ctx, y.end = context.WithCancel(l.ctx)
	l.mu.Lock()
	l.layer = y
	l.mu.Unlock()
	return y
}

// offer gives raft a connection, or closes it.
func (y *layer) offer(conn net.Conn) {
	c := y.open.hold(conn)
	if c == nil {
		return
	}
	select {
	case y.conns <- c:
	case <-y.ctx.Done():
		_ = c.Close() // as Close does
	}
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
	y.end()
	y.open.close()
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
	if c := y.open.hold(conn); c != nil {
		return c, nil
	}
	return nil, net.ErrClosed
}

// nodeAddr is a node ID as an address.
type nodeAddr string

func (nodeAddr) Network() string  { return "node" }
func (a nodeAddr) String() string { return string(a) }
