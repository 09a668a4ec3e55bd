package session_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/worker"
)

func TestSession_Executes(t *testing.T) {
	t.Run("what is due at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 4, nil)
			pass(time.Second)
			ids := r.enqueue("work", 500, 0)
			pass(time.Second)
			for _, id := range ids {
				r.wantState(id, store.Succeeded)
			}
			if got := len(r.starts()); got != 500 {
				t.Fatalf("started: got %d, want 500", got)
			}
		})
	})
	t.Run("never early and late by no more than the fastest way", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 100, nil)
			pass(time.Second)
			begin := time.Now()
			r.enqueue("work", 50, 3*time.Second)
			pass(2 * time.Second)
			r.stream().mu.Lock()
			r.stream().latency = 40 * time.Millisecond // slower than before: what was learned holds
			r.stream().mu.Unlock()
			pass(2 * time.Second)
			got := r.starts()
			if len(got) != 50 {
				t.Fatalf("started: got %d, want 50", len(got))
			}
			for _, s := range got {
				late := s.at.Sub(begin.Add(3 * time.Second))
				if late < 0 || late > latency+3*time.Millisecond {
					t.Fatalf("late by %v, want 0 … %v", late, latency+3*time.Millisecond)
				}
			}
		})
	})
	t.Run("with its capacity changing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 2, nil)
			pass(time.Second)
			stop := r.enqueue("hang", 2, 0)
			ids := r.enqueue("work", 1, 0)
			pass(time.Second)
			r.wantState(ids[0], store.Scheduled)
			r.must(store.Command{Kind: store.KindCancel, Run: &store.RunCommand{ID: stop[0]}})
			pass(time.Second)
			r.wantState(stop[0], store.Canceled)
			r.wantState(ids[0], store.Succeeded)
			if got := r.ended(); len(got) != 1 || !errors.Is(got[0], worker.ErrCanceled) {
				t.Fatalf("causes: got %v, want ErrCanceled", got)
			}
		})
	})
}

func TestSession_Samples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, nil)
		pass(5500 * time.Millisecond)
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.samples) < 5 {
			t.Fatalf("samples: got %v, want one a second", r.samples)
		}
		for _, offset := range r.samples {
			if offset < -latency || offset > latency {
				t.Fatalf("offset of one and the same clock: got %v", offset)
			}
		}
	})
}

// Wherever the connection is cut, each run is executed, and once under each fence.
func TestSession_CutAnywhere(t *testing.T) {
	for n := range 120 {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 4, nil)
			pass(time.Second)
			ids := append(r.enqueue("work", 3, 0), r.enqueue("work", 3, 50*time.Millisecond)...)
			r.note(func() { r.cutAfter = n * 17 }) // and so are the next ones
			r.stream().cutAfter(n * 7)
			pass(500 * time.Millisecond)
			r.note(func() { r.cutAfter = -1 })
			r.stream().cutAfter(-1)
			pass(5 * time.Second)
			for _, id := range ids {
				r.wantState(id, store.Succeeded)
			}
			wantOnce(t, r)
		})
	}
}

// wantOnce fails if an attempt was started twice.
func wantOnce(t *testing.T, r *rig) {
	t.Helper()
	seen := make(map[uint64]bool)
	for _, s := range r.starts() {
		if seen[s.fence] {
			t.Fatalf("run %v was started twice under fence %d", s.run, s.fence)
		}
		seen[s.fence] = true
	}
}

func TestSession_LeaderChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4, nil)
		pass(time.Second)
		running := r.enqueue("hang", 2, 0)
		pass(time.Second)
		// Assigned, but on its way when the leader fails.
		r.stream().hold()
		lost := r.enqueue("work", 1, 0)
		fence := r.run(running[0]).Fence
		pass(100 * time.Millisecond)
		r.lead()
		r.client.Redial()
		pass(time.Second)
		r.wantState(running[0], store.Running)
		if got := r.run(running[0]).Fence; got != fence {
			t.Fatalf("fence of what runs: got %d, want %d still", got, fence)
		}
		r.wantState(lost[0], store.Succeeded)
		next := r.enqueue("work", 1, 0)
		pass(2 * lostAfter)
		r.wantState(running[0], store.Running)
		r.wantState(next[0], store.Succeeded)
		wantOnce(t, r)
		if got := r.ended(); len(got) != 0 {
			t.Fatalf("handlers ended: %v", got)
		}
		r.stream().release()
	})
}

func TestSession_OutOfContact(t *testing.T) {
	// Four of hang fill the slots, so what is ready waits in the pool. It would be handed back by the pool soon, so
	// contact is lost at once.
	t.Run("nothing is started once TTL has passed, and what runs goes on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 4, nil)
			pass(time.Second)
			running := r.enqueue("hang", 1, 0)
			pass(time.Second)
			r.part()
			parted := time.Now()
			for range 80 { // assigned straight to the pool, as a frame that was under way would be
				r.pool.Assign([]worker.Assignment{stray("work")})
				pass(100 * time.Millisecond)
			}
			var last time.Time
			n := 0
			for _, s := range r.starts() {
				if s.at.After(parted) {
					last = s.at
					n++
				}
			}
			// The last ping that was answered was sent within the second before.
			if since := last.Sub(parted); n == 0 || since > ttl || since < ttl-1200*time.Millisecond {
				t.Fatalf("the last of %d was started %v after contact was lost, want about %v", n, since, ttl)
			}
			r.wantState(running[0], store.Running)
			if got := r.ended(); len(got) != 0 {
				t.Fatalf("handlers ended: %v", got)
			}
			r.heal()
			pass(3 * time.Second)
			r.wantState(running[0], store.Running)
			again := r.enqueue("work", 1, 0)
			pass(time.Second)
			r.wantState(again[0], store.Succeeded)
		})
	})
	t.Run("leases are given up, and the worker is told when it is back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 4, nil)
			pass(time.Second)
			running := r.enqueue("hang", 1, 0)
			canceled := r.enqueue("hang", 1, 0)
			pass(time.Second)
			r.part()
			pass(time.Second)
			r.must(store.Command{Kind: store.KindCancel, Run: &store.RunCommand{ID: canceled[0]}})
			pass(lostAfter + silence)
			r.wantState(running[0], store.Scheduled) // in its backoff, or waiting for a worker
			if got := r.run(running[0]).Crashes; got != 1 {
				t.Fatalf("crashes: got %d, want 1", got)
			}
			fence := r.run(running[0]).Fence
			r.heal()
			pass(3 * time.Second)
			got := r.ended()
			if len(got) != 2 {
				t.Fatalf("causes: got %v, want two", got)
			}
			for _, want := range []error{worker.ErrLeaseLost, worker.ErrCanceled} {
				if !errors.Is(got[0], want) && !errors.Is(got[1], want) {
					t.Fatalf("causes: got %v, want %v among them", got, want)
				}
			}
			r.wantState(running[0], store.Running) // again
			if now := r.run(running[0]).Fence; now <= fence {
				t.Fatalf("fence: got %d, want more than %d", now, fence)
			}
		})
	})
	t.Run("contact is regained before that, and nothing is lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 4, nil)
			pass(time.Second)
			running := r.enqueue("hang", 2, 0)
			pass(time.Second)
			fence := r.run(running[0]).Fence
			r.part()
			pass(lostAfter - time.Second)
			r.heal()
			pass(2 * lostAfter)
			r.wantState(running[0], store.Running)
			if got := r.run(running[0]); got.Fence != fence || got.Crashes != 0 {
				t.Fatalf("got fence %d and %d crashes, want %d and none", got.Fence, got.Crashes, fence)
			}
			if got := r.ended(); len(got) != 0 {
				t.Fatalf("handlers ended: %v", got)
			}
		})
	})
	t.Run("without a leader from the start, TTL runs all the same", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 4, nil)
			r.part()
			r.depose()
			pass(ttl + time.Second)
			r.pool.Assign([]worker.Assignment{stray("work")})
			pass(time.Second)
			if got := r.starts(); len(got) != 0 {
				t.Fatalf("started: got %v, want nothing", got)
			}
			r.lead()
		})
	})
}

// stray makes an assignment that the state knows nothing of.
func stray(task string) worker.Assignment {
	strays++
	fence := 1<<40 + strays
	id := store.NewRunID(time.Now(), [10]byte{9: byte(strays), 8: byte(strays >> 8), 7: 9})
	run := &store.Run{ID: id, Spec: &store.Spec{Task: task, Priority: store.Normal}, State: store.Running, Fence: fence, Attempt: 1}
	return worker.Assignment{Run: run, Fence: fence}
}

var strays uint64 // tests of this package do not run in parallel

func TestSession_HeldMismatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4, nil)
		pass(time.Second)
		kept := r.enqueue("hang", 1, 0)
		pass(time.Second)
		r.pool.Assign([]worker.Assignment{stray("hang")})
		r.client.Redial()
		pass(time.Second)
		if got := r.ended(); len(got) != 1 || !errors.Is(got[0], worker.ErrLeaseLost) {
			t.Fatalf("causes: got %v, want ErrLeaseLost", got)
		}
		r.wantState(kept[0], store.Running)
	})
}

// A leader that has been deposed without knowing it would take away what its successor has granted.
func TestSession_OldLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4, nil)
		pass(time.Second)
		r.lead()
		pass(2 * time.Second)
		running := r.enqueue("hang", 1, 0)
		pass(time.Second)
		r.leader.term.Store(1) // as the first has it
		r.client.Redial()
		pass(2 * time.Second)
		if got := r.ended(); len(got) != 0 {
			t.Fatalf("handlers ended: %v", got)
		}
		r.leader.term.Store(2)
		next := r.enqueue("work", 1, 0)
		pass(2 * time.Second)
		r.wantState(next[0], store.Succeeded)
		r.wantState(running[0], store.Running)
	})
}

func TestSession_NodeStopsLeading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4, nil)
		pass(time.Second)
		n := r.connections()
		r.leader.term.Store(0)
		pass(3 * time.Second)
		if got := r.connections(); got < n+2 {
			t.Fatalf("connections: got %d, want the worker to look for another leader", got)
		}
		r.lead()
		ids := r.enqueue("work", 1, 0)
		pass(2 * time.Second)
		r.wantState(ids[0], store.Succeeded)
	})
}

func TestSession_EndedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4, nil)
		pass(time.Second)
		r.enqueue("hang", 1, 0)
		pass(time.Second)
		r.must(store.Command{Kind: store.KindOpenSession, Open: &store.OpenSession{Node: "n"}})
		pass(3 * time.Second)
		if got := r.ended(); len(got) != 1 || !errors.Is(got[0], worker.ErrLeaseLost) {
			t.Fatalf("causes: got %v, want ErrLeaseLost", got)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.gone) == 0 || r.gone[0] != r.session {
			t.Fatalf("gone: got %v, want %d", r.gone, r.session)
		}
	})
}

func TestSession_Retire(t *testing.T) {
	t.Run("the pool has all that it was granted, and gets nothing more", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 100, nil)
			pass(time.Second)
			r.note(func() { r.latency = 30 * time.Millisecond })
			r.client.Redial()
			pass(time.Second)
			granted := r.enqueue("hang", 50, 0) // on their way
			if err := r.client.Retire(r.ctx); err != nil {
				t.Fatal(err)
			}
			for _, id := range granted {
				r.wantState(id, store.Running)
			}
			if got := len(r.pool.Held()); got != 50 {
				t.Fatalf("held: got %d, want 50", got)
			}
			later := r.enqueue("work", 1, 0)
			r.client.Offer()
			pass(time.Second)
			r.client.Redial()
			pass(time.Second)
			r.wantState(later[0], store.Scheduled)
		})
	})
	t.Run("over a change of leader", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 4, nil)
			pass(time.Second)
			r.part()
			answer := make(chan error, 1)
			go func() { answer <- r.client.Retire(r.ctx) }() // awaited below
			pass(time.Second)
			r.heal()
			r.stream().cutAfter(0)
			r.lead()
			if err := <-answer; err != nil {
				t.Fatal(err)
			}
			later := r.enqueue("work", 1, 0)
			pass(time.Second)
			r.wantState(later[0], store.Scheduled)
		})
	})
	t.Run("gives up with its context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 4, nil)
			r.part()
			ctx, cancel := context.WithTimeout(r.ctx, time.Second)
			defer cancel()
			if err := r.client.Retire(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("got %v, want DeadlineExceeded", err)
			}
		})
	})
}
