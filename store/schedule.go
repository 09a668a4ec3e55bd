package store

// TriggerKind says which rule a [Trigger] holds.
type TriggerKind uint8

// The kinds of triggers.
const (
	_             TriggerKind = iota
	TriggerCron               // Expr in Zone
	TriggerEvery              // each Every on the elapsed clock
	TriggerTimes              // the listed instants
	TriggerCustom             // a Go trigger registered as Name, with Params
	TriggerDelay              // Every on the elapsed clock after the end of the run before
)

// A Trigger is the data of a rule that says when. It is stored and replicated,
// so it holds no code; the package engine/cron and the root give it meaning.
type Trigger struct {
	Kind    TriggerKind `msg:"k"`
	Expr    string      `msg:"e,omitempty"`
	Zone    string      `msg:"z,omitempty"` // IANA name; "" is UTC
	Dialect uint32      `msg:"d,omitempty"` // which fields and signs Expr may use
	Version uint32      `msg:"v,omitempty"` // of the dialect's meaning
	DST     uint8       `msg:"s,omitempty"`
	HashKey string      `msg:"h,omitempty"` // identity for H and jitter; "" is the schedule's ID

	Every  int64   `msg:"i,omitempty"` // ns
	Times  []int64 `msg:"t,omitempty"` // ns wall, sorted
	Jitter int64   `msg:"j,omitempty"` // ns; each tick is late by a fixed share of it
	From   int64   `msg:"f,omitempty"` // ns wall; no tick before it
	Until  int64   `msg:"u,omitempty"` // ns wall; no tick at or after it

	Name   string `msg:"n,omitempty"`
	Params []byte `msg:"p,omitempty"`

	Except []Exclusion `msg:"x,omitempty"` // no tick within any of them
}

// TickClock returns the clock on which the trigger's nominal times are counted.
func (t *Trigger) TickClock() Clock {
	if t.Kind == TriggerEvery || t.Kind == TriggerDelay {
		return Elapsed
	}
	return Wall
}

// Uses reports whether the trigger excludes what the named calendar holds.
func (t *Trigger) Uses(calendar string) bool {
	for i := range t.Except {
		if t.Except[i].Calendar == calendar {
			return true
		}
	}
	return false
}

// An Exclusion is a set of times in which a trigger has no ticks. One of its
// fields is set, or Expr and Length.
type Exclusion struct {
	Days     []int32 `msg:"d,omitempty"` // whole days in the trigger's zone, counted from 1970-01-01, sorted
	Spans    []Span  `msg:"s,omitempty"` // ns wall, To not included, sorted
	Expr     string  `msg:"e,omitempty"` // cron expression in the trigger's zone: a window begins at each of its firings
	Length   int64   `msg:"l,omitempty"` // of such a window, ns
	ICS      []byte  `msg:"i,omitempty"` // the events of an iCalendar file
	Calendar string  `msg:"c,omitempty"` // those of the named calendar
}

// A Calendar is a named set of times, kept in the cluster for triggers to exclude.
type Calendar struct {
	Name    string      `msg:"n"`
	Version uint64      `msg:"v"`           // grows with every change
	Except  []Exclusion `msg:"x,omitempty"` // none of them names a calendar
	Changed int64       `msg:"h"`           // ns wall
}

// Overlap says what a tick does while an earlier run of its schedule is live.
type Overlap uint8

// The overlap policies.
const (
	OverlapSkip    Overlap = iota // the tick is skipped
	OverlapAllow                  // it runs beside the other
	OverlapQueue                  // it waits, unless QueueMax starts do already
	OverlapReplace                // the other is canceled
)

// CatchUp says what becomes of ticks that were missed.
type CatchUp uint8

// The catch-up policies.
const (
	CatchUpLatest CatchUp = iota // the latest one runs late, the others are merged into it
	CatchUpNone                  // all are missed
	CatchUpAll                   // the last MaxCount run, one after another
)

// String returns the policy's word.
func (c CatchUp) String() string {
	if c <= CatchUpAll {
		return [...]string{"latest", "none", "all"}[c]
	}
	return "unknown"
}

// A Schedule is a rule that makes runs over time, with its place in that time.
// Records are immutable once they are in a [State].
type Schedule struct {
	ID      string  `msg:"i"`
	Number  uint64  `msg:"#"` // dense, never used twice
	Version uint64  `msg:"v"` // grows with every change of the definition
	Trigger Trigger `msg:"t"`

	Spec  *Spec  `msg:"p"`
	Input []byte `msg:"n,omitempty"`
	Meta  []Pair `msg:"m,omitempty"`

	Overlap   Overlap `msg:"o,omitempty"`
	CatchUp   CatchUp `msg:"c,omitempty"`
	MaxAge    int64   `msg:"a,omitempty"`  // ns; ticks older than this are missed, whatever CatchUp says; 0 = no bound
	QueueMax  uint32  `msg:"ql,omitempty"` // OverlapQueue
	MaxCount  uint32  `msg:"mc,omitempty"` // CatchUpAll: 0 = no bound
	Pace      int64   `msg:"pc,omitempty"` // ns between starts that are made up
	MaxRuns   uint64  `msg:"mr,omitempty"` // runs its ticks make in all; 0 = no bound
	Paused    bool    `msg:"z,omitempty"`
	PausedAt  int64   `msg:"w,omitempty"`  // ns wall
	App       string  `msg:"y,omitempty"`  // the application that declares it
	Gen       uint64  `msg:"g,omitempty"`  // generation of that application
	Declared  uint64  `msg:"dc,omitempty"` // the last PutSchedule.Declared; 0: it was never declared
	CreatedAt int64   `msg:"b"`            // ns wall
	ChangedAt int64   `msg:"h"`            // ns wall
	Deleted   int64   `msg:"e,omitempty"`  // ns elapsed; not 0: only its place in time and its ledger are left

	// Next is the armed tick's nominal time on the trigger's clock, 0 if there
	// is none. It is the only tick that can be decided.
	Next int64 `msg:"x,omitempty"`

	// Decided are the spans of the trigger's clock in which every tick has its
	// outcome; the last one grows. There is more than one only after the clock
	// was set back or the trigger was changed.
	Decided []Span `msg:"s,omitempty"`

	// Loose are the ledger's newest rows of ticks that were let go, merged or
	// missed, in order. They are not in Decided: should the clock, once it was
	// wrong, be set back before such a tick, it comes about and gets its own row.
	Loose []Tick `msg:"q,omitempty"`

	// Ledger is the number under which ticks are recorded; 0: Number. Nominal times of
	// two clocks may be equal, so each clock that the trigger was on has its own, and
	// what was decided on the other one is kept for when the trigger comes back to it.
	Ledger uint64   `msg:"lg,omitempty"`
	Other  *Decided `msg:"oc,omitempty"`

	// Pause is the last pause on the trigger's clock; its To is 0 while it lasts.
	// What becomes of the ticks in it is for CatchUp to say.
	Pause Span `msg:"ps,omitzero"`

	// Live are the runs the schedule made that have not ended, oldest first.
	Live []RunID `msg:"l,omitempty"`

	// Waiting are the starts whose turn has not come, in the order of their turn.
	// Their ticks are in Decided.
	Waiting []Wait `msg:"wt,omitempty"`

	// Fired counts the runs that ticks have made.
	Fired uint64 `msg:"fd,omitempty"`

	// Since is the version that brought the trigger as it is.
	Since uint64 `msg:"si,omitempty"`

	// Last is the highest version number given: that of Canary, if there is one.
	Last   uint64  `msg:"lv,omitempty"`
	Canary *Canary `msg:"cn,omitempty"`

	// Backfills counts the backfills that were asked for.
	Backfills uint64 `msg:"bf,omitempty"`
}

// Decided is what was decided on a clock that a schedule's trigger is not on now.
type Decided struct {
	Ledger uint64 `msg:"l"`
	Spans  []Span `msg:"s,omitempty"`
	Loose  []Tick `msg:"q,omitempty"`
}

// Ledgers returns the numbers under which the schedule's ticks are recorded: those on the
// clock of its trigger and, 0 if there are none, those on the other one.
func (sc *Schedule) Ledgers() (own, other uint64) {
	if own = sc.Ledger; own == 0 {
		own = sc.Number
	}
	if sc.Other != nil {
		other = sc.Other.Ledger
	}
	return own, other
}

// A Canary is a version on trial: what it runs is run for a share of the ticks, and
// the schedule's own for the others, until it has proved itself or has failed.
type Canary struct {
	Version uint64 `msg:"v"`
	Spec    *Spec  `msg:"p"`
	Input   []byte `msg:"n,omitempty"`
	Meta    []Pair `msg:"m,omitempty"`

	Share   uint32 `msg:"s"`           // of a thousand ticks
	Allowed uint32 `msg:"a,omitempty"` // runs that may fail; one more reverts it
	MaxTook int64  `msg:"t,omitempty"` // ns; a run that takes longer has failed; 0 = no bound
	Need    uint32 `msg:"d,omitempty"` // runs after which it takes the schedule's place; 0 = never by itself
	Author  string `msg:"u,omitempty"`
	Note    string `msg:"o,omitempty"`
	At      int64  `msg:"b,omitempty"` // ns wall since which it is on trial

	Ended    uint32 `msg:"e,omitempty"` // runs of it that have ended
	Failures uint32 `msg:"f,omitempty"`
}

// A ScheduleVersion is a row of a schedule's past: what a version was, who made it,
// and when.
type ScheduleVersion struct {
	Number   uint64    `msg:"#"` // of the schedule
	Version  uint64    `msg:"v"`
	At       int64     `msg:"a"` // ns wall
	Author   string    `msg:"u,omitempty"`
	Note     string    `msg:"n,omitempty"`
	Trial    string    `msg:"t,omitempty"` // how its trial ended
	Schedule *Schedule `msg:"s"`           // its definition alone
}

// MaxVersions is how many versions of a schedule are kept.
const MaxVersions = 50

// WaitKind says why a start waits, and so when its turn comes: a lower one is
// before a higher one.
type WaitKind uint8

// The kinds of waiting starts. They are stored and never renumbered.
const (
	WaitManual   WaitKind = iota // asked for by hand, behind a live run
	WaitQueued                   // a tick behind a live run
	WaitMissed                   // ticks that are made up
	WaitBackfill                 // ticks of the past that were asked for
)

// A Wait is a start that waits for its turn, or those of a span of ticks, one
// after another.
type Wait struct {
	Kind WaitKind `msg:"k,omitempty"`
	From int64    `msg:"f,omitempty"` // nominal time of the first tick, ns on the trigger's clock; WaitManual: 0
	To   int64    `msg:"t,omitempty"` // of the last
	At   int64    `msg:"a,omitempty"` // ns elapsed before which the first does not start
	Pace int64    `msg:"p,omitempty"` // ns between starts
	Run  RunID    `msg:"i,omitzero"`  // WaitManual: the run to be
}

// MaxMadeUp is how many live runs a schedule may have for a tick that is made up,
// or backfilled, to start beside them under OverlapAllow.
const MaxMadeUp = 64

// Room returns how many waiting starts may start now as far as live runs decide.
func (sc *Schedule) Room() int {
	switch {
	case sc.Overlap == OverlapAllow:
		return max(MaxMadeUp-len(sc.Live), 0)
	case len(sc.Live) > 0:
		return 0
	}
	return 1
}

// Contended reports whether a tick that is due now would not simply run.
func (sc *Schedule) Contended() bool {
	return sc.Overlap != OverlapAllow && (len(sc.Live) > 0 || sc.queued() > 0)
}

// queued returns how many starts wait behind a live run.
func (sc *Schedule) queued() (n int) {
	for n < len(sc.Waiting) && sc.Waiting[n].Kind <= WaitQueued {
		n++
	}
	return n
}

// Span is a closed range of nominal times, ns.
type Span struct {
	From int64 `msg:"f"`
	To   int64 `msg:"t"`
}

// IsZero reports whether s is the zero Span.
func (s Span) IsZero() bool { return s == Span{} }

// TickOutcome is what became of a tick.
type TickOutcome uint8

// The tick outcomes. The zero value is no outcome.
const (
	_ TickOutcome = iota
	TickRan
	TickSkipped
	TickMerged
	TickMissed
	TickPaused
	TickBlocked
)

var tickOutcomeNames = [...]string{"", "ran", "skipped", "merged", "missed", "paused", "blocked"}

// String returns the outcome's word.
func (o TickOutcome) String() string {
	if int(o) < len(tickOutcomeNames) {
		return tickOutcomeNames[o]
	}
	return "unknown"
}

// A Tick is a row of the ledger: the one outcome of a schedule's tick, or of a
// span of ticks that fared alike.
type Tick struct {
	Schedule uint64      `msg:"s"` // the schedule's Number
	Version  uint64      `msg:"v"`
	From     int64       `msg:"f"` // nominal time of the first tick, ns on the trigger's clock
	To       int64       `msg:"t"` // nominal time of the last; equal to From for a single tick
	Outcome  TickOutcome `msg:"o"`
	Reason   string      `msg:"r,omitempty"`
	Run      RunID       `msg:"i,omitzero"`
	Decided  int64       `msg:"d"`           // ns wall at which the outcome was recorded
	Backfill bool        `msg:"b,omitempty"` // a run that was asked for later; the outcome that the tick had stays beside it
	Late     int64       `msg:"l,omitempty"`
}

// Queue is the replicated configuration of a queue.
type Queue struct {
	Name   string `msg:"n"`
	Limit  uint32 `msg:"l,omitempty"` // runs leased at a time; 0 = no limit
	Paused bool   `msg:"p,omitempty"`
}

// Session is a node or worker that proposes commands or holds leases.
type Session struct {
	ID      uint64 `msg:"i"`
	Node    string `msg:"n"`
	Opened  int64  `msg:"o"` // ns elapsed
	Seen    int64  `msg:"s"` // ns elapsed of its last command
	Acked   uint64 `msg:"a"` // results of lower sequence numbers are gone
	Ended   bool   `msg:"e,omitempty"`
	Results []Kept `msg:"r,omitempty"`
}

// Kept is the remembered result of a session's command, for its repetition.
type Kept struct {
	Seq    uint64 `msg:"q"`
	Result Result `msg:"r"`
}

// Segment is a part of the history on disk: final runs by the hour in their ID,
// or ticks by their day. Retention drops whole segments.
type Segment struct {
	Kind  SegmentKind `msg:"k"`
	Time  uint32      `msg:"t"` // hours (runs) or days (ticks) since the Unix epoch
	Part  uint32      `msg:"p"`
	Rows  int64       `msg:"n"`
	Bytes int64       `msg:"b"`
	Last  int64       `msg:"l"` // ns elapsed at which its last row was added
}

// SegmentKind says what a [Segment] holds.
type SegmentKind uint8

// The kinds of segments.
const (
	RunSegment SegmentKind = iota
	TickSegment
)

// SegmentKey identifies a segment.
type SegmentKey struct {
	Kind SegmentKind `msg:"k"`
	Time uint32      `msg:"t"`
	Part uint32      `msg:"p"`
}

// IsZero reports whether k is the zero key.
func (k SegmentKey) IsZero() bool { return k == SegmentKey{} }

// Key returns the segment's key.
func (s *Segment) Key() SegmentKey { return SegmentKey{s.Kind, s.Time, s.Part} }

// SegmentRows is the number of rows after which a new part of a segment begins,
// so that retention can bound a busy hour too.
const SegmentRows = 1 << 20
