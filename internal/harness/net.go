//go:build unix

package harness

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
)

// A Net is what lies between nodes: a proxy for each ordered pair, through which
// the first dials the second. Safe for concurrent use.
type Net struct {
	ids   []string
	links map[pair]*link // by who dials whom
	gates map[pair]*gate // by the direction of the bytes
}

type pair struct{ from, to string }

// NewNet makes the network of the named nodes. Close it.
func NewNet(ids ...string) (*Net, error) {
	n := &Net{ids: ids, links: make(map[pair]*link), gates: make(map[pair]*gate)}
	for p := range n.pairs() {
		n.gates[p] = newGate()
	}
	for p := range n.pairs() {
		l, err := newLink(n.gates[p], n.gates[pair{p.to, p.from}])
		if err != nil {
			return nil, errors.Join(err, n.Close())
		}
		n.links[p] = l
	}
	return n, nil
}

func (n *Net) pairs() func(yield func(pair) bool) {
	return func(yield func(pair) bool) {
		for _, from := range n.ids {
			for _, to := range n.ids {
				if from != to && !yield(pair{from, to}) {
					return
				}
			}
		}
	}
}

// Address returns where from finds to.
func (n *Net) Address(from, to string) string { return n.links[pair{from, to}].ln.Addr().String() }

// Place says where a node listens from now on.
func (n *Net) Place(id, address string) {
	for p, l := range n.links {
		if p.to == id {
			l.place(address)
		}
	}
}

// Cut holds up every byte that goes from one node to another, until [Net.Heal]:
// they are late then, as after a retransmission, and none is lost.
func (n *Net) Cut(from, to string) { n.gates[pair{from, to}].shut() }

// Isolate cuts a node off from all others, both ways.
func (n *Net) Isolate(id string) {
	for p, g := range n.gates {
		if p.from == id || p.to == id {
			g.shut()
		}
	}
}

// Reset breaks all connections of a node with others. New ones can be made.
func (n *Net) Reset(id string) {
	for p, l := range n.links {
		if p.from == id || p.to == id {
			l.reset()
		}
	}
}

// Heal ends all cuts.
func (n *Net) Heal() {
	for _, g := range n.gates {
		g.open()
	}
}

// Close ends all connections and waits for those who serve them.
func (n *Net) Close() error {
	var faults []error
	for _, l := range n.links {
		faults = append(faults, l.close())
	}
	return errors.Join(faults...)
}

// A gate lets bytes through or holds them up.
type gate struct {
	mu   sync.Mutex // guards way
	way  chan struct{}
	free bool // way is closed
}

func newGate() *gate {
	g := &gate{way: make(chan struct{})}
	g.open()
	return g
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.free {
		g.way, g.free = make(chan struct{}), false
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.free {
		close(g.way)
		g.free = true
	}
}

// pass returns a channel that is closed while, or once, bytes get through.
func (g *gate) pass() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.way
}

// A link is the proxy through which one node dials another.
type link struct {
	ln          net.Listener
	there, back *gate // of the bytes to the dialed node, and from it

	work sync.WaitGroup

	mu     sync.Mutex // guards all below
	target string     // "" if the node is nowhere
	conns  map[*relay]bool
	closed bool
}

func newLink(there, back *gate) (*link, error) {
	ln, err := net.Listen("tcp", FreeAddress()) //nolint:noctx // it takes no time
	if err != nil {
		return nil, fmt.Errorf("harness: proxy: %w", err)
	}
	l := &link{ln: ln, there: there, back: back, conns: make(map[*relay]bool)}
	l.work.Go(func() { // ends with the listener
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			l.work.Go(func() { l.serve(conn) }) // ends with the connection
		}
	})
	return l, nil
}

func (l *link) place(address string) {
	l.mu.Lock()
	l.target = address
	l.mu.Unlock()
	l.reset()
}

func (l *link) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.conns {
		r.end()
	}
}

func (l *link) close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	err := l.ln.Close()
	l.reset()
	l.work.Wait()
	return err
}

// A relay is a connection through a link.
type relay struct {
	over chan struct{} // closed when either side has ended

	mu    sync.Mutex // guards both below
	sides []net.Conn
	ended bool
}

// add puts a side under the relay's end. It reports false if that has come.
func (r *relay) add(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		_ = c.Close() // it was not used
		return false
	}
	r.sides = append(r.sides, c)
	return true
}

func (r *relay) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.ended = true
	close(r.over)
	for _, c := range r.sides {
		_ = c.Close() // the copying finds out
	}
}

func (l *link) serve(conn net.Conn) {
	r := &relay{over: make(chan struct{})}
	r.add(conn)
	defer r.end()
	l.mu.Lock()
	target, closed := l.target, l.closed
	l.conns[r] = true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.conns, r)
		l.mu.Unlock()
	}()
	if closed || target == "" || !r.wait(l.there) {
		return
	}
	to, err := net.Dial("tcp", target) //nolint:noctx // on the loopback it takes no time
	if err != nil || !r.add(to) {
		return
	}
	var back sync.WaitGroup
	back.Go(func() { r.copy(conn, to, l.back) }) // ends with the relay
	r.copy(to, conn, l.there)
	back.Wait()
}

// wait returns true once the gate is open, false if the relay ends before.
func (r *relay) wait(g *gate) bool {
	select {
	case <-g.pass():
		return true
	case <-r.over:
		return false
	}
}

// copy carries bytes, and in the end the news that there are no more, through g.
func (r *relay) copy(to io.Writer, from io.Reader, g *gate) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if !r.wait(g) {
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				r.end()
				return
			}
		}
		if err != nil {
			r.end()
			return
		}
	}
}

// FreeAddress returns a loopback address that nobody listens on. Its port is none
// of those that the system gives to connections, so it stays free for a while.
func FreeAddress() string {
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))
		ln, err := net.Listen("tcp", address) //nolint:noctx // it takes no time
		if err != nil {
			continue
		}
		if ln.Close() == nil {
			return address
		}
	}
}
