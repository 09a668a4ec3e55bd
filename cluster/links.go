package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/store"
)

// handshakeTime bounds the making of a connection, from dialing to the welcome.
const handshakeTime = 5 * time.Second

// links are a node's connections to others.
type links struct {
	node    *Node
	cfg     *Config
	network Network
	ln      net.Listener
	address string // at which others reach this node
	process string // random: tells two processes with one node ID apart

	ctx  context.Context //nolint:containedctx // ends with the node
	stop context.CancelFunc
	work sync.WaitGroup // the acceptor and the handlers of accepted connections

	mu        sync.Mutex // guards all below
	closed    bool
	open      map[net.Conn]bool
	heard     map[string]string // address by node ID, as nodes tell of themselves
	processes map[string]string // by node ID, the last that was let in
	layer     *layer            // of the raft that runs; nil if none does
}

// listen begins to accept connections. They are refused, or wait, as long as the
// node cannot use them.
func (n *Node) listen() (*links, error) {
	cfg := n.cfg.Cluster
	l := &links{
		node: n, cfg: cfg, network: cfg.Network, process: uuid.NewString(),
		open: make(map[net.Conn]bool), heard: make(map[string]string), processes: make(map[string]string),
	}
	if l.network == nil {
		l.network = tcp{}
	}
	ln, err := l.network.Listen(cfg.Bind)
	if err != nil {
		return nil, fmt.Errorf("cluster: listen on %s: %w", cfg.Bind, err)
	}
	l.ln = ln
	if l.address = cfg.Advertise; l.address == "" {
		l.address = ln.Addr().String()
	}
	l.ctx, l.stop = context.WithCancel(context.Background()) //nolint:forbidigo // of the node's life
	l.work.Go(l.accept)
	return l, nil
}

// close ends all connections and waits for those who serve them.
func (l *links) close() error {
	l.stop()
	err := l.ln.Close()
	l.mu.Lock()
	l.closed = true
	open := slices.Collect(maps.Keys(l.open))
	l.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // whoever uses it finds out
	}
	l.work.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// lookUp returns where a node is reached: what this node was configured with wins
// over what was heard, and that over what the state knows.
func (l *links) lookUp(id string) (string, error) {
	for _, p := range l.cfg.Peers {
		if p.ID == id {
			return p.Address, nil
		}
	}
	l.mu.Lock()
	heard := l.heard[id]
	l.mu.Unlock()
	if heard != "" {
		return heard, nil
	}
	l.node.mu.RLock()
	defer l.node.mu.RUnlock()
	m := l.node.state.Meta()
	if rec, ok := m.Node(id); ok && rec.Address != "" {
		return rec.Address, nil
	}
	return "", fmt.Errorf("cluster: no address of node %q is known", id)
}

// hear notes where a node says it is.
func (l *links) hear(id, address string) {
	if id == "" || address == "" || id == l.node.cfg.ID {
		return
	}
	l.mu.Lock()
	l.heard[id] = address
	l.mu.Unlock()
}

// dial connects to a node by its ID.
func (l *links) dial(ctx context.Context, id string, kind streamKind) (net.Conn, error) {
	address, err := l.lookUp(id)
	if err != nil {
		return nil, err
	}
	conn, _, err := l.dialAddress(ctx, address, id, kind)
	return conn, err
}

// dialAddress connects to an address and presents this node. id is the node that
// is expected there, "" if any may be. The connection has no deadline set.
func (l *links) dialAddress(ctx context.Context, address, id string, kind streamKind) (net.Conn, welcome, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	conn, err := l.connect(ctx, address)
	if err != nil {
		return nil, welcome{}, fmt.Errorf("cluster: dial %s: %w", address, err)
	}
	h := l.present(kind)
	h.To = id
	_ = conn.SetDeadline(time.Now().Add(handshakeTime)) // a failing deadline shows as a failing write
	_, err = conn.Write(appendFrame(append([]byte(nil), magic[:]...), frameHello, &h))
	var w welcome
	if err == nil {
		err = expectFrame(conn, maxHello, frameWelcome, &w)
	}
	if err == nil {
		err = w.refusal(address)
	}
	if err != nil {
		_ = conn.Close() // the first error says more
		return nil, w, fmt.Errorf("cluster: dial %s: %w", address, err)
	}
	_ = conn.SetDeadline(time.Time{})
	l.hear(w.Leader, w.LeaderAddress)
	return conn, w, nil
}

// connect makes a connection that ends with the node.
func (l *links) connect(ctx context.Context, address string) (net.Conn, error) {
	conn, err := l.network.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	if l.cfg.TLS != nil {
		conn = tls.Client(conn, l.cfg.clientTLS(address))
	}
	return l.track(conn)
}

// tracked is a connection that the links close with themselves.
type tracked struct {
	net.Conn
	of *links
}

// Close implements [net.Conn].
func (t *tracked) Close() error {
	t.of.mu.Lock()
	delete(t.of.open, t)
	t.of.mu.Unlock()
	return t.Conn.Close()
}

func (l *links) track(conn net.Conn) (net.Conn, error) {
	t := &tracked{conn, l}
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.open[t] = true
	}
	l.mu.Unlock()
	if closed {
		_ = conn.Close()
		return nil, ErrClosed
	}
	return t, nil
}

// present is this node's hello.
func (l *links) present(kind streamKind) hello {
	n := l.node
	n.mu.RLock()
	cluster := n.state.Meta().Cluster
	n.mu.RUnlock()
	return hello{
		Stream: uint8(kind), Cluster: cluster, From: n.cfg.ID, Incarnation: n.incarnation, Process: l.process, Address: l.address,
	}
}

// accept serves the listener until it is closed.
func (l *links) accept() {
	for wait := time.Duration(0); ; {
		conn, err := l.ln.Accept()
		if err == nil {
			wait = 0
			l.work.Go(func() { l.welcome(conn) })
			continue
		}
		if l.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		// Out of file descriptors, say.
		wait = min(max(2*wait, 10*time.Millisecond), time.Second)
		l.node.log.Warn("port does not accept", keyError, err)
		select {
		case <-time.After(wait):
		case <-l.ctx.Done():
		}
	}
}

// welcome answers the hello of an accepted connection and hands it to whom it is
// for.
func (l *links) welcome(raw net.Conn) {
	if l.cfg.TLS != nil {
		raw = tls.Server(raw, l.cfg.serverTLS())
	}
	conn, err := l.track(raw)
	if err != nil {
		return
	}
	var h hello
	_ = conn.SetDeadline(time.Now().Add(handshakeTime)) // a failing deadline shows as a failing read
	if err := readHello(conn, &h); err != nil {
		l.node.log.Debug("connection refused", keyPeer, conn.RemoteAddr().String(), keyError, err)
		_ = conn.Close()
		return
	}
	w := l.judge(&h)
	if _, err := conn.Write(appendFrame(nil, frameWelcome, &w)); err != nil || w.Refusal != accepted {
		_ = conn.Close()
		return
	}
	_ = conn.SetDeadline(time.Time{})
	l.hear(h.From, h.Address)
	l.serve(conn, &h)
}

func readHello(conn net.Conn, h *hello) error {
	var m [4]byte
	if _, err := io.ReadFull(conn, m[:]); err != nil {
		return err
	}
	if m != magic {
		return fmt.Errorf("%w: protocol %q, this build speaks %q", errFrame, m, magic)
	}
	return expectFrame(conn, maxHello, frameHello, h)
}

// serve hands a connection over. It returns when the connection is done with, or
// is another's.
func (l *links) serve(conn net.Conn, h *hello) {
	switch streamKind(h.Stream) {
	case streamRaft:
		l.mu.Lock()
		to := l.layer
		l.mu.Unlock()
		if to == nil || !to.offer(conn) {
			_ = conn.Close()
		}
		return
	case streamCalls:
		l.node.serveCalls(conn, h.From)
	case streamJoin:
		l.node.serveJoin(conn, h)
	case streamSession:
		if serve := l.node.cfg.OnSession; serve != nil {
			serve(l.ctx, conn, h.From)
		}
	}
	_ = conn.Close()
}

// judge decides whether to take a connection.
func (l *links) judge(h *hello) welcome {
	n := l.node
	n.mu.RLock()
	meta := n.state.Meta()
	n.mu.RUnlock()
	cluster := meta.Cluster
	w := welcome{
		Cluster: cluster, From: n.cfg.ID, Incarnation: n.incarnation, Process: l.process, Level: store.FormatLevel,
		Founded: n.begun.Load(), Member: n.knows(&meta, h),
	}
	w.Leader, w.LeaderAddress = n.leader()
	refuse := func(why uint8, format string, args ...any) {
		w.Refusal, w.Text = why, fmt.Sprintf(format, args...)
	}
	kind := streamKind(h.Stream)
	switch {
	case h.To != "" && h.To != n.cfg.ID:
		refuse(refusedNode, "this is node %q, not %q", n.cfg.ID, h.To)
	case h.From == n.cfg.ID && h.Process != l.process:
		refuse(refusedDuplicate, "node ID %q is in use by the process at %s", h.From, l.address)
	case h.Cluster != "" && cluster != "" && h.Cluster != cluster:
		refuse(refusedCluster, "node %q is in cluster %s, node %q in %s", n.cfg.ID, cluster, h.From, h.Cluster)
	case (kind == streamCalls || kind == streamSession) && !n.Leading():
		refuse(refusedNotLeader, "node %q does not lead", n.cfg.ID)
	case !l.only(h):
		refuse(refusedDuplicate, "node ID %q is in use by another process", h.From)
	}
	return w
}

// only reports whether no other process is known to be alive under the node ID of
// h, and from then on knows the process of h under it.
func (l *links) only(h *hello) bool {
	if h.From == l.node.cfg.ID {
		return true
	}
	l.mu.Lock()
	known, at := l.processes[h.From], l.heard[h.From]
	l.mu.Unlock()
	if known != "" && known != h.Process && at != "" && at != h.Address {
		ctx, cancel := context.WithTimeout(l.ctx, time.Second)
		defer cancel()
		conn, w, err := l.dialAddress(ctx, at, h.From, streamJoin)
		if err == nil {
			_ = conn.Close()
			if w.Process == known {
				return false
			}
		}
	}
	l.mu.Lock()
	l.processes[h.From] = h.Process
	l.mu.Unlock()
	return true
}

// refusal makes an error of a welcome that refuses.
func (w *welcome) refusal(address string) error {
	switch w.Refusal {
	case accepted:
		return nil
	case refusedDuplicate:
		return fmt.Errorf("%w: %s", ErrDuplicateID, w.Text)
	case refusedCluster:
		return fmt.Errorf("%w: %s", ErrOtherCluster, w.Text)
	case refusedNotLeader:
		return ErrNotLeader
	}
	return fmt.Errorf("cluster: refused by %s: %s", address, w.Text)
}

// DialLeader makes a connection for a worker session with the node that leads, if
// that is another one. Errors: [ErrNotLeader] if none is known.
func (n *Node) DialLeader(ctx context.Context) (net.Conn, error) {
	id, _ := n.leader()
	if id == "" || id == n.cfg.ID || n.links == nil {
		return nil, ErrNotLeader
	}
	return n.links.dial(ctx, id, streamSession)
}

// leader returns who leads and where it is, as far as known.
func (n *Node) leader() (id, address string) {
	inst := n.inst.Load()
	if inst == nil {
		return "", ""
	}
	_, leader := inst.raft.LeaderWithID()
	if id = string(leader); id == "" || n.links == nil {
		return id, ""
	}
	if id == n.cfg.ID {
		return id, n.links.address
	}
	address, err := n.links.lookUp(id)
	if err != nil {
		return id, "" // the asker may know more
	}
	return id, address
}

// layer is what raft's own transport connects through: raft knows nodes by their
// IDs alone, and each dial looks up where the node is.
type layer struct {
	links *links
	conns chan net.Conn
	ended chan struct{}
	once  sync.Once
	mu    sync.Mutex
	given map[net.Conn]bool // open, accepted for raft
}

func (l *links) newLayer() *layer {
	y := &layer{links: l, conns: make(chan net.Conn), ended: make(chan struct{}), given: make(map[net.Conn]bool)}
	l.mu.Lock()
	l.layer = y
	l.mu.Unlock()
	return y
}

// offer gives raft a connection; it reports false if raft has ended.
func (y *layer) offer(conn net.Conn) bool {
	c := &givenConn{conn, y}
	y.mu.Lock()
	y.given[c] = true
	y.mu.Unlock()
	select {
	case y.conns <- c:
		return true
	case <-y.ended:
		_ = c.Close()
		return false
	}
}

type givenConn struct {
	net.Conn
	to *layer
}

// Close implements [net.Conn].
func (c *givenConn) Close() error {
	c.to.mu.Lock()
	delete(c.to.given, c)
	c.to.mu.Unlock()
	return c.Conn.Close()
}

// Accept implements [net.Listener].
func (y *layer) Accept() (net.Conn, error) {
	select {
	case c := <-y.conns:
		return c, nil
	case <-y.ended:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener]: raft's transport is at its end.
func (y *layer) Close() error {
	y.once.Do(func() { close(y.ended) })
	y.mu.Lock()
	given := slices.Collect(maps.Keys(y.given))
	y.mu.Unlock()
	for _, c := range given {
		_ = c.Close() // raft's handlers find out
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
	ctx, cancel := context.WithTimeout(y.links.ctx, timeout)
	defer cancel()
	return y.links.dial(ctx, string(to), streamRaft)
}

// nodeAddr is a node ID as an address.
type nodeAddr string

func (nodeAddr) Network() string  { return "node" }
func (a nodeAddr) String() string { return string(a) }
