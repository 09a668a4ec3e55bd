package session

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/worker"
)

// contact is the worker's end of one connection.
type contact struct {
	*Client
	conn    net.Conn
	in      *reader
	clock   steady
	session uint64
	offered capacity // what the leader has been told last; after attach it is the writer's

	// What follows is the reader's.
	ahead ahead
	specs store.Specs
}

// attach says what the worker has and takes back what it has no more. It returns nil once the leader has accepted it.
func (k *contact) attach() error {
	hello := &attach{Session: k.session, Term: k.seenTerm(), Tasks: k.cfg.Tasks, Slots: k.cfg.Slots}
	// The leader does not miss what is beyond the limit of a list: it is sent again.
	held := k.cfg.Pool.Held()
	for _, h := range held[:min(len(held), maxListed)] {
		hello.Held = append(hello.Held, lease(h))
	}
	k.offered, _ = k.want()
	hello.Capacity, hello.Reserved = k.offered.Capacity, k.offered.Reserved

	sent := k.clock.now()
	out := writer{conn: k.conn, timeout: k.cfg.Silence}
	if err := out.add(hello); err != nil {
		return err
	}
	if err := out.flush(); err != nil {
		return err
	}
	f, err := nextWithin(k.conn, k.in, k.cfg.Silence)
	if err != nil {
		return err
	}
	switch f := f.(type) {
	case *attached:
		if !k.follow(f.Term) {
			return fmt.Errorf("%w: leader of an old term %d", ErrProtocol, f.Term)
		}
		k.end(f.Ended) // before anything may be started again
		k.proved(sent)
		k.cfg.Logger.Info("attached to the leader", keySession, k.session, keyTerm, f.Term,
			keyHeld, len(held), keyEnded, len(f.Ended))
		return nil
	case *refused:
		return k.refused(f)
	default:
		return fmt.Errorf("%w: frame %d before the worker was attached", ErrProtocol, f.kind())
	}
}

// write tells the leader what changes, and proves contact, until ctx ends.
func (k *contact) write(ctx context.Context) error {
	out := writer{conn: k.conn, timeout: k.cfg.Silence}
	ticker := time.NewTicker(k.cfg.Every)
	defer ticker.Stop()
	asked := false
	if err := out.add(k.ping()); err != nil {
		return err
	}
	for {
		if want, retiring := k.want(); retiring && !asked {
			asked = true
			if err := out.add(new(retire)); err != nil {
				return err
			}
		} else if want != k.offered && !retiring {
			k.offered = want
			if err := out.add(&want); err != nil {
				return err
			}
		}
		if err := out.flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-k.wake:
		case <-ticker.C:
			if err := out.add(k.ping()); err != nil {
				return err
			}
		}
	}
}

func (k *contact) ping() *ping { return &ping{k.clock.now(), k.cfg.Now().UnixNano()} }

// read does what the leader says until the connection ends.
func (k *contact) read() error {
	for {
		f, err := nextWithin(k.conn, k.in, k.cfg.Silence)
		if err != nil {
			return err
		}
		switch f := f.(type) {
		case *assign:
			err = k.assign(f)
		case *cancel:
			k.end(f.Ended)
		case *pong:
			err = k.pong(f)
		case *retired:
			k.settle()
		case *refused:
			err = k.refused(f)
		default:
			err = fmt.Errorf("%w: frame %d from a leader", ErrProtocol, f.kind())
		}
		if err != nil {
			return err
		}
	}
}

func (k *contact) assign(f *assign) error {
	now := k.clock.now()
	k.ahead.learn(f.At, now)
	specs := make([]*store.Spec, len(f.Specs))
	for i, raw := range f.Specs {
		var err error
		if specs[i], err = k.specs.Intern(raw); err != nil {
			return fmt.Errorf("%w: spec: %w", ErrProtocol, err)
		}
	}
	list := make([]worker.Assignment, len(f.Grants))
	for i := range f.Grants {
		g := &f.Grants[i]
		g.Run.Spec = specs[g.Spec]
		list[i] = worker.Assignment{Run: g.Run, Fence: g.Run.Fence, In: k.ahead.until(g.Due, now)}
	}
	k.cfg.Pool.Assign(list)
	return nil
}

func (k *contact) end(list []ended) {
	for i := range list {
		cause := worker.ErrLeaseLost
		if list[i].Why == causeCanceled {
			cause = worker.ErrCanceled
		}
		k.cfg.Pool.Cancel(list[i].Run, list[i].Fence, cause)
	}
}

func (k *contact) pong(f *pong) error {
	now := k.clock.now()
	if f.Sent < 0 || f.Sent > now || f.At < f.Got {
		return fmt.Errorf("%w: pong of another time", ErrProtocol)
	}
	k.ahead.learn(f.At, now)
	k.proved(f.Sent)
	if k.cfg.Sample != nil {
		there := f.GotWall - f.SentWall
		back := f.GotWall + (f.At - f.Got) - k.cfg.Now().UnixNano()
		k.cfg.Sample(time.Duration((there+back)/2), time.Duration(now-f.Sent-(f.At-f.Got)))
	}
	return nil
}

// proved takes in that the leader has answered what was sent at the given time, and so counted the worker as attached
// then or later.
func (k *contact) proved(sent int64) { k.cfg.Pool.StartUntil(k.clock.time(sent).Add(k.cfg.TTL)) }

func (k *contact) refused(f *refused) error {
	if f.Why == refusedEnded {
		// It never comes back, and its leases are being given to others.
		for _, h := range k.cfg.Pool.Held() {
			k.cfg.Pool.Cancel(h.Run, h.Fence, worker.ErrLeaseLost)
		}
	}
	if f.Why != refusedNotLeading && k.cfg.Gone != nil {
		k.cfg.Gone(k.session)
	}
	return fmt.Errorf("%w: %v", ErrRefused, f.Why)
}
