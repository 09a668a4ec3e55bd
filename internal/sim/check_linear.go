package sim

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/escapement-go/scheduler/store"
)

// status is what a run is to those who ask about it.
type status uint8

const (
	absent status = iota
	alive
	succeeded
	failed
	canceled
	expired
)

func statusOf(s store.RunState) status {
	switch s {
	case store.Succeeded:
		return succeeded
	case store.Failed:
		return failed
	case store.Canceled:
		return canceled
	case store.Expired:
		return expired
	default:
		return alive
	}
}

// request is an operation on one run: a client's call, or the end that the log
// has for it.
type request struct {
	op  Op
	end status // opEnd
}

// opEnd is the run's end by a report, or by the leader.
const opEnd Op = "end"

// reply is what a client was told.
type reply struct {
	answer Answer
	found  status // OpGet
}

// checkLinearizable: what clients were told of each run fits one order of the
// calls, in which each happened between its begin and its answer.
func checkLinearizable(s *Story) (b Breaches) {
	histories := make(map[store.RunID][]porcupine.Operation)
	for i := range s.Calls {
		c := &s.Calls[i]
		reads := c.Op == OpGet || c.Answer == Missing || c.Answer == Conflict
		if c.Answer == Refused || reads && !c.Atomic || c.Op == OpGet && c.Answer == Unknown {
			continue
		}
		end := int64(math.MaxInt64)
		if c.Answer != Unknown {
			end = c.End.UnixNano()
		}
		for _, id := range c.Runs {
			op := porcupine.Operation{ClientId: i, Input: request{op: c.Op}, Call: c.Begin.UnixNano(), Output: reply{answer: c.Answer}, Return: end}
			if c.Op == OpGet && c.Answer == Done {
				op.Output = reply{Done, statusOf(c.State)}
			}
			histories[id] = append(histories[id], op)
		}
	}
	s.addEnds(histories)
	for id, ops := range histories {
		if made(ops) && porcupine.CheckOperationsTimeout(runModel, ops, 10*time.Second) == porcupine.Illegal {
			b.add("what clients were told of run %v fits no order: %s", id, tell(ops))
		}
	}
	return b
}

// made reports whether the run is one that a client asked for.
func made(ops []porcupine.Operation) bool {
	for _, op := range ops {
		if op.Input.(request).op == OpEnqueue {
			return true
		}
	}
	return false
}

// addEnds adds the ends that no client asked for. They are sure to happen, and
// not before they are written.
func (s *Story) addEnds(histories map[store.RunID][]porcupine.Operation) {
	for i := range s.Applied {
		a := &s.Applied[i]
		for j := range a.Events {
			e := &a.Events[j]
			if e.Kind != store.EventFinished || e.Run.State == store.Canceled || histories[e.Run.ID] == nil {
				continue
			}
			histories[e.Run.ID] = append(histories[e.Run.ID], porcupine.Operation{
				ClientId: -1 - i, Input: request{opEnd, statusOf(e.Run.State)}, Output: reply{answer: Done},
				Call: a.At.UnixNano(), Return: math.MaxInt64,
			})
		}
	}
}

// runModel is a run as its clients know it.
var runModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{absent} },
	Step: func(state, input, output any) []any {
		return step(state.(status), input.(request), output.(reply))
	},
	Equal: func(a, b any) bool { return a == b },
}).ToModel()

// step returns the states that an operation with that answer can lead to.
func step(is status, in request, out reply) []any {
	if out.answer == Unknown { // it may have happened, with any answer
		after := []any{is}
		for _, to := range step(is, in, reply{answer: Done}) {
			if to != is {
				after = append(after, to)
			}
		}
		return after
	}
	may := func(ok bool, to status) []any {
		if !ok {
			return nil
		}
		return []any{to}
	}
	switch in.op {
	case OpEnqueue:
		return may(is == absent && out.answer == Done, alive)
	case opEnd:
		return may(is == alive, in.end)
	case OpGet:
		return may(out.answer == Missing && is == absent || out.answer == Done && out.found == is, is)
	case OpCancel:
		switch out.answer {
		case Missing:
			return may(is == absent, is)
		case Conflict:
			return may(is > alive, is)
		default:
			return may(is == alive, canceled)
		}
	case OpRetry:
		switch out.answer {
		case Missing:
			return may(is == absent, is)
		case Conflict: // it has succeeded, or is running, or has been taken up and has ended again
			return may(is != absent, is)
		default:
			return may(is == alive || is == failed || is == canceled || is == expired, alive)
		}
	default:
		return nil
	}
}

func tell(ops []porcupine.Operation) string {
	var text strings.Builder
	for _, op := range ops {
		in, out := op.Input.(request), op.Output.(reply)
		until := "never"
		if op.Return != math.MaxInt64 {
			until = time.Unix(0, op.Return).UTC().Format(clockFormat)
		}
		fmt.Fprintf(&text, "\n      %s … %s %s: %s", time.Unix(0, op.Call).UTC().Format(clockFormat), until, in.op, answerNames[out.answer])
		switch in.op {
		case opEnd:
			text.WriteString(" " + statusNames[in.end])
		case OpGet:
			text.WriteString(" " + statusNames[out.found])
		default: // says it all
		}
	}
	return text.String()
}

var (
	statusNames = [...]string{"absent", "alive", "succeeded", "failed", "canceled", "expired"}
	answerNames = [...]string{"unknown", "done", "refused", "missing", "conflict"}
)
