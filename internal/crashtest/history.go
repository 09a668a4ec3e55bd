package crashtest

import (
	"encoding/json"
	"time"

	"github.com/escapement-go/scheduler"
)

// A History is what was seen of a scheduler over all its lives.
type History struct {
	Acks    []Ack           // in the order in which they were received
	Facts   []Fact          // in the order in which handlers wrote them
	Seen    []scheduler.Run // runs that had ended, each time they were looked at
	Runs    map[scheduler.RunID]scheduler.Run
	Ledgers []Ledger
	Limits  map[string]int // of queues
}

// An Ack is a call that returned without an error.
type Ack struct {
	Op    Op              `json:"op"`
	Round int             `json:"round"`
	Run   scheduler.RunID `json:"run,omitzero"`
	Work  Work            `json:"work,omitzero"`
	Begun int64           `json:"begun,omitempty"` // ns wall, before the call
	Delay time.Duration   `json:"delay,omitempty"`
	Key   string          `json:"key,omitempty"` // the unique key
	Queue string          `json:"queue,omitempty"`

	Ended *scheduler.Run `json:"ended,omitempty"` // OpEnded
}

// Op is what was acknowledged.
type Op string

// The ops.
const (
	OpStarted Op = "started" // the scheduler
	OpEnqueue Op = "enqueue"
	OpCancel  Op = "cancel"
	OpEnded   Op = "ended" // a run was seen to have ended
	OpOther   Op = "other"
)

// Work is the input of a run: what its handler does.
type Work struct {
	N    int  `json:"n"`
	Kind Kind `json:"kind"`
}

// Kind says what becomes of a run.
type Kind string

// The kinds.
const (
	Plain  Kind = "plain"  // succeeds
	Flaky  Kind = "flaky"  // fails twice, then succeeds
	Doomed Kind = "doomed" // fails for good
	Slow   Kind = "slow"   // succeeds after a while
	Steps  Kind = "steps"  // saves checkpoints
	Victim Kind = "victim" // may be canceled
	Held   Kind = "held"   // succeeds when it is told to
)

// Done is the result of a run.
type Done struct {
	N     int    `json:"n"`
	Fence uint64 `json:"fence"`
}

// A Fact is something a handler did.
type Fact struct {
	What    What            `json:"what"`
	Run     scheduler.RunID `json:"run,omitzero"`
	Attempt int             `json:"attempt"`
	Fence   uint64          `json:"fence"`
	Queue   string          `json:"queue,omitempty"`
	Life    int             `json:"life"` // the process that wrote it
	At      int64           `json:"at"`   // ns wall
	Step    int             `json:"step,omitempty"`
	Due     int64           `json:"due,omitempty"` // ns wall; of a tick
}

// What says what a handler did.
type What string

// What handlers do.
const (
	Began   What = "began"   // with the checkpoint Step
	Saved   What = "saved"   // the checkpoint Step
	Ended   What = "ended"   // and will return a result
	Gave    What = "gave up" // and will return an error
	Nothing What = ""
)

// A Ledger is what a schedule says of its ticks.
type Ledger struct {
	Schedule string
	Created  time.Time // zero if the first tick is not to be judged
	Ticks    []scheduler.Tick
	Next     func(after time.Time) time.Time `json:"-"`
}

// work returns the input of a run.
func work(r *scheduler.Run) (w Work, err error) {
	err = json.Unmarshal(r.Input, &w)
	return w, err
}
