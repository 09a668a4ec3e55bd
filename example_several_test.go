package scheduler_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"os"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/cluster"
)

// A node of three on three machines: each runs this program with its own ID.
func ExampleWithCluster() {
	var (
		certificate tls.Certificate      // tls.LoadX509KeyPair("node.pem", "node.key")
		roots       = x509.NewCertPool() // roots.AppendCertsFromPEM(of "ca.pem")
	)
	_, err := scheduler.New(
		scheduler.WithDataDir("data"),
		scheduler.WithCluster(cluster.Config{
			ID: "a", Bind: ":7400", Advertise: "a.internal:7400",
			Peers: []cluster.Peer{
				{ID: "a", Address: "a.internal:7400"}, {ID: "b", Address: "b.internal:7400"}, {ID: "c", Address: "c.internal:7400"},
			},
			TLS: &tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: roots},
		}),
	)
	fmt.Println(err) // then s.Run(ctx) on each machine
	// Output: <nil>
}

// A cluster may begin with one node; others join it later.
func ExampleScheduler_Nodes() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := scheduler.New(
		scheduler.WithDataDir(dir),
		scheduler.WithCluster(cluster.Config{ID: "a", Bind: "127.0.0.1:0"}),
	)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if err := s.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(ctx)
	nodes, err := s.Nodes(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range nodes {
		fmt.Println(n.ID, n.Voter, n.Leader)
	}
	fmt.Println(s.RemoveNode(ctx, "b"))
	// Output:
	// a true true
	// scheduler: remove node "b": not found
}

// Linearizable queries show what any node has acknowledged, not only this one.
func ExampleLinearizable() {
	s, err := scheduler.New()
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if err := s.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(ctx)
	stats, err := s.Stats(scheduler.Linearizable(ctx))
	fmt.Println(stats.Live, err)
	// Output: 0 <nil>
}
