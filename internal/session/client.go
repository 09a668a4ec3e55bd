package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/escapement-go/scheduler/worker"
)

// ClientConfig is what a [Client] is made of. Durations that are zero take their defaults.
type ClientConfig struct {
	// Dial connects to the node that leads now, up to where the frames of this package begin. It must return when ctx
	// ends.
	Dial func(ctx context.Context) (net.Conn, error)
	// Session returns the number of the worker's session, 0 as long as it has none.
	Session func() uint64
	Pool    *worker.Pool
	Tasks   []string // that the pool has handlers for
	Slots   int      // that the pool has for runs of every class

	// Sample, if set, is told at each contact how far the leader's time of day is ahead of this node's. The true value
	// is within half of the round trip of it. It must not block.
	Sample func(offset, roundTrip time.Duration)
	// Gone, if set, is told that the leader does not know the session, or that it has ended. Whoever opens another calls
	// [Client.Redial] then. It must not block.
	Gone func(session uint64)

	Now    func() time.Time // time of day; default: time.Now
	Logger *slog.Logger     // default: none

	// TTL is for how long after the last proof of contact attempts may be started. It must be shorter, by more than
	// clocks may drift, than the time for which a leader lets a worker keep its leases that it has lost. Default 5 s.
	TTL time.Duration
	// Every is how often contact is proved. Default 1 s.
	Every time.Duration
	// Silence is after how long of hearing nothing a connection is given up, how long a write may take, and how long
	// Dial. Default 3 s.
	Silence time.Duration
}

const (
	defaultTTL   = 5 * time.Second
	defaultEvery = time.Second

	firstPause = 10 * time.Millisecond // before the next try
	maxPause   = time.Second
)

// errRedial is why a connection ends whose leader leads no more.
var errRedial = errors.New("session: leader changed")

// A Client is the worker's end of a session: it keeps the pool in contact with whichever node leads. It is safe for
// concurrent use.
type Client struct {
	cfg     ClientConfig
	wake    chan struct{} // capacity 1, a token: there is something to tell the leader
	retired chan struct{} // closed once nothing more will be granted

	mu       sync.Mutex              // guards what follows
	redial   context.CancelCauseFunc // ends the present try; nil before the first
	retiring bool
	settled  bool   // retired is closed
	term     uint64 // the highest of a leader that the worker has been attached to
}

// NewClient returns a client that does nothing until [Client.Keep].
func NewClient(cfg ClientConfig) *Client {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.TTL = cmp.Or(cfg.TTL, defaultTTL)
	cfg.Every = cmp.Or(cfg.Every, defaultEvery)
	cfg.Silence = cmp.Or(cfg.Silence, defaultSilence)
	return &Client{cfg: cfg, wake: make(chan struct{}, 1), retired: make(chan struct{})}
}

// Keep keeps the pool attached to the leader until ctx ends. From its call on the pool starts attempts only as long as
// contact is proved, at first for TTL: a pool that was attached to its own node's dispatcher is given to Keep at once
// when the node leads no more, and has its bound lifted ([worker.Pool.StartUntil]) when it leads again and Keep has
// returned. Keep may be called again then, but not twice at a time.
func (c *Client) Keep(ctx context.Context) {
	c.cfg.Pool.StartUntil(time.Now().Add(c.cfg.TTL))
	pause := firstPause
	var lost time.Time // since when there is no contact
	told := false      // that it was lost for longer than a change of leaders takes
	for ctx.Err() == nil {
		try, redial := context.WithCancelCause(ctx)
		c.mu.Lock()
		c.redial = redial
		c.mu.Unlock()
		attached, err := c.try(try)
		if attached || lost.IsZero() {
			lost, told = time.Now(), false
		}
		if ctx.Err() == nil && !told && time.Since(lost) > c.cfg.Silence {
			told = true
			c.cfg.Logger.Warn("no contact with the leader", keyError, err)
		}
		if attached || errors.Is(context.Cause(try), errRedial) {
			pause = firstPause
		}
		sleep(try, pause)
		redial(nil)
		pause = min(2*pause, maxPause)
	}
}

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// try connects once and stays as long as that lasts. attached tells whether it came to anything.
func (c *Client) try(ctx context.Context) (attached bool, err error) {
	session := c.cfg.Session()
	if session == 0 {
		return false, errors.New("session: none is open")
	}
	dial, cancel := context.WithTimeout(ctx, c.cfg.Silence)
	defer cancel()
	conn, err := c.cfg.Dial(dial)
	if err != nil {
		return false, cmp.Or(context.Cause(ctx), err)
	}
	ctx, fail := context.WithCancelCause(ctx)
	k := &contact{Client: c, conn: conn, in: newReader(conn), clock: newSteady(), session: session}
	var own sync.WaitGroup
	own.Go(func() { // ends with ctx, which ends below
		<-ctx.Done()
		_ = conn.Close() // a network that failed has nothing to say
	})
	if err = k.attach(); err == nil {
		attached = true
		own.Go(func() { fail(k.write(ctx)) }) // ends with ctx, or with the connection
		err = k.read()                        //nolint:contextcheck // what it assigns runs under the pool's context
	}
	fail(err)
	own.Wait() // a later connection says what the pool holds, so this one must have nothing left to give it
	return attached, context.Cause(ctx)
}

// Redial has Keep ask anew which node leads, at once. It is for when that has changed, or the session.
func (c *Client) Redial() {
	c.mu.Lock()
	redial := c.redial
	c.mu.Unlock()
	if redial != nil {
		redial(errRedial)
	}
}

// Offer tells the leader, soon, how much the pool wants. It does not block.
func (c *Client) Offer() {
	select {
	case c.wake <- struct{}{}:
	default: // it will be looked at anyway
	}
}

// Retire asks the leader to grant nothing more to this worker, for good. When it has returned nil, the pool has been given
// all that it ever will be. It needs Keep to be running, and returns the cause when ctx ends before.
func (c *Client) Retire(ctx context.Context) error {
	c.mu.Lock()
	c.retiring = true
	c.mu.Unlock()
	c.Offer()
	select {
	case <-c.retired:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("session: retire: %w", context.Cause(ctx))
	}
}

// want returns what the pool wants to hold, and whether it is about to want nothing for good.
func (c *Client) want() (want capacity, retiring bool) {
	c.mu.Lock()
	retiring = c.retiring
	c.mu.Unlock()
	if retiring {
		return capacity{}, true
	}
	return capacity{c.cfg.Pool.Capacity(), c.cfg.Pool.Reserved()}, false
}

// settle tells Retire that the leader grants nothing more.
func (c *Client) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retiring && !c.settled {
		c.settled = true
		close(c.retired)
	}
}

// follow notes the term of a leader that takes the worker. It reports false for one that has been followed by another:
// such a node does not know what has been granted since, and would take it away.
func (c *Client) follow(term uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if term < c.term {
		return false
	}
	c.term = term
	return true
}

func (c *Client) seenTerm() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.term
}
