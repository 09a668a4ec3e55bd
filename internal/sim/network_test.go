package sim_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler/internal/sim"
)

const latency = 5 * time.Millisecond

// pair connects a with b, who listens.
func pair(t *testing.T) (n *sim.Network, hostB *sim.Host, a, b net.Conn) {
	t.Helper()
	n = sim.NewNetwork(1, sim.Path{Latency: latency})
	hostA, hostB := n.Host("a"), n.Host("b")
	l, err := hostB.Listen("b:1")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	a, err = hostA.Dial(t.Context(), "b:1")
	if err != nil {
		t.Fatal(err)
	}
	return n, hostB, a, <-accepted
}

func read(t *testing.T, c net.Conn, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatalf("read: %v", err)
	}
	return b
}

func write(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if _, err := c.Write([]byte(s)); err != nil {
		t.Fatalf("write: %v", err)
	}
}

func TestNetwork_bytes_take_their_time_and_keep_their_order(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, a, b := pair(t)
		began := time.Now()
		write(t, a, "hel")
		write(t, a, "lo")
		if got := read(t, b, 5); !bytes.Equal(got, []byte("hello")) {
			t.Errorf("read: got %q", got)
		}
		if took := time.Since(began); took != latency {
			t.Errorf("took: got %v, want %v", took, latency)
		}
		_ = a.Close()
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("read after the peer's close: got %v, want %v", err, io.EOF)
		}
		if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write after the peer's close: got %v, want %v", err, syscall.EPIPE)
		}
	})
}

func TestNetwork_a_cut_holds_up_one_direction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _, a, b := pair(t)
		n.SetCut("a", "b", true)
		write(t, a, "late")
		write(t, b, "ok")
		read(t, a, 2)
		_ = b.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read over the cut: got %v, want %v", err, os.ErrDeadlineExceeded)
		}
		_ = b.SetReadDeadline(time.Time{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.Host("c").Dial(ctx, "b:1"); err != nil {
			t.Errorf("dial beside the cut: %v", err)
		}
		n.Heal()
		if got := read(t, b, 4); string(got) != "late" {
			t.Errorf("read after the cut: got %q", got)
		}
	})
}

func TestNetwork_what_is_on_its_way_is_held_by_a_cut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _, a, b := pair(t)
		write(t, a, "x")
		n.SetCut("a", "b", true)
		_ = b.SetReadDeadline(time.Now().Add(time.Hour))
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: got %v, want %v", err, os.ErrDeadlineExceeded)
		}
	})
}

func TestNetwork_a_killed_process_resets_and_a_lost_machine_is_silent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, host, a, b := pair(t)
		host.Kill(false)
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read from a killed process: got %v, want %v", err, syscall.ECONNRESET)
		}
		if _, err := b.Read(make([]byte, 1)); err == nil {
			t.Error("the killed process can still read")
		}
		if _, err := host.Listen("b:2"); err == nil {
			t.Error("the killed process can still listen")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n, host, a, _ := pair(t)
		host.Kill(true)
		write(t, a, "anybody?")
		_ = a.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read from a lost machine: got %v, want %v", err, os.ErrDeadlineExceeded)
		}
		if _, err := n.Host("a").Dial(t.Context(), "b:1"); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("dial a lost machine: got %v, want %v", err, os.ErrDeadlineExceeded)
		}
		n.Host("b")
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read once the machine is back: got %v, want %v", err, syscall.ECONNRESET)
		}
		if _, err := n.Host("a").Dial(t.Context(), "b:1"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial while nobody listens: got %v, want %v", err, syscall.ECONNREFUSED)
		}
	})
}

func TestNetwork_a_name_is_looked_up_at_each_dial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := sim.NewNetwork(1, sim.Path{Latency: latency})
		n.SetName("b.internal", "b:1")
		if _, err := n.Host("b").Listen("b:2"); err != nil {
			t.Fatal(err)
		}
		a := n.Host("a")
		if _, err := a.Dial(t.Context(), "b.internal"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial of the old address: got %v, want %v", err, syscall.ECONNREFUSED)
		}
		n.SetName("b.internal", "b:2")
		if _, err := a.Dial(t.Context(), "b.internal"); err != nil {
			t.Errorf("dial of the new address: %v", err)
		}
	})
}

func TestNetwork_a_writer_waits_for_the_window(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _, a, b := pair(t)
		n.SetCut("a", "b", true)
		_ = a.SetWriteDeadline(time.Now().Add(time.Second))
		var err error
		for range 100 {
			if _, err = a.Write(make([]byte, 64<<10)); err != nil {
				break
			}
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write over a cut: got %v, want %v", err, os.ErrDeadlineExceeded)
		}
		n.Heal()
		read(t, b, 64<<10)
		_ = a.SetWriteDeadline(time.Time{})
		if _, err := a.Write(make([]byte, 64<<10)); err != nil {
			t.Errorf("write into the window again: %v", err)
		}
	})
}

func TestNetwork_a_severed_connection_delivers_late_and_loses_the_answer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _, a, b := pair(t)
		const late = 10 * time.Second
		n.SetPath("a", "b", sim.Path{Latency: latency, Severs: 100, Late: late})
		began := time.Now()
		write(t, a, "ask")
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) || time.Since(began) > time.Second {
			t.Errorf("read of the answer: got %v after %v, want %v soon", err, time.Since(began), syscall.ECONNRESET)
		}
		if _, err := a.Write([]byte("again")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("write: got %v, want %v", err, syscall.ECONNRESET)
		}
		if got := read(t, b, 3); string(got) != "ask" {
			t.Errorf("arrived: got %q", got)
		}
		if took := time.Since(began); took < latency || took > latency+late {
			t.Errorf("arrived after %v, want %v to %v", took, latency, latency+late)
		}
		write(t, b, "answer")
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("read after what was sent: got %v, want %v", err, io.EOF)
		}
		if n.Severed() != 1 {
			t.Errorf("severed: got %d, want 1", n.Severed())
		}
	})
}
