package store

// Code says how a command fared. Codes are stored and sent, and never
// renumbered.
type Code uint16

// The codes.
const (
	OK Code = iota
	CodeNotFound
	CodeConflict    // the state has moved on: another version, fence, armed tick, or an ID in use
	CodeUnknownTask // no node has ever declared the task
	CodeUnique      // the unique key is held; Run is the holder, Text the key
	CodeStale       // the lease is not the current one
	CodeFinal       // the run has ended; Run names it
	CodeSessionGone // the session is unknown: expired, or of before a restore
	CodeRepeated    // the session's sequence number was acknowledged already
	CodePaused
	CodeFull // a replicated limit is reached
	CodeNotDue
	CodeInvalid
	CodeOverlap // the schedule has a live run, Run, and its overlap policy lets nothing start beside it
)

// Result is what applying a command answers.
type Result struct {
	Code Code   `msg:"c,omitempty"`
	Run  RunID  `msg:"i,omitzero"`
	Text string `msg:"t,omitempty"`
	N    uint64 `msg:"n,omitempty"`

	// Each holds one code per run of a Lease or report of a Complete, nil if all
	// are OK.
	Each []Code `msg:"e,omitempty"`
}
