package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// A Network carries streams between the nodes of one bubble. Bytes take time, may
// be held up in one direction alone, and connections break. Like TCP it neither
// loses, doubles nor reorders bytes within a connection; but one may die with the
// answer to what has arrived, or for its sender alone, see [Path], so that what is
// asked for anew over the next one comes twice, or first. Safe for concurrent use.
type Network struct {
	mu        sync.Mutex // guards all below, and the flows
	rng       *rand.Rand
	usual     Path
	links     map[link]Path
	names     map[string]string
	listeners map[string]*listener
	conns     map[*conn]struct{}
	silent    map[string]bool // machines that are gone: they do not even refuse
	severed   int             // connections that died with what was under way
	changed   chan struct{}   // closed by the next change of links, listeners or machines
}

// link is a direction between two nodes.
type link struct{ from, to string }

// A Path is how bytes fare in one direction.
type Path struct {
	Latency time.Duration // at least; more than 0, or the bubble's clock would not move
	Jitter  time.Duration // at most this is added, at random
	Cut     bool          // nothing arrives; what was sent does once the cut is over

	// Severs is after how many writes in a hundred the connection dies for the one
	// who writes. What was sent arrives nevertheless, up to Late after its time, and
	// the answers are lost.
	Severs int
	Late   time.Duration
}

// NewNetwork returns a network whose links are all as usual.
func NewNetwork(seed uint64, usual Path) *Network {
	return &Network{
		rng: rand.New(rand.NewPCG(seed, 0x6e6574)), usual: usual,
		links: make(map[link]Path), names: make(map[string]string), listeners: make(map[string]*listener),
		conns: make(map[*conn]struct{}), silent: make(map[string]bool), changed: make(chan struct{}),
	}
}

// SetPath changes how bytes fare from one node to another.
func (n *Network) SetPath(from, to string, p Path) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := link{from, to}
	n.links[l] = p
	for c := range n.conns {
		if c.out.link == l {
			c.out.rerouteLocked(p.Cut)
		}
	}
	n.fireLocked()
}

// Path returns how bytes fare from one node to another.
func (n *Network) Path(from, to string) Path {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pathLocked(link{from, to})
}

func (n *Network) pathLocked(l link) Path {
	if p, ok := n.links[l]; ok {
		return p
	}
	return n.usual
}

// SetCut cuts one direction, or ends the cut.
func (n *Network) SetCut(from, to string, cut bool) {
	p := n.Path(from, to)
	p.Cut = cut
	n.SetPath(from, to, p)
}

// Heal makes all links as usual.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		c.out.rerouteLocked(false)
	}
	clear(n.links)
	n.fireLocked()
}

// Reset breaks each connection between two nodes, as a middlebox does.
func (n *Network) Reset(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if c.out.link == (link{a, b}) || c.out.link == (link{b, a}) {
			c.breakLocked()
		}
	}
}

// SetName makes a name stand for an address, until it is made to stand for
// another.
func (n *Network) SetName(name, addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[name] = addr
}

// Severed returns how many connections have died with what was under way.
func (n *Network) Severed() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.severed
}

func (n *Network) fireLocked() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// delayLocked draws how long something takes on a link.
func (n *Network) delayLocked(l link) time.Duration {
	p := n.pathLocked(l)
	d := p.Latency
	if p.Jitter > 0 {
		d += time.Duration(n.rng.Int64N(int64(p.Jitter)))
	}
	return max(d, time.Microsecond)
}

// A Host is the network as one life of a node's process sees it. It implements
// the cluster's Network.
type Host struct {
	net  *Network
	node string
	dead bool // guarded by net.mu
}

// Host begins a life of a node. What an earlier life left unanswered breaks.
func (n *Network) Host(node string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.silent, node)
	for c := range n.conns {
		if c.out.link.to == node && c.peer.dropped {
			c.breakLocked()
		}
	}
	n.fireLocked()
	return &Host{net: n, node: node}
}

// Kill ends the life: its connections and listeners are gone. The peers get
// resets, or, if the whole machine went, no answer at all.
func (h *Host) Kill(machine bool) {
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	h.dead = true
	if machine {
		n.silent[h.node] = true
	}
	for addr, l := range n.listeners {
		if l.host == h {
			l.closeLocked()
			delete(n.listeners, addr)
		}
	}
	for c := range n.conns {
		if c.host != h {
			continue
		}
		c.dropped = true
		if machine {
			c.out.rerouteLocked(true)
			c.closeLocked(net.ErrClosed)
		} else {
			c.breakLocked()
		}
	}
	n.fireLocked()
}

// Listen opens an address of the node.
func (h *Host) Listen(addr string) (net.Listener, error) {
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if h.dead {
		return nil, net.ErrClosed
	}
	if n.listeners[addr] != nil {
		return nil, fmt.Errorf("sim: listen %s: %w", addr, syscall.EADDRINUSE)
	}
	const backlog = 128 // as many as wait to be accepted on a usual machine
	l := &listener{host: h, at: addr, queue: make(chan net.Conn, backlog), closed: make(chan struct{})}
	n.listeners[addr] = l
	n.fireLocked()
	return l, nil
}

// connectTimeout is when a connection that gets no answer is given up.
const connectTimeout = 20 * time.Second

// Dial connects to an address or a name.
func (h *Host) Dial(ctx context.Context, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	for {
		wait, delay, err := h.connect(addr)
		if err != nil {
			return nil, err
		}
		if delay == 0 {
			select {
			case <-wait:
				continue
			case <-ctx.Done():
			}
		} else if sleep(ctx, delay) {
			if c, err := h.establish(addr); c != nil || err != nil {
				return c, err
			}
			continue
		}
		return nil, fmt.Errorf("sim: dial %s: %w", addr, os.ErrDeadlineExceeded)
	}
}

// connect says how a try to connect begins: with a delay after which it is
// decided, or, as nothing gets through, with a wait.
func (h *Host) connect(addr string) (wait <-chan struct{}, delay time.Duration, err error) {
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if h.dead {
		return nil, 0, net.ErrClosed
	}
	l := n.findLocked(addr)
	if l == nil {
		for node := range n.silent {
			if node != h.node { // nobody can tell whose address it was: no answer is what it gives
				return n.changed, 0, nil
			}
		}
		return nil, n.usual.Latency, nil
	}
	there, back := link{h.node, l.host.node}, link{l.host.node, h.node}
	if n.pathLocked(there).Cut || n.pathLocked(back).Cut {
		return n.changed, 0, nil
	}
	return nil, n.delayLocked(there) + n.delayLocked(back), nil
}

func (n *Network) findLocked(addr string) *listener {
	if to, ok := n.names[addr]; ok {
		addr = to
	}
	return n.listeners[addr]
}

// establish ends a try to connect; neither a connection nor an error means that
// the answer was lost.
func (h *Host) establish(addr string) (net.Conn, error) {
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.findLocked(addr)
	switch {
	case h.dead:
		return nil, net.ErrClosed
	case l == nil:
		return nil, fmt.Errorf("sim: dial %s: %w", addr, syscall.ECONNREFUSED)
	}
	there, back := link{h.node, l.host.node}, link{l.host.node, h.node}
	if n.pathLocked(there).Cut || n.pathLocked(back).Cut {
		return nil, nil
	}
	near := &conn{host: h, local: simAddr(h.node + ":dialed"), remote: simAddr(l.at)}
	far := &conn{host: l.host, local: simAddr(l.at), remote: near.local}
	near.out, far.out = newFlow(n, there), newFlow(n, back)
	near.in, far.in = far.out, near.out
	near.peer, far.peer = far, near
	select {
	case l.queue <- far:
	default:
		return nil, fmt.Errorf("sim: dial %s: %w", addr, syscall.ECONNREFUSED)
	}
	n.conns[near], n.conns[far] = struct{}{}, struct{}{}
	return near, nil
}

type listener struct {
	host   *Host
	at     string
	queue  chan net.Conn
	closed chan struct{}
	over   bool // guarded by net.mu
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *listener) Close() error {
	n := l.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	l.closeLocked()
	if n.listeners[l.at] == l {
		delete(n.listeners, l.at)
	}
	n.fireLocked()
	return nil
}

// closeLocked also breaks the connections that nobody has accepted.
func (l *listener) closeLocked() {
	if l.over {
		return
	}
	l.over = true
	close(l.closed)
	for {
		select {
		case c := <-l.queue:
			c.(*conn).breakLocked()
		default:
			return
		}
	}
}

// Addr implements [net.Listener].
func (l *listener) Addr() net.Addr { return simAddr(l.at) }

type simAddr string

func (simAddr) Network() string  { return "sim" }
func (a simAddr) String() string { return string(a) }
