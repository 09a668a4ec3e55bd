package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/escapement-go/scheduler/engine/cron"
	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/internal/trigger"
	"github.com/escapement-go/scheduler/store"
)

// Custom triggers by a Go function that is registered under the name ([WithTrigger]) on
// at least one node. params are its parameters, which are stored as JSON.
//
// The leader asks for the next tick as soon as one is armed: itself, or else a node that
// has the function. As long as none has it, or it panics or does not return, the
// schedule waits, alone: [Scheduler.Health] of the leader says so, and from the time of
// its tick on the ledger and [Scheduler.ExplainTick], which show it as blocked. It is
// asked again, after 30 s at most, and goes on by itself, with its catch-up policy for
// what came meanwhile.
func Custom(name string, params any, opts ...TriggerOption) Trigger {
	t := Trigger{data: store.Trigger{Kind: store.TriggerCustom, Name: name}}
	t.err = checkName("scheduler: trigger name", name)
	data, err := json.Marshal(params)
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("scheduler: parameters of trigger %q: %w: %w", name, ErrInvalid, err)
	}
	t.data.Params = data
	return t.with(opts)
}

// A TriggerFunc makes a trigger of its parameters. What it returns is asked for the
// first tick strictly after a time, the zero Time meaning never; a schedule of
// github.com/robfig/cron/v3 will do. Equal questions must have equal answers, on every
// node that has the function: the same question may be asked of several, and more than
// once.
//
// It is called without a lock, for each schedule on a goroutine of its own, which is left
// behind if it does not return: five seconds are its time.
type TriggerFunc func(params json.RawMessage) (cron.Schedule, error)

// WithTrigger registers a Go trigger under a name for [Custom]. Nodes may differ in which
// they have.
func WithTrigger(name string, f TriggerFunc) Option {
	return option(func(c *config) {
		c.fault(checkName("scheduler: trigger name", name))
		switch {
		case f == nil:
			c.fault(fmt.Errorf("scheduler: trigger %q is nil: %w", name, ErrInvalid))
		case c.triggers[name] != nil:
			c.fault(fmt.Errorf("scheduler: trigger %q: %w", name, ErrDuplicate))
		}
		if c.triggers == nil {
			c.triggers = make(map[string]TriggerFunc)
		}
		c.triggers[name] = f
	})
}

// triggers asks Go triggers, here or on other nodes, and waits for none longer than it
// has to. Safe for concurrent use.
type triggers struct {
	s    *Scheduler
	ctx  context.Context //nolint:containedctx // of what is asked
	stop context.CancelFunc
	work sync.WaitGroup // the asking; not the functions themselves, which may never return

	mu    sync.Mutex             // guards all below
	evals map[string]*evaluation // by schedule
	homes map[string]string      // by trigger, the node that was the last to know it
	hangs map[string]int         // by schedule, how many of its patientTriggers have not come back
}

// Bounds of waiting for a Go trigger.
const (
	askTime   = 5 * time.Second // for what one question needs, all nodes together
	replyTime = 4 * time.Second // for another node's question
	nextTime  = 5 * time.Second // for one call, on behalf of a query
)

const keyStack = "stack"

// Why there is no answer, besides what a trigger itself says.
var (
	errSlow        = dispatch.ErrSlow
	errUnreachable = errors.New("node cannot be asked")
)

func newTriggers(ctx context.Context, s *Scheduler) *triggers {
	t := &triggers{s: s, evals: make(map[string]*evaluation), homes: make(map[string]string), hangs: make(map[string]int)}
	t.ctx, t.stop = context.WithCancel(context.WithoutCancel(ctx))
	return t
}

// close ends the asking.
func (t *triggers) close() {
	t.mu.Lock()
	t.stop()
	t.mu.Unlock()
	t.work.Wait()
}

// begin takes the dispatcher's question to where it is answered. It does not block.
func (t *triggers) begin(q *dispatch.Question) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return
	}
	t.work.Go(func() { // ends with ctx at the latest; awaited by close
		ctx, cancel := context.WithTimeout(t.ctx, askTime)
		defer cancel()
		a, err := t.ask(ctx, q)
		t.s.dispatch.Told(q, a, err)
	})
}

// first asks for the first tick of a schedule that is to be.
func (t *triggers) first(ctx context.Context, sc *store.Schedule) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	wall, _ := t.s.node.Now()
	var q *dispatch.Question
	t.s.node.View(func(st *store.State) { q = dispatch.NewQuestion(st, sc, dispatch.AskAnew, wall) })
	a, err := t.ask(ctx, q)
	switch {
	case err == nil:
		return a.Next, nil
	case errors.Is(err, errSlow) || ctx.Err() != nil:
		return 0, fmt.Errorf("trigger %q: %w", sc.Trigger.Name, err)
	}
	return 0, fmt.Errorf("%w: trigger %q: %w", ErrInvalid, sc.Trigger.Name, err)
}

// ask has a question answered: here if this node has the trigger, else on a node that
// has it. While an earlier question about the schedule hangs here, others are asked too.
func (t *triggers) ask(ctx context.Context, q *dispatch.Question) (dispatch.Answer, error) {
	name := q.Schedule.Trigger.Name
	here := func(ctx context.Context) (dispatch.Answer, error) { return t.here(ctx, q) }
	t.mu.Lock()
	e, home := t.evals[q.Schedule.ID], t.homes[name]
	t.mu.Unlock()
	if t.s.cfg.triggers[name] != nil {
		if e == nil || e.over() {
			return here(ctx)
		}
		return anyOf(ctx, append(t.others(q, name), here))
	}
	if home != "" {
		a, err := t.there(ctx, q, home)
		if telling(err) > 1 {
			return a, err
		}
		t.settle(name, "") // it has gone
	}
	a, err := anyOf(ctx, t.others(q, name))
	if telling(err) < 2 {
		err = fmt.Errorf("no node that can be asked has it (WithTrigger): %w", err)
	}
	return a, err
}

// settle notes where a trigger is.
func (t *triggers) settle(name, node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.homes[name] = node; node == "" {
		delete(t.homes, name)
	}
}

// others returns what asks the other nodes.
func (t *triggers) others(q *dispatch.Question, name string) (list []asker) {
	for _, m := range t.s.node.Members() {
		if m.ID == t.s.cfg.nodeID {
			continue
		}
		list = append(list, func(ctx context.Context) (dispatch.Answer, error) {
			a, err := t.there(ctx, q, m.ID)
			if err == nil {
				t.settle(name, m.ID)
			}
			return a, err
		})
	}
	return list
}

// there has a question answered by another node.
func (t *triggers) there(ctx context.Context, q *dispatch.Question, id string) (dispatch.Answer, error) {
	var none dispatch.Answer
	asked, err := encodeTicks(q)
	if err != nil {
		return none, err
	}
	told, err := t.s.node.AskNode(ctx, id, asked)
	switch {
	case err != nil && ctx.Err() != nil:
		return none, fmt.Errorf("node %q: %w", id, errSlow)
	case err != nil:
		return none, fmt.Errorf("%w %q: %w: %w", errUnreachable, id, trigger.ErrUnknown, err)
	}
	return decodeTicks(told, id)
}

// An asker asks one node.
type asker func(ctx context.Context) (dispatch.Answer, error)

// anyOf returns the first answer. The error says the most telling of what went wrong:
// what a trigger said before that a node lacks it.
func anyOf(ctx context.Context, askers []asker) (dispatch.Answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
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
			a, err := ask(ctx)
			all <- told{a, err}
		})
	}
	failed := fmt.Errorf("%w trigger", trigger.ErrUnknown)
	for range askers {
		r := <-all
		if r.err == nil {
			return r.answer, nil
		}
		if telling(r.err) > telling(failed) {
			failed = r.err
		}
	}
	return dispatch.Answer{}, failed
}

// telling ranks what comes of asking: a node that lacks the trigger, or cannot be asked,
// says nothing of the trigger itself.
func telling(err error) int {
	switch {
	case errors.Is(err, errUnreachable):
		return 1
	case errors.Is(err, trigger.ErrUnknown):
		return 0
	case errors.Is(err, errSlow):
		return 2
	}
	return 3
}

// An evaluation is a question that is being answered here, or was.
type evaluation struct {
	question *dispatch.Question
	done     chan struct{} // closed once what follows is set
	answer   dispatch.Answer
	err      error
}

func (e *evaluation) over() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// here has a question answered by this node. There is one goroutine for each schedule: a
// question that is asked again while it is being answered gets that answer, which holds
// although some time has passed, and another one has to wait.
func (t *triggers) here(ctx context.Context, q *dispatch.Question) (dispatch.Answer, error) {
	for {
		t.mu.Lock()
		e := t.evals[q.Schedule.ID]
		mine := e != nil && sameQuestion(e.question, q)
		if e == nil || e.over() && !mine {
			e, mine = &evaluation{question: q, done: make(chan struct{})}, true
			t.evals[q.Schedule.ID] = e
			go func() { // ends when the trigger returns, which nobody waits for longer than ctx lasts
				defer close(e.done)
				e.answer, e.err = t.evaluate(q)
			}()
		}
		t.mu.Unlock()
		select {
		case <-e.done:
		case <-ctx.Done():
			return dispatch.Answer{}, errSlow
		}
		if !mine {
			continue
		}
		t.mu.Lock()
		if t.evals[q.Schedule.ID] == e {
			delete(t.evals, q.Schedule.ID)
		}
		t.mu.Unlock()
		return e.answer, e.err
	}
}

// sameQuestion reports whether the answer to one question is one to the other too.
func sameQuestion(a, b *dispatch.Question) bool {
	x, y := a.Schedule, b.Schedule
	return a.Kind == b.Kind && a.Now <= b.Now && x.Number == y.Number && x.Version == y.Version && x.Next == y.Next && x.Pause == y.Pause &&
		slices.Equal(x.Decided, y.Decided) && slices.Equal(x.Waiting, y.Waiting) && x.Number != 0
}

// evaluate asks the function. A panic is an error: it would end the node, and then the
// next one that is asked.
func (t *triggers) evaluate(q *dispatch.Question) (a dispatch.Answer, err error) {
	defer func() {
		if r := recover(); r != nil {
			t.s.cfg.logger.Warn("trigger panics", keyTrigger, q.Schedule.Trigger.Name, keyError, r, keyStack, string(debug.Stack()))
			err = fmt.Errorf("it panics: %v", r)
		}
	}()
	rule, err := trigger.Compile(&q.Schedule.Trigger, trigger.Env{ID: q.Schedule.ID, Cache: &t.s.calendars, Custom: t.make})
	if err != nil {
		return a, err
	}
	return q.Answer(rule), nil
}

// make makes the Go trigger of a name.
func (t *triggers) make(name string, params []byte) (cron.Schedule, error) {
	f := t.s.cfg.triggers[name]
	if f == nil {
		return nil, fmt.Errorf("%w trigger %q: see WithTrigger", trigger.ErrUnknown, name)
	}
	made, err := f(params)
	if err == nil && made == nil {
		err = fmt.Errorf("trigger %q is nil: %w", name, ErrInvalid)
	}
	return made, err
}

// patient makes a Go trigger for a query, which may ask for very many ticks: it waits for
// each no longer than nextTime, and says never from the first that does not come.
func (t *triggers) patient(id, name string, params []byte) (cron.Schedule, error) {
	p := &patientTrigger{t: t, id: id, name: name}
	err := p.bound(func() (err error) {
		p.made, err = t.make(name, params)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("trigger %q: %w", name, err)
	}
	return p, nil
}

type patientTrigger struct {
	t        *triggers
	id, name string
	made     cron.Schedule
}

// Next implements [cron.Schedule].
func (p *patientTrigger) Next(after time.Time) time.Time {
	next := make(chan time.Time, 1)
	err := p.bound(func() error {
		next <- p.made.Next(after)
		return nil
	})
	if err != nil {
		p.t.s.cfg.logger.Error("trigger does not answer a query", keyTrigger, p.name, keyError, err)
		return time.Time{}
	}
	return <-next
}

// bound calls f, which may be left behind. Of a schedule no second one is.
func (p *patientTrigger) bound(f func() error) error {
	p.t.mu.Lock()
	hangs := p.t.hangs[p.id] > 0
	p.t.mu.Unlock()
	if hangs {
		return errSlow
	}
	done := make(chan error, 1)
	go func() { // ends when the trigger returns, which nobody waits for longer than nextTime
		done <- guard(f)
	}()
	timer := time.NewTimer(nextTime)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
	}
	p.t.hang(p.id, 1)
	go func() { // as the one above, which it waits for
		err := <-done
		p.t.hang(p.id, -1)
		p.t.s.cfg.logger.Debug("trigger answers a query too late", keyTrigger, p.name, keyError, err)
	}()
	return errSlow
}

func (t *triggers) hang(id string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hangs[id] += n; t.hangs[id] == 0 {
		delete(t.hangs, id)
	}
}

func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it panics: %v", r)
		}
	}()
	return f()
}
