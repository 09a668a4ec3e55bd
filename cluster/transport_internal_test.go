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
	calls int
}

func (f *fickle) AppendEntries(raft.ServerID, raft.ServerAddress, *raft.AppendEntriesRequest, *raft.AppendEntriesResponse) error {
	f.calls++
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
