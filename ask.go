package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/escapement-go/scheduler/internal/ask"
	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/internal/trigger"
	"github.com/escapement-go/scheduler/store"
)

// A question is what one node asks another, mostly the one that leads, because the
// answer is only there. Questions change nothing. A node that does not know a field ignores it,
// and answers what is left.
type question struct {
	Gates   *RunID        `json:"gates,omitempty"`   // which gate holds this waiting run
	Trigger *ask.Question `json:"trigger,omitempty"` // what a Go trigger says; of any node
	Waits   string        `json:"waits,omitempty"`   // why this schedule waits for its trigger
}

// answer answers a question; its zero fields were not asked for.
type answer struct {
	Gates   *dispatch.Verdict `json:"gates,omitempty"`
	Trigger *ask.Reply        `json:"trigger,omitempty"`
	Waits   string            `json:"waits,omitempty"` // "" if it does not
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
		a.Trigger = s.asker.Reply(q.Trigger)
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
	return fmt.Sprintf("its trigger %q gives no answer for %v: %v", u.Trigger, u.For.Round(time.Second), u.Err)
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

// waitsTime is how long a query waits for the leader's reason: it has another without.
const waitsTime = time.Second

// newAsker makes what asks Go triggers, of this node and by the node of others.
func (s *Scheduler) newAsker() *ask.Asker {
	return ask.New(ask.Config{
		Trigger:   func(name string) ask.Func { return s.cfg.triggers[name] },
		Calendars: &s.calendars,
		Peers: func() (ids []string) {
			for _, m := range s.node.Members() {
				if m.ID != s.cfg.nodeID {
					ids = append(ids, m.ID)
				}
			}
			return ids
		},
		Ask:  s.askTrigger,
		Told: func(q *dispatch.Question, a dispatch.Answer, err error) { s.dispatch.Told(q, a, err) },
	})
}

// askTrigger puts a question about a Go trigger to another node.
func (s *Scheduler) askTrigger(ctx context.Context, node string, q *ask.Question) (*ask.Reply, error) {
	asked, err := json.Marshal(question{Trigger: q})
	if err != nil {
		return nil, err
	}
	told, err := s.node.AskNode(ctx, node, asked)
	if err != nil {
		return nil, err
	}
	var a answer
	if err := json.Unmarshal(told, &a); err != nil {
		return nil, fmt.Errorf("its answer: %w", err)
	}
	return a.Trigger, nil
}

// firstTick asks the Go trigger of a schedule that is to be for its first tick.
// Errors: [ErrTriggerUnavailable], [ErrInvalid], that of ctx.
func (s *Scheduler) firstTick(ctx context.Context, sc *store.Schedule, patience time.Duration) (int64, error) {
	wall, _ := s.node.Now()
	var q *dispatch.Question
	s.node.View(func(st *store.State) { q = dispatch.NewQuestion(st, sc, dispatch.AskAnew, wall) })
	for _, x := range q.Schedule.Trigger.Except {
		if x.Calendar != "" {
			return 0, fmt.Errorf("%w: %w calendar %q", ErrInvalid, trigger.ErrUnknown, x.Calendar)
		}
	}
	next, err := s.asker.First(ctx, q, patience)
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrTriggerUnavailable) {
		return next, err
	}
	return 0, fmt.Errorf("%w: %w", ErrInvalid, err)
}

// notAsked reports whether an error is that of a Go trigger that could not be asked, and
// may be another time.
func notAsked(err error) bool {
	return errors.Is(err, ErrTriggerUnavailable) || errors.Is(err, ask.ErrMissing)
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
