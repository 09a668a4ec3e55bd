package store

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// gateVerdict is what the overlap policy says of a start.
type gateVerdict uint8

const (
	gateOpen     gateVerdict = iota // it starts
	gateSkips                       // it does not, and will not
	gateQueues                      // its turn comes later
	gateReplaces                    // it starts in place of the live runs
)

// gate is what each start of the schedule passes that does not wait for its turn
// already: a tick's, or one that is asked for by hand. by is the run in its way.
func (sc *Schedule) gate() (by RunID, verdict gateVerdict) {
	if !sc.Contended() {
		return RunID{}, gateOpen
	}
	if len(sc.Live) > 0 {
		by = sc.Live[0]
	}
	switch {
	case sc.Overlap == OverlapReplace:
		return by, gateReplaces
	case sc.Overlap == OverlapQueue && sc.queued() < int(sc.QueueMax):
		return by, gateQueues
	}
	return by, gateSkips
}

func (sc *Schedule) skipReason() string {
	if sc.Overlap == OverlapQueue {
		return fmt.Sprintf("an earlier run has not ended, and the queue of %d is full", sc.QueueMax)
	}
	return "an earlier run has not ended"
}

// maxWaiting bounds the spans of starts that wait for their turn.
const maxWaiting = 4096

// wait puts a start behind those that are before it.
func (sc *Schedule) wait(w Wait) {
	at, _ := slices.BinarySearchFunc(sc.Waiting, w.Kind+1, func(o Wait, k WaitKind) int { return cmp.Compare(o.Kind, k) })
	sc.Waiting = slices.Concat(sc.Waiting[:at], []Wait{w}, sc.Waiting[at:])
}

// spawn makes a run of n, which is not yet published, due after a delay. It returns
// the version that it is of.
func (s *State) spawn(n *Schedule, start RunNow, delay int64) (version uint64) {
	r := &Run{
		ID: start.Run, Spec: n.Spec, Input: n.Input, Clock: Elapsed, Due: s.in(delay), Created: s.meta.Wall,
		More: &RunMore{Meta: n.Meta, Schedule: n.ID, Version: n.Version, Nominal: start.Nominal},
	}
	if c := n.Canary; start.Nominal != 0 && n.tries(start.Nominal) {
		r.Spec, r.Input, r.More.Meta, r.More.Version = c.Spec, c.Input, c.Meta, c.Version
	}
	// A tick's run is due on the elapsed clock too: it is decided, and a wall clock that
	// is set back now must not have it wait for its time once more. One that is late has
	// not waited for a worker, and so is due now.
	if ahead := start.Nominal - s.now(n.Trigger.TickClock()); start.Nominal != 0 && ahead > 0 && ahead <= maxAhead {
		r.Due += ahead
	}
	if after := r.Spec.ExpireAfter; after > 0 {
		ahead := max(r.Due-s.meta.Elapsed, 0)
		r.More.ExpireAt = s.in(min(after, math.MaxInt64-ahead) + ahead)
	}
	s.replace(nil, r)
	n.Live = append(slices.Clip(n.Live), r.ID)
	s.emit(Event{Kind: EventEnqueued, Run: r})
	return r.More.Version
}

// replaceLive cancels the live runs of n, which is not yet published.
func (s *State) replaceLive(n *Schedule) {
	for _, id := range n.Live {
		r := s.runs[id]
		if r == nil {
			continue
		}
		end := *r
		end.State = Canceled
		end.More = r.more()
		end.More.Error = "canceled: a later run of its schedule took its place"
		s.finish(r, &end, OutcomeCanceled)
	}
	n.Live = nil
}

func (s *State) applyRunNow(c *RunNow) Result {
	old := s.Schedule(c.Schedule)
	switch {
	case old == nil:
		return Result{Code: CodeNotFound, Text: c.Schedule}
	case !c.Run.Valid():
		return Result{Code: CodeInvalid, Run: c.Run, Text: "run ID is not a UUIDv7"}
	case s.runs[c.Run] != nil:
		return Result{Code: CodeConflict, Run: c.Run}
	}
	n := *old
	switch by, verdict := n.gate(); verdict {
	case gateSkips:
		return Result{Code: CodeOverlap, Run: by, Text: n.skipReason()}
	case gateQueues:
		n.wait(Wait{Kind: WaitManual, Run: c.Run})
	case gateReplaces:
		s.replaceLive(&n)
		s.spawn(&n, RunNow{Run: c.Run}, 0)
	case gateOpen:
		s.spawn(&n, RunNow{Run: c.Run}, 0)
	}
	s.set(&n)
	s.emit(Event{Kind: EventScheduleSet, Schedule: &n})
	return Result{Run: c.Run}
}

func (s *State) applyStart(c *StartCommand) Result {
	old := s.Schedule(c.Schedule)
	switch {
	case old == nil:
		return Result{Code: CodeNotFound, Text: c.Schedule}
	case old.Paused:
		return Result{Code: CodePaused, Text: c.Schedule}
	case len(old.Waiting) == 0 || old.Waiting[0] != c.Wait:
		return Result{Code: CodeConflict, Text: c.Schedule}
	case !c.ordered():
		return Result{Code: CodeInvalid, Text: c.Schedule}
	}
	n := *old
	left, started := c.Left, 0
	for i := range c.Ticks {
		if n.Room() == 0 || counts(c.Wait.Kind) && n.spent() {
			left = c.Ticks[i].Nominal
			break
		}
		s.startWaiting(&n, c.Wait.Kind, c.Ticks[i])
		started++
	}
	switch {
	case started == 0:
		return Result{Code: CodeConflict, Text: c.Schedule}
	case left != 0:
		n.Waiting = slices.Clone(n.Waiting)
		n.Waiting[0].From = left
		n.Waiting[0].At = s.in(c.Wait.Pace)
	default:
		n.Waiting = append([]Wait(nil), n.Waiting[1:]...) // nil if it is empty
		if len(n.Waiting) > 0 && n.Waiting[0].Kind == c.Wait.Kind {
			n.Waiting[0].At = max(n.Waiting[0].At, s.in(c.Wait.Pace)) // spans keep the pace together
		}
	}
	if n.spent() {
		s.afterLast(&n)
	}
	s.set(&n)
	s.emit(Event{Kind: EventScheduleSet, Schedule: &n})
	return Result{}
}

// counts reports whether runs of what waited count as the schedule's own.
func counts(kind WaitKind) bool { return kind == WaitQueued || kind == WaitMissed }

// ordered reports whether the command's ticks follow each other within its wait.
func (c *StartCommand) ordered() bool {
	if c.Wait.Kind == WaitManual {
		return len(c.Ticks) == 1 && c.Ticks[0] == (RunNow{Run: c.Wait.Run}) && c.Left == 0
	}
	for i := range c.Ticks {
		t := &c.Ticks[i]
		if !t.Run.Valid() || t.Nominal < c.Wait.From || i > 0 && t.Nominal <= c.Ticks[i-1].Nominal {
			return false
		}
	}
	n := len(c.Ticks)
	last := c.Left
	if last == 0 && n > 0 {
		last = c.Ticks[n-1].Nominal
	}
	return n > 0 && last >= c.Ticks[n-1].Nominal && last <= c.Wait.To
}

var waitReasons = [...]string{
	WaitQueued: "it waited for an earlier run", WaitMissed: "it was made up", WaitBackfill: "it was backfilled",
}

// startWaiting starts what had to wait. A tick gets its outcome.
func (s *State) startWaiting(n *Schedule, kind WaitKind, start RunNow) {
	t := Tick{
		From: start.Nominal, To: start.Nominal, Outcome: TickRan, Run: start.Run, Backfill: kind == WaitBackfill,
		Reason: waitReasons[kind], Late: max(s.now(n.Trigger.TickClock())-start.Nominal, 0),
	}
	if s.runs[start.Run] != nil {
		t.Outcome, t.Run, t.Reason, t.Late = TickBlocked, RunID{}, idInUse, 0
	} else {
		t.Version = s.spawn(n, start, 0)
	}
	if kind != WaitManual {
		s.write(n, t)
	}
	if t.Outcome == TickRan && counts(kind) {
		n.Fired++
	}
}

func (s *State) applyBackfill(c *Backfill) Result {
	old := s.Schedule(c.Schedule)
	switch {
	case old == nil:
		return Result{Code: CodeNotFound, Text: c.Schedule}
	case old.Version != c.Version || old.Backfills != c.Before:
		return Result{Code: CodeConflict, Text: c.Schedule}
	case len(old.Waiting)+len(c.Spans) > maxWaiting:
		return Result{Code: CodeFull, Text: fmt.Sprintf("%d spans of ticks wait for their turn already", len(old.Waiting))}
	}
	n := *old
	n.Backfills++
	last := int64(math.MinInt64)
	for _, span := range c.Spans {
		if span.From <= last || span.To < span.From || n.Next != 0 && span.To >= n.Next || c.Pace < 0 {
			return Result{Code: CodeInvalid, Text: c.Schedule}
		}
		last = span.To
		n.cover(span.From, span.To)
		n.wait(Wait{Kind: WaitBackfill, From: span.From, To: span.To, At: s.meta.Elapsed, Pace: c.Pace})
	}
	s.set(&n)
	s.emit(Event{Kind: EventScheduleSet, Schedule: &n})
	return Result{}
}
