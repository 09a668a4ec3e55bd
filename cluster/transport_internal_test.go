package cluster

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// fickle is a transport whose peer may be away.
type fickle struct {
	raft.Transport
	away  bool
	takes time.Duration
	calls int
}

func (f *fickle) AppendEntries(_ raft.ServerID, _ raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	f.calls++
	time.Sleep(f.takes)
	resp.Term = args.Term
	if f.away {
		return errors.New("nobody is there")
	}
	return nil
}

func newFickle() (*transport, *fickle) {
	f := &fickle{Transport: newLoopback("a"), away: true}
	return &transport{Transport: f, guard: new(guard), lease: time.Hour, done: make(chan struct{})}, f
}

var (
	heartbeat = new(raft.AppendEntriesRequest)
	entries   = &raft.AppendEntriesRequest{PrevLogEntry: 7}
)

func (t *transport) send(args *raft.AppendEntriesRequest) error {
	return t.AppendEntries("b", "b", args, new(raft.AppendEntriesResponse))
}

// Raft waits up to 10 s between two tries to replicate to a peer that is away, and
// a peer that has come back must count before.
func TestTransport_entries_go_to_a_peer_as_soon_as_a_heartbeat_has_reached_it(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trans, f := newFickle()
		if trans.send(entries) == nil {
			t.Fatal("entries reached a peer that is away")
		}
		sent := make(chan error, 1)
		go func() { sent <- trans.send(entries) }()
		for range 3 {
			time.Sleep(250 * time.Millisecond)
			if trans.send(heartbeat) == nil {
				t.Fatal("a heartbeat reached a peer that is away")
			}
		}
		synctest.Wait()
		if f.calls != 4 {
			t.Errorf("calls: got %d, want the first and three heartbeats", f.calls)
		}
		f.away = false
		began := time.Now()
		if err := errors.Join(trans.send(heartbeat), <-sent); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("entries follow the heartbeat after %v, want at once", took)
		}
	})
}

func TestTransport_entries_that_wait_for_a_peer_end_with_raft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trans, _ := newFickle()
		_ = trans.send(entries)
		sent := make(chan error, 1)
		began := time.Now()
		go func() { sent <- trans.send(entries) }()
		synctest.Wait()
		if err := trans.Close(); err != nil {
			t.Error(err)
		}
		if err := <-sent; err == nil || time.Since(began) != 0 {
			t.Errorf("got %v after %v, want an error at once", err, time.Since(began))
		}
		_ = trans.send(entries)
		if err := trans.send(entries); err == nil || time.Since(began) != 0 {
			t.Errorf("after the end: got %v after %v, want an error at once", err, time.Since(began))
		}
	})
}

// What raft has given up is not kept for ever.
func TestTransport_entries_wait_for_a_bounded_time(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trans, _ := newFickle()
		_ = trans.send(entries)
		began := time.Now()
		if err := trans.send(entries); err == nil || time.Since(began) != lostTime {
			t.Errorf("got %v after %v, want an error after %v", err, time.Since(began), lostTime)
		}
	})
}

// What is on its way when a read begins may be an answer of the past.
func TestTransport_counts_answers_from_when_they_were_asked_for(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trans, f := newFickle()
		f.away, f.takes = false, time.Second
		done := make(chan error)
		go func() { done <- trans.send(&raft.AppendEntriesRequest{Term: 3}) }()
		time.Sleep(time.Millisecond)
		since := time.Now()
		if err := <-done; err != nil || trans.heeds("b", 3, since) {
			t.Errorf("answered after a read began, to what was sent before: %v, and it counts", err)
		}
		if err := trans.send(&raft.AppendEntriesRequest{Term: 3}); err != nil || !trans.heeds("b", 3, since) || trans.heeds("b", 2, since) {
			t.Errorf("answered to what was sent since: %v, and it does not count, or for another term", err)
		}
	})
}

// Raft may have ended, or hang, while it is given what has come in. The bubble would
// tell of a goroutine that stays.
func TestTransport_what_comes_in_ends_with_raft(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		trans, f := newFickle()
		trans.applied = func() uint64 { return 10 }
		trans.Consumer() // by nobody read
		in := f.Transport.(*loopback).rpcs
		in <- raft.RPC{Command: &raft.InstallSnapshotRequest{LastLogIndex: 10}, Reader: strings.NewReader("body")}
		in <- raft.RPC{Command: &raft.AppendEntriesRequest{Term: 1}}
		synctest.Wait()
		_ = trans.Close()
	})
}
