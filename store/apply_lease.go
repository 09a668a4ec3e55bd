package store

import (
	"math"
	"slices"
)

// maxAhead is how long before its due time a run may be leased (ns): the bound
// of the leader's release ahead, with room for the time its entry takes.
const maxAhead = int64(200e6)

// until returns the nanoseconds until r is due by the stamped clocks.
func (s *State) until(r *Run) int64 {
	if r.Clock == Wall {
		return r.Due - s.meta.Wall
	}
	return r.Due - s.meta.Elapsed
}

// in returns the elapsed time in d ns, now if d is negative; the end of the clock's
// range if it is beyond.
func (s *State) in(d int64) int64 {
	return s.meta.Elapsed + min(max(d, 0), math.MaxInt64-s.meta.Elapsed)
}

func (s *State) applyLease(l *Lease) Result {
	ses := s.sessions[l.Session]
	if ses == nil || ses.Ended {
		return Result{Code: CodeSessionGone}
	}
	var res Result
	for i, id := range l.Runs {
		code := s.grant(l.Session, id)
		if code == OK {
			continue
		}
		if res.Each == nil {
			res.Each = make([]Code, len(l.Runs))
		}
		res.Each[i] = code
	}
	return res
}

func (s *State) grant(session uint64, id RunID) Code {
	r := s.runs[id]
	switch {
	case r == nil:
		return CodeNotFound
	case r.State != Scheduled:
		return CodeConflict
	case s.until(r) > maxAhead:
		return CodeNotDue
	case r.More != nil && r.Attempt == 0 && r.More.ExpireAt != 0 && r.More.ExpireAt <= s.meta.Elapsed:
		return CodeConflict
	}
	q := s.queue(r.Spec.Queue)
	switch {
	case q.Paused:
		return CodePaused
	case q.Limit > 0 && q.leased >= int(q.Limit):
		return CodeFull
	}
	s.meta.Fence++
	n := *r
	n.State = Running
	n.Fence, n.Session = s.meta.Fence, session
	n.Attempt++
	s.replace(r, &n)
	s.emit(Event{Kind: EventLeased, Run: &n, Session: session, Fence: n.Fence})
	return OK
}

func (s *State) applyComplete(c *Complete) Result {
	var res Result
	for i := range c.Reports {
		code := s.report(c.Session, &c.Reports[i])
		if code == OK {
			continue
		}
		if res.Each == nil {
			res.Each = make([]Code, len(c.Reports))
		}
		res.Each[i] = code
	}
	return res
}

func (s *State) report(session uint64, rep *Report) Code {
	r := s.runs[rep.Run]
	if r == nil || r.State != Running || r.Fence != rep.Fence || r.Session != session {
		return CodeStale
	}
	n := *r
	n.Started = rep.Started
	switch rep.Outcome {
	case OutcomeSucceeded:
		n.State = Succeeded
		if len(rep.Result) > 0 || r.More != nil {
			n.More = r.more()
			n.More.Result = own(rep.Result)
			n.More.Checkpoint, n.More.Error, n.More.Panicked = nil, "", false
		}
		s.finish(r, &n, rep.Outcome)
	case OutcomeSnoozed:
		n.Snoozes++
		s.giveBack(r, &n, rep.Outcome, max(rep.Delay, 0))
	case OutcomeReleased:
		n.Attempt--
		n.Started = r.Started
		s.wait(r, &n, rep.Outcome)
	case OutcomeInterrupted:
		n.Interrupts++
		s.failed(r, &n, rep, false)
	case OutcomePermanent:
		n.Failures++
		s.failed(r, &n, rep, true)
	case OutcomeFailed, OutcomeRetryAfter:
		n.Failures++
		s.failed(r, &n, rep, n.Failures >= r.Spec.Retry.Attempts)
	default:
		return CodeInvalid
	}
	return OK
}

// failed records an attempt that did not succeed, and ends the run or gives it
// back.
func (s *State) failed(r, n *Run, rep *Report, final bool) {
	n.More = r.more()
	n.More.Error, n.More.Panicked = rep.Error, rep.Panicked
	kept := n.More.Attempts
	if len(kept) >= maxAttemptsKept {
		kept = kept[len(kept)-maxAttemptsKept+1:]
	}
	n.More.Attempts = append(slices.Clip(kept), Attempt{
		Number: r.Attempt, Fence: r.Fence, Session: r.Session, Started: rep.Started,
		Finished: s.meta.Wall, Outcome: rep.Outcome, Error: rep.Error, Panicked: rep.Panicked,
	})
	if final {
		n.State = Failed
		s.finish(r, n, rep.Outcome)
		return
	}
	delay := max(rep.Delay, 0)
	if rep.Outcome == OutcomeFailed {
		if delay = rep.Backoff; delay <= 0 {
			delay = r.Spec.Retry.Delay(n.Failures, 0)
		}
	}
	if rep.Outcome == OutcomeCrashed {
		delay = max(rep.Backoff, 0)
	}
	s.giveBack(r, n, rep.Outcome, delay)
}

// giveBack makes the run wait again, due after delay ns.
func (s *State) giveBack(r, n *Run, outcome Outcome, delay int64) {
	n.Clock = Elapsed
	n.Due = s.in(delay)
	s.wait(r, n, outcome)
}

func (s *State) wait(r, n *Run, outcome Outcome) {
	n.State = Scheduled
	s.replace(r, n)
	s.emit(Event{Kind: EventRescheduled, Run: n, Outcome: outcome, Session: r.Session, Fence: r.Fence})
}

func (s *State) applyEndLease(e *EndLease) Result {
	r := s.runs[e.Run]
	if r == nil || r.State != Running || r.Fence != e.Fence {
		return Result{Code: CodeStale, Run: e.Run}
	}
	n := *r
	rep := Report{Outcome: e.Outcome, Error: e.Reason, Backoff: e.Backoff}
	switch e.Outcome {
	case OutcomeCrashed:
		n.Crashes++
		s.failed(r, &n, &rep, n.Crashes >= r.Spec.CrashBudget())
	case OutcomeInterrupted:
		n.Interrupts++
		s.failed(r, &n, &rep, false)
	default:
		return Result{Code: CodeInvalid, Text: "lease ended with outcome " + e.Outcome.String()}
	}
	return Result{}
}

func (s *State) applyCheckpoint(c *Checkpoint) Result {
	r := s.runs[c.Run]
	if r == nil || r.State != Running || r.Fence != c.Fence {
		return Result{Code: CodeStale, Run: c.Run}
	}
	n := *r
	n.More = r.more()
	n.More.Checkpoint = own(c.Data)
	n.Crashes = 0 // it gets on: what becomes of its workers is not its doing
	s.replace(r, &n)
	s.emit(Event{Kind: EventCheckpointed, Run: &n})
	return Result{}
}
