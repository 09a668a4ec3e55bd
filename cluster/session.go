package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// session numbers the commands of a replicated session, so that the state can
// tell a repetition from a new command.
type session struct {
	id uint64

	mu   sync.Mutex
	low  uint64 // the lowest number whose call has not ended
	done []bool // of the calls low, low+1, …
}

// begin returns the number of a new call.
func (s *session) begin() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = append(s.done, false)
	return s.low + uint64(len(s.done)) - 1
}

// end tells that the call will not be repeated.
func (s *session) end(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[seq-s.low] = true
	for len(s.done) > 0 && s.done[0] {
		s.done = s.done[1:]
		s.low++
	}
}

// acked returns the number below which no result is needed any more.
func (s *session) acked() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.low
}

// retryPause is between two tries of a call, if no change of the node ends it.
const retryPause = 50 * time.Millisecond

// OpenSession opens the replicated session that [Node.Call] uses from then on,
// and returns its number. It waits for a leader until ctx ends. A try whose
// outcome is unknown may leave a session behind; opening ends it.
// Errors: as of [Node.Call].
func (n *Node) OpenSession(ctx context.Context, open store.OpenSession) (uint64, error) {
	for {
		changed := n.changes.wait()
		res, err := n.retry(ctx, func() (store.Result, error) {
			try := open
			try.Below = n.meta().Session + 1
			return n.Propose(ctx, store.Command{Kind: store.KindOpenSession, Open: &try})
		})
		if err == nil && res.Code == store.CodeConflict {
			// An earlier try has opened one after all.
			if err = pause(ctx, changed); err == nil {
				continue
			}
		}
		if err != nil {
			return 0, err
		}
		n.session.Store(&session{id: res.N, low: 1})
		return res.N, nil
	}
}

// Call commits a command exactly once: it stamps it with the session and a new
// number, and repeats it under that number until its outcome is known or ctx
// ends. It waits for a leader.
//
// A full node refuses the first try with [ErrOverloaded], one that cannot write
// with [ErrStorage]: then nothing happened. Further errors: [ErrNoSession],
// [ErrTooLarge], [ErrParked], [ErrClosed], that of ctx: nothing happened;
// [ErrOutcomeUnknown] if it may have been committed. A result with
// [store.CodeSessionGone] means that the session must be opened anew.
func (n *Node) Call(ctx context.Context, cmd store.Command) (store.Result, error) {
	s := n.session.Load()
	if s == nil {
		return store.Result{}, ErrNoSession
	}
	cmd.Session, cmd.Seq = s.id, s.begin()
	defer s.end(cmd.Seq)
	return n.retry(ctx, func() (store.Result, error) {
		cmd.Ack = s.acked()
		return n.Propose(ctx, cmd)
	})
}

// Repeat commits a command that does no harm if it is committed twice, and repeats
// it until its outcome is known or ctx ends. Errors: as of [Node.Call].
func (n *Node) Repeat(ctx context.Context, cmd store.Command) (store.Result, error) {
	return n.retry(ctx, func() (store.Result, error) { return n.Propose(ctx, cmd) })
}

// retry repeats a try that may be repeated, by the class of its error: one that
// changed nothing as long as it may yet succeed, one of unknown outcome until
// the outcome is known.
func (n *Node) retry(ctx context.Context, try func() (store.Result, error)) (store.Result, error) {
	var unsure error // the last try of unknown outcome
	alone := false   // the last try that came to its end found no leader
	for {
		changed := n.changes.wait()
		res, err := try()
		if err == nil {
			return res, nil
		}
		if errors.Is(err, ErrOutcomeUnknown) {
			unsure = err
		}
		ended := ctx.Err()
		alone = errors.Is(err, ErrNotLeader) || alone && ended != nil
		switch {
		case errors.Is(err, ErrClosed), errors.Is(err, ErrParked):
			return res, worst(unsure, err)
		case ended != nil && !alone:
			return res, worst(unsure, err)
		case alone, unsure != nil:
			// Repeated.
		default:
			return res, err
		}
		if ended == nil {
			ended = pause(ctx, changed)
		}
		switch {
		case ended == nil:
		case alone:
			return res, worst(unsure, n.leaderless(ended))
		default:
			return res, worst(unsure, ended)
		}
	}
}

// leaderless is the error of a call that has found no leader when its context ended.
func (n *Node) leaderless(ended error) error {
	known := "the log is not open"
	if waits := n.waits.Load(); waits != nil {
		known = *waits
	} else if inst := n.inst.Load(); inst != nil {
		known = fmt.Sprintf("none is known in term %d", inst.raft.CurrentTerm())
		if _, id := inst.raft.LeaderWithID(); id != "" {
			known = fmt.Sprintf("node %q won term %d and does not answer", id, inst.raft.CurrentTerm())
		} else if last := inst.raft.LastContact(); !last.IsZero() {
			known += fmt.Sprintf(", none was heard of for %v", time.Since(last).Round(time.Millisecond))
		}
	}
	return fmt.Errorf("%w: %s: %w", ErrNotLeader, known, ended)
}

// worst is the error to report: once a try may have been committed, no later
// error makes that undone.
func worst(unsure, err error) error {
	if unsure != nil {
		return unsure
	}
	return err
}

// pause waits for a change of the node, a while, or the end of ctx.
func pause(ctx context.Context, changed <-chan struct{}) error {
	timer := time.NewTimer(retryPause)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
