//go:build unix

package harness

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/escapement-go/scheduler/cluster"
)

// NodeArgs are what a role that is a node is started with.
type NodeArgs struct {
	ID    string
	Dir   string
	Life  int // counts the processes of all nodes
	Bind  string
	Peers []cluster.Peer
	Extra json.RawMessage // what else the role wants to know
}

// Config returns the node's part in the cluster, with raft's default timeouts.
func (a *NodeArgs) Config() cluster.Config {
	return cluster.Config{ID: a.ID, Bind: a.Bind, Peers: a.Peers}
}

// Nodes are the processes of one cluster, each with a folder of its own below one
// that they share. Without a Net they reach each other directly, and each keeps its
// port.
type Nodes struct {
	*Net
	ids       []string
	fixed     map[string]string // the addresses, without a Net
	dir, role string
	extra     json.RawMessage
	hear      func(id string, life int, line []byte)

	mu      sync.Mutex // guards all below
	program string     // that nodes run; "": this one
	lives   int
	alive   map[string]*Process
}

// NewNodes makes the nodes of a cluster and starts none. What they say goes to
// hear, which is called by one goroutine for each node.
func NewNodes(dir, role string, extra any, hear func(id string, life int, line []byte), ids ...string) (*Nodes, error) {
	raw, err := json.Marshal(extra)
	if err != nil {
		return nil, err
	}
	n := &Nodes{ids: ids, dir: dir, role: role, extra: raw, hear: hear, alive: make(map[string]*Process)}
	n.fixed = make(map[string]string, len(ids))
	for _, id := range ids {
		n.fixed[id] = FreeAddress()
	}
	return n, nil
}

// Between puts a network of proxies between the nodes, none of which may run: all
// addresses change. It closes the one that was there.
func (n *Nodes) Between() error {
	if n.Net != nil {
		if err := n.Net.Close(); err != nil {
			return err
		}
	}
	between, err := NewNet(n.ids...)
	n.Net = between
	return err
}

// Use has nodes that are started from now on run another build of this program; ""
// is this one.
func (n *Nodes) Use(program string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.program = program
}

// Start starts a node; with a Net, under a port that it has not had before.
func (n *Nodes) Start(id string) (*Process, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lives++
	life := n.lives
	args := NodeArgs{ID: id, Dir: filepath.Join(n.dir, id), Life: life, Bind: n.fixed[id], Extra: n.extra}
	if n.Net != nil {
		args.Bind = FreeAddress()
		n.Place(id, args.Bind)
	}
	for _, peer := range n.ids {
		address := n.fixed[peer]
		if peer == id {
			address = args.Bind
		} else if n.Net != nil {
			address = n.Address(id, peer)
		}
		args.Peers = append(args.Peers, cluster.Peer{ID: peer, Address: address})
	}
	p, err := Spawn(n.program, n.role, args, func(line []byte) { n.hear(id, life, line) })
	if err != nil {
		return nil, fmt.Errorf("harness: node %s: %w", id, err)
	}
	n.alive[id] = p
	return p, nil
}

// Process returns the latest process of a node, nil if it was never started.
func (n *Nodes) Process(id string) *Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.alive[id]
}

// Close kills all nodes and ends the network between them.
func (n *Nodes) Close() error {
	for _, id := range n.ids {
		if p := n.Process(id); p != nil {
			p.Kill()
		}
	}
	if n.Net == nil {
		return nil
	}
	return n.Net.Close()
}
