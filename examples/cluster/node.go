//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/cluster"
)

// Greet is a task that is asked for by hand, Tick one that a schedule asks for.
var (
	Greet = scheduler.NewTask[string, string]("greet")
	Tick  = scheduler.NewJob[int]("tick")
)

const everySecond = "every-second"

// runNode is one of the three processes.
func runNode(id, dir string, where []string) error {
	signal.Ignore(os.Interrupt) // the parent gets it too, and stops the nodes
	conf := cluster.Config{ID: id}
	for _, w := range where {
		peer, address, _ := strings.Cut(w, "=")
		conf.Peers = append(conf.Peers, cluster.Peer{ID: peer, Address: address})
		if peer == id {
			conf.Bind = address
		}
	}
	s, err := scheduler.New(
		scheduler.WithDataDir(filepath.Join(dir, id)),
		scheduler.WithCluster(conf),
		scheduler.WithHandler(Greet, func(ctx context.Context, name string) (string, error) {
			say("runs %v, attempt %d", scheduler.Current(ctx).ID(), scheduler.Current(ctx).Attempt())
			return "hello " + name + ", says " + id, nil
		}),
		scheduler.WithFunc(Tick, func(ctx context.Context, _ int) error {
			say("tick %s", scheduler.Current(ctx).ScheduledAt().Local().Format("15:04:05.0"))
			return nil
		}),
		// With the default, OverlapSkip, ticks would be skipped while the run of a node that was killed
		// may still be executing, as far as the others know: for ten seconds.
		scheduler.WithSchedule(everySecond, scheduler.Every(time.Second), Tick.With(0), scheduler.Overlap(scheduler.OverlapAllow)),
	)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := s.Start(ctx); err != nil {
		return err
	}
	say("is there")
	go watch(ctx, s)
	for in := bufio.NewScanner(os.Stdin); in.Scan() && in.Text() != "stop"; {
		if err := answer(ctx, s, in.Text()); err != nil {
			say("%s: %v", in.Text(), err)
		}
	}
	drain, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return s.Shutdown(drain)
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// watch tells when this node begins or ends to lead.
func watch(ctx context.Context, s *scheduler.Scheduler) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	leads := false
	for ctx.Err() == nil {
		switch is := s.Health(ctx).Role == "leader"; {
		case is && !leads:
			say("leads")
		case leads && !is:
			say("no longer leads")
		}
		leads = s.Health(ctx).Role == "leader"
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// answer carries out what is asked of this node.
func answer(ctx context.Context, s *scheduler.Scheduler, what string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	switch what {
	case "enqueue":
		return enqueue(ctx, s)
	case "nodes":
		nodes, err := s.Nodes(ctx)
		for _, n := range nodes {
			say("node %s at %s, leader: %v, voter: %v", n.ID, n.Address, n.Leader, n.Voter)
		}
		say("end of nodes")
		return err
	case "ticks":
		return ledger(ctx, s)
	}
	return errors.New("unknown")
}

// enqueue asks for three runs, which any node may execute, and tells their results.
func enqueue(ctx context.Context, s *scheduler.Scheduler) error {
	futures, err := Greet.EnqueueMany(ctx, s, []string{"Ada", "Bob", "Eve"})
	if err != nil {
		return err
	}
	for _, f := range futures {
		result, err := f.Wait(ctx)
		if err != nil {
			return err
		}
		say("result of %v: %s", f.ID(), result)
	}
	return nil
}

// ledger tells what became of the last minute's ticks.
func ledger(ctx context.Context, s *scheduler.Scheduler) error {
	var last time.Time
	for tick, err := range s.Ticks(scheduler.Linearizable(ctx), everySecond, time.Now().Add(-time.Minute), time.Now()) {
		if err != nil {
			return err
		}
		at := tick.Nominal.Local()
		say("ledger %s  %-7v %s", at.Format("15:04:05.0"), tick.Outcome, tick.Reason)
		if !last.IsZero() && !at.Equal(last.Add(time.Second)) {
			return fmt.Errorf("no outcome between %v and %v", last, at)
		}
		last = at
	}
	say("end of ledger")
	return nil
}
