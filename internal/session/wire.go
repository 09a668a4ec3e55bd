package session

import "github.com/escapement-go/scheduler/store"

//go:generate go run github.com/tinylib/msgp@v1.6.5 -file wire.go -unexported -io=false -tests=false -o wire_gen.go

// A damaged length is refused before room is made for it.
//msgp:limit arrays:131072 maps:64
//msgp:tuple lease ended grant
//msgp:ignore kind frame

// maxListed is the most elements that a list of a frame may have, as said to the generator above.
const maxListed = 131072

// kind says what a frame is.
type kind uint8

const (
	kindAttach kind = 1 + iota // from the worker
	kindCapacity
	kindPing
	kindRetire
	kindAttached // from the leader
	kindRefused
	kindAssign
	kindCancel
	kindPong
	kindRetired
)

// attach asks to be the worker of a session.
type attach struct {
	Session  uint64   `msg:"s"`
	Term     uint64   `msg:"t"` // the highest of a leader that the worker has been attached to
	Tasks    []string `msg:"k"`
	Slots    int      `msg:"n"`
	Capacity int      `msg:"c"`
	Reserved int      `msg:"r"`
	Held     []lease  `msg:"h"`
}

type lease struct {
	Run   store.RunID `msg:"r"`
	Fence uint64      `msg:"g"`
}

type capacity struct {
	Capacity int `msg:"c"`
	Reserved int `msg:"r"`
}

// ping asks for a sign of life, and what time it is.
type ping struct {
	Sent int64 `msg:"s"` // ns on the worker's steady clock
	Wall int64 `msg:"w"` // ns, the worker's time of day at Sent
}

// retire asks to be granted nothing more.
type retire struct{}

// attached says that the worker is the session's now.
type attached struct {
	Term  uint64  `msg:"t"`
	Ended []ended `msg:"e"` // of what the worker said it holds
}

// ended is a lease that is not the worker's any more.
type ended struct {
	Run   store.RunID `msg:"r"`
	Fence uint64      `msg:"g"`
	Why   cause       `msg:"w"`
}

// cause is the reason for which a lease has ended.
type cause uint8

const (
	causeLost     cause = 1 + iota // another worker may have the run
	causeCanceled                  // the run has been canceled
)

// refused is the last frame of a connection that the leader does not want.
type refused struct {
	Why refusal `msg:"w"`
}

type refusal uint8

const (
	refusedNotLeading refusal = 1 + iota // this node does not lead, or not yet
	refusedUnknown                       // it knows no such session
	refusedEnded                         // the session has ended
)

// assign gives leased runs to the worker.
type assign struct {
	At     int64    `msg:"a"` // when it was written, ns on the leader's steady clock
	Specs  [][]byte `msg:"p"`
	Grants []grant  `msg:"g"`
}

type grant struct {
	Due  int64      `msg:"d"` // ns on the leader's steady clock
	Spec uint32     `msg:"s"` // in Specs
	Run  *store.Run `msg:"r"` // without its Spec
}

// cancel takes leases back.
type cancel struct {
	Ended []ended `msg:"e"`
}

// pong answers a ping.
type pong struct {
	Sent     int64 `msg:"s"` // as it was in the ping
	SentWall int64 `msg:"w"`
	Got      int64 `msg:"g"` // when the ping was read, ns on the leader's steady clock
	GotWall  int64 `msg:"v"` // ns, the leader's time of day at Got
	At       int64 `msg:"a"` // when the pong was written, ns on the leader's steady clock
}

// retired says that the worker has been sent all that it has been granted, and will be granted no more.
type retired struct{}

// String says it in words.
func (r refusal) String() string {
	switch r {
	case refusedNotLeading:
		return "node does not lead"
	case refusedUnknown:
		return "unknown session"
	case refusedEnded:
		return "session has ended"
	}
	return "unknown reason"
}
