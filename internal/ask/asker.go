package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/escapement-go/scheduler/engine/cron"
	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/internal/trigger"
)

// Config is what an [Asker] needs.
type Config struct {
	Trigger   func(name string) Func // of this node; nil if it has none of that name
	Calendars *trigger.Cache
	Peers     func() []string // the other nodes
	// Ask asks another node, which answers by [Asker.Reply].
	Ask  func(ctx context.Context, node string, asked *Question) (*Reply, error)
	Told func(*dispatch.Question, dispatch.Answer, error)
}

// A Func makes a Go trigger of its parameters.
type Func = func(params json.RawMessage) (cron.Schedule, error)

var (
	// ErrUnavailable tells that a Go trigger gives no answer, and may do so another
	// time: it takes too long, it panics, or a node that may have it cannot be asked.
	ErrUnavailable = errors.New("no answer of the Go trigger")
	// ErrMissing tells that nobody who can be asked has a Go trigger.
	ErrMissing = errors.New("unknown Go trigger: see WithTrigger")

	errUnreachable = errors.New("node cannot be asked")
)

// replyTime is how long another node's question is waited for: it may take that long to
// go there and back that [Patience] is over else.
const replyTime = 4 * time.Second

// An Asker asks Go triggers, here or on other nodes. Safe for concurrent use.
type Asker struct {
	cfg   Config
	calls calls
	ctx   context.Context //nolint:containedctx // of what is asked; set by Start
	stop  context.CancelFunc
	work  sync.WaitGroup // the asking; not the functions themselves, which may never return

	mu    sync.Mutex        // guards all below
	near  queue             // of triggers that are here
	far   queue             // of those that are elsewhere: a node that is cut off holds up no others
	homes map[string]string // by trigger, the node that was the last to know it
}

// New makes an Asker. Only its queries work before [Asker.Start].
func New(cfg Config) *Asker {
	return &Asker{cfg: cfg, calls: calls{running: make(map[callKey]*call)}, homes: make(map[string]string)}
}

// Start has it ask and answer until [Asker.Close]; of ctx only the values count.
func (a *Asker) Start(ctx context.Context) {
	a.ctx, a.stop = context.WithCancel(context.WithoutCancel(ctx))
}

// Close ends the asking.
func (a *Asker) Close() {
	a.mu.Lock()
	if a.stop != nil {
		a.stop()
	}
	a.mu.Unlock()
	a.work.Wait()
}

// A queue has questions that wait to be asked, in order.
type queue struct {
	questions []*dispatch.Question
	askers    int // that work on it
}

// maxAskers bounds the questions of a queue that are asked at a time: a node answers
// no more than 1024 of another.
const maxAskers = 128

// Begin takes the dispatcher's question to where it is answered. It does not block.
func (a *Asker) Begin(q *dispatch.Question) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx.Err() != nil {
		return
	}
	w := &a.far
	if a.cfg.Trigger(q.Schedule.Trigger.Name) != nil {
		w = &a.near
	}
	w.questions = append(w.questions, q)
	if w.askers < maxAskers {
		w.askers++
		a.work.Go(func() { a.serve(w) }) // ends with what it works on, soon after ctx at the latest; awaited by Close
	}
}

// serve asks the questions of a queue until there are none.
func (a *Asker) serve(w *queue) {
	for q := a.next(w); q != nil; q = a.next(w) {
		ctx, cancel := context.WithTimeout(a.ctx, Patience)
		answer, err := a.ask(ctx, q)
		cancel()
		a.cfg.Told(q, answer, err)
	}
}

// next takes the next question; nil ends the asker.
func (a *Asker) next(w *queue) *dispatch.Question {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(w.questions) == 0 || a.ctx.Err() != nil {
		w.questions = nil
		w.askers--
		return nil
	}
	q := w.questions[0]
	w.questions = w.questions[1:]
	return q
}

// First has a question answered that asks for the first tick of a schedule that is to be.
// Errors: [ErrUnavailable], [ErrMissing], that of ctx, and others that say what the trigger
// does not take.
func (a *Asker) First(ctx context.Context, q *dispatch.Question, patience time.Duration) (int64, error) {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		answer, err := a.ask(bounded, q)
		switch {
		case err != nil && ctx.Err() != nil:
			return 0, ctx.Err()
		case err != nil:
			return 0, unavailable(q.Schedule.Trigger.Name, err)
		case answer.Next == 0 || answer.Next > q.Now: // else it was asked a while ago
			return answer.Next, nil
		}
	}
}

// ask has a question answered: here if this node has the trigger, else on a node that
// has it. While an earlier question about the schedule hangs here, others are asked too.
func (a *Asker) ask(ctx context.Context, q *dispatch.Question) (dispatch.Answer, error) {
	name := q.Schedule.Trigger.Name
	here := func(ctx context.Context) (dispatch.Answer, error) { return a.here(ctx, q) }
	if a.cfg.Trigger(name) != nil {
		if !a.calls.hangs(callKey{schedule: q.Schedule.ID}, q) {
			return here(ctx)
		}
		return anyOf(ctx, append(a.others(q, name), here))
	}
	a.mu.Lock()
	home := a.homes[name]
	a.mu.Unlock()
	if home != "" {
		answer, err := a.there(ctx, q, home)
		if ranked(err) >= slow {
			return answer, err
		}
		a.settle(name, "") // it has gone
	}
	answer, err := anyOf(ctx, a.others(q, name))
	if ranked(err) <= unreachable {
		err = fmt.Errorf("no node that can be asked has it: %w", err)
	}
	return answer, err
}

// settle notes where a trigger is.
func (a *Asker) settle(name, node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.homes[name] = node; node == "" {
		delete(a.homes, name)
	}
}

// others returns what asks the other nodes.
func (a *Asker) others(q *dispatch.Question, name string) (list []asker) {
	for _, id := range a.cfg.Peers() {
		list = append(list, func(ctx context.Context) (dispatch.Answer, error) {
			answer, err := a.there(ctx, q, id)
			if err == nil {
				a.settle(name, id)
			}
			return answer, err
		})
	}
	return list
}

// there has a question answered by another node.
func (a *Asker) there(ctx context.Context, q *dispatch.Question, node string) (dispatch.Answer, error) {
	var none dispatch.Answer
	asked, err := encodeQuestion(q)
	if err != nil {
		return none, err
	}
	told, err := a.cfg.Ask(ctx, node, asked)
	switch {
	case err != nil && ctx.Err() != nil:
		return none, fmt.Errorf("node %q: %w", node, dispatch.ErrSlow)
	case err != nil:
		return none, fmt.Errorf("%w %q: %w", errUnreachable, node, err)
	}
	return decodeAnswer(told, node)
}

// here has a question answered by this node.
func (a *Asker) here(ctx context.Context, q *dispatch.Question) (dispatch.Answer, error) {
	return a.calls.do(ctx.Done(), Patience, callKey{schedule: q.Schedule.ID}, q, func() (answer dispatch.Answer, err error) {
		rule, err := trigger.Compile(&q.Schedule.Trigger, trigger.Env{ID: q.Schedule.ID, Cache: a.cfg.Calendars, Custom: a.custom})
		if err != nil {
			return answer, err
		}
		return q.Answer(rule), nil
	})
}

func (a *Asker) custom(name string, params []byte) (cron.Schedule, error) {
	return a.make(name, params)
}

// An asker asks one node.
type asker func(ctx context.Context) (dispatch.Answer, error)

// anyOf returns the first answer. The error is that of the highest rank.
func anyOf(ctx context.Context, askers []asker) (dispatch.Answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	type told struct {
		answer dispatch.Answer
		err    error
	}
	all := make(chan told, len(askers)) // each sends once, and may do so after the first answer
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	for _, ask := range askers {
		asking.Go(func() { // ends with ctx; awaited above
			answer, err := ask(ctx)
			all <- told{answer, err}
		})
	}
	failed := ErrMissing
	for range askers {
		r := <-all
		if r.err == nil {
			return r.answer, nil
		}
		if ranked(r.err) > ranked(failed) {
			failed = r.err
		}
	}
	return dispatch.Answer{}, failed
}

// A rank says how much a failure tells of the trigger itself.
type rank int

const (
	lacks       rank = iota // the node has no such trigger
	unreachable             // nor can it be said whether it has
	slow                    // it has, and it takes its time
	says                    // the trigger itself has failed; or it has not
)

func ranked(err error) rank {
	switch {
	case errors.Is(err, errUnreachable):
		return unreachable
	case errors.Is(err, ErrMissing):
		return lacks
	case errors.Is(err, dispatch.ErrSlow):
		return slow
	}
	return says
}
