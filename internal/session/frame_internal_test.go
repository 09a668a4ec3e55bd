package session

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/escapement-go/scheduler/store"
)

// frames has one of each kind, with all that it may have.
func frames() []frame {
	id := store.RunID{1, 2, 3}
	spec := store.Spec{Task: "work", Queue: "default"}
	run := &store.Run{
		ID: id, Input: []byte("input"), State: store.Running, Due: 5, Fence: 7, Session: 3, Attempt: 1,
		More: &store.RunMore{Checkpoint: []byte("so far"), Meta: []store.Pair{{Key: "k", Value: "v"}}},
	}
	return []frame{
		&attach{Session: 3, Term: 2, Tasks: []string{"work"}, Slots: 4, Capacity: 3, Reserved: 1, Held: []lease{{id, 7}}},
		&capacity{5, 1},
		&ping{9, 10},
		new(retire),
		&attached{Term: 2, Ended: []ended{{id, 7, causeLost}}},
		&refused{refusedEnded},
		&assign{At: 11, Specs: [][]byte{spec.Encode()}, Grants: []grant{{12, 0, run}}},
		&cancel{Ended: []ended{{id, 7, causeCanceled}}},
		&pong{9, 10, 11, 12, 13},
		new(retired),
	}
}

func TestFrame_RoundTrip(t *testing.T) {
	var data []byte
	var err error
	for _, f := range frames() {
		if data, err = appendFrame(data, f); err != nil {
			t.Fatal(err)
		}
	}
	in := newReader(bytes.NewReader(data))
	for _, want := range frames() {
		got, err := in.next()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(attach{}), cmpopts.IgnoreUnexported(store.Run{})); diff != "" {
			t.Fatalf("frame %d, -want +got:\n%s", want.kind(), diff)
		}
	}
	if _, err := in.next(); !errors.Is(err, io.EOF) {
		t.Fatalf("got %v, want EOF", err)
	}
}

func TestFrame_Refused(t *testing.T) {
	id := store.RunID{1}
	for name, data := range map[string][]byte{
		"unknown kind":       {0, 0, 0, 1, 99, 0x80},
		"kind 0":             {0, 0, 0, 1, 0, 0x80},
		"too long":           {0xff, 0xff, 0xff, 0xff, byte(kindPing)},
		"no body":            {0, 0, 0, 0, byte(kindPing)},
		"trailing":           {0, 0, 0, 2, byte(kindRetire), 0x80, 0x80},
		"a list of too many": {0, 0, 0, 8, byte(kindAttach), 0x81, 0xa1, 'h', 0xdd, 0xff, 0xff, 0xff, 0xff},
		"no session":         encoded(t, new(attach)),
		"negative capacity":  encoded(t, &capacity{-1, 0}),
		"unknown cause":      encoded(t, &cancel{[]ended{{id, 1, 9}}}),
		"no run":             encoded(t, &assign{Specs: [][]byte{{}}, Grants: []grant{{}}}),
		"no spec":            encoded(t, &assign{Grants: []grant{{0, 0, new(store.Run)}}}),
		"an HTTP request":    []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			if f, err := newReader(bytes.NewReader(data)).next(); !errors.Is(err, ErrProtocol) {
				t.Fatalf("got %v, %v, want ErrProtocol", f, err)
			}
		})
	}
	whole := encoded(t, &ping{1, 2})
	for n := 1; n < len(whole); n++ {
		if _, err := newReader(bytes.NewReader(whole[:n])).next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut after %d bytes: got %v, want ErrUnexpectedEOF", n, err)
		}
	}
}

func TestFrame_OverTheLimit(t *testing.T) {
	run := &store.Run{Input: make([]byte, maxFrame)}
	if _, err := appendFrame(nil, &assign{Grants: []grant{{0, 0, run}}}); err == nil {
		t.Fatal("it was written, and nobody would read it")
	}
}

func encoded(tb testing.TB, f frame) []byte {
	tb.Helper()
	data, err := appendFrame(nil, f)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// Whatever bytes come, reading them ends; what is read is written as something that is read as the same.
func FuzzFrame(f *testing.F) {
	for _, fr := range frames() {
		f.Add(encoded(f, fr))
	}
	f.Add([]byte{0, 0, 0, 8, byte(kindAttach), 0x81, 0xa1, 'h', 0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		in := newReader(bytes.NewReader(data))
		for {
			got, err := in.next()
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, ErrProtocol) {
					t.Fatalf("got %v", err)
				}
				return
			}
			once := encoded(t, got)
			again, err := newReader(bytes.NewReader(once)).next()
			if err != nil {
				t.Fatalf("it cannot be read again: %v", err)
			}
			if twice := encoded(t, again); !bytes.Equal(once, twice) {
				t.Fatalf("it is another: %x, then %x", once, twice)
			}
		}
	})
}
