package cluster

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

var _ raft.WithPreVote = (*transport)(nil)

// brokenLog fails as told.
type brokenLog struct {
	*memLog
	fail error
	slow time.Duration
}

func (b *brokenLog) StoreLogs(logs []*raft.Log) error {
	time.Sleep(b.slow)
	if b.fail != nil {
		return b.fail
	}
	return b.memLog.StoreLogs(logs)
}

func (b *brokenLog) SetUint64(key []byte, n uint64) error {
	if b.fail != nil {
		return b.fail
	}
	return b.memLog.SetUint64(key, n)
}

func newBrokenLog(t *testing.T) (*brokenLog, *guard) {
	t.Helper()
	log := &brokenLog{memLog: newMemLog()}
	g, err := newGuard(log, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return log, g
}

func logs(indexes ...uint64) (l []*raft.Log) {
	for _, i := range indexes {
		l = append(l, &raft.Log{Index: i, Term: 1})
	}
	return l
}

func TestGuard_latches_at_the_first_failed_write(t *testing.T) {
	log, g := newBrokenLog(t)
	(&transport{guard: g}).SetHeartbeatHandler(nil) // raft is about to run
	broken := errors.New("broken")
	log.fail = broken
	if err := g.StoreLogs(logs(1)); !errors.Is(err, broken) {
		t.Errorf("failing write: got %v, want %v", err, broken)
	}
	log.fail = nil // a second try would succeed, and prove nothing about the first
	select {
	case <-g.faulted:
	default:
		t.Error("nobody is told")
	}
	for what, err := range map[string]error{
		"store":     g.StoreLogs(logs(1)),
		"truncate":  g.DeleteRange(1, 1),
		"candidate": g.Set([]byte("LastVoteCand"), nil),
		"vote":      g.SetUint64([]byte("LastVoteTerm"), 2),
	} {
		if !errors.Is(err, errPoisoned) {
			t.Errorf("%s after the failure: got %v, want %v", what, err, errPoisoned)
		}
	}
	if err := g.SetUint64([]byte("CurrentTerm"), 2); err != nil {
		t.Errorf("term after the failure: got %v, which makes raft panic", err)
	}
	if term, _ := g.GetUint64([]byte("CurrentTerm")); term != 0 {
		t.Errorf("term was kept as %d after the failure", term)
	}
	if err := g.failed(); !errors.Is(err, broken) {
		t.Errorf("cause: got %v, want %v", err, broken)
	}
}

func TestGuard_tells_what_is_outside_the_log_from_what_is_damaged(t *testing.T) {
	log, g := newBrokenLog(t)
	g.opened.Store(true)
	if err := g.StoreLogs(logs(5, 6, 7)); err != nil {
		t.Fatal(err)
	}
	var l raft.Log
	for _, i := range []uint64{0, 4, 8} {
		if err := g.GetLog(i, &l); !errors.Is(err, raft.ErrLogNotFound) || g.failed() != nil {
			t.Errorf("entry %d: got %v with fault %v, want %v", i, err, g.failed(), raft.ErrLogNotFound)
		}
	}
	log.logs[1].Type = 77 // raft panics on it
	if err := g.GetLog(6, &l); err != nil || l.Type != raft.LogNoop || l.Index != 6 {
		t.Errorf("damaged entry: got %+v, %v, want a no-op", l, err)
	}
	if err := g.failed(); !errors.Is(err, ErrDamaged) {
		t.Errorf("fault: got %v, want %v", err, ErrDamaged)
	}
	if err := g.GetLog(5, &l); err != nil || l.Type != raft.LogNoop {
		t.Errorf("entry after the fault: got %+v, %v, want a no-op", l, err)
	}
}

// countingTransport counts what it is given to send.
type countingTransport struct {
	*loopback
	sent, handlers int
}

func (c *countingTransport) AppendEntries(raft.ServerID, raft.ServerAddress, *raft.AppendEntriesRequest, *raft.AppendEntriesResponse) error {
	c.sent++
	return nil
}

func (c *countingTransport) RequestPreVote(raft.ServerID, raft.ServerAddress, *raft.RequestPreVoteRequest, *raft.RequestPreVoteResponse) error {
	c.sent++
	return nil
}

func (c *countingTransport) SetHeartbeatHandler(func(raft.RPC)) { c.handlers++ }

// A leader whose disk hangs keeps its followers quiet with heartbeats (raft
// issue 503); the others elect once it is silent.
func TestTransport_is_silent_while_a_write_is_overdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, g := newBrokenLog(t)
		inner := &countingTransport{loopback: newLoopback("a")}
		trans := &transport{Transport: inner, guard: g, lease: time.Second}
		log.slow = 10 * time.Second
		done := make(chan error)
		go func() { done <- g.StoreLogs(logs(1)) }()
		for _, step := range []struct {
			after time.Duration
			want  error
		}{{900 * time.Millisecond, nil}, {200 * time.Millisecond, errWithheld}, {8 * time.Second, errWithheld}, {time.Second, nil}} {
			time.Sleep(step.after)
			synctest.Wait()
			if err := trans.AppendEntries("b", "b", new(raft.AppendEntriesRequest), new(raft.AppendEntriesResponse)); !errors.Is(err, step.want) {
				t.Errorf("heartbeat: got %v, want %v", err, step.want)
			}
			if step.after == time.Second {
				break
			}
		}
		if err := <-done; err != nil {
			t.Errorf("the write itself: %v", err)
		}
		if inner.sent != 2 {
			t.Errorf("sent: got %d, want 2", inner.sent)
		}
	})
}

func TestTransport_hides_what_harms_and_shows_what_helps(t *testing.T) {
	log, g := newBrokenLog(t)
	inner := &countingTransport{loopback: newLoopback("a")}
	trans := &transport{Transport: inner, guard: g, lease: time.Second}
	trans.SetHeartbeatHandler(func(raft.RPC) {})
	if inner.handlers != 0 {
		t.Error("the heartbeat fast path is on (raft issue 695)")
	}
	if _, err := trans.AppendEntriesPipeline("b", "b"); !errors.Is(err, raft.ErrPipelineReplicationNotSupported) {
		t.Errorf("pipeline: got %v, want %v (raft issue 612)", err, raft.ErrPipelineReplicationNotSupported)
	}
	if err := trans.RequestPreVote("b", "b", nil, nil); err != nil || inner.sent != 1 {
		t.Errorf("pre-vote: got %v, sent %d", err, inner.sent)
	}
	log.fail = errors.New("broken")
	_ = g.StoreLogs(logs(1))
	for what, err := range map[string]error{
		"heartbeat": trans.AppendEntries("b", "b", new(raft.AppendEntriesRequest), new(raft.AppendEntriesResponse)),
		"pre-vote":  trans.RequestPreVote("b", "b", nil, nil),
		"vote":      trans.RequestVote("b", "b", nil, nil),
		"snapshot":  trans.InstallSnapshot("b", "b", nil, nil, nil),
	} {
		if !errors.Is(err, errWithheld) {
			t.Errorf("%s of a latched node: got %v, want %v", what, err, errWithheld)
		}
	}
}

func TestLogSize_cuts_what_is_too_much(t *testing.T) {
	s := newLogSize(1<<20, 1, 1000, 2<<20)
	if got := s.cut(); got < 450 || got > 500 {
		t.Errorf("cut of a log of twice the size: got %d, want nearly 500", got)
	}
	if got := s.cut(); got != 0 {
		t.Errorf("second cut: got %d, want 0", got)
	}
	for i := uint64(1001); i <= 2000; i++ {
		s.append([]*raft.Log{{Index: i, Data: make([]byte, 1<<10)}})
	}
	if got := s.cut(); got < 950 || got > 1050 {
		t.Errorf("cut after another MiB: got %d, want about 1000", got)
	}
	if got := newLogSize(1<<20, 0, 0, 0).cut(); got != 0 {
		t.Errorf("cut of an empty log: got %d, want 0", got)
	}
}

// Raft panics if it is told that an entry which it is to apply is not there.
func TestGuard_latches_if_the_log_lacks_what_raft_counts_on(t *testing.T) {
	g, err := newGuard(newMemLog(), 1)
	if err != nil {
		t.Fatal(err)
	}
	g.opened.Store(true)
	expects := func(index uint64) bool { return index > 10 && index <= 20 }
	g.expects.Store(&expects)
	var l raft.Log
	for _, i := range []uint64{10, 21} {
		if err := g.GetLog(i, &l); !errors.Is(err, raft.ErrLogNotFound) || g.failed() != nil {
			t.Errorf("entry %d: got %v with fault %v, want %v", i, err, g.failed(), raft.ErrLogNotFound)
		}
	}
	if err := g.GetLog(11, &l); err != nil || l.Type != raft.LogNoop || !errors.Is(g.failed(), ErrDamaged) {
		t.Errorf("entry 11: got %v, %v with fault %v, want a no-op and %v", l.Type, err, g.failed(), ErrDamaged)
	}
}
