package session_test

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/internal/precise"
	"github.com/escapement-go/scheduler/internal/session"
	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	lostAfter = 10 * time.Second
	ttl       = 5 * time.Second
	silence   = 3 * time.Second
	latency   = 2 * time.Millisecond
)

// A rig is a state with a leader of it, which may be followed by others, and one node with a pool that is attached to
// the leader through a stream. Entries of the log are applied as soon as they are prepared.
type rig struct {
	t       *testing.T
	ctx     context.Context // of all that runs
	session uint64
	pool    *worker.Pool
	client  *session.Client

	state  sync.Mutex // guards st, index and minted, as a node's state lock does
	st     *store.State
	index  uint64
	minted uint64

	mu       sync.Mutex // guards what follows
	leader   *leader    // nil: nobody leads
	term     uint64
	streams  []*stream // the last is the newest
	latency  time.Duration
	cutAfter int  // for streams to come; < 0: none
	cut      bool // the node reaches nobody
	started  []start
	samples  []time.Duration
	gone     []uint64
	causes   []error

	own sync.WaitGroup
}

type start struct {
	run   store.RunID
	at    time.Time
	late  time.Duration
	fence uint64
}

// leader is one node's leadership.
type leader struct {
	*rig
	d      *dispatch.Dispatcher
	server *session.Server
	term   atomic.Uint64
	kick   chan struct{}
	ctx    context.Context // ends with the leadership
	stop   context.CancelFunc
	own    sync.WaitGroup
}

var errCut = errors.New("no contact")

// newRig returns a rig with a leader, whose node's Keep runs. It ends when the test does.
func newRig(t *testing.T, slots int, handlers map[string]worker.Handler) *rig {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	r := &rig{t: t, ctx: ctx, st: store.NewState(), latency: latency, cutAfter: -1}
	r.lead()
	res := r.must(store.Command{Kind: store.KindOpenSession, Open: &store.OpenSession{Node: "n", Tasks: []string{"work", "hang"}}})
	r.session = res[0].N
	if handlers == nil {
		handlers = map[string]worker.Handler{"work": r.work, "hang": r.hang}
	}
	var err error
	r.pool, err = worker.New(worker.Config{
		Slots: slots, Handlers: handlers, NewAlarm: func() worker.Alarm { return precise.Plain() },
		Report:     r.report,
		Checkpoint: func(context.Context, store.Checkpoint) error { return errCut },
		OnCapacity: func(int) { r.client.Offer() },
		Observer:   worker.Observer{Started: r.observe},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.client = session.NewClient(session.ClientConfig{
		Dial: r.dial, Session: func() uint64 { return r.session }, Pool: r.pool, Tasks: []string{"work", "hang"}, Slots: slots,
		Sample: func(offset, _ time.Duration) { r.note(func() { r.samples = append(r.samples, offset) }) },
		Gone:   func(s uint64) { r.note(func() { r.gone = append(r.gone, s) }) },
		TTL:    ttl, Every: time.Second, Silence: silence,
	})
	pool := make(chan struct{})
	go func() { // awaited below
		defer close(pool)
		_ = r.pool.Run(ctx)
	}()
	r.own.Go(func() { r.client.Keep(ctx) })
	t.Cleanup(func() {
		r.heal()
		stop()
		r.own.Wait()
		r.depose()
		<-pool
		for _, s := range r.streams {
			s.release()
			s.gone.Wait()
		}
	})
	return r
}

func (r *rig) note(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *rig) observe(run *store.Run, late time.Duration) {
	r.note(func() { r.started = append(r.started, start{run.ID, time.Now(), late, run.Fence}) })
}

// work is a handler that is quick.
func (r *rig) work(context.Context, *worker.Execution) ([]byte, error) { return []byte("done"), nil }

// hang is a handler that runs until its context ends.
func (r *rig) hang(ctx context.Context, _ *worker.Execution) ([]byte, error) {
	<-ctx.Done()
	r.note(func() { r.causes = append(r.causes, context.Cause(ctx)) })
	return nil, ctx.Err()
}

// starts returns what has been started so far.
func (r *rig) starts() []start {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]start(nil), r.started...)
}

func (r *rig) ended() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]error(nil), r.causes...)
}

// lead makes a new leader of the state.
func (r *rig) lead() *leader {
	r.depose()
	ctx, stop := context.WithCancel(r.ctx)
	l := &leader{rig: r, kick: make(chan struct{}, 1), ctx: ctx, stop: stop}
	alarm := precise.Plain()
	l.d = dispatch.New(dispatch.Config{
		Kick: func() {
			select {
			case l.kick <- struct{}{}:
			default: // one is as good as two
			}
		},
		Now: func() (int64, int64) { now := time.Now().UnixNano(); return now, now },
		Compile: func(*store.State, *store.Schedule) (dispatch.Rule, error) {
			return nil, errors.New("no schedules here")
		},
		Random: func() uint64 { return 0 },
		Alarm:  alarm, Logger: slog.New(slog.DiscardHandler), LostAfter: lostAfter,
	})
	l.server = session.NewServer(session.ServerConfig{
		Dispatcher: l.d, Term: l.term.Load, Silence: silence,
		View: func(look func(*store.State)) {
			r.state.Lock()
			defer r.state.Unlock()
			look(r.st)
		},
		Settle: func(context.Context) error {
			_, err := r.propose(store.Command{Kind: store.KindExpire, Expire: new(store.Expire)})
			return err
		},
	})
	r.state.Lock()
	l.d.Lead(r.st, true)
	r.state.Unlock()
	r.note(func() {
		r.term++
		l.term.Store(r.term)
		r.leader = l
	})
	l.own.Go(func() {
		defer alarm.Close()
		l.d.Run(ctx)
	})
	l.own.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-l.kick:
				_, _ = r.propose() // of an old leader: nothing comes of it
			}
		}
	})
	return l
}

// depose ends the leadership there is.
func (r *rig) depose() {
	r.mu.Lock()
	l := r.leader
	r.leader = nil
	r.mu.Unlock()
	if l == nil {
		return
	}
	l.term.Store(0)
	l.stop()
	l.own.Wait()
}

// dial connects the node to the leader.
func (r *rig) dial(context.Context) (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.leader
	if r.cut || l == nil {
		return nil, errCut
	}
	s := newStream(r.latency)
	if r.cutAfter >= 0 {
		s.left = r.cutAfter
	}
	r.streams = append(r.streams, s)
	l.own.Go(func() { _ = l.server.Serve(l.ctx, s.far) })
	return s.near, nil
}

// part takes the node from the network: what is under way does not arrive.
func (r *rig) part() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = true
	for _, s := range r.streams {
		s.hold()
	}
}

// heal undoes part.
func (r *rig) heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = false
	for _, s := range r.streams {
		s.release()
	}
}

func (r *rig) stream() *stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.streams[len(r.streams)-1]
}

func (r *rig) connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.streams)
}

// propose commits an entry through the leader there is.
func (r *rig) propose(cmds ...store.Command) ([]store.Result, error) {
	r.mu.Lock()
	l := r.leader
	r.mu.Unlock()
	if l == nil {
		return nil, errCut
	}
	r.state.Lock()
	defer r.state.Unlock()
	now := time.Now().UnixNano()
	b := &store.Batch{Level: store.FormatLevel, Wall: now, Elapsed: now, Commands: cmds}
	l.d.Prepare(b, r.st)
	if len(b.Commands) == 0 {
		return nil, nil
	}
	data, err := store.EncodeBatch(nil, b)
	if err != nil {
		return nil, err
	}
	if b, err = store.DecodeBatch(data); err != nil {
		return nil, err
	}
	r.index++
	results, events := r.st.Apply(r.index, 1, b)
	l.d.Applied(r.st, b, results, events)
	return results, nil
}

func (r *rig) must(cmds ...store.Command) []store.Result {
	r.t.Helper()
	results, err := r.propose(cmds...)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, res := range results[:len(cmds)] {
		if res.Code != store.OK {
			r.t.Fatalf("command: got %+v, want OK", res)
		}
	}
	return results
}

// report is the pool's way to the log, which the network does not carry in these tests.
func (r *rig) report(_ context.Context, reports []store.Report) error {
	r.mu.Lock()
	cut := r.cut
	r.mu.Unlock()
	if cut {
		return errCut
	}
	_, err := r.propose(store.Command{Kind: store.KindComplete, Complete: &store.Complete{Session: r.session, Reports: reports}})
	return err
}

// enqueue adds n runs that are due after the delay.
func (r *rig) enqueue(task string, n int, delay time.Duration, change ...func(*store.Spec)) []store.RunID {
	r.t.Helper()
	spec := &store.Spec{
		Task: task, Queue: "default", Priority: store.Normal,
		Retry: store.Retry{Initial: int64(time.Second), Max: int64(time.Minute), Factor: 2, Attempts: 9},
	}
	for _, f := range change {
		f(spec)
	}
	e := &store.Enqueue{Specs: [][]byte{spec.Encode()}}
	ids := make([]store.RunID, n)
	r.state.Lock()
	for i := range ids {
		r.minted++
		var entropy [10]byte
		binary.BigEndian.PutUint64(entropy[2:], r.minted)
		ids[i] = store.NewRunID(time.Now(), entropy)
		e.Runs = append(e.Runs, store.NewRun{ID: ids[i], Due: int64(delay), Input: []byte("input")})
	}
	r.state.Unlock()
	r.must(store.Command{Kind: store.KindEnqueue, Enqueue: e})
	return ids
}

// run returns a run's row, as it is now.
func (r *rig) run(id store.RunID) *store.Run {
	r.t.Helper()
	r.state.Lock()
	defer r.state.Unlock()
	run := r.st.Run(id)
	if run == nil {
		r.t.Fatalf("run %v is unknown", id)
	}
	return run
}

func (r *rig) wantState(id store.RunID, want store.RunState) {
	r.t.Helper()
	if got := r.run(id); got.State != want {
		r.t.Fatalf("run %v: got %v, want %v: %+v", id, got.State, want, got)
	}
}

// pass lets time pass, and then everything come to rest.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
