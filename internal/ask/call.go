package ask

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/worker"
)

// Patience is how long a call of a Go trigger is waited for.
const Patience = 5 * time.Second

// keepAnswer is how long an answer is kept that nobody has waited for: it is asked for
// again before.
const keepAnswer = time.Minute

// calls calls Go triggers, each on a goroutine, which is left behind if it does not
// return. There are two of a schedule at most at a time, one for what is decided and one
// for queries: another has to wait.
type calls struct {
	mu      sync.Mutex // guards all below
	running map[callKey]*call
}

type callKey struct {
	schedule string
	query    bool
}

// A call is being made, or has its answer, which somebody has still to take.
type call struct {
	question *dispatch.Question // that it answers; nil of a query
	began    time.Time
	waiting  int           // for the answer to question; guarded by mu of calls
	done     chan struct{} // closed once what follows is set
	answer   dispatch.Answer
	err      error
}

func (c *call) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// do has f called. A question that is asked again while it is being answered gets that
// answer, which holds although some time has passed. do waits no longer than the patience
// lasts, and for a call no longer than [Patience] from its beginning.
// Errors: [dispatch.ErrSlow], also if done is closed; those of f, and a
// [*worker.PanicError].
func (c *calls) do(done <-chan struct{}, patience time.Duration, key callKey, q *dispatch.Question, f func() (dispatch.Answer, error)) (dispatch.Answer, error) {
	for end := time.Now().Add(patience); ; {
		e, mine := c.enter(key, q, f)
		over := e.wait(done, time.Until(end))
		c.mu.Lock()
		if mine {
			e.waiting--
		}
		if over && c.running[key] == e {
			delete(c.running, key)
		}
		c.mu.Unlock()
		switch {
		case !over:
			return dispatch.Answer{}, dispatch.ErrSlow
		case mine:
			return e.answer, e.err
		}
	}
}

// enter returns the call that has to be over next, and whether it answers q.
func (c *calls) enter(key callKey, q *dispatch.Question, f func() (dispatch.Answer, error)) (e *call, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e = c.running[key]
	switch {
	case e == nil:
		e = &call{question: q, began: time.Now(), done: make(chan struct{}), err: errLeft}
		c.running[key] = e
		go c.run(key, e, f) // ends when the trigger returns, which nobody waits for for ever
	case q == nil || !same(e.question, q):
		return e, false
	}
	e.waiting++
	return e, true
}

// wait reports whether a call was over in time.
func (c *call) wait(done <-chan struct{}, patience time.Duration) bool {
	left := time.NewTimer(min(patience, Patience-time.Since(c.began)))
	defer left.Stop()
	select {
	case <-c.done:
	case <-left.C:
	case <-done:
	}
	return c.over()
}

func (c *calls) run(key callKey, e *call, f func() (dispatch.Answer, error)) {
	defer func() {
		if v := recover(); v != nil {
			e.err = &panicked{panicked: worker.PanicError{Value: v, Stack: debug.Stack()}}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		close(e.done)
		if e.waiting == 0 {
			time.AfterFunc(keepAnswer, func() { c.drop(key, e) })
		}
	}()
	e.answer, e.err = f()
}

// drop forgets a call.
func (c *calls) drop(key callKey, e *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[key] == e {
		delete(c.running, key)
	}
}

// hangs reports whether a call is being made, or its answer is there, that does not
// answer q.
func (c *calls) hangs(key callKey, q *dispatch.Question) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.running[key]
	return e != nil && !e.over() && !same(e.question, q)
}

// same reports whether the answer to one question is one to the other too, which is
// asked later.
func same(a, b *dispatch.Question) bool {
	x, y := a.Schedule, b.Schedule
	return a.Kind == b.Kind && a.Fell == b.Fell && a.Now <= b.Now && x.Number == y.Number && x.Version == y.Version && x.Next == y.Next && x.Pause == y.Pause &&
		slices.Equal(x.Decided, y.Decided) && slices.Equal(x.Waiting, y.Waiting) &&
		store.SameTrigger(&x.Trigger, &y.Trigger) // its calendars may have changed
}

// errLeft tells that a trigger has ended the goroutine that called it.
var errLeft = errors.New("it has left its goroutine")

// panicked is a Go trigger's panic. It unwraps to a [*worker.PanicError]; only the log
// has the stack.
type panicked struct {
	node     string // "" is this one
	panicked worker.PanicError
}

func (p *panicked) Error() string {
	text := fmt.Sprintf("it panics: %v", p.panicked.Value)
	if p.node != "" {
		text = fmt.Sprintf("node %q: %s", p.node, text)
	}
	return text
}

func (p *panicked) Unwrap() error { return &p.panicked }

// LogValue implements [slog.LogValuer].
func (p *panicked) LogValue() slog.Value {
	return slog.StringValue(p.Error() + "\n\n" + string(p.panicked.Stack))
}
