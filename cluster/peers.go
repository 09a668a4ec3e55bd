package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// Config says how a node takes part in a cluster of several. Every node of a
// cluster runs the same binary and says the same Peers.
//
// A cluster begins in one of two ways. Nodes that name each other as Peers found
// it together, once all of them are there for the first time. A node with Join
// enters one that exists. Whoever has been in a cluster before goes on in it,
// whatever Peers and Join say.
type Config struct {
	// ID is the node's identity in the cluster, for ever; no two nodes may have the
	// same. Default: the folder's, a random name kept in it.
	ID string

	// Bind is the address that the node listens on, "host:port". Everything
	// between nodes goes through this one port. Port 0 takes any that is free.
	Bind string

	// Advertise is the address at which others reach this node. Default: what Bind
	// became. Needed if Bind names no host. A DNS name is looked up at each dial.
	Advertise string

	// Peers are the nodes, this one among them, that found the cluster; and where to
	// find them. An address given here wins over one that a node was last seen at.
	Peers []Peer

	// Join are addresses of nodes of an existing cluster, to be tried in turn.
	Join []string

	// TLS makes connections between nodes mutually authenticated: it needs
	// Certificates and RootCAs, which are used in both directions unless ClientCAs is
	// set. The name of a certificate must be the host that others dial, or
	// ServerName. Without TLS a node listens on loopback only, unless Insecure is
	// set: whoever reaches the port could do anything.
	TLS      *tls.Config
	Insecure bool

	// Observer makes a node that has the state but never votes and never leads.
	Observer bool

	// RemoveDead is how long a node may be out of contact before the leader takes it
	// out of the cluster, as long as a majority is left without it. 0: never.
	RemoveDead time.Duration

	// MaxClockSkew is how far the leader's wall clock may be off the median of the
	// nodes' before it hands leadership over (500 ms).
	MaxClockSkew time.Duration

	// Heartbeat, Election and Lease are raft's timeouts (500, 500 and 400 ms): a
	// dead leader is replaced after about one and a half of the first. Disks whose writes may
	// take longer than Lease need more. Election must be no less than Heartbeat, and that
	// no less than Lease.
	Heartbeat, Election, Lease time.Duration

	// Network makes connections. Default: TCP.
	Network Network
}

// Peer is a node and where it is found.
type Peer struct {
	ID      string
	Address string // "host:port"
}

// A Network makes the connections between nodes. TLS is put over what it gives.
type Network interface {
	Listen(address string) (net.Listener, error)
	Dial(ctx context.Context, address string) (net.Conn, error)
}

// DefaultMaxClockSkew is the default of [Config.MaxClockSkew].
const DefaultMaxClockSkew = 500 * time.Millisecond

// Validate returns all that is wrong with c, joined, as the configuration of the node
// with that ID; "" if it is not known yet.
func (c *Config) Validate(id string) error {
	var found faults
	bad := found.bad
	bad(c.Bind == "", "no Bind address")
	bad(c.MaxClockSkew < 0 || c.RemoveDead < 0, "negative bound")
	bad(len(c.Peers) > 0 && len(c.Join) > 0, "Peers found a cluster, Join enters one: give one of the two")
	bad(c.Observer && len(c.Peers) > 0, "an observer joins: it cannot found a cluster")
	seen := make(map[string]bool, len(c.Peers))
	for _, p := range c.Peers {
		bad(p.ID == "" || p.Address == "", "peer %q at %q needs an ID and an address", p.ID, p.Address)
		bad(seen[p.ID], "peer %q comes twice", p.ID)
		seen[p.ID] = true
	}
	found.timers(cmp.Or(c.Heartbeat, DefaultHeartbeat), cmp.Or(c.Election, DefaultElection), cmp.Or(c.Lease, DefaultLease))
	bad(id != "" && len(c.Peers) > 0 && !seen[id], "node %q is not among its Peers", id)
	if c.TLS != nil {
		bad(len(c.TLS.Certificates) == 0 && c.TLS.GetCertificate == nil, "TLS without a certificate")
		bad(c.TLS.RootCAs == nil, "TLS without RootCAs: any certificate would do")
	}
	if c.Bind != "" && c.Network == nil {
		host, _, err := net.SplitHostPort(c.Bind)
		bad(err != nil, "Bind %q is not host:port", c.Bind)
		bad(err == nil && c.TLS == nil && !c.Insecure && !isLoopback(host),
			"Bind %q without TLS is open to everybody who reaches it: give TLS, bind to loopback, or set Insecure", c.Bind)
		bad(err == nil && c.Advertise == "" && isUnspecified(host), "Bind %q names no host: give Advertise", c.Bind)
	}
	return errors.Join(found...)
}

// faults are what is wrong with a configuration.
type faults []error

func (f *faults) bad(is bool, format string, args ...any) {
	if is {
		*f = append(*f, fmt.Errorf("cluster: configuration: "+format, args...))
	}
}

// timers looks for what raft would not bear.
func (f *faults) timers(heartbeat, election, lease time.Duration) {
	f.bad(lease < 5*time.Millisecond, "lease %v is below 5 ms", lease)
	f.bad(lease > heartbeat, "lease %v exceeds heartbeat timeout %v", lease, heartbeat)
	f.bad(heartbeat > election, "heartbeat timeout %v exceeds election timeout %v", heartbeat, election)
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func isUnspecified(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// tcp is the default network.
type tcp struct{}

// keepAlive finds connections to machines that are gone, within about ten seconds.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 3 * time.Second, Interval: 2 * time.Second, Count: 3}

func (tcp) Listen(address string) (net.Listener, error) {
	l := net.ListenConfig{KeepAliveConfig: keepAlive}
	return l.Listen(context.Background(), "tcp", address) //nolint:forbidigo // opening waits for nothing
}

func (tcp) Dial(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: keepAlive}
	return d.DialContext(ctx, "tcp", address)
}

// serverTLS and clientTLS are what the two ends of a connection use.
func (c *Config) serverTLS() *tls.Config {
	t := c.TLS.Clone()
	t.ClientAuth = tls.RequireAndVerifyClientCert
	if t.ClientCAs == nil {
		t.ClientCAs = t.RootCAs
	}
	return t
}

func (c *Config) clientTLS(address string) *tls.Config {
	t := c.TLS.Clone()
	if t.ServerName == "" {
		t.ServerName, _, _ = net.SplitHostPort(address) // "" is refused by the handshake
	}
	return t
}
