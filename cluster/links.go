package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
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

	open connections // TLS is above them: its farewell could take time

	mu        sync.Mutex          // guards all below
	heard     map[string]string   // address by node ID, as nodes tell of themselves
	failed    map[string]string   // address by node ID at which it was last not found
	processes map[string]identity // by node ID, the last that was let in
	asides    map[string]*aside   // by node ID
	layer     *layer              // of the raft that runs; nil if none does
}

// listen begins to accept connections. They are refused, or wait, as long as the
// node cannot use them.
func (n *Node) listen() error {
	cfg := n.cfg.Cluster
	l := &links{
		node: n, cfg: cfg, network: cfg.Network, process: uuid.NewString(),
		heard: make(map[string]string), failed: make(map[string]string), processes: make(map[string]identity), asides: make(map[string]*aside),
	}
	if l.network == nil {
		l.network = tcp{}
	}
	ln, err := l.network.Listen(cfg.Bind)
	if err != nil {
		return fmt.Errorf("cluster: listen on %s: %w", cfg.Bind, err)
	}
	l.ln = ln
	if l.address = cfg.Advertise; l.address == "" {
		l.address = ln.Addr().String()
	}
	l.ctx, l.stop = context.WithCancel(context.Background()) //nolint:forbidigo // of the node's life
	n.links = l                                              // before anybody can come in by it
	l.work.Go(l.accept)
	return nil
}

// close ends all connections and waits for those who serve them.
func (l *links) close() error {
	l.mu.Lock()
	l.stop()
	l.mu.Unlock()
	err := l.ln.Close()
	l.open.close()
	l.work.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// addresses returns where a node may be reached, in the order to try: where this
// node was configured to find it, where it said it was, where the state knows it.
// One at which it was last not found comes last: a node may have moved though it is
// configured elsewhere, and may be configured so because what it says is wrong.
func (l *links) addresses(id string) []string {
	var list []string
	add := func(address string) {
		if address != "" && !slices.Contains(list, address) {
			list = append(list, address)
		}
	}
	for _, p := range l.cfg.Peers {
		if p.ID == id {
			add(p.Address)
		}
	}
	l.mu.Lock()
	heard, failed := l.heard[id], l.failed[id]
	l.mu.Unlock()
	add(heard)
	rec, _ := l.node.meta().Node(id)
	add(rec.Address)
	if at := slices.Index(list, failed); at >= 0 {
		list = append(slices.Delete(list, at, at+1), failed)
	}
	return list
}

// lookUp returns the likeliest address of a node, "" if none is known.
func (l *links) lookUp(id string) string {
	if list := l.addresses(id); len(list) > 0 {
		return list[0]
	}
	return ""
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

// dial connects to a node by its ID, at the first of its addresses where it is.
func (l *links) dial(ctx context.Context, id string, kind streamKind) (net.Conn, error) {
	err := fmt.Errorf("cluster: no address of node %q is known", id)
	for _, address := range l.addresses(id) {
		var conn net.Conn
		var w welcome
		conn, w, err = l.dialAddress(ctx, address, id, kind)
		if w.From == id { // it is there, whether or not it takes the connection
			return conn, err
		}
		l.mu.Lock()
		l.failed[id] = address
		l.mu.Unlock()
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

// dialAddress connects to an address and presents this node. id is the node that
// is expected there, "" if any may be. Of a connection that was refused, the welcome
// says more.
func (l *links) dialAddress(ctx context.Context, address, id string, kind streamKind) (net.Conn, welcome, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	var w welcome
	conn, err := l.connect(ctx, address)
	if err != nil {
		return nil, w, fmt.Errorf("cluster: dial %s: %w", address, err)
	}
	h := l.present(kind)
	h.To = id
	release := boundBy(ctx, conn)
	_, err = conn.Write(appendFrame(append([]byte(nil), magic[:]...), frameHello, &h))
	if err == nil {
		err = expectFrame(conn, maxHello, frameWelcome, &w)
	}
	if err == nil {
		err = w.refusal(address)
	}
	if !release() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close() // the first error says more
		return nil, w, fmt.Errorf("cluster: dial %s: %w", address, err)
	}
	l.hear(w.Leader, w.LeaderAddress)
	return conn, w, nil
}

// boundBy makes what is read from and written to conn fail when ctx ends, until the
// returned function is called. That reports false if it came too late.
func boundBy(ctx context.Context, conn net.Conn) (release func() bool) {
	return context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Unix(1, 0)) // a closed connection fails anyway
	})
}

// connect makes a connection that ends with the node.
func (l *links) connect(ctx context.Context, address string) (net.Conn, error) {
	raw, err := l.network.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	conn := l.open.hold(raw)
	switch {
	case conn == nil:
		return nil, ErrClosed
	case l.cfg.TLS != nil:
		return tls.Client(conn, l.cfg.clientTLS(address)), nil
	}
	return conn, nil
}

// present is this node's hello.
func (l *links) present(kind streamKind) hello {
	n := l.node
	return hello{
		Stream: uint8(kind), Cluster: n.meta().Cluster, From: n.cfg.ID, Incarnation: n.incarnation, Process: l.process, Address: l.address,
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
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-l.ctx.Done():
		}
		timer.Stop()
	}
}

// welcome answers the hello of an accepted connection and hands it to whom it is
// for.
func (l *links) welcome(raw net.Conn) {
	conn := l.open.hold(raw)
	if conn == nil {
		return
	}
	if l.cfg.TLS != nil {
		conn = tls.Server(conn, l.cfg.serverTLS())
	}
	h, ok := l.greet(conn)
	if !ok {
		_ = conn.Close() // the dialer has been told why
		return
	}
	l.serve(conn, h)
}

// greet reads the hello and answers it. It reports whether the connection is taken.
func (l *links) greet(conn net.Conn) (*hello, bool) {
	ctx, cancel := context.WithTimeout(l.ctx, handshakeTime)
	defer cancel()
	release := boundBy(ctx, conn)
	h := new(hello)
	if err := readHello(conn, h); err != nil {
		l.node.log.Debug("connection refused", keyPeer, conn.RemoteAddr().String(), keyError, err)
		return nil, false
	}
	w := l.judge(h)
	_, err := conn.Write(appendFrame(nil, frameWelcome, &w))
	return h, release() && err == nil && w.Refusal == accepted && streamKind(h.Stream) != streamProbe
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
		if to != nil {
			to.offer(conn)
			return
		}
	case streamCalls:
		l.node.serveCalls(conn, h.From)
	case streamJoin:
		l.node.serveJoin(conn, h)
	case streamProbe: // has been answered
	case streamAside:
		l.node.serveAside(conn)
	case streamSession:
		if serve := l.node.cfg.OnSession; serve != nil {
			serve(l.ctx, conn, h.From)
		}
	}
	_ = conn.Close()
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
	return id, n.links.lookUp(id) // the asker may know more
}
