//go:build unix

package harness_test

import (
	"bufio"
	"net"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/internal/harness"
)

// echo answers each line with itself, until the test ends, and returns where.
func echo(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { // ends with the listener
		defer close(served)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the connection
				defer conn.Close()
				for in := bufio.NewReader(conn); ; {
					line, err := in.ReadBytes('\n')
					if err != nil {
						return
					}
					if _, err := conn.Write(line); err != nil {
						return
					}
				}
			}()
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-served
	})
	return ln.Addr().String()
}

// A talk is a connection from a to b.
type talk struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dial(t *testing.T, n *harness.Net) *talk {
	t.Helper()
	conn, err := net.Dial("tcp", n.Address("a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &talk{t, conn, bufio.NewReader(conn)}
}

func (k *talk) say() {
	k.t.Helper()
	if _, err := k.conn.Write([]byte("hello\n")); err != nil {
		k.t.Fatal(err)
	}
}

// hears reports whether an answer comes within d; 0: it must come.
func (k *talk) hears(d time.Duration) bool {
	k.t.Helper()
	if d == 0 {
		d = hang
	}
	if err := k.conn.SetReadDeadline(time.Now().Add(d)); err != nil {
		k.t.Fatal(err)
	}
	_, err := k.in.ReadBytes('\n')
	return err == nil
}

func newNet(t *testing.T) *harness.Net {
	t.Helper()
	n, err := harness.NewNet("a", "b")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	n.Place("b", echo(t))
	return n
}

// What is cut in one direction is late and not lost, on a connection that was there
// and on a new one.
func TestNet_a_cut_holds_up_and_loses_nothing(t *testing.T) {
	for name, cut := range map[string]func(n *harness.Net){
		"there":     func(n *harness.Net) { n.Cut("a", "b") },
		"back":      func(n *harness.Net) { n.Cut("b", "a") },
		"both ways": func(n *harness.Net) { n.Isolate("b") },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNet(t)
			old := dial(t, n)
			old.say()
			if !old.hears(0) {
				t.Fatal("no answer before the cut")
			}
			cut(n)
			fresh := dial(t, n)
			for _, k := range []*talk{old, fresh} {
				k.say()
				if k.hears(20 * time.Millisecond) {
					t.Error("an answer came through the cut")
				}
			}
			n.Heal()
			for _, k := range []*talk{old, fresh} {
				if !k.hears(0) {
					t.Error("no answer after the cut has healed")
				}
			}
		})
	}
}

func TestNet_a_node_that_moves_is_found_again(t *testing.T) {
	n := newNet(t)
	old := dial(t, n)
	old.say()
	if !old.hears(0) {
		t.Fatal("no answer before the move")
	}
	n.Place("b", echo(t))
	if _, err := old.in.ReadByte(); err == nil {
		t.Error("a connection to the old place is still there")
	}
	k := dial(t, n)
	k.say()
	if !k.hears(0) {
		t.Error("no answer at the new place")
	}
	n.Reset("a")
	if _, err := k.in.ReadByte(); err == nil {
		t.Error("a connection that was reset is still there")
	}
}
