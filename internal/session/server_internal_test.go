package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/store"
)

// fakeDispatcher notes what it is told. Like the real one it calls workers under its lock, and gives a worker at once
// what it still holds.
type fakeDispatcher struct {
	mu      sync.Mutex // guards what follows
	told    []string
	workers map[uint64]dispatch.Worker
	back    []dispatch.Grant // what every worker holds when it is attached
}

func (d *fakeDispatcher) note(format string, args ...any) {
	d.told = append(d.told, fmt.Sprintf(format, args...))
}

func (d *fakeDispatcher) Attach(session uint64, w dispatch.Worker, tasks []string, slots int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note("attach %d %v %d", session, tasks, slots)
	if d.workers == nil {
		d.workers = make(map[uint64]dispatch.Worker)
	}
	d.workers[session] = w
	w.Assign(d.back)
}

func (d *fakeDispatcher) Detach(session uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note("detach %d", session)
	delete(d.workers, session)
}

func (d *fakeDispatcher) Retire(session uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note("retire %d", session)
}

func (d *fakeDispatcher) SetCapacity(session uint64, capacity, reserved int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note("capacity %d %d %d", session, capacity, reserved)
}

func (d *fakeDispatcher) assign(session uint64, grants []dispatch.Grant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.workers[session].Assign(grants)
}

func (d *fakeDispatcher) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.told, want) {
		t.Fatalf("the dispatcher was told\n%q\nwant\n%q", d.told, want)
	}
}

// desk is a server with its surroundings.
type desk struct {
	*Server
	d      fakeDispatcher
	st     *store.State
	term   uint64
	busy   time.Duration // for how long the state's lock is held by others
	settle func(context.Context) error
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	k := &desk{st: store.NewState(), term: 1, settle: func(context.Context) error { return nil }}
	for i := range 2 {
		b := &store.Batch{Level: store.FormatLevel, Wall: 1, Elapsed: 1, Commands: []store.Command{{
			Kind: store.KindOpenSession, Open: &store.OpenSession{Node: fmt.Sprint("n", i)},
		}}}
		if results, _ := k.st.Apply(uint64(i+1), 1, b); results[0].N != uint64(i+1) {
			t.Fatalf("session: got %+v, want number %d", results[0], i+1)
		}
	}
	k.Server = NewServer(ServerConfig{
		Dispatcher: &k.d, Term: func() uint64 { return k.term }, View: func(look func(*store.State)) {
			time.Sleep(k.busy)
			look(k.st)
		},
		Settle: func(ctx context.Context) error { return k.settle(ctx) },
	})
	return k
}

// A peer is a worker's end, by hand.
type peer struct {
	net.Conn
	in  *reader
	end chan error // gets what Serve has returned
}

// connect serves a connection of which the test is the other end.
func (k *desk) connect(t *testing.T) *peer {
	t.Helper()
	near, far := net.Pipe()
	p := &peer{near, newReader(near), make(chan error, 1)}
	ctx := context.WithoutCancel(t.Context())
	go func() { p.end <- k.Serve(ctx, far) }() // ends with near at the latest
	t.Cleanup(func() { _ = near.Close() })
	return p
}

func (p *peer) send(t *testing.T, frames ...frame) {
	t.Helper()
	for _, f := range frames {
		if _, err := p.Write(encoded(t, f)); err != nil {
			t.Fatal(err)
		}
	}
}

// receive reads a frame of the wanted type.
func receive[F frame](t *testing.T, p *peer) F {
	t.Helper()
	f, err := p.in.next()
	if err != nil {
		t.Fatal(err)
	}
	got, ok := f.(F)
	if !ok {
		t.Fatalf("got frame %#v, want %T", f, got)
	}
	return got
}

func (p *peer) wantEnd(t *testing.T, want error) {
	t.Helper()
	if got := <-p.end; !errors.Is(got, want) || (got == nil) != (want == nil) {
		t.Fatalf("Serve: got %v, want %v", got, want)
	}
}

func someRun(n byte, size int) *store.Run {
	return &store.Run{
		ID: store.RunID{n}, Spec: &store.Spec{Task: "work", Queue: "q"}, Input: make([]byte, size),
		State: store.Running, Fence: uint64(n) + 1, Session: 1,
	}
}

func TestServer_Replaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t)
		old := k.connect(t)
		old.send(t, &attach{Session: 1, Capacity: 2})
		receive[*attached](t, old)
		k.d.want(t, "attach 1 [] 0", "capacity 1 2 0")
		k.d.told = nil

		newer := k.connect(t)
		newer.send(t, &attach{Session: 1, Capacity: 3})
		receive[*attached](t, newer)
		old.wantEnd(t, ErrReplaced)
		k.d.want(t, "attach 1 [] 0", "capacity 1 3 0") // and no detach
		k.d.assign(1, []dispatch.Grant{{Run: someRun(1, 0)}})
		receive[*assign](t, newer)

		_ = newer.Close()
		newer.wantEnd(t, nil)
		k.d.want(t, "attach 1 [] 0", "capacity 1 3 0", "detach 1")
		if len(k.links) != 0 {
			t.Fatalf("links are left: %v", k.links)
		}
	})
}

func TestServer_GreetsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t)
		k.d.back = []dispatch.Grant{{Run: someRun(1, 0)}, {Run: someRun(2, 0), In: time.Minute}}
		p := k.connect(t)
		had := lease{store.RunID{1}, 2}
		p.send(t, &attach{Session: 1, Held: []lease{had}})
		got := receive[*attached](t, p)
		// The state knows nothing of it, whatever this dispatcher says.
		if want := []ended{{had.Run, had.Fence, causeLost}}; !slices.Equal(got.Ended, want) {
			t.Fatalf("ended: got %v, want %v", got.Ended, want)
		}
		// What the worker has is not sent again.
		a := receive[*assign](t, p)
		if len(a.Grants) != 1 || a.Grants[0].Run.ID != (store.RunID{2}) || a.Grants[0].Due-a.At != int64(time.Minute) {
			t.Fatalf("assigned: got %+v, want run 2 in a minute", a.Grants)
		}
	})
}

func TestServer_Refuses(t *testing.T) {
	refuse := func(t *testing.T, k *desk, hello *attach, want refusal) {
		t.Helper()
		p := k.connect(t)
		p.send(t, hello)
		if got := receive[*refused](t, p); got.Why != want {
			t.Fatalf("got %v, want %v", got.Why, want)
		}
		p.wantEnd(t, ErrRefused)
		k.d.want(t)
	}
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t)
		refuse(t, k, &attach{Session: 1, Term: 2}, refusedNotLeading)
		refuse(t, k, &attach{Session: 77}, refusedUnknown)
		k.term = 0
		refuse(t, k, &attach{Session: 1}, refusedNotLeading)
		k.term = 1
		b := &store.Batch{Level: store.FormatLevel, Wall: 2, Elapsed: 2, Commands: []store.Command{{
			Kind: store.KindOpenSession, Open: &store.OpenSession{Node: "n0"},
		}}}
		k.st.Apply(3, 1, b)
		refuse(t, k, &attach{Session: 1}, refusedEnded)
	})
	t.Run("at a ping, once it does not lead any more", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := newDesk(t)
			p := k.connect(t)
			p.send(t, &attach{Session: 1})
			receive[*attached](t, p)
			p.send(t, &ping{Sent: 5, Wall: 6})
			if got := receive[*pong](t, p); got.Sent != 5 || got.SentWall != 6 || got.At < got.Got {
				t.Fatalf("pong: %+v", got)
			}
			synctest.Wait()
			k.term = 2 // it leads again, but has it led all the time?
			p.send(t, new(ping))
			receive[*refused](t, p)
			p.wantEnd(t, ErrRefused)
			k.d.want(t, "attach 1 [] 0", "capacity 1 0 0", "detach 1")
		})
	})
}

// The state's lock does not count as a way of the network.
func TestServer_BusyState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t)
		p := k.connect(t)
		p.send(t, &attach{Session: 1})
		receive[*attached](t, p)
		synctest.Wait()
		k.busy = 100 * time.Millisecond
		got, wall := k.clock.now(), time.Now().UnixNano()
		p.send(t, new(ping))
		pong := receive[*pong](t, p)
		if pong.Got != got || pong.GotWall != wall || pong.At != got+int64(k.busy) {
			t.Fatalf("got %+v, want a ping read at %d and answered %v later", pong, got, k.busy)
		}
	})
}

func TestServer_Silence(t *testing.T) {
	for name, hello := range map[string][]frame{"before attach": nil, "after it": {&attach{Session: 1}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newDesk(t)
				p := k.connect(t)
				p.send(t, hello...)
				begin := time.Now()
				go func() { _, _ = io.Copy(io.Discard, p) }() // ends with p
				p.wantEnd(t, os.ErrDeadlineExceeded)
				if got := time.Since(begin); got != defaultSilence {
					t.Fatalf("ended after %v, want %v", got, defaultSilence)
				}
				if len(hello) > 0 {
					k.d.want(t, "attach 1 [] 0", "capacity 1 0 0", "detach 1")
				}
			})
		})
	}
}

func TestServer_SlowReader(t *testing.T) {
	t.Run("is given up when a write takes too long", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := newDesk(t)
			p := k.connect(t)
			p.send(t, &attach{Session: 1})
			receive[*attached](t, p)
			for n := range byte(100) { // which blocks nobody
				k.d.assign(1, []dispatch.Grant{{Run: someRun(n, 100<<10)}})
			}
			var talk sync.WaitGroup
			defer talk.Wait()
			talk.Go(func() { // it is not silent, but it does not read; ends with p
				for {
					if _, err := p.Write(encoded(t, &capacity{1, 0})); err != nil {
						return
					}
					time.Sleep(time.Second)
				}
			})
			p.wantEnd(t, os.ErrDeadlineExceeded)
			synctest.Wait()
			k.d.mu.Lock()
			defer k.d.mu.Unlock()
			if got := k.d.told[len(k.d.told)-1]; got != "detach 1" {
				t.Fatalf("the last that the dispatcher was told: got %q, want detach", got)
			}
		})
	})
	t.Run("is given up when the queue is full", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := newDesk(t)
			p := k.connect(t)
			p.send(t, &attach{Session: 1})
			receive[*attached](t, p)
			synctest.Wait()
			k.d.assign(1, slices.Repeat([]dispatch.Grant{{Run: someRun(1, 0)}}, maxQueue+1))
			p.wantEnd(t, ErrSlow)
		})
	})
}

// Assignments are packed into frames that can be read, in order, with their specs.
func TestServer_Packs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t)
		p := k.connect(t)
		p.send(t, &attach{Session: 1})
		receive[*attached](t, p)
		var grants []dispatch.Grant
		for n := range byte(200) {
			r := someRun(n, int(n)*100)
			r.Spec.Task = fmt.Sprint("task", n%3)
			grants = append(grants, dispatch.Grant{Run: r})
		}
		k.d.assign(1, append(grants, dispatch.Grant{Run: someRun(200, 2<<20)}))
		frames := 0
		var specs store.Specs
		for n := 0; n <= 200; frames++ {
			a := receive[*assign](t, p)
			for _, g := range a.Grants {
				spec, err := specs.Intern(a.Specs[g.Spec])
				if err != nil {
					t.Fatal(err)
				}
				if want := fmt.Sprint("task", n%3); n < 200 && spec.Task != want || g.Run.ID != (store.RunID{byte(n)}) {
					t.Fatalf("grant %d: got run %v of %q", n, g.Run.ID, spec.Task)
				}
				n++
			}
		}
		if frames < 3 || frames > 100 {
			t.Fatalf("frames: got %d, want several runs in each, and several frames", frames)
		}
		k.d.mu.Lock()
		k.d.workers[1].Cancel(someRun(1, 0), 2)
		gone := someRun(2, 0)
		gone.State = store.Canceled
		k.d.workers[1].Cancel(gone, 3)
		k.d.mu.Unlock()
		got := receive[*cancel](t, p)
		for len(got.Ended) < 2 { // the writer may have been quick
			got.Ended = append(got.Ended, receive[*cancel](t, p).Ended...)
		}
		if want := []ended{{store.RunID{1}, 2, causeLost}, {store.RunID{2}, 3, causeCanceled}}; !slices.Equal(got.Ended, want) {
			t.Fatalf("ended: got %v, want %v", got.Ended, want)
		}
	})
}

func TestServer_Retire(t *testing.T) {
	t.Run("is answered after what was in the log", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := newDesk(t)
			k.settle = func(context.Context) error {
				time.Sleep(time.Second)
				k.d.assign(1, []dispatch.Grant{{Run: someRun(1, 0)}})
				return nil
			}
			p := k.connect(t)
			p.send(t, &attach{Session: 1})
			receive[*attached](t, p)
			p.send(t, new(retire), new(retire)) // asking twice is asking once
			receive[*assign](t, p)
			receive[*retired](t, p)
			k.d.want(t, "attach 1 [] 0", "capacity 1 0 0", "retire 1")
		})
	})
	t.Run("is not answered by a leader that cannot say", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := newDesk(t)
			k.settle = func(context.Context) error { return errors.New("not leading") }
			p := k.connect(t)
			p.send(t, &attach{Session: 1})
			receive[*attached](t, p)
			p.send(t, new(retire))
			if f, err := p.in.next(); err == nil {
				t.Fatalf("got frame %#v, want the end", f)
			}
			if err := <-p.end; err == nil {
				t.Fatal("Serve: got nil, want the error")
			}
		})
	})
}

func TestServer_Garbage(t *testing.T) {
	for name, data := range map[string][]byte{
		"no frame":             []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"a ping at first":      encoded(t, new(ping)),
		"a second attach":      append(encoded(t, &attach{Session: 1}), encoded(t, &attach{Session: 1})...),
		"what a leader sends":  append(encoded(t, &attach{Session: 1}), encoded(t, new(pong))...),
		"no frame afterwards":  append(encoded(t, &attach{Session: 1}), 0, 0, 0, 0, 200),
		"a capacity too large": append(encoded(t, &attach{Session: 1}), encoded(t, &capacity{1 << 40, 0})...),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newDesk(t)
				p := k.connect(t)
				go func() { _, _ = io.Copy(io.Discard, p) }() // ends with p
				_, _ = p.Write(data)
				p.wantEnd(t, ErrProtocol)
				if len(k.d.workers) != 0 {
					t.Fatal("the worker is still attached")
				}
			})
		})
	}
	t.Run("an end within a frame", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := newDesk(t)
			p := k.connect(t)
			p.send(t, &attach{Session: 1})
			receive[*attached](t, p)
			_, _ = p.Write(encoded(t, new(ping))[:7])
			_ = p.Close()
			p.wantEnd(t, io.ErrUnexpectedEOF)
		})
	})
}

func TestServer_ContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t)
		near, far := net.Pipe()
		defer near.Close()
		ctx, cancel := context.WithCancel(t.Context())
		end := make(chan error, 1)
		go func() { end <- k.Serve(ctx, far) }() // awaited below
		p := &peer{near, newReader(near), end}
		p.send(t, &attach{Session: 1})
		receive[*attached](t, p)
		cancel()
		p.wantEnd(t, context.Canceled)
		k.d.want(t, "attach 1 [] 0", "capacity 1 0 0", "detach 1")
	})
}
