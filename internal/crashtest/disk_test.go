//go:build unix

package crashtest_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/internal/crashtest"
)

// A disk is a folder on one that can be filled.
type disk struct {
	dir  string
	fill func()
	room func() // makes room again
}

func TestDisk_full_refuses_calls_and_recovers_by_itself(t *testing.T) {
	t.Parallel()
	for name, newDisk := range disks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if os.Getenv(ownVar) != "" {
				fullDisk(t, newDisk(t))
				return
			}
			// A limit of file sizes is one of the process: it gets one of its own.
			c := exec.Command(os.Args[0], "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v")
			c.Env = append(os.Environ(), ownVar+"=1")
			out, err := c.CombinedOutput()
			switch {
			case err != nil:
				t.Errorf("%v\n%s", err, out)
			case bytes.Contains(out, []byte("--- SKIP")):
				t.Skipf("%s", out)
			}
		})
	}
}

// ownVar tells a process that it is there for this one test.
const ownVar = "ESCAPEMENT_CRASH_OWN"

func fullDisk(t *testing.T, d *disk) {
	t.Helper()
	ctx := guarded(t)
	args := loadArgs{Dir: filepath.Join(d.dir, "data"), Facts: filepath.Join(t.TempDir(), "facts"), Life: 1}
	l := begin(ctx, t, args)
	h := &crashtest.History{Limits: map[string]int{narrowQueue: narrowLimit}}
	enqueue := func(w crashtest.Work, meta string) (scheduler.RunID, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Second) // of a call that was in flight nobody knows the outcome
		defer cancel()
		f, err := job.Enqueue(ctx, l.s, w, scheduler.Meta("ballast", meta))
		if err == nil {
			h.Acks = append(h.Acks, crashtest.Ack{Op: crashtest.OpEnqueue, Round: 1, Run: f.ID(), Work: w})
		}
		return f.ID(), err
	}
	held, err := enqueue(crashtest.Work{Kind: crashtest.Held}, "")
	if err != nil {
		t.Fatal(err)
	}
	<-l.held
	for n := range 50 {
		if _, err := enqueue(crashtest.Work{Kind: crashtest.Plain, N: n}, ""); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.s.Health(ctx); !got.OK {
		t.Fatalf("health before: %v", got.Reasons)
	}

	d.fill()
	ballast := strings.Repeat("x", 16<<10)
	for n := 0; !errors.Is(err, scheduler.ErrStorage); n++ {
		if _, err = enqueue(crashtest.Work{Kind: crashtest.Plain, N: n}, ballast); err != nil &&
			!errors.Is(err, scheduler.ErrStorage) && !errors.Is(err, scheduler.ErrOutcomeUnknown) {
			t.Fatalf("call on a full disk: got %v, want %v", err, scheduler.ErrStorage)
		}
		if n > 10_000 {
			t.Fatal("the disk does not get full")
		}
	}
	t.Logf("%d calls were acknowledged before: %v", len(h.Acks), err)
	ill := l.s.Health(ctx)
	for n := range 50 { // some of what is written may fit yet
		if got := l.s.Health(ctx); got.OK || len(got.Reasons) != 1 || got.Reasons[0] != ill.Reasons[0] {
			t.Fatalf("health on a full disk: got %+v, want one reason why it is not well, and always %q", got, ill.Reasons)
		}
		_, _ = enqueue(crashtest.Work{Kind: crashtest.Plain, N: n}, ballast[:n<<8])
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := l.s.Get(ctx, held); err != nil || r.State != scheduler.Running {
		t.Errorf("get on a full disk: got %v, %v, want %v", r.State, err, scheduler.Running)
	}
	close(l.release)
	for ended := false; !ended; { // its handler returns, whatever becomes of the report
		for _, f := range readFacts(t, args.Facts) {
			ended = ended || f.Run == held && f.What == crashtest.Ended
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			t.Fatalf("the running handler does not finish: %v", err)
		}
	}

	d.room()
	for {
		_, err := enqueue(crashtest.Work{Kind: crashtest.Plain, N: 1}, "")
		if err == nil {
			break
		}
		if !errors.Is(err, scheduler.ErrStorage) && !errors.Is(err, scheduler.ErrOutcomeUnknown) {
			t.Errorf("call while it recovers: %v", err)
		}
		if pause(ctx, 20*time.Millisecond) != nil {
			t.Fatalf("it does not recover: %v, %+v", err, l.s.Health(t.Context()))
		}
	}
	for !l.s.Health(ctx).OK {
		if pause(ctx, 20*time.Millisecond) != nil {
			t.Fatalf("health does not recover: %v", l.s.Health(t.Context()).Reasons)
		}
	}
	if r, err := l.s.Await(ctx, held); err != nil || r.State != scheduler.Succeeded || r.Attempt != 1 {
		t.Errorf("the held run: got %v in attempt %d, %v, want %v in the first", r.State, r.Attempt, err, scheduler.Succeeded)
	}
	for _, a := range h.Acks {
		if r, err := l.s.Await(ctx, a.Run); err != nil || r.State != scheduler.Succeeded {
			t.Errorf("run %v: got %v, %v, want %v", a.Run, r.State, err, scheduler.Succeeded)
		}
	}
	shutdown(ctx, t, l)

	args.Life++
	settle(t, args, h)
	h.Facts = readFacts(t, args.Facts)
	report(t, h)
	args.Life++
	again(t, args, h)
}
