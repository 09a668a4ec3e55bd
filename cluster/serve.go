package cluster

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// maxServing bounds the requests of one follower that the leader works on at a time.
const maxServing = 8

// serveCalls answers a follower until its connection ends.
func (n *Node) serveCalls(conn net.Conn, from string) {
	var (
		work sync.WaitGroup
		slot = make(chan struct{}, maxServing)
		out  = newFrames(conn)
	)
	reply := func(kind frameKind, body marshaler) {
		_ = out.send(kind, body) // the reading below ends
	}
	for {
		kind, body, err := hearFrame(conn)
		if err != nil {
			break
		}
		switch kind {
		case frameStatus:
			var s peerStatus
			if err = parseFrame(body, &s); err == nil {
				n.members.note(from, &s)
				n.links.hear(from, s.Address)
				reply(frameStatusReply, &statusReply{Sent: s.Sent, Now: n.cfg.Clock.Now().UnixNano()})
			}
		case frameCalls:
			req := new(callsRequest)
			if err = parseFrame(body, req); err == nil {
				slot <- struct{}{}
				work.Go(func() {
					reply(frameAnswers, n.serveRequest(req))
					<-slot
				})
			}
		default:
			err = fmt.Errorf("%w: of kind %d", errFrame, kind)
		}
		if err != nil {
			n.log.Warn("connection of a node ends", keyPeer, from, keyError, err)
			break
		}
	}
	_ = conn.Close() // ends what is still being written
	work.Wait()
}

// serveRequest commits a follower's calls, each as a call of its own.
func (n *Node) serveRequest(req *callsRequest) *callsReply {
	reply := &callsReply{ID: req.ID, Outcomes: make([]callOutcome, len(req.Calls))}
	if req.Read {
		index, err := n.confirm(n.links.ctx)
		reply.Index, reply.Failure = index, failureOf(err)
		return reply
	}
	if len(req.Ask) > 0 {
		answer, err := n.answer(req.Ask)
		reply.Answer, reply.Failure = answer, failureOf(err)
		return reply
	}
	waiters := make([]*waiter, len(req.Calls))
	for i, call := range req.Calls {
		body, err := store.DecodeBatch(call)
		if err == nil {
			w := n.batcher.pool.Get().(*waiter)
			w.cmds = body.Commands
			if err = n.batcher.enqueue(w, true); err == nil {
				waiters[i] = w
			}
		}
		reply.Outcomes[i].fail(err)
	}
	for i, w := range waiters {
		if w == nil {
			continue
		}
		out := <-w.done // it comes: every entry has its fate, and those that wait are refused
		n.batcher.release(w)
		reply.Outcomes[i].Results = out.results
		reply.Outcomes[i].fail(out.err)
	}
	reply.Index = n.applied.Load()
	return reply
}

// The errors of calls as they are sent.
const (
	failNone uint8 = iota
	failUnknown
	failNotLeader
	failOverloaded
	failTooLarge
	failStorage
	failOther // nothing happened, and trying again is of no use
)

func failureOf(err error) uint8 {
	switch {
	case err == nil:
		return failNone
	case errors.Is(err, ErrOutcomeUnknown):
		return failUnknown
	case errors.Is(err, ErrNotLeader), errors.Is(err, ErrClosed), errors.Is(err, ErrParked):
		return failNotLeader // another node will lead
	case errors.Is(err, ErrOverloaded):
		return failOverloaded
	case errors.Is(err, ErrTooLarge):
		return failTooLarge
	case errors.Is(err, ErrStorage):
		return failStorage
	default:
		return failOther
	}
}

func (o *callOutcome) fail(err error) {
	o.Failure = failureOf(err)
	if err == nil {
		return
	}
	o.Text = err.Error()
	var over *OverloadedError
	var large *TooLargeError
	switch {
	case errors.As(err, &over):
		o.Text, o.Retry = over.What, int64(over.RetryAfter)
	case errors.As(err, &large):
		o.Retry = int64(large.Bytes)
	}
}

// err makes the error again.
func (o *callOutcome) err() error {
	switch o.Failure {
	case failNone:
		return nil
	case failUnknown:
		return unknown(errors.New(o.Text))
	case failNotLeader:
		return ErrNotLeader
	case failOverloaded:
		return &OverloadedError{o.Text, time.Duration(o.Retry)}
	case failTooLarge:
		return &TooLargeError{int(o.Retry), MaxEntryBytes}
	case failStorage:
		return &StorageError{errors.New(o.Text)}
	default:
		return fmt.Errorf("cluster: the other node refuses: %s", o.Text)
	}
}
