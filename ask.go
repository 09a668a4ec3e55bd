package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/internal/trigger"
	"github.com/escapement-go/scheduler/store"
)

// A question is what one node asks another, mostly the one that leads, because the
// answer is only there. Questions change nothing. A node that does not know a field ignores it,
// and answers what is left.
type question struct {
	Gates   *RunID         `json:"gates,omitempty"`   // which gate holds this waiting run
	Trigger *ticksQuestion `json:"trigger,omitempty"` // what a Go trigger says; of any node
	Waits   string         `json:"waits,omitempty"`   // why this schedule waits for its trigger
}

// answer answers a question; its zero fields were not asked for.
type answer struct {
	Gates   *dispatch.Verdict `json:"gates,omitempty"`
	Trigger *ticksAnswer      `json:"trigger,omitempty"`
	Waits   string            `json:"waits,omitempty"` // "" if it does not
}

// ticksQuestion is a [dispatch.Question].
type ticksQuestion struct {
	Kind     dispatch.QuestionKind `json:"kind"`
	Now      int64                 `json:"now"`
	Schedule []byte                `json:"schedule"` // as it is stored
}

// ticksAnswer is a [dispatch.Answer], or says why there is none.
type ticksAnswer struct {
	Unknown bool   `json:"unknown,omitempty"` // the node lacks something
	Slow    bool   `json:"slow,omitempty"`
	Fault   string `json:"fault,omitempty"`

	Tick  []byte  `json:"tick,omitempty"` // as it goes into the log
	Next  int64   `json:"next,omitempty"`
	Ticks []int64 `json:"ticks,omitempty"`
	Rest  bool    `json:"rest,omitempty"`
}

// answer is the part of who is asked.
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
	if q.Trigger != nil {
		a.Trigger = s.triggers.reply(q.Trigger)
	}
	if q.Waits != "" {
		a.Waits = s.waitsFor(q.Waits)
	}
	return json.Marshal(a)
}

// waitsFor says, on the leader, why a schedule waits for its Go trigger; "" if it does
// not.
func (s *Scheduler) waitsFor(id string) string {
	for _, u := range s.dispatch.Unanswered() {
		if u.Schedule == id {
			return unanswered(u)
		}
	}
	return ""
}

func unanswered(u dispatch.Unanswered) string {
	return fmt.Sprintf("its trigger %q gives no answer for %v: %v", u.Trigger, u.Since.Round(time.Second), u.Err)
}

// waiting says, on the leader, which schedules wait for their Go triggers.
func (s *Scheduler) waiting() (reasons []string) {
	const most = 10
	all := s.dispatch.Unanswered()
	slices.SortFunc(all, func(a, b dispatch.Unanswered) int { return cmp.Compare(a.Schedule, b.Schedule) })
	for i, u := range all {
		if i == most {
			return append(reasons, fmt.Sprintf("%d further schedules wait for their triggers", len(all)-most))
		}
		reasons = append(reasons, fmt.Sprintf("schedule %q waits: %s", u.Schedule, unanswered(u)))
	}
	return reasons
}

// askWaits is waitsFor on any node. Without a leader nothing is known.
func (s *Scheduler) askWaits(ctx context.Context, id string) string {
	if s.node.Leading() {
		return s.waitsFor(id)
	}
	ctx, cancel := context.WithTimeout(ctx, waitsTime)
	defer cancel()
	asked, err := json.Marshal(question{Waits: id})
	if err != nil {
		return ""
	}
	told, err := s.node.Ask(ctx, asked)
	var a answer
	if err != nil || json.Unmarshal(told, &a) != nil {
		return ""
	}
	return a.Waits
}

const waitsTime = time.Second

// encodeTicks makes a question to another node.
func encodeTicks(q *dispatch.Question) ([]byte, error) {
	sc, err := q.Schedule.MarshalMsg(nil)
	if err != nil {
		return nil, fmt.Errorf("question of the trigger: %w", err)
	}
	return json.Marshal(question{Trigger: &ticksQuestion{q.Kind, q.Now, sc}})
}

// reply answers a question of another node.
func (t *triggers) reply(asked *ticksQuestion) *ticksAnswer {
	q := &dispatch.Question{Kind: asked.Kind, Now: asked.Now, Schedule: new(store.Schedule)}
	if _, err := q.Schedule.UnmarshalMsg(asked.Schedule); err != nil || !q.Valid() {
		return &ticksAnswer{Unknown: true} // of a build to come
	}
	if t.s.cfg.triggers[q.Schedule.Trigger.Name] == nil {
		return &ticksAnswer{Unknown: true}
	}
	ctx, cancel := context.WithTimeout(t.ctx, replyTime)
	defer cancel()
	a, err := t.here(ctx, q)
	told := &ticksAnswer{Next: a.Next, Ticks: a.Ticks, Rest: a.Rest}
	if err == nil && a.Tick != nil {
		told.Tick, err = a.Tick.MarshalMsg(nil)
	}
	if err != nil {
		return &ticksAnswer{Unknown: errors.Is(err, trigger.ErrUnknown), Slow: errors.Is(err, errSlow), Fault: err.Error()}
	}
	return told
}

// decodeTicks reads the answer of a node.
func decodeTicks(told []byte, node string) (dispatch.Answer, error) {
	var none dispatch.Answer
	var a answer
	if err := json.Unmarshal(told, &a); err != nil {
		return none, fmt.Errorf("answer of node %q: %w", node, err)
	}
	r := a.Trigger
	switch {
	case r == nil || r.Unknown: // nil: of an earlier build
		return none, fmt.Errorf("node %q: %w trigger", node, trigger.ErrUnknown)
	case r.Slow:
		return none, fmt.Errorf("node %q: %w", node, errSlow)
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
