package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// A Checker looks for one broken promise in a story. It is a pure function.
type Checker struct {
	Name  string
	Check func(s *Story) Breaches
}

// Checkers are all that a history has to stand.
func Checkers() []Checker {
	return []Checker{
		{"acknowledged calls", checkAcknowledged},
		{"results", checkResults},
		{"leases", checkLeases},
		{"sessions", checkSessions},
		{"unique keys", checkUniques},
		{"queues", checkQueues},
		{"overlap", checkOverlap},
		{"catch-up", checkCatchUp},
		{"pauses", checkPauses},
		{"calendars", checkCalendars},
		{"starts by hand", checkStarts},
		{"versions", checkVersions},
		{"cancels", checkCancels},
		{"ledger", checkLedger},
		{"windows", checkWindows},
		{"early starts", checkEarly},
		{"handlers", checkHandlers},
		{"digests", checkDigests},
		{"storage", checkStorage},
		{"linearizability", checkLinearizable},
	}
}

// maxBreaches is how many breaches of one kind are told; the rest tell nothing
// new.
const maxBreaches = 20

// Check replays a history and returns each promise that it breaks.
func Check(h *History) []string {
	s, err := Replay(h)
	if err != nil {
		return []string{err.Error()}
	}
	var all []string
	for _, c := range Checkers() {
		broken := c.Check(s)
		for i, text := range broken {
			if i == maxBreaches {
				all = append(all, fmt.Sprintf("%s: and %d more", c.Name, len(broken)-i))
				break
			}
			all = append(all, c.Name+": "+text)
		}
	}
	return all
}

// Breaches are broken promises, each as a sentence.
type Breaches []string

func (b *Breaches) add(format string, args ...any) { *b = append(*b, fmt.Sprintf(format, args...)) }

// checkAcknowledged: what a call returned for is in the log, once, and has not
// been undone.
func checkAcknowledged(s *Story) (b Breaches) {
	enqueued := make(map[store.RunID]int)
	ended := make(map[store.RunID]store.RunState)
	made := make(map[store.RunID]*store.Run)
	for i := range s.Applied {
		for j := range s.Applied[i].Events {
			switch e := &s.Applied[i].Events[j]; e.Kind {
			case store.EventEnqueued:
				enqueued[e.Run.ID]++
				made[e.Run.ID] = e.Run
			case store.EventFinished:
				ended[e.Run.ID] = e.Run.State
			case store.EventRescheduled:
				delete(ended, e.Run.ID)
			default: // says nothing of it
			}
		}
	}
	revived := make(map[store.RunID]bool)
	for i := range s.Calls {
		if c := &s.Calls[i]; c.Op == OpRetry && c.Answer != Conflict && c.Answer != Missing && c.Answer != Refused {
			revived[c.Runs[0]] = true
		}
	}
	for i := range s.Calls {
		c := &s.Calls[i]
		switch {
		case c.Op == OpEnqueue && c.Answer == Done:
			for _, id := range c.Runs {
				if enqueued[id] == 0 {
					b.add("run %v is lost: %s was told %v that it is there", id, c.Node, c.End.Format(clockFormat))
				} else if want := c.Work.encode(); string(made[id].Input) != want {
					b.add("run %v has input %s, it was asked for with %s", id, made[id].Input, want)
				}
			}
		case c.Op == OpEnqueue && c.Answer == Refused:
			for _, id := range c.Runs {
				if enqueued[id] > 0 {
					b.add("run %v is there, though %s was told that it is not", id, c.Node)
				}
			}
		case c.Op == OpEnqueue && c.Answer == Unknown:
			there := 0
			for _, id := range c.Runs {
				there += min(enqueued[id], 1)
			}
			if there != 0 && there != len(c.Runs) {
				b.add("of %d runs that %s asked for together %d are there", len(c.Runs), c.Node, there)
			}
		case c.Op == OpCancel && c.Answer == Done && !revived[c.Runs[0]] && ended[c.Runs[0]] != store.Canceled:
			b.add("run %v is %v, its cancel was acknowledged at %v", c.Runs[0], ended[c.Runs[0]], c.End.Format(clockFormat))
		}
	}
	for id, n := range enqueued {
		if n > 1 {
			b.add("run %v was enqueued %d times", id, n)
		}
	}
	return b
}

// clockFormat shows an instant of the bubble.
const clockFormat = "15:04:05.000000"

// crashBudget is how many lost leases end a run that has many attempts.
const crashBudget = 3

// checkResults: a run ends as its kind says, or for a reason that is written on
// it; in the calm nothing is left behind.
func checkResults(s *Story) (b Breaches) {
	canceled := make(map[store.RunID]bool)
	for i := range s.Calls {
		if c := &s.Calls[i]; c.Op == OpCancel {
			canceled[c.Runs[0]] = true
		}
	}
	replaced := s.replaced()
	for id, r := range s.last {
		w, err := decodeWork(r.Input)
		switch {
		case err != nil:
			b.add("run %v has an input that cannot be read: %v", id, err)
		case !r.State.Final():
			b.add("run %v of kind %s has not ended: it is %v, due %v", id, w.Kind, r.State, time.Unix(0, r.Due).UTC())
		case r.State == store.Succeeded && w.Kind != Doomed,
			r.State == store.Failed && (w.Kind == Doomed || r.Crashes >= crashBudget),
			r.State == store.Canceled && (canceled[id] || replaced[id]):
		default:
			b.add("run %v of kind %s has %v after %d failures and %d crashes", id, w.Kind, r.State, r.Failures, r.Crashes)
		}
	}
	return b
}

// checkHandlers: a handler is started under the lease that the log says, an
// attempt is started once, and what has succeeded is what a handler returned.
func checkHandlers(s *Story) (b Breaches) {
	type attempt struct {
		run   store.RunID
		fence uint64
	}
	began := make(map[attempt]string)
	ended := make(map[attempt]bool)
	for i := range s.Facts {
		f := &s.Facts[i]
		at := attempt{f.Run, f.Fence}
		if f.What == Ended {
			ended[at] = ended[at] || f.Error == ""
			continue
		}
		if by, twice := began[at]; twice {
			b.add("run %v was started twice under fence %d, by %s and by %s", f.Run, f.Fence, by, f.Node)
		}
		began[at] = f.Node
		a, r := s.leaseOf(f.Fence)
		switch {
		case r == nil || r.ID != f.Run:
			b.add("run %v was started by %s under fence %d, which the log does not give it", f.Run, f.Node, f.Fence)
		case f.At.Before(a.At):
			b.add("run %v was started at %v, before its lease was written", f.Run, f.At.Format(clockFormat))
		}
	}
	for i := range s.Applied {
		for j := range s.Applied[i].Events {
			e := &s.Applied[i].Events[j]
			if e.Kind == store.EventFinished && e.Run.State == store.Succeeded && !ended[attempt{e.Run.ID, e.Fence}] {
				b.add("run %v has succeeded under fence %d, and no handler returned so", e.Run.ID, e.Fence)
			}
		}
	}
	return b
}

// checkEarly: nothing starts before its time by the clock of the leader that gave the
// lease, or of one that has led since: it has taken the lease over, and reckons with
// its own.
func checkEarly(s *Story) (b Breaches) {
	const rounding = time.Microsecond // of drifting clocks
	leads := s.leads()
	for i := range s.Facts {
		f := &s.Facts[i]
		a, r := s.leaseOf(f.Fence)
		if f.What != Began || r == nil || r.ID != f.Run {
			continue
		}
		now := int64(math.MinInt64)
		for _, l := range leads {
			switch {
			case l.term < a.Term || l.since.After(f.At):
			case r.Clock == store.Wall:
				now = max(now, f.At.Add(Ahead(s.Clocks[l.leader], a.At, f.At)).UnixNano())
			default:
				now = max(now, s.elapsedAt(l.term, f.At))
			}
		}
		if early := time.Duration(r.Due - now); early > rounding {
			b.add("run %v was started by %s %v before its time by the clock of %s", f.Run, f.Node, early, a.Leader)
		}
	}
	return b
}

// lead is since when the leader of a term wrote.
type lead struct {
	term   uint64
	leader string
	since  time.Time
}

// leads returns the terms in which entries were stamped, in order.
func (s *Story) leads() (all []lead) {
	for i := range s.Log {
		e := &s.Log[i]
		if n := len(all); n > 0 && all[n-1].term == e.Term {
			continue
		}
		if _, stamped := s.offsets[e.Term]; stamped {
			all = append(all, lead{e.Term, e.Leader, e.At})
		}
	}
	return all
}

// checkDigests: whoever was at an index had the same state there, the disks
// included: replicas are equal, the projection is the state at its index, and
// what was loaded is what a replay of the log gives.
func checkDigests(s *Story) (b Breaches) {
	for _, v := range s.Samples {
		want, known := s.Digests[v.Index]
		what := "state"
		if v.Stored {
			what = "stored state"
		}
		switch {
		case v.Index == 0:
		case !known:
			b.add("the %s of %s was at index %d, which the log does not have", what, v.Node, v.Index)
		case want != v.Digest:
			b.add("the %s of %s at index %d is not what the log makes", what, v.Node, v.Index)
		}
	}
	return b
}
