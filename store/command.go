package store

import (
	"errors"
	"fmt"

	"github.com/tinylib/msgp/msgp"
)

// ErrFormat is wrapped by the errors of [DecodeBatch] for an entry that this
// build cannot read: written by a newer build, or damaged.
var ErrFormat = errors.New("unreadable log entry")

// A Batch is one log entry: commands decided together, and the time they were
// stamped with.
type Batch struct {
	Level    uint16    `msg:"l"`
	Wall     int64     `msg:"w"` // ns, the proposer's time of day
	Elapsed  int64     `msg:"e"` // ns, the proposer's elapsed clock
	Commands []Command `msg:"c"`
}

// Kind says which command a [Command] is. Kinds are never renumbered.
type Kind uint8

// The kinds of commands.
const (
	_ Kind = iota
	KindEnqueue
	KindLease
	KindComplete
	KindEndLease
	KindCheckpoint
	KindCancel
	KindRetryNow
	KindExpire
	KindPutSchedule
	KindPauseSchedule
	KindDeleteSchedule
	KindTick
	KindRearm
	KindPutQueue
	KindOpenSession
	KindEndSession
	KindPrune
	KindSetCluster
	KindStart
	KindRunNow
	KindBackfill
	KindPutCalendar
	KindCanary
	kindEnd
)

// A Command is an intent, already admitted by the leader. Exactly one body,
// the one of its Kind, is set.
//
// A command of a client carries its session and a sequence number; the state
// remembers the result until a later command of the session acknowledges it, so
// a repetition gets the first one's result and changes nothing. Seq 0 means that
// repeating the command is harmless by its nature.
type Command struct {
	Kind    Kind   `msg:"k"`
	Session uint64 `msg:"s,omitempty"`
	Seq     uint64 `msg:"q,omitempty"`
	Ack     uint64 `msg:"a,omitempty"` // results below this were received

	Enqueue    *Enqueue        `msg:"e,omitempty"`
	Lease      *Lease          `msg:"l,omitempty"`
	Complete   *Complete       `msg:"c,omitempty"`
	EndLease   *EndLease       `msg:"d,omitempty"`
	Checkpoint *Checkpoint     `msg:"h,omitempty"`
	Run        *RunCommand     `msg:"r,omitempty"` // KindCancel, KindRetryNow
	Expire     *Expire         `msg:"x,omitempty"`
	Schedule   *PutSchedule    `msg:"p,omitempty"`
	Pause      *PauseSchedule  `msg:"u,omitempty"`
	Delete     *DeleteSchedule `msg:"v,omitempty"`
	Tick       *TickCommand    `msg:"t,omitempty"`
	Rearm      *Rearm          `msg:"m,omitempty"`
	Queue      *Queue          `msg:"w,omitempty"`
	Open       *OpenSession    `msg:"o,omitempty"`
	End        *EndSession     `msg:"n,omitempty"`
	Prune      *Prune          `msg:"g,omitempty"`
	Cluster    *SetCluster     `msg:"b,omitempty"`
	QueuePart  QueuePart       `msg:"z,omitempty"` // KindPutQueue: what of Queue counts
	Start      *StartCommand   `msg:"st,omitempty"`
	RunNow     *RunNow         `msg:"y,omitempty"`
	Backfill   *Backfill       `msg:"f,omitempty"`
	Calendar   *PutCalendar    `msg:"cl,omitempty"`
	Canary     *EndCanary      `msg:"cn,omitempty"`
}

// QueuePart says which fields of a queue a command sets. What one node configures
// and what another pauses must not undo each other.
type QueuePart uint8

// The parts of a queue.
const (
	QueueAll    QueuePart = iota
	QueueConfig           // all but Paused
	QueuePause            // Paused alone
)

// Enqueue adds runs, all or none. Specs are encoded ([Spec.Encode]) and named by
// index, so that a thousand like runs carry one.
type Enqueue struct {
	Specs [][]byte `msg:"s,zerocopy"`
	Runs  []NewRun `msg:"r"`
}

// NewRun is a run to be. Its ID is minted by the client, so that a call of
// unknown outcome can be asked about.
type NewRun struct {
	ID     RunID  `msg:"i"`
	Spec   uint32 `msg:"p,omitempty"` // index into Enqueue.Specs
	Clock  Clock  `msg:"k,omitempty"`
	Due    int64  `msg:"d,omitempty"` // ns wall on the Wall clock; a delay in ns on the Elapsed clock
	Input  []byte `msg:"n,omitempty,zerocopy"`
	Unique string `msg:"u,omitempty"`
	Meta   []Pair `msg:"m,omitempty"`
	Trace  string `msg:"w,omitempty"`
}

// Lease grants runs to a session. Each run that may still be granted gets the
// next fence; the others are left alone and decided again.
type Lease struct {
	Session uint64  `msg:"s"`
	Runs    []RunID `msg:"r"`
}

// Complete carries a worker's reports on the attempts it holds.
type Complete struct {
	Session uint64   `msg:"s"`
	Reports []Report `msg:"r"`
}

// A Report says how an attempt ended. It counts only while Fence is the run's
// current one.
type Report struct {
	Run      RunID   `msg:"i"`
	Fence    uint64  `msg:"g"`
	Outcome  Outcome `msg:"o"`
	Started  int64   `msg:"b,omitempty"` // ns wall
	Finished int64   `msg:"f,omitempty"` // ns wall
	Result   []byte  `msg:"r,omitempty,zerocopy"`
	Error    string  `msg:"e,omitempty"`
	Panicked bool    `msg:"p,omitempty"`
	Delay    int64   `msg:"d,omitempty"` // ns; OutcomeRetryAfter and OutcomeSnoozed: asked for by the handler
	Backoff  int64   `msg:"j,omitempty"` // ns; OutcomeFailed: stamped by the leader with [Retry.Delay]
}

// EndLease takes the lease of a run from a worker that is lost (OutcomeCrashed)
// or stopping (OutcomeInterrupted). It is refused if the fence has moved.
type EndLease struct {
	Run     RunID   `msg:"i"`
	Fence   uint64  `msg:"g"`
	Outcome Outcome `msg:"o"`
	Reason  string  `msg:"e,omitempty"`
	Backoff int64   `msg:"j,omitempty"` // ns before it may run again
}

// Checkpoint keeps what a handler wants to resume from.
type Checkpoint struct {
	Run   RunID  `msg:"i"`
	Fence uint64 `msg:"g"`
	Data  []byte `msg:"d,zerocopy"`
}

// RunCommand names the run of a KindCancel or KindRetryNow. A command about a
// final run carries its row, because applying never reads the disk.
type RunCommand struct {
	ID      RunID      `msg:"i"`
	Row     *Run       `msg:"r,omitempty"`
	Segment SegmentKey `msg:"s,omitzero"`  // where Row was found
	AsOf    uint64     `msg:"a,omitempty"` // log index at which Row was the newest
}

// Expire ends runs that did not start in time.
type Expire struct {
	Runs []RunID `msg:"r"`
}

// PutSchedule creates or replaces a schedule. Only the definition of Schedule
// counts; its place in time is made by applying. An unchanged definition changes
// nothing.
type PutSchedule struct {
	Schedule Schedule `msg:"s"`
	Next     int64    `msg:"x,omitempty"` // the first tick after the stamped time
	Author   string   `msg:"u,omitempty"`
	Note     string   `msg:"n,omitempty"`
	Only     uint64   `msg:"o,omitempty"` // refused unless the schedule is of this version; 0 = whatever it is
	Keep     bool     `msg:"k,omitempty"` // Next is not known: refused as a conflict if it would count, see [KeepsTick]

	// Declared is, for a declaration that is made again and again, the [Sum] of it. One
	// that is as the last one was changes nothing: what was changed by hand since stays.
	Declared uint64 `msg:"d,omitempty"`

	// Calendars is [State.CalendarsOf] the schedule as it was seen by who found Next. If
	// they have changed since, the leader looks again.
	Calendars uint64 `msg:"v,omitempty"`

	// Canary, if it is set, puts what the schedule runs on trial instead: its Share,
	// Allowed, MaxTook and Need count. Nothing else may change.
	Canary *Canary `msg:"c,omitempty"`
}

// EndCanary ends the trial of a schedule's version.
type EndCanary struct {
	Schedule string `msg:"s"`
	Promote  bool   `msg:"p,omitempty"`
	Author   string `msg:"u,omitempty"`
}

// PutCalendar sets a named calendar, or deletes it. One that schedules use is not
// deleted.
type PutCalendar struct {
	Calendar Calendar `msg:"c"` // its name and exclusions count
	Delete   bool     `msg:"d,omitempty"`
}

// PauseSchedule pauses or resumes. The armed tick stays armed: after resuming, the
// leader decides it with all that were met while paused.
type PauseSchedule struct {
	ID     string `msg:"i"`
	Paused bool   `msg:"p,omitempty"`
}

// DeleteSchedule removes a schedule; runs it made go on.
type DeleteSchedule struct {
	ID string `msg:"i"`
}

// TickCommand decides the armed tick of a schedule, and those between it and
// now, in one entry. It is refused unless Armed is the armed tick and Version
// the current version.
type TickCommand struct {
	Schedule string        `msg:"s"`
	Version  uint64        `msg:"v"`
	Armed    int64         `msg:"a"`
	Spans    []DecidedSpan `msg:"p,omitempty"` // the first ticks, in order
	Waits    []Span        `msg:"w,omitempty"` // the ticks behind those, which are to run one after another
	Nominal  int64         `msg:"n,omitempty"` // the tick behind all those, which fires; 0 if none does
	Reason   string        `msg:"r,omitempty"` // why it fires late
	Run      RunID         `msg:"i,omitzero"`
	Delay    int64         `msg:"d,omitempty"` // ns from Nominal until the run is due: its jitter
	Next     int64         `msg:"x,omitempty"`

	// Calendars is [State.CalendarsOf] the schedule as the leader saw it.
	Calendars uint64 `msg:"c,omitempty"`
}

// StartCommand starts what has its turn: ticks of the first of a schedule's waiting
// starts. As many start as the overlap policy lets; the others go on waiting.
type StartCommand struct {
	Schedule string   `msg:"s"`
	Wait     Wait     `msg:"w"` // the one that is meant; refused unless it is the first
	Ticks    []RunNow `msg:"t"`
	Left     int64    `msg:"x,omitempty"` // the tick after them, 0 if there is none in Wait
}

// RunNow starts a run of a schedule: the client's, which is asked for by hand, or
// that of a tick.
type RunNow struct {
	Schedule string `msg:"s,omitempty"`
	Nominal  int64  `msg:"n,omitempty"`
	Run      RunID  `msg:"i"`
}

// Backfill has ticks of the past run that have not. It is refused unless the
// schedule is of the given version and had as many backfills before: else the
// caller has looked at another ledger.
type Backfill struct {
	Schedule string `msg:"s"`
	Version  uint64 `msg:"v"`
	Before   uint64 `msg:"b,omitempty"` // Schedule.Backfills
	Spans    []Span `msg:"p"`           // first and last ticks, in order
	Pace     int64  `msg:"c,omitempty"` // ns between starts
}

// DecidedSpan is an outcome that needs no look at the state.
type DecidedSpan struct {
	From    int64       `msg:"f"`
	To      int64       `msg:"t"`
	Outcome TickOutcome `msg:"o"`
	Reason  string      `msg:"r,omitempty"`
}

// Rearm moves armed ticks: the wall clock was set back, or a calendar was changed. A part
// of it that has been overtaken changes nothing.
type Rearm struct {
	Ticks []RearmTick `msg:"t"`
}

// RearmTick is one schedule's part of a [Rearm].
type RearmTick struct {
	Schedule string `msg:"s"`
	Version  uint64 `msg:"v"`
	Armed    int64  `msg:"a"`
	Next     int64  `msg:"x,omitempty"`

	// Calendars is [State.CalendarsOf] the schedule as the leader saw it.
	Calendars uint64 `msg:"c,omitempty"`
}

// OpenSession registers a node or worker under a new session number, returned as
// Result.N, and makes the tasks it can do, or means to enqueue, known to the
// cluster. Earlier sessions of the same node are marked as ended.
//
// It is refused if the node has a session of the number Below or a higher one: else
// a try that was given up, and arrives late after all, would end the session that a
// later one has opened. 0 is no bound.
type OpenSession struct {
	Node  string   `msg:"n"`
	Tasks []string `msg:"t,omitempty"`
	Below uint64   `msg:"b,omitempty"`
}

// EndSession forgets a session that holds no lease.
type EndSession struct {
	ID uint64 `msg:"i"`
}

// Prune drops segments of the history, unique keys whose time is over, and what is
// left of deleted schedules.
type Prune struct {
	Segments  []SegmentKey `msg:"s,omitempty"`
	Schedules []string     `msg:"d,omitempty"` // IDs
}

// SetCluster says what holds for the cluster as a whole. Empty fields change
// nothing.
type SetCluster struct {
	ID     string       `msg:"i,omitempty"` // counts once: a cluster keeps its ID
	Level  uint16       `msg:"l,omitempty"` // format level from the next entry on; never lowered
	Put    []NodeRecord `msg:"p,omitempty"` // new, or in place of one of the same ID
	Remove []string     `msg:"r,omitempty"` // IDs; their sessions end
}

// EncodeBatch appends the encoded form of b to dst.
func EncodeBatch(dst []byte, b *Batch) ([]byte, error) {
	return b.MarshalMsg(dst)
}

// DecodeBatch decodes an entry. Byte slices of the batch alias data.
// Errors: [ErrFormat], which is [ErrNewer] too if the entry is of a level to come.
func DecodeBatch(data []byte) (*Batch, error) {
	b := new(Batch)
	// A damaged length would be allocated before it is found that the data is too
	// short for it. Skipping looks at all of them, and allocates nothing.
	rest, err := msgp.Skip(data)
	if err == nil {
		rest, err = b.UnmarshalMsg(data)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	case len(rest) != 0:
		return nil, fmt.Errorf("%w: %d bytes follow the batch", ErrFormat, len(rest))
	case b.Level == 0:
		return nil, fmt.Errorf("%w: no format level", ErrFormat)
	case b.Level > FormatLevel:
		return nil, fmt.Errorf("%w: %w: format level %d, this build reads up to %d", ErrFormat, ErrNewer, b.Level, FormatLevel)
	}
	for i := range b.Commands {
		if c := &b.Commands[i]; c.Cluster != nil && c.Cluster.Level > FormatLevel {
			return nil, fmt.Errorf("%w: %w: the cluster's format level becomes %d, this build reads up to %d",
				ErrFormat, ErrNewer, c.Cluster.Level, FormatLevel)
		}
		if !b.Commands[i].complete() {
			return nil, fmt.Errorf("%w: command %d of kind %d is unknown or has no body", ErrFormat, i, b.Commands[i].Kind)
		}
	}
	return b, nil
}

// complete reports whether the command's kind is known and its body present.
func (c *Command) complete() bool {
	switch c.Kind {
	case KindEnqueue:
		return c.Enqueue != nil
	case KindLease:
		return c.Lease != nil
	case KindComplete:
		return c.Complete != nil
	case KindEndLease:
		return c.EndLease != nil
	case KindCheckpoint:
		return c.Checkpoint != nil
	case KindCancel, KindRetryNow:
		return c.Run != nil
	case KindExpire:
		return c.Expire != nil
	case KindPutSchedule:
		return c.Schedule != nil && c.Schedule.Schedule.Spec != nil
	case KindPauseSchedule:
		return c.Pause != nil
	case KindDeleteSchedule:
		return c.Delete != nil
	case KindTick:
		return c.Tick != nil
	case KindRearm:
		return c.Rearm != nil
	case KindPutQueue:
		return c.Queue != nil
	case KindOpenSession:
		return c.Open != nil
	case KindEndSession:
		return c.End != nil
	case KindPrune:
		return c.Prune != nil
	case KindSetCluster:
		return c.Cluster != nil
	case KindStart:
		return c.Start != nil
	case KindRunNow:
		return c.RunNow != nil
	case KindBackfill:
		return c.Backfill != nil
	case KindPutCalendar:
		return c.Calendar != nil
	case KindCanary:
		return c.Canary != nil
	}
	return false
}
