package store

// RunState is where a run is in its life.
//
//	             ┌──────────── retry, snooze, lost lease ───────────┐
//	             ▼                                                  │
//	enqueue ─▶ Scheduled ── due ──▶ Ready ── lease ──▶ Assigned ── due ──▶ Running
//	             │                    │                    │                  │
//	             └── cancel, expire ──┴────── cancel ──────┴── report, cancel ┘
//	                                                                          ▼
//	                                     Succeeded │ Failed │ Canceled │ Expired
//
// Ready is a Scheduled run whose due time has come, and Assigned is a Running
// one whose due time has not: each pair is one stored state told apart by the
// clock, so that becoming due costs no commit. [Run.Phase] tells them apart.
type RunState uint8

// The run states.
const (
	Scheduled RunState = iota
	Ready
	Assigned
	Running
	Succeeded
	Failed
	Canceled
	Expired
)

var runStateNames = [...]string{"scheduled", "ready", "assigned", "running", "succeeded", "failed", "canceled", "expired"}

// String returns the state's word.
func (s RunState) String() string {
	if int(s) < len(runStateNames) {
		return runStateNames[s]
	}
	return "unknown"
}

// Final reports whether a run in this state has ended for good.
func (s RunState) Final() bool { return s >= Succeeded }

// Clock names the clock that a due time is counted on.
type Clock uint8

// The clocks.
const (
	Elapsed Clock = iota // only grows: delays, backoff, intervals
	Wall                 // the time of day: cron, absolute times
)

// A Run is one execution of a task: its input, due time, state and result.
// Records are immutable once they are in a [State].
type Run struct {
	ID    RunID    `msg:"i"`
	Spec  *Spec    `msg:"p"`
	Input []byte   `msg:"n,omitempty"`
	State RunState `msg:"s,omitempty"` // Scheduled, Running or a final state
	Clock Clock    `msg:"k,omitempty"` // the clock of Due

	Due      int64 `msg:"d"`           // ns on Clock
	Created  int64 `msg:"c"`           // ns wall
	Started  int64 `msg:"b,omitempty"` // ns wall, of the last attempt that reported
	Finished int64 `msg:"f,omitempty"` // ns wall, once final

	Fence   uint64 `msg:"g,omitempty"` // of the current or last lease
	Session uint64 `msg:"w,omitempty"` // holder of the current or last lease
	Attempt uint32 `msg:"a,omitempty"` // leases granted so far, less those handed back unstarted

	Failures   uint32 `msg:"e,omitempty"` // handler errors
	Crashes    uint32 `msg:"x,omitempty"` // lost leases
	Interrupts uint32 `msg:"y,omitempty"` // deploys and preemptions
	Snoozes    uint32 `msg:"z,omitempty"`

	More *RunMore `msg:"m,omitempty"`

	window uint32 // flush window in which the run entered the live set
	listed uint32 // flush window in whose list of changed runs it is, at slot
	slot   uint32
}

// RunMore holds what most runs do not have. It is immutable like its Run.
type RunMore struct {
	Unique      string `msg:"u,omitempty"` // its unique key, within its task
	UniqueUntil int64  `msg:"h,omitempty"` // ns elapsed until which the key is held at least
	Meta        []Pair `msg:"m,omitempty"`

	ExpireAt int64 `msg:"x,omitempty"` // ns elapsed by which it must have started

	Schedule string `msg:"s,omitempty"` // the schedule that made it
	Version  uint64 `msg:"v,omitempty"` // of the schedule
	Nominal  int64  `msg:"t,omitempty"` // the tick's nominal time, ns

	Trace string `msg:"w,omitempty"` // W3C traceparent of the enqueuing span

	Checkpoint []byte `msg:"c,omitempty"`
	Result     []byte `msg:"r,omitempty"`
	Error      string `msg:"e,omitempty"` // of the last failed attempt, or why it ended
	Panicked   bool   `msg:"p,omitempty"` // Error is a panic's text and stack
	Revived    uint32 `msg:"n,omitempty"` // times a final run was taken up again
	Home       uint32 `msg:"o,omitempty"` // 1 + the part of the segment that has its older final row

	Attempts []Attempt `msg:"a,omitempty"` // the last attempts that did not succeed, oldest first
}

// maxAttemptsKept bounds the attempts recorded on a run's row.
const maxAttemptsKept = 10

// An Attempt is one try of a run by one worker under one lease.
type Attempt struct {
	Number   uint32  `msg:"n"`
	Fence    uint64  `msg:"g"`
	Session  uint64  `msg:"w"`
	Started  int64   `msg:"b,omitempty"` // ns wall; 0 if it never reported a start
	Finished int64   `msg:"f"`           // ns wall
	Outcome  Outcome `msg:"o"`
	Error    string  `msg:"e,omitempty"`
	Panicked bool    `msg:"p,omitempty"`
}

// Outcome says how an attempt ended.
type Outcome uint8

// The outcomes. The zero value is no outcome.
const (
	_                  Outcome = iota
	OutcomeSucceeded           // the handler returned nil
	OutcomeFailed              // the handler returned an error or panicked; spends an attempt
	OutcomePermanent           // the handler asked for no more retries
	OutcomeRetryAfter          // a failure with a delay of the handler's choosing
	OutcomeSnoozed             // the handler asked to be run again later; spends nothing
	OutcomeReleased            // handed back before it started; spends nothing
	OutcomeInterrupted         // stopped by a shutdown or a preemption; spends nothing
	OutcomeCrashed             // its worker was lost; spends the crash budget
	OutcomeCanceled            // the handler ended after its run was canceled
)

var outcomeNames = [...]string{"", "succeeded", "failed", "permanent", "retry_after", "snoozed", "released", "interrupted", "crashed", "canceled"}

// String returns the outcome's word.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "unknown"
}

// more returns a copy of the run's rare part that may be changed before the run
// is published.
func (r *Run) more() *RunMore {
	if r.More == nil {
		return new(RunMore)
	}
	m := *r.More
	return &m
}

// weight approximates the bytes the run's row takes on disk. It is part of the
// replicated accounting, so it depends on nothing but the row.
func (r *Run) weight() int64 {
	n := 128 + len(r.Input)
	if m := r.More; m != nil {
		n += len(m.Result) + len(m.Error) + len(m.Checkpoint) + len(m.Unique) + len(m.Schedule)
		for i := range m.Attempts {
			n += 48 + len(m.Attempts[i].Error)
		}
		for i := range m.Meta {
			n += len(m.Meta[i].Key) + len(m.Meta[i].Value)
		}
	}
	return int64(n)
}

// Phase returns the run's state at the given clocks (ns): a Scheduled run whose
// due time has come is Ready, a Running one whose due time has not is Assigned.
func (r *Run) Phase(wall, elapsed int64) RunState {
	now := elapsed
	if r.Clock == Wall {
		now = wall
	}
	switch {
	case r.State == Scheduled && r.Due <= now:
		return Ready
	case r.State == Running && r.Due > now:
		return Assigned
	}
	return r.State
}
