package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/tinylib/msgp/msgp"

	"github.com/escapement-go/scheduler/store"
)

//go:generate go run github.com/tinylib/msgp@v1.6.5 -file wire.go -unexported -io=false -tests=false -o wire_gen.go

// Between nodes there is one connection for each stream: raft's own, which raft
// reads and writes by itself, and ours, which carry frames. Each begins with the
// dialer's hello and the acceptor's welcome.
//
//	magic, hello ─▶
//	             ◀─ welcome      refused: both close
//	stream      ◀─▶ stream
//
// A frame is the length of what follows (4 bytes, big endian), its kind (1 byte)
// and its body.

// magic is what a connection begins with: the name of the protocol and its version.
var magic = [4]byte{'E', 'S', 'C', 1}

// streamKind says what a connection is for.
type streamKind uint8

const (
	streamRaft    streamKind = 'R' // raft's transport
	streamCalls   streamKind = 'C' // calls of a follower, and what it tells of itself
	streamSession streamKind = 'S' // a worker session; the host's
	streamJoin    streamKind = 'J' // asks who is there, and to be let in
	streamProbe   streamKind = 'P' // asks who is there, and ends
	streamAside   streamKind = 'A' // questions of a node's host to another's, whoever leads
)

// frameKind says what a frame is.
type frameKind uint8

const (
	frameHello frameKind = iota + 1
	frameWelcome
	frameCalls       // callsRequest
	frameAnswers     // callsReply
	frameStatus      // peerStatus, follower to leader
	frameStatusReply // statusReply
	frameJoin        // joinRequest
	frameJoined      // joinReply
)

// Bounds of frames, bytes.
const (
	maxHello = 4 << 10
	maxFrame = 2 * MaxEntryBytes
)

// hello is how a dialer presents itself.
type hello struct {
	Stream      uint8  `msg:"s"`
	Cluster     string `msg:"c"` // "" if it is in none
	To          string `msg:"t"` // the node it means to reach; "" any
	From        string `msg:"f"`
	Incarnation string `msg:"i"` // of the folder
	Process     string `msg:"p"` // of the process
	Address     string `msg:"a"`
}

// welcome is how an acceptor answers.
type welcome struct {
	Refusal       uint8  `msg:"r"`
	Text          string `msg:"x"`
	Cluster       string `msg:"c"`
	From          string `msg:"f"`
	Incarnation   string `msg:"i"`
	Process       string `msg:"p"`
	Level         uint16 `msg:"v"`           // the newest format its build can read
	Founded       bool   `msg:"o"`           // it is in a cluster, or founds one
	Member        bool   `msg:"m"`           // so is the dialer, under its incarnation
	Stranger      bool   `msg:"n,omitempty"` // the acceptor leads, and the dialer is no member, or was with another memory
	Leader        string `msg:"l"`           // "" if unknown
	LeaderAddress string `msg:"a"`
}

// Reasons to refuse a connection.
const (
	accepted uint8 = iota
	refusedCluster
	refusedNode
	refusedDuplicate
	refusedNotLeader
	refusedStranger
)

// callsRequest carries what a follower's callers ask of the leader.
type callsRequest struct {
	ID    uint64   `msg:"i"`
	Read  bool     `msg:"r,omitempty"` // asks for the index that a linearizable read needs
	Calls [][]byte `msg:"c,zerocopy"`  // each an encoded store.Batch, to be one entry's part
	Ask   []byte   `msg:"q,omitempty"` // a question of the host's to the leader's, or to the acceptor's
}

// callsReply answers a callsRequest, call by call.
type callsReply struct {
	ID       uint64        `msg:"i"`
	Index    uint64        `msg:"x"` // that the follower's state must reach to show it
	Outcomes []callOutcome `msg:"o"`
	Failure  uint8         `msg:"f,omitempty"` // of a Read or an Ask
	Answer   []byte        `msg:"w,omitempty"` // to an Ask
}

// callOutcome is the outcome of one call.
type callOutcome struct {
	Results []store.Result `msg:"r"`
	Failure uint8          `msg:"f,omitempty"`
	Text    string         `msg:"t,omitempty"`
	Retry   int64          `msg:"d,omitempty"` // ns
}

// peerStatus is what a follower tells the leader of itself, a few times a second.
type peerStatus struct {
	Incarnation string  `msg:"i"`
	Applied     uint64  `msg:"a"`
	Level       uint16  `msg:"l"`
	Address     string  `msg:"d"`
	Observer    bool    `msg:"b,omitempty"`
	Sent        int64   `msg:"s"`           // ns wall of the sender
	Offset      int64   `msg:"o"`           // ns, its wall clock less the leader's, as it knows it
	Error       int64   `msg:"e"`           // ns, by how much Offset may be off; 0: it does not know yet
	Drift       float64 `msg:"f,omitempty"` // s/s, how fast Offset grows
}

// statusReply carries the leader's wall clock.
type statusReply struct {
	Sent int64 `msg:"s"` // of the status
	Now  int64 `msg:"n"`
}

// joinRequest asks to be let into the cluster, or to take another node out.
type joinRequest struct {
	Level    uint16 `msg:"l"`
	Observer bool   `msg:"o"`
	Remove   string `msg:"r,omitempty"`
}

// joinReply says whether that is done.
type joinReply struct {
	Done    bool   `msg:"d"`
	Unknown bool   `msg:"u,omitempty"` // the node to remove is no member
	Text    string `msg:"t"`           // why not
}

var errFrame = errors.New("cluster: malformed frame")

type marshaler interface {
	MarshalMsg(b []byte) ([]byte, error)
}

type unmarshaler interface {
	UnmarshalMsg(b []byte) ([]byte, error)
}

// appendFrame appends a frame to b.
func appendFrame(b []byte, kind frameKind, body marshaler) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0, byte(kind))
	b, err := body.MarshalMsg(b)
	if err != nil {
		panic("cluster: encode frame: " + err.Error()) // no field of ours can fail
	}
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

// readFrame reads a frame of at most limit bytes. The body is the caller's.
func readFrame(r io.Reader, limit int) (frameKind, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := int(binary.BigEndian.Uint32(head[:]))
	if n < 1 || n > limit {
		return 0, nil, fmt.Errorf("%w: of %d bytes, limit %d", errFrame, n, limit)
	}
	body := make([]byte, n-1)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, err
	}
	return frameKind(head[4]), body, nil
}

// expectFrame reads a frame of one kind into v.
func expectFrame(r io.Reader, limit int, kind frameKind, v unmarshaler) error {
	got, body, err := readFrame(r, limit)
	if err != nil {
		return err
	}
	if got != kind {
		return fmt.Errorf("%w: of kind %d, expected %d", errFrame, got, kind)
	}
	return parseFrame(body, v)
}

func parseFrame(body []byte, v unmarshaler) error {
	// Skipping looks at every length before it is believed.
	rest, err := msgp.Skip(body)
	if err == nil {
		rest, err = v.UnmarshalMsg(body)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: %d bytes follow its body", errFrame, len(rest))
	}
	return nil
}
