// Package rawlog is the Raft log alone, as a node of the scheduler uses it: what the scheduler cannot be faster than.
package rawlog

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/bench/internal/spread"
	"github.com/escapement-go/scheduler/cluster/seglog"
)

// A Log is a cluster with a state machine that does nothing.
type Log struct {
	leader *raft.Raft
	nodes  []*raft.Raft
	stores []*seglog.Log
}

type nothing struct{ raft.FSM }

func (nothing) Apply(*raft.Log) any { return nil }

// Open makes logs in an empty folder, one a node, and waits until one leads. They are the log that package cluster uses
// by default; between nodes they go over TCP on loopback, without pipelining, as there.
func Open(dir string, nodes int) (l *Log, err error) {
	l = new(Log)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("raw log: %w", err), l.Close())
		}
	}()
	trans := make([]raft.Transport, nodes)
	var members raft.Configuration
	for i := range trans {
		id := strconv.Itoa(i)
		if _, trans[i] = raft.NewInmemTransport(""); nodes > 1 {
			tcp, err := raft.NewTCPTransportWithConfig("127.0.0.1:0", nil, &raft.NetworkTransportConfig{
				MaxPool: 3, MaxRPCsInFlight: 1, Timeout: 5 * time.Second, Logger: hclog.NewNullLogger(), MsgpackUseNewTimeFormat: true,
			})
			if err != nil {
				return l, err
			}
			trans[i] = tcp
		}
		members.Servers = append(members.Servers, raft.Server{ID: raft.ServerID(id), Address: trans[i].LocalAddr()})
	}
	for i := range trans {
		if err := l.add(dir, i, trans[i], members); err != nil {
			return l, err
		}
	}
	for l.leader == nil {
		for _, r := range l.nodes {
			if r.State() == raft.Leader {
				l.leader = r
			}
		}
		time.Sleep(time.Millisecond)
	}
	return l, nil
}

func (l *Log) add(dir string, i int, trans raft.Transport, members raft.Configuration) error {
	store, err := seglog.Open(filepath.Join(dir, strconv.Itoa(i)))
	if err != nil {
		return err
	}
	l.stores = append(l.stores, store)
	c := raft.DefaultConfig()
	c.LocalID, c.Logger, c.NoLegacyTelemetry = members.Servers[i].ID, hclog.NewNullLogger(), true
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = 500*time.Millisecond, 500*time.Millisecond, 400*time.Millisecond
	if len(members.Servers) == 1 {
		c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	}
	c.SnapshotInterval, c.SnapshotThreshold, c.TrailingLogs = 365*24*time.Hour, math.MaxUint64, math.MaxUint64
	snaps := raft.NewInmemSnapshotStore()
	if err := raft.BootstrapCluster(c, store, store, snaps, trans, members); err != nil {
		return err
	}
	r, err := raft.NewRaft(c, nothing{}, store, store, snaps, trans)
	if err != nil {
		return err
	}
	l.nodes = append(l.nodes, r)
	return nil
}

// Close ends raft and closes the files.
func (l *Log) Close() error {
	var faults []error
	for _, r := range l.nodes {
		faults = append(faults, r.Shutdown().Error())
	}
	for _, s := range l.stores {
		faults = append(faults, s.Close())
	}
	return errors.Join(faults...)
}

// Append appends an entry and returns once it is durable and applied. The log keeps data.
func (l *Log) Append(data []byte) error {
	if err := l.leader.Apply(data, 0).Error(); err != nil {
		return fmt.Errorf("raw log: %w", err)
	}
	return nil
}

// Rate is what a log takes.
type Rate struct {
	Entries float64 // a second
	Bytes   float64 // a second
	Took    spread.Sample
}

// Measure appends entries of the given size from some goroutines for a while.
func (l *Log) Measure(d time.Duration, appliers, size int) (Rate, error) {
	took := make([][]time.Duration, appliers)
	faults := make([]error, appliers)
	var wg sync.WaitGroup
	began := time.Now()
	for i := range appliers {
		wg.Go(func() {
			for faults[i] == nil && time.Since(began) < d {
				from := time.Now()
				faults[i] = l.Append(noise(size, i))
				took[i] = append(took[i], time.Since(from))
			}
		})
	}
	wg.Wait()
	passed := time.Since(began).Seconds()
	var all []time.Duration
	for _, t := range took {
		all = append(all, t...)
	}
	n := float64(len(all)) / passed
	return Rate{n, n * float64(size), spread.Of(all)}, errors.Join(faults...)
}

func noise(size, seed int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i*31 + seed)
	}
	return b
}
