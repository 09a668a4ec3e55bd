package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler/store"
)

// bodies has an example of each frame's body with all its fields, and an empty one to read it into.
var bodies = map[frameKind]struct {
	full  marshaler
	empty func() unmarshaler
}{
	frameHello: {
		&hello{'C', "cluster", "to", "from", "incarnation", "process", "a:1"},
		func() unmarshaler { return new(hello) },
	},
	frameWelcome: {
		&welcome{refusedNode, "text", "cluster", "from", "incarnation", "process", 3, true, true, true, "leader", "l:1"},
		func() unmarshaler { return new(welcome) },
	},
	frameCalls: {
		&callsRequest{ID: 7, Read: true, Calls: [][]byte{{1, 2}, {3}}, Ask: []byte("q")},
		func() unmarshaler { return new(callsRequest) },
	},
	frameAnswers: {
		&callsReply{ID: 7, Index: 9, Outcomes: []callOutcome{
			{Results: []store.Result{{Code: store.CodeConflict, Text: "t", N: 4}}},
			{Failure: failOverloaded, Text: "log", Retry: 5},
		}, Failure: failNotLeader, Answer: []byte("w")},
		func() unmarshaler { return new(callsReply) },
	},
	frameStatus: {
		&peerStatus{"incarnation", 5, 2, "a:1", true, -1, -2, 3, 1e-6},
		func() unmarshaler { return new(peerStatus) },
	},
	frameStatusReply: {&statusReply{-1, 2}, func() unmarshaler { return new(statusReply) }},
	frameJoin:        {&joinRequest{2, true, "gone"}, func() unmarshaler { return new(joinRequest) }},
	frameJoined:      {&joinReply{true, true, "text"}, func() unmarshaler { return new(joinReply) }},
}

func TestWire_frames_come_back_as_they_were(t *testing.T) {
	for kind, b := range bodies {
		frame := appendFrame([]byte("before"), kind, b.full)[len("before"):]
		got := b.empty()
		if err := expectFrame(bytes.NewReader(frame), maxFrame, kind, got); err != nil {
			t.Errorf("kind %d: %v", kind, err)
		} else if diff := cmp.Diff(b.full, got); diff != "" {
			t.Errorf("kind %d: %s", kind, diff)
		}
		if err := expectFrame(bytes.NewReader(frame), maxFrame, kind+1, b.empty()); !errors.Is(err, errFrame) {
			t.Errorf("kind %d where another is expected: %v", kind, err)
		}
		if err := expectFrame(bytes.NewReader(frame), len(frame)-5, kind, b.empty()); !errors.Is(err, errFrame) {
			t.Errorf("kind %d over its limit: %v", kind, err)
		}
		for cut := range len(frame) {
			if err := expectFrame(bytes.NewReader(frame[:cut]), maxFrame, kind, b.empty()); err == nil {
				t.Errorf("kind %d, cut to %d of %d bytes: accepted", kind, cut, len(frame))
			}
		}
		if err := parseFrame(append(slices.Clone(frame[5:]), 0), b.empty()); !errors.Is(err, errFrame) {
			t.Errorf("kind %d with a byte too many: %v", kind, err)
		}
	}
}

func TestWire_errors_of_calls_keep_their_class(t *testing.T) {
	sentinels := []error{
		ErrOutcomeUnknown, ErrNotLeader, ErrOverloaded, ErrTooLarge, ErrStorage, ErrClosed, ErrParked, ErrNoSession,
	}
	for _, c := range []struct {
		err  error
		want []error // of the sentinels
	}{
		{unknown(errors.New("cut")), []error{ErrOutcomeUnknown}},
		{unknown(ErrNotLeader), []error{ErrOutcomeUnknown}},
		{ErrNotLeader, []error{ErrNotLeader}},
		{ErrClosed, []error{ErrNotLeader}}, // of the leader, not of the node that asked
		{parked(errors.New("why")), []error{ErrNotLeader}},
		{&OverloadedError{"log", time.Second}, []error{ErrOverloaded}},
		{&TooLargeError{Bytes: 5 << 20, Limit: MaxEntryBytes}, []error{ErrTooLarge}},
		{&StorageError{errors.New("full")}, []error{ErrStorage}},
		{store.ErrFormat, nil},
	} {
		var sent, got callOutcome
		sent.fail(c.err)
		reply := &callsReply{Outcomes: []callOutcome{sent}}
		var read callsReply
		if err := parseFrame(appendFrame(nil, frameAnswers, reply)[5:], &read); err != nil {
			t.Fatal(err)
		}
		got = read.Outcomes[0]
		err := got.err()
		if err == nil {
			t.Errorf("%v became nil", c.err)
		}
		for _, s := range sentinels {
			if is := errors.Is(err, s); is != slices.Contains(c.want, s) {
				t.Errorf("%v became %v: is %v: %v", c.err, err, s, is)
			}
		}
	}
	var o callOutcome
	o.fail(&OverloadedError{"log", 3 * time.Second})
	if over := new(OverloadedError); !errors.As(o.err(), &over) || over.RetryAfter != 3*time.Second || over.What != "log" {
		t.Errorf("overloaded: %#v", o.err())
	}
	o.fail(&TooLargeError{Bytes: 5 << 20, Limit: MaxEntryBytes})
	if large := new(TooLargeError); !errors.As(o.err(), &large) || *large != (TooLargeError{5 << 20, MaxEntryBytes}) {
		t.Errorf("too large: %#v", o.err())
	}
	if o.fail(nil); o.err() != nil {
		t.Errorf("nil became %v", o.err())
	}
}

// FuzzHello looks for what a stranger could do with the first bytes on the port.
func FuzzHello(f *testing.F) {
	f.Add(appendFrame(magic[:], frameHello, bodies[frameHello].full))
	f.Add([]byte("ESC\x01\xff\xff\xff\xff\x01"))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		here, there := net.Pipe()
		defer here.Close()
		go func() { // ends with the connection
			_, _ = there.Write(data)
			_ = there.Close()
		}()
		var h hello
		if err := readHello(here, &h); err != nil {
			return
		}
		again := new(hello)
		if err := parseFrame(appendFrame(nil, frameHello, &h)[5:], again); err != nil || *again != h {
			t.Errorf("%+v became %+v, %v", h, again, err)
		}
	})
}

// FuzzFrame reads what a node sends that is not what it says.
func FuzzFrame(f *testing.F) {
	for kind, b := range bodies {
		f.Add(appendFrame(nil, kind, b.full))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bytes.NewReader(data)
		for {
			kind, body, err := readFrame(in, maxFrame)
			if err != nil {
				if !errors.Is(err, errFrame) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("read: %v", err)
				}
				return
			}
			b, known := bodies[kind]
			if !known {
				continue
			}
			v := b.empty()
			if parseFrame(body, v) != nil {
				continue
			}
			again := b.empty()
			if err := parseFrame(appendFrame(nil, kind, v.(marshaler))[5:], again); err != nil {
				t.Errorf("kind %d: written anew it is not read: %v", kind, err)
			}
		}
	})
}

func linksOf(t *testing.T, peers ...Peer) *links {
	t.Helper()
	n := &Node{state: store.NewState(), cfg: Setup{ID: "me"}}
	n.state.Apply(1, 1, &store.Batch{Level: 1, Commands: []store.Command{{Kind: store.KindSetCluster, Cluster: &store.SetCluster{
		ID: "cluster", Put: []store.NodeRecord{{ID: "a", Address: "recorded:1", Incarnation: "right"}},
	}}}})
	l := &links{
		node: n, cfg: &Config{Peers: peers}, network: nowhere{},
		heard: make(map[string]string), failed: make(map[string]string), processes: make(map[string]identity),
	}
	l.ctx, l.stop = context.WithCancel(t.Context())
	t.Cleanup(l.stop)
	n.links = l
	return l
}

// nowhere is a network on which nobody is.
type nowhere struct{}

var errNowhere = errors.New("nobody is there")

func (nowhere) Listen(string) (net.Listener, error)            { return nil, errNowhere }
func (nowhere) Dial(context.Context, string) (net.Conn, error) { return nil, errNowhere }

func TestLinks_addresses_in_the_order_to_try(t *testing.T) {
	l := linksOf(t, Peer{"a", "given:1"}, Peer{"b", "given:2"})
	expect := func(id string, want ...string) {
		t.Helper()
		if got := l.addresses(id); !slices.Equal(got, want) {
			t.Errorf("addresses of %s: %v, want %v", id, got, want)
		}
	}
	expect("a", "given:1", "recorded:1")
	expect("zz")
	l.hear("a", "heard:1")
	l.hear("b", "given:2")
	l.hear("me", "elsewhere:1")
	expect("a", "given:1", "heard:1", "recorded:1")
	expect("b", "given:2")
	expect("me")
	if _, err := l.dial(t.Context(), "a", streamRaft); !errors.Is(err, errNowhere) {
		t.Errorf("dial: %v", err)
	}
	expect("a", "given:1", "heard:1", "recorded:1") // the last one failed
	l.failed["a"] = "given:1"
	expect("a", "heard:1", "recorded:1", "given:1")
	if _, err := l.dial(t.Context(), "zz", streamRaft); err == nil {
		t.Error("a node of no known address was found")
	}
}

func TestLinks_raft_is_spoken_within_the_cluster(t *testing.T) {
	for _, test := range []struct {
		name    string
		h       hello
		refused bool
	}{
		{"of the same cluster", hello{From: "b", Cluster: "cluster"}, false},
		{"of another", hello{From: "b", Cluster: "other"}, true},
		{"a stranger whose cluster has no ID yet", hello{From: "b"}, true},
		{"a member that has not applied it yet", hello{From: "a", Incarnation: "right"}, false},
		{"a member without its memory", hello{From: "a", Incarnation: "wrong"}, true},
	} {
		test.h.Stream, test.h.Process = uint8(streamRaft), "p"
		if w := linksOf(t).judge(&test.h); (w.Refusal != accepted) != test.refused {
			t.Errorf("%s: %d %s", test.name, w.Refusal, w.Text)
		}
	}
}

func TestLinks_the_process_with_the_known_folder_is_the_right_one(t *testing.T) {
	l := linksOf(t)
	meta := l.node.meta()
	from := func(process, incarnation string) *hello {
		return &hello{From: "a", Process: process, Incarnation: incarnation, Address: "at " + process}
	}
	for i, step := range []struct {
		h     *hello
		heard string
	}{
		{from("second", "wrong"), ""}, // whoever has the right folder is not to be found
		{from("first", "right"), "at first"},
		{from("second", "wrong"), "at first"},
		{from("third", "right"), "at third"}, // it was started anew
	} {
		if !l.only(meta, step.h) {
			t.Errorf("step %d: refused", i)
		}
		if got := l.heard["a"]; got != step.heard {
			t.Errorf("step %d: it is said to be at %q, want %q", i, got, step.heard)
		}
	}
}

func TestOffset_is_that_of_the_shortest_trip(t *testing.T) {
	var o offset
	if by, bound := o.best(); by != 0 || bound != 0 {
		t.Errorf("without samples: %d ± %d", by, bound)
	}
	const ahead = 5_000_000 // ns that this node's clock is ahead
	at := int64(1_000_000_000_000)
	exchange := func(there, back int64) {
		o.add(at, at+there-ahead, at+there+back)
		at += int64(time.Second)
	}
	exchange(900, 100)
	if by, bound := o.best(); by < ahead-500 || by > ahead+500 || bound != 500 {
		t.Errorf("%d ± %d", by, bound)
	}
	exchange(50, 50)
	exchange(4000, 4000)
	if by, bound := o.best(); by != ahead || bound != 50 {
		t.Errorf("%d ± %d, want %d ± 50", by, bound, ahead)
	}
	o.add(at, at, at-1) // the clock was set back meanwhile
	for range len(o.samples) {
		exchange(300, 300)
	}
	if by, bound := o.best(); by != ahead || bound != 300 {
		t.Errorf("old samples count still: %d ± %d", by, bound)
	}
}

func TestOffset_drifts(t *testing.T) {
	var o offset
	const minute = int64(time.Minute)
	begin := time.Now()
	see := func(at, ahead int64, want float64) {
		t.Helper()
		for range len(o.samples) {
			o.add(at+ahead, at+50, at+ahead+100)
		}
		if got := o.drift(begin.Add(time.Duration(at))); math.Abs(got-want) > 1e-9 {
			t.Errorf("after %v: %v, want %v", time.Duration(at), got, want)
		}
	}
	if got := o.drift(begin); got != 0 {
		t.Errorf("without a sample: %v", got)
	}
	see(1, 1000, 0)
	see(minute/2, 1000, 0)
	see(minute+1, 1000+60_000, 1e-6) // 60 µs a minute
	see(2*minute+1, 1000+120_000, 1e-6)
	see(3*minute+1, 1000, -2e-6) // and back
}

func TestMedian_blames_nobody_in_doubt(t *testing.T) {
	for _, c := range []struct {
		offsets []int64
		want    int64
	}{
		{[]int64{0}, 0},
		{[]int64{0, 900}, 0}, // two clocks: either may be wrong
		{[]int64{0, 900, 910}, 900},
		{[]int64{0, -900, -910}, -900},
		{[]int64{0, 5, 900}, 5},
		{[]int64{0, 1, 900, 910}, 1}, // two against two
		{[]int64{0, 890, 900, 910}, 890},
		{[]int64{0, -890, -900, -910}, -890},
		{[]int64{0, 0, 0, 900, 900}, 0},
	} {
		if got := median(slices.Clone(c.offsets)); got != c.want {
			t.Errorf("median of %v: %d, want %d", c.offsets, got, c.want)
		}
	}
	for _, c := range [][3]int64{{900, 100, 800}, {-900, 100, -800}, {50, 100, 0}, {-50, 100, 0}, {0, 5, 0}} {
		if got := atLeast(c[0], c[1]); got != c[2] {
			t.Errorf("of %d ± %d, %d is said to be sure, want %d", c[0], c[1], got, c[2])
		}
	}
}

func TestUsage_is_closed_once_all_have_ended(t *testing.T) {
	u := newUsage()
	for range 2 {
		if !u.begin() {
			t.Fatal("refused before it was closed")
		}
	}
	unused := u.close()
	if u.begin() {
		t.Error("begun after it was closed")
	}
	u.end()
	select {
	case <-unused:
		t.Error("unused while one uses it")
	default:
	}
	u.end()
	<-unused
	<-u.close()
	<-newUsage().close()
}
