package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// An aside is a connection by which this node asks another one, whoever leads. It is
// made when there is a question, and ends when there was none for a while.
type aside struct {
	dialing gate
	r       *remote // guarded by dialing; nil before the first question
}

// AskNode puts a question of the host's to the host of a node, where OnAsk answers it,
// whether that node leads or not. Asking changes nothing, and may happen twice. A node
// of a build that does not know such questions fails.
// Errors: [ErrNotMember] if no such node is known; [ErrClosed]; that of ctx; of what OnAsk
// returned there, those that a call has too ([ErrOverloaded], [ErrStorage] and so on); and
// others that say why there is no answer.
func (n *Node) AskNode(ctx context.Context, id string, question []byte) ([]byte, error) {
	if n.cfg.ID == id {
		return n.answerAside(question)
	}
	answer, err := n.askNode(ctx, id, question)
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("cluster: ask node %q: %w", id, err)
}

func (n *Node) askNode(ctx context.Context, id string, question []byte) ([]byte, error) {
	if n.links == nil || len(n.links.addresses(id)) == 0 {
		return nil, ErrNotMember
	}
	for again := false; ; again = true {
		if err := n.down(); err != nil {
			return nil, err
		}
		r, err := n.links.aside(ctx, id)
		if err != nil {
			return nil, err
		}
		reply, err := r.await(ctx, &callsRequest{Ask: question})
		switch {
		case err == nil:
			return reply.Answer, nil
		case again || !r.ended(): // else it had idled for long
			return nil, err
		}
	}
}

// aside returns a connection to a node.
func (l *links) aside(ctx context.Context, id string) (*remote, error) {
	l.mu.Lock()
	a := l.asides[id]
	if a == nil {
		a = &aside{dialing: newGate()}
		l.asides[id] = a
	}
	l.mu.Unlock()
	if err := a.dialing.enter(ctx); err != nil {
		return nil, err
	}
	defer a.dialing.leave()
	if a.r != nil && !a.r.ended() {
		_ = a.r.conn.SetReadDeadline(time.Now().Add(silence)) // an answer may take its time; a failing deadline shows as a failing read
		return a.r, nil
	}
	conn, err := l.dial(ctx, id, streamAside)
	if err != nil {
		return nil, err
	}
	r := newRemote(l.node, conn, id)
	if !l.goOn(r.read) {
		r.fail(ErrClosed)
		return nil, ErrClosed
	}
	a.r = r
	return r, nil
}

// goOn begins work that ends with the node's connections, and which close awaits. It
// reports false on a node that closes.
func (l *links) goOn(work func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return false
	}
	l.work.Go(work)
	return true
}

// ended reports whether the connection has ended.
func (r *remote) ended() bool {
	select {
	case <-r.closed:
		return true
	default:
		return false
	}
}

// await sends a request that changes nothing, and awaits the answer.
func (r *remote) await(ctx context.Context, req *callsRequest) (*callsReply, error) {
	answer, err := r.ask(req)
	if err != nil {
		return nil, err
	}
	select {
	case reply := <-answer:
		if reply.Failure != failNone {
			return nil, (&callOutcome{Failure: reply.Failure, Text: "it does not answer such questions now"}).err()
		}
		return reply, nil
	case <-r.closed:
		return nil, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// maxAsides bounds the questions of one node that are being answered: one more is
// refused.
const maxAsides = 1024

// serveAside answers a node's questions until its connection ends.
func (n *Node) serveAside(conn net.Conn) {
	var work sync.WaitGroup
	slot := make(chan struct{}, maxAsides)
	out := newFrames(conn)
	for {
		kind, body, err := hearFrame(conn)
		if err != nil || kind != frameCalls {
			break
		}
		req := new(callsRequest)
		if parseFrame(body, req) != nil {
			break
		}
		select {
		case slot <- struct{}{}:
		default:
			_ = out.send(frameAnswers, &callsReply{ID: req.ID, Failure: failOverloaded}) // the reading above ends
			continue
		}
		work.Go(func() { // ends when OnAsk does; awaited below
			defer func() { <-slot }()
			answer, err := n.answerAside(req.Ask)
			_ = out.send(frameAnswers, &callsReply{ID: req.ID, Answer: answer, Failure: failureOf(err)}) // as above
		})
	}
	_ = conn.Close() // ends what is still being written
	work.Wait()
}

func (n *Node) answerAside(question []byte) ([]byte, error) {
	if n.cfg.OnAsk == nil {
		return nil, errors.New("cluster: the host answers no questions")
	}
	return n.cfg.OnAsk(question)
}
