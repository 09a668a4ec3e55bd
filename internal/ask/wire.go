package ask

import (
	"context"
	"errors"
	"fmt"

	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/internal/trigger"
	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/worker"
)

// A Question is a [dispatch.Question] on its way to another node. Who does not know a
// field ignores it.
type Question struct {
	Kind     dispatch.QuestionKind `json:"kind"`
	Now      int64                 `json:"now"`
	Schedule []byte                `json:"schedule"` // as it is stored
	Fell     bool                  `json:"fell,omitempty"`
}

// A Reply is a [dispatch.Answer] on its way back, or says why there is none.
type Reply struct {
	Unknown bool   `json:"unknown,omitempty"` // the node lacks something
	Slow    bool   `json:"slow,omitempty"`
	Panic   string `json:"panic,omitempty"`
	Stack   []byte `json:"stack,omitempty"` // of Panic
	Fault   string `json:"fault,omitempty"`

	Tick  []byte  `json:"tick,omitempty"` // as it goes into the log
	Next  int64   `json:"next,omitempty"`
	Ticks []int64 `json:"ticks,omitempty"`
	Rest  bool    `json:"rest,omitempty"`
}

func encodeQuestion(q *dispatch.Question) (*Question, error) {
	sc, err := q.Schedule.MarshalMsg(nil)
	if err != nil {
		return nil, fmt.Errorf("question of the trigger: %w", err)
	}
	return &Question{q.Kind, q.Now, sc, q.Fell}, nil
}

// Reply answers a question of another node.
func (a *Asker) Reply(asked *Question) *Reply {
	q := &dispatch.Question{Kind: asked.Kind, Now: asked.Now, Fell: asked.Fell, Schedule: new(store.Schedule)}
	if _, err := q.Schedule.UnmarshalMsg(asked.Schedule); err != nil || !q.Valid() {
		return &Reply{Unknown: true} // of a build to come
	}
	if a.cfg.Trigger(q.Schedule.Trigger.Name) == nil {
		return &Reply{Unknown: true}
	}
	ctx, cancel := context.WithTimeout(a.ctx, replyTime)
	defer cancel()
	answer, err := a.here(ctx, q)
	told := &Reply{Next: answer.Next, Ticks: answer.Ticks, Rest: answer.Rest}
	if err == nil && answer.Tick != nil {
		told.Tick, err = answer.Tick.MarshalMsg(nil)
	}
	if err == nil {
		return told
	}
	told = &Reply{
		Unknown: errors.Is(err, ErrMissing) || errors.Is(err, trigger.ErrUnknown), Slow: errors.Is(err, dispatch.ErrSlow), Fault: err.Error(),
	}
	if p, ok := errors.AsType[*worker.PanicError](err); ok {
		told.Panic, told.Stack = fmt.Sprint(p.Value), p.Stack
	}
	return told
}

// decodeAnswer reads the reply of a node; nil is that of an earlier build.
func decodeAnswer(r *Reply, node string) (dispatch.Answer, error) {
	var none dispatch.Answer
	switch {
	case r == nil || r.Unknown:
		return none, fmt.Errorf("node %q: %w", node, ErrMissing)
	case r.Slow:
		return none, fmt.Errorf("node %q: %w", node, dispatch.ErrSlow)
	case r.Panic != "":
		return none, &panicked{node, worker.PanicError{Value: r.Panic, Stack: r.Stack}}
	case r.Fault != "":
		return none, fmt.Errorf("node %q: %s", node, r.Fault)
	}
	said := dispatch.Answer{Next: r.Next, Ticks: r.Ticks, Rest: r.Rest}
	if r.Tick != nil {
		said.Tick = new(store.TickCommand)
		if _, err := said.Tick.UnmarshalMsg(r.Tick); err != nil {
			return none, fmt.Errorf("answer of node %q: %w", node, err)
		}
	}
	return said, nil
}
