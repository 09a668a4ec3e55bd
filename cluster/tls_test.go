package cluster_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/cluster"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, pool: x509.NewCertPool()}
	a.key = newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert = a.sign(template, template, a.key, a.key)
	a.pool.AddCert(a.cert)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) sign(template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

// config is that of a node at the address 127.0.0.1.
func (a *authority) config() *tls.Config {
	a.t.Helper()
	key := newKey(a.t)
	cert := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, key, a.key)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}, RootCAs: a.pool,
	}
}

func TestTLS_a_cluster_works(t *testing.T) {
	ca := newAuthority(t)
	c := &several{t: t, dirs: make(map[string]string), nodes: make(map[string]*cluster.Node)}
	for _, id := range []string{"a", "b", "c"} {
		c.peers = append(c.peers, cluster.Peer{ID: id, Address: freeAddress(t)})
	}
	for _, p := range c.peers {
		c.start(p.ID, cluster.Config{Bind: p.Address, Peers: c.peers, TLS: ca.config()})
	}
	c.ready("a", "b", "c")
	for i, p := range c.peers {
		sessionOf(c, p.ID)
		c.call(c.nodes[p.ID], enqueue(i, 10))
	}
	c.agree(3)
}

func TestTLS_strangers_are_refused(t *testing.T) {
	ca := newAuthority(t)
	address := freeAddress(t)
	n := start(t, cluster.Setup{ID: "a", Dir: t.TempDir(), Cluster: &cluster.Config{Bind: address, TLS: ca.config()}})
	if err := n.Ready(deadline(t)); err != nil {
		t.Fatal(err)
	}
	bare := &tls.Config{RootCAs: ca.pool}
	other := newAuthority(t).config()
	other.RootCAs = ca.pool // it trusts the node, which does not trust it
	for name, cfg := range map[string]*tls.Config{"no certificate": bare, "another authority": other} {
		raw, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		cfg.ServerName = "127.0.0.1"
		conn := tls.Client(raw, cfg)
		_, err = conn.Write([]byte("ESC\x01"))
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
		if err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: it was not told that it is refused: %v", name, err)
		}
		_ = conn.Close()
	}

	for name, cfg := range map[string]*tls.Config{"plain": nil, "another authority's node": newAuthority(t).config()} {
		c := &cluster.Config{Bind: "127.0.0.1:0", Join: []string{address}, TLS: cfg}
		joins := start(t, cluster.Setup{ID: "b", Dir: t.TempDir(), Cluster: c})
		ctx := deadline(t)
		for joins.Status().Waits == "" {
			select {
			case <-tick():
			case <-ctx.Done():
				t.Fatalf("%s: nothing is said of why it waits", name)
			}
		}
		shutdown(t, joins)
	}
	if got := len(n.Members()); got != 1 {
		t.Errorf("it has %d members, want itself alone", got)
	}
}
