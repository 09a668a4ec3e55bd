// Package program is what the benchmark programs have in common: their flags, a folder that goes when they end, and a
// node in it.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/bench/internal/conditions"
	"github.com/escapement-go/scheduler/cluster"
)

// A Program is one benchmark while it runs.
type Program struct {
	Once bool   // a short pass, to see that it works
	Dir  string // a folder of its own, empty at first
}

// Set by Main before any node is made.
var (
	log   = scheduler.LogSegments // how nodes keep their log
	nodes = 1                     // of a cluster
)

// Nodes is how many nodes a cluster has, by the flag -nodes.
func Nodes() int { return nodes }

// Main parses the flags, prints the conditions and calls run. It exits with 1 if run fails.
func Main(run func(ctx context.Context, p *Program) error) {
	once := flag.Bool("once", false, "one short pass, to see that it works: its figures mean nothing")
	dir := flag.String("dir", os.TempDir(), "where to make the folder that is measured in; it is removed at the end")
	bolt := flag.Bool("bolt", false, "keep the log with raft-boltdb instead of segments")
	flag.IntVar(&nodes, "nodes", 1, "nodes of the cluster, all in this process, each with a folder and a port of its own")
	flag.Parse()
	if *bolt {
		log = scheduler.LogBolt
	}
	if nodes > 1 && os.Getenv("GOMAXPROCS") == "" {
		// What as many processes on this machine would have: Go has no processor to run a
		// timer on while as many threads as it may use are in fsync.
		runtime.GOMAXPROCS(nodes * runtime.GOMAXPROCS(0))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := inFolder(*dir, func(dir string) error {
		if err := conditions.Print(os.Stdout, dir); err != nil {
			return err
		}
		return run(ctx, &Program{*once, dir})
	})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func inFolder(parent string, do func(dir string) error) (err error) {
	dir, err := os.MkdirTemp(parent, "escapement-bench-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return do(dir)
}

// Pick returns full, or short in a short pass.
func Pick[T any](p *Program, full, short T) T {
	if p.Once {
		return short
	}
	return full
}

// Folder makes a folder within the program's.
func (p *Program) Folder(name string) (string, error) {
	dir, err := os.MkdirTemp(p.Dir, name+"-")
	if err != nil {
		return "", fmt.Errorf("make a folder: %w", err)
	}
	return dir, nil
}

// Node starts a scheduler in a new folder, calls do with it, shuts it down and removes the folder. Warnings and errors of
// the scheduler are printed.
func (p *Program) Node(ctx context.Context, do func(s *scheduler.Scheduler) error, opts ...scheduler.Option) (err error) {
	dir, err := p.Folder("node")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return NodeIn(ctx, dir, do, opts...)
}

// NodeIn is Node in a folder that stays. Of several nodes do gets the one that leads.
func NodeIn(ctx context.Context, dir string, do func(s *scheduler.Scheduler) error, opts ...scheduler.Option) error {
	if nodes == 1 {
		return one(ctx, dir, do, opts...)
	}
	peers, err := free(nodes)
	if err != nil {
		return err
	}
	all := make([]*scheduler.Scheduler, nodes)
	faults := make([]error, nodes)
	var starts sync.WaitGroup
	for i := range all {
		more := append([]scheduler.Option{
			scheduler.WithDataDir(filepath.Join(dir, peers[i].ID)), scheduler.WithLog(log), logger(),
			scheduler.WithCluster(cluster.Config{ID: peers[i].ID, Bind: peers[i].Address, Peers: peers}),
		}, opts...)
		if all[i], faults[i] = scheduler.New(more...); faults[i] == nil {
			starts.Go(func() { faults[i] = all[i].Start(ctx) })
		}
	}
	starts.Wait()
	err = errors.Join(faults...)
	if err == nil {
		err = do(leader(ctx, all))
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for _, s := range all {
		if s != nil {
			err = errors.Join(err, s.Shutdown(end))
		}
	}
	return err
}

// free returns nodes on loopback ports that are free now.
func free(n int) (peers []cluster.Peer, err error) {
	held := make([]net.Listener, 0, n) // until the end, lest the next get the same
	defer func() {
		for _, ln := range held {
			err = errors.Join(err, ln.Close())
		}
	}()
	for i := range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		held = append(held, ln)
		peers = append(peers, cluster.Peer{ID: string(rune('a' + i)), Address: ln.Addr().String()})
	}
	return peers, nil
}

func leader(ctx context.Context, all []*scheduler.Scheduler) *scheduler.Scheduler {
	for {
		for _, s := range all {
			if s.Health(ctx).Role == "leader" {
				return s
			}
		}
		if Pause(ctx, time.Millisecond) != nil {
			return all[0]
		}
	}
}

func logger() scheduler.Option {
	return scheduler.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
}

// one is NodeIn of a lone node.
func one(ctx context.Context, dir string, do func(s *scheduler.Scheduler) error, opts ...scheduler.Option) error {
	s, err := scheduler.New(append([]scheduler.Option{
		scheduler.WithDataDir(dir),
		scheduler.WithLog(log),
		logger(),
	}, opts...)...)
	if err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	err = do(s)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return errors.Join(err, s.Shutdown(end))
}

// EnqueueMany makes the calls, and makes them again when the node is overloaded, as a caller of it should. It returns
// how often that was.
func EnqueueMany(ctx context.Context, s *scheduler.Scheduler, calls []scheduler.Call) (ids []scheduler.RunID, refused int, err error) {
	for {
		ids, err = s.EnqueueMany(ctx, calls)
		busy, is := errors.AsType[*scheduler.OverloadedError](err)
		if !is {
			return ids, refused, err
		}
		refused++
		if err := Pause(ctx, busy.RetryAfter); err != nil {
			return nil, refused, err
		}
	}
}

// Pause waits for d or the end of ctx.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Finished waits until no run is live. It fails if the number of live runs has not changed for a minute.
func Finished(ctx context.Context, s *scheduler.Scheduler) (scheduler.Stats, error) {
	last, since := -1, time.Now()
	for {
		st, err := s.Stats(ctx)
		if err != nil || st.Live == 0 {
			return st, err
		}
		if st.Live != last {
			last, since = st.Live, time.Now()
		}
		if time.Since(since) > time.Minute {
			return st, fmt.Errorf("%d runs have not ended and nothing has moved for a minute", st.Live)
		}
		if err := Pause(ctx, 2*time.Millisecond); err != nil {
			return st, err
		}
	}
}
