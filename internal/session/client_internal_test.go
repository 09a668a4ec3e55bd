package session

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler/internal/precise"
	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/worker"
)

// A site is a worker whose leader is the test.
type site struct {
	*Client
	pool *worker.Pool

	mu      sync.Mutex // guards what follows
	session uint64
	dialed  []time.Time
	refuse  bool // nobody leads
	started int
	causes  []error

	conns chan net.Conn // the leader's ends
}

func newSite(t *testing.T, change ...func(*ClientConfig)) *site {
	t.Helper()
	s := &site{session: 1, conns: make(chan net.Conn, 64)} // more than a test dials
	quick := func(context.Context, *worker.Execution) ([]byte, error) { return nil, nil }
	hang := func(ctx context.Context, _ *worker.Execution) ([]byte, error) {
		<-ctx.Done()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.causes = append(s.causes, context.Cause(ctx))
		return nil, ctx.Err()
	}
	var err error
	s.pool, err = worker.New(worker.Config{
		Slots: 2, Handlers: map[string]worker.Handler{"work": quick, "hang": hang},
		NewAlarm:   func() worker.Alarm { return precise.Plain() },
		Report:     func(context.Context, []store.Report) error { return nil },
		Checkpoint: func(context.Context, store.Checkpoint) error { return nil },
		Observer: worker.Observer{Started: func(*store.Run, time.Duration) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.started++
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := ClientConfig{Dial: s.dial, Pool: s.pool, Tasks: []string{"work"}, Slots: 2, Session: func() uint64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.session
	}}
	for _, f := range change {
		f(&cfg)
	}
	s.Client = NewClient(cfg)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var own sync.WaitGroup
	own.Go(func() { _ = s.pool.Run(ctx) })
	own.Go(func() { s.Keep(ctx) })
	t.Cleanup(func() {
		stop()
		own.Wait()
		close(s.conns)
		for c := range s.conns {
			_ = c.Close()
		}
	})
	return s
}

func (s *site) dial(context.Context) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialed = append(s.dialed, time.Now())
	if s.refuse {
		return nil, errors.New("no leader")
	}
	near, far := net.Pipe()
	s.conns <- far
	return near, nil
}

// next awaits a connection and reads what the worker says first.
func (s *site) next(t *testing.T) (*peer, *attach) {
	t.Helper()
	conn := <-s.conns
	t.Cleanup(func() { _ = conn.Close() })
	p := &peer{Conn: conn, in: newReader(conn)}
	return p, receive[*attach](t, p)
}

// accept greets the worker and reads its first ping.
func (s *site) accept(t *testing.T, term uint64) *peer {
	t.Helper()
	p, _ := s.next(t)
	p.send(t, &attached{Term: term})
	receive[*ping](t, p)
	return p
}

func (s *site) ended() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]error(nil), s.causes...)
}

// given makes the frame that assigns one run.
func given(task string, n byte) *assign {
	spec := store.Spec{Task: task, Queue: "q"}
	run := &store.Run{ID: store.RunID{n}, State: store.Running, Fence: uint64(n) + 1, Session: 1, Attempt: 1}
	return &assign{Specs: [][]byte{spec.Encode()}, Grants: []grant{{0, 0, run}}}
}

// Whatever a leader sends that it must not, the worker looks for another, and keeps what it has.
func TestClient_Garbage(t *testing.T) {
	future := int64(time.Hour)
	bad := given("work", 9)
	bad.Specs[0] = []byte{0xc1}
	for name, data := range map[string][]byte{
		"no frame":              []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"what a worker sends":   encoded(t, new(retire)),
		"a second attached":     encoded(t, new(attached)),
		"a pong to no ping yet": encoded(t, &pong{Sent: future, Got: 1, At: 1}),
		"a spec that is none":   encoded(t, bad),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t)
				p := s.accept(t, 1)
				p.send(t, given("hang", 1))
				_, _ = p.Write(data)
				for { // until it hangs up
					if _, err := p.in.next(); err != nil {
						break
					}
				}
				_, again := s.next(t)
				if len(again.Held) != 1 || again.Held[0] != (lease{store.RunID{1}, 2}) {
					t.Fatalf("held: got %v, want the run that hangs", again.Held)
				}
				if got := s.ended(); len(got) != 0 {
					t.Fatalf("handlers ended: %v", got)
				}
			})
		})
	}
}

func TestClient_FollowsNoLowerTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		p := s.accept(t, 5)
		p.send(t, given("hang", 1))
		_ = p.Close()
		p, hello := s.next(t)
		if hello.Term != 5 || len(hello.Held) != 1 {
			t.Fatalf("attach: got %+v, want term 5 and what it holds", hello)
		}
		p.send(t, &attached{Term: 4, Ended: []ended{{store.RunID{1}, 2, causeLost}}})
		if _, err := p.in.next(); !errors.Is(err, io.EOF) {
			t.Fatalf("got %v, want EOF", err)
		}
		synctest.Wait()
		if got := s.ended(); len(got) != 0 {
			t.Fatalf("handlers ended: %v", got)
		}
	})
}

func TestClient_SilentLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		p := s.accept(t, 1)
		begin := time.Now()
		for {
			if _, err := p.in.next(); err != nil {
				break
			}
		}
		if got := time.Since(begin); got != defaultSilence {
			t.Fatalf("it hung up after %v, want %v", got, defaultSilence)
		}
		s.next(t)
	})
}

// Pings that are sent do not count, and those that are answered count from when they were sent.
func TestClient_StartsOnlyInContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, func(c *ClientConfig) { c.Silence = time.Minute })
		p := s.accept(t, 1)
		begin := time.Now()
		go func() { // reads what is not answered; ends with p
			for {
				if _, err := p.in.next(); err != nil {
					return
				}
			}
		}()
		n := byte(0)
		assigned := func(at time.Duration, want int, why string) {
			t.Helper()
			time.Sleep(time.Until(begin.Add(at)))
			n++
			p.send(t, given("work", n))
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.started != want {
				t.Fatalf("%s: started %d, want %d", why, s.started, want)
			}
		}
		assigned(defaultTTL-time.Millisecond, 1, "just before TTL has passed")
		assigned(defaultTTL+time.Millisecond, 1, "just after")
		p.send(t, &pong{Sent: int64(time.Second), Got: 1, At: 1})
		assigned(defaultTTL+time.Second-time.Millisecond, 2, "after the answer to a ping of one second later")
		assigned(defaultTTL+time.Second+time.Millisecond, 2, "that second later")
	})
}

func TestClient_Pauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		p := s.accept(t, 1)
		s.mu.Lock()
		s.refuse, s.dialed = true, nil
		s.mu.Unlock()
		_ = p.Close()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		s.mu.Lock()
		n := len(s.dialed)
		s.mu.Unlock()
		if n < 10 || n > 20 {
			t.Fatalf("dialed %d times in 10 s, want about 15", n)
		}
		s.mu.Lock()
		s.refuse = false
		s.mu.Unlock()
		begin := time.Now()
		s.Redial()
		s.next(t)
		if got := time.Since(begin); got != 0 {
			t.Fatalf("dialed %v after it was told to, want at once", got)
		}
	})
}

func TestClient_Ended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *site
		s = newSite(t, func(c *ClientConfig) {
			c.Gone = func(uint64) { // as a node does that opens another
				s.mu.Lock()
				s.session = 2
				s.mu.Unlock()
				s.Redial()
			}
		})
		p := s.accept(t, 1)
		p.send(t, given("hang", 1))
		synctest.Wait()
		p.send(t, &refused{refusedEnded})
		_, hello := s.next(t)
		if hello.Session != 2 {
			t.Fatalf("session: got %d, want 2", hello.Session)
		}
		synctest.Wait()
		if got := s.ended(); len(got) != 1 || !errors.Is(got[0], worker.ErrLeaseLost) {
			t.Fatalf("causes: got %v, want ErrLeaseLost", got)
		}
	})
}

// What the leader is told of the capacity is the last, however often that has changed.
func TestClient_Offers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		p, hello := s.next(t)
		if hello.Capacity != 2 || hello.Slots != 2 || len(hello.Tasks) != 1 {
			t.Fatalf("attach: got %+v", hello)
		}
		p.send(t, new(attached))
		receive[*ping](t, p)
		s.Offer() // nothing has changed
		synctest.Wait()
		drained := make(chan struct{})
		go func() { // awaited below
			defer close(drained)
			_ = s.pool.Drain(t.Context())
		}()
		<-drained
		s.Offer()
		s.Offer()
		if got := receive[*capacity](t, p); *got != (capacity{0, 0}) {
			t.Fatalf("got %+v, want none", got)
		}
		receive[*ping](t, p)
	})
}
