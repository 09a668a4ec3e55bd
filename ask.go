package scheduler

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/store"
)

// A question is what one node asks another that leads, because the answer is only
// there. Questions change nothing. A node that does not know a field ignores it,
// and answers what is left.
type question struct {
	Gates *RunID `json:"gates,omitempty"` // which gate holds this waiting run
}

// answer answers a question; its zero fields were not asked for.
type answer struct {
	Gates *dispatch.Verdict `json:"gates,omitempty"`
}

// answer is the leader's part.
func (s *Scheduler) answer(asked []byte) ([]byte, error) {
	var q question
	if err := json.Unmarshal(asked, &q); err != nil {
		return nil, fmt.Errorf("question of another node: %w", err)
	}
	var a answer
	if q.Gates != nil {
		var r *store.Run
		s.node.View(func(st *store.State) { r = st.LiveRun(*q.Gates) })
		if r != nil {
			if v, leads := s.dispatch.Explain(r); leads {
				a.Gates = &v
			}
		}
	}
	return json.Marshal(a)
}

// verdict says which gate holds a waiting run; the leader is asked. Errors:
// [ErrNoLeader], that of ctx.
func (s *Scheduler) verdict(ctx context.Context, r *store.Run) (dispatch.Verdict, error) {
	if v, leads := s.dispatch.Explain(r); leads {
		return v, nil
	}
	asked, err := json.Marshal(question{Gates: &r.ID})
	if err != nil {
		return dispatch.Verdict{}, err
	}
	told, err := s.node.Ask(ctx, asked)
	if err != nil {
		return dispatch.Verdict{}, callError(err)
	}
	var a answer
	if err := json.Unmarshal(told, &a); err != nil {
		return dispatch.Verdict{}, fmt.Errorf("answer of the leader: %w", err)
	}
	if a.Gates == nil { // it does not wait any more
		return dispatch.Verdict{Reason: "it is about to change"}, nil
	}
	return *a.Gates, nil
}
