// Package rawlog is the Raft log alone, as a node of the scheduler uses it: what the scheduler cannot be faster than.
package rawlog

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/bench/internal/spread"
	"github.com/escapement-go/scheduler/cluster/seglog"
)

// A Log is a cluster of one with a state machine that does nothing.
type Log struct {
	raft  *raft.Raft
	store *seglog.Log
}

type nothing struct{ raft.FSM }

func (nothing) Apply(*raft.Log) any { return nil }

// Open makes a log in an empty folder and waits until it leads. It is the log that package cluster uses by default.
func Open(dir string) (*Log, error) {
	store, err := seglog.Open(filepath.Join(dir, "log"))
	if err != nil {
		return nil, fmt.Errorf("raw log: %w", err)
	}
	c := raft.DefaultConfig()
	c.LocalID, c.Logger, c.NoLegacyTelemetry = "one", hclog.NewNullLogger(), true
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	c.SnapshotInterval, c.SnapshotThreshold, c.TrailingLogs = 365*24*time.Hour, math.MaxUint64, math.MaxUint64
	_, trans := raft.NewInmemTransport("one")
	snaps := raft.NewInmemSnapshotStore()
	self := raft.Configuration{Servers: []raft.Server{{ID: "one", Address: "one"}}}
	if err := raft.BootstrapCluster(c, store, store, snaps, trans, self); err != nil {
		return nil, errors.Join(fmt.Errorf("raw log: %w", err), store.Close())
	}
	r, err := raft.NewRaft(c, nothing{}, store, store, snaps, trans)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("raw log: %w", err), store.Close())
	}
	for leads := range r.LeaderCh() {
		if leads {
			break
		}
	}
	return &Log{r, store}, nil
}

// Close ends raft and closes the file.
func (l *Log) Close() error {
	return errors.Join(l.raft.Shutdown().Error(), l.store.Close())
}

// Append appends an entry and returns once it is durable and applied. The log keeps data.
func (l *Log) Append(data []byte) error {
	if err := l.raft.Apply(data, 0).Error(); err != nil {
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
