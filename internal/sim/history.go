package sim

import (
	"time"

	"github.com/escapement-go/scheduler/store"
)

// A History is what happened in a simulation, by true time.
type History struct {
	Nodes   []string
	Log     []Entry // as it was committed, without gaps
	Calls   []Call  // in the order in which they began
	Facts   []Fact  // in the order in which they happened
	Samples []Sample
	Clocks  map[string][]Setting // by node
	Stores  map[string]Stores    // by node: what its disk had at the end
	Plans   map[string]Plan      // schedules whose triggers never change, by ID

	// Calm is since when nothing fails any more and what faults have left behind
	// has had its time; End is when the load and the schedules were stopped.
	Calm, End time.Time
}

// An Entry is a committed entry of the log.
type Entry struct {
	Index, Term uint64
	Data        []byte    // of a batch; nil if it is none
	Config      bool      // it changes who is a member
	Leader      string    // who wrote it first
	At          time.Time // when that began
}

// A Call is a call of a client, which lives in the process of a node.
type Call struct {
	Node   string
	Op     Op
	Runs   []store.RunID // of OpEnqueue, OpTrigger: minted by the client or, if it was answered, known from the answer
	Work   Work          // OpEnqueue
	Delay  time.Duration // OpEnqueue
	Target string        // the schedule, queue or calendar
	N      int           // OpRollback: the version; OpBackfill: how many ticks it has asked for, by the answer
	From   time.Time     // OpBackfill: the first nominal time
	To     time.Time     // OpBackfill: that after the last
	Begin  time.Time
	End    time.Time // zero: it got no answer
	Answer Answer
	Err    string
	State  store.RunState // OpGet
	Atomic bool           // what it reads on the way is what was acknowledged before it began, or newer
}

// Op says what a call asks for.
type Op string

// The ops.
const (
	OpEnqueue  Op = "enqueue"
	OpCancel   Op = "cancel"
	OpRetry    Op = "retry"
	OpGet      Op = "get"
	OpSchedule Op = "schedule"
	OpPause    Op = "pause"
	OpResume   Op = "resume"
	OpDelete   Op = "delete"
	OpQueue    Op = "queue"
	OpTrigger  Op = "trigger"
	OpRollback Op = "rollback"
	OpBackfill Op = "backfill"
	OpCalendar Op = "calendar"
)

// Answer classifies how a call ended.
type Answer uint8

// The answers.
const (
	Unknown  Answer = iota // whether it happened or not
	Done                   // it happened
	Refused                // it did not happen, and for a reason that has to do with the state
	Missing                // there is no such run or schedule
	Conflict               // the run's state does not allow it
)

// Work is the input of a run: what its handler does.
type Work struct {
	Kind Kind          `json:"kind"`
	N    int           `json:"n"`
	For  time.Duration `json:"for,omitempty"`
}

// Kind says what becomes of a run.
type Kind string

// The kinds.
const (
	Plain  Kind = "plain"  // succeeds at once
	Slow   Kind = "slow"   // succeeds after Work.For
	Flaky  Kind = "flaky"  // fails twice, then succeeds
	Doomed Kind = "doomed" // fails for good
	Snooze Kind = "snooze" // asks to be run again, once, then succeeds
	Steps  Kind = "steps"  // saves a checkpoint, then goes on from it

	Stubborn Kind = "stubborn" // succeeds after Work.For, whatever its context says
)

// A Fact is something a handler did.
type Fact struct {
	What    What
	Node    string
	Run     store.RunID
	Attempt int
	Fence   uint64
	At      time.Time
	Error   string // Ended
}

// What says what a handler did.
type What string

// What handlers do.
const (
	Began What = "began"
	Ended What = "ended"
)

// A Sample is the digest of a node's state, or of what is on its disk, when it
// was at an index.
type Sample struct {
	Node   string
	Index  uint64
	Digest uint64
	Stored bool // on disk
}

// Stores is what the disk of a node had at the end.
type Stores struct {
	Index uint64
	Runs  map[store.RunID]*store.Run // that have ended
	Ticks []store.Tick
}

// A Plan is a schedule whose trigger never changes. It is a second opinion on
// when it fires, in the simplest arithmetic.
type Plan struct {
	Every  time.Duration // ticks are that far apart
	Wall   bool          // and at the multiples of it on the time of day; else on the elapsed clock
	Steady bool          // it is never paused, its runs are short, and no two are in each other's way
	Window time.Duration // how late a run may start in the calm, once its tick has come
}
