package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/store"
)

// Reasons for which [Server.Serve] ends.
var (
	ErrReplaced = errors.New("session: replaced by a newer connection")
	ErrRefused  = errors.New("session: refused")
	// ErrSlow is for a worker that does not take what it is sent.
	ErrSlow = errors.New("session: worker does not read")
)

// A Dispatcher grants leases to the workers that are attached to it. A [*dispatch.Dispatcher] is one.
type Dispatcher interface {
	Attach(session uint64, w dispatch.Worker, tasks []string, slots int)
	Detach(session uint64)
	Retire(session uint64)
	SetCapacity(session uint64, capacity, reserved int)
}

// ServerConfig is what a [Server] is made of.
type ServerConfig struct {
	Dispatcher Dispatcher
	// Term returns the term in which this node leads; 0 if it does not, or if its state or Dispatcher are not yet those
	// of a leader. It must not block.
	Term func() uint64
	// View calls look with the state, under its lock.
	View func(look func(st *store.State))
	// Settle returns when every lease that was decided on before the call is applied, or has come to nothing. It is
	// called without locks.
	Settle func(ctx context.Context) error

	Now    func() time.Time // time of day; default: time.Now
	Logger *slog.Logger     // default: none
	// Silence is after how long of hearing nothing a connection is given up, and how long a write may take. Default 3 s.
	Silence time.Duration
}

const defaultSilence = 3 * time.Second

// A Server is the leader's end of the worker sessions. It keeps one connection for each session, the newest. It is safe
// for concurrent use.
type Server struct {
	cfg   ServerConfig
	clock steady

	mu    sync.Mutex       // held while the dispatcher is told of a session; the dispatcher's own lock is taken inside it
	links map[uint64]*link // by session
}

// NewServer returns a server without connections.
func NewServer(cfg ServerConfig) *Server {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Silence = cmp.Or(cfg.Silence, defaultSilence)
	return &Server{cfg: cfg, clock: newSteady(), links: make(map[uint64]*link)}
}

// Serve is the leader's end of one connection, which it closes in the end. The worker is attached to the dispatcher as
// long as Serve runs, but for one that a newer connection of its session has replaced. ctx must end when this node's
// leadership does. It returns nil if the worker has closed the connection; else the reason: [ErrReplaced], [ErrRefused],
// [ErrSlow], [ErrProtocol], the cause of ctx, or what the connection has returned.
func (s *Server) Serve(ctx context.Context, conn net.Conn) error {
	ctx, fail := context.WithCancelCause(ctx)
	l := newLink(conn, s.clock, s.cfg.Silence, fail)
	var own sync.WaitGroup
	own.Go(func() { // ends with ctx, which ends below
		<-ctx.Done()
		_ = conn.Close() // a network that failed has nothing to say
	})
	err := s.converse(ctx, l, &own)
	fail(err)
	s.detach(l)
	own.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, io.EOF) {
		return cause
	}
	return nil
}

// converse reads what the worker sends until the connection ends.
func (s *Server) converse(ctx context.Context, l *link, own *sync.WaitGroup) error {
	in := newReader(l.conn)
	f, err := l.next(in)
	if err != nil {
		return err
	}
	hello, ok := f.(*attach)
	if !ok {
		return fmt.Errorf("%w: frame %d before the worker was attached", ErrProtocol, f.kind())
	}
	greeting, why := s.attach(l, hello)
	if why != 0 {
		return l.refuse(why)
	}
	own.Go(func() { l.fail(l.write(ctx, greeting)) }) // ends with ctx, or with the connection
	settling := false
	for {
		f, err := l.next(in)
		if err != nil {
			return err
		}
		switch f := f.(type) {
		case *ping:
			answer := &pong{Sent: f.Sent, SentWall: f.Wall, Got: s.clock.now(), GotWall: s.cfg.Now().UnixNano()}
			if why := s.standing(l); why != 0 {
				l.push(message{frame: &refused{why}})
				continue // until it is written, which ends the connection
			}
			l.push(message{frame: answer})
		case *capacity:
			s.ifCurrent(l, func() { s.cfg.Dispatcher.SetCapacity(l.session, f.Capacity, f.Reserved) })
		case *retire:
			if settling {
				continue
			}
			settling = true
			s.ifCurrent(l, func() { s.cfg.Dispatcher.Retire(l.session) })
			own.Go(func() { s.settle(ctx, l) }) // ends with ctx at the latest
		default:
			return fmt.Errorf("%w: frame %d from a worker", ErrProtocol, f.kind())
		}
	}
}

// attach makes the connection that of its session. It returns what is to be written first, or why it must not be.
func (s *Server) attach(l *link, a *attach) (*attached, refusal) {
	l.session, l.term, l.has = a.Session, s.cfg.Term(), make(map[lease]struct{}, len(a.Held))
	for _, h := range a.Held {
		l.has[h] = struct{}{}
	}
	if l.term < a.Term { // the worker knows of a later leader
		return nil, refusedNotLeading
	}
	if why := s.standing(l); why != 0 {
		return nil, why
	}
	s.mu.Lock()
	old := s.links[l.session]
	s.links[l.session] = l
	s.cfg.Dispatcher.Attach(l.session, l, a.Tasks, a.Slots)
	s.mu.Unlock()
	if old != nil {
		old.fail(ErrReplaced)
	}
	// A lease that ends from now on the dispatcher tells of, so none is missed.
	greeting := &attached{Term: l.term}
	s.cfg.View(func(st *store.State) { greeting.Ended = over(st, l.session, a.Held) })
	s.ifCurrent(l, func() { s.cfg.Dispatcher.SetCapacity(l.session, a.Capacity, a.Reserved) })
	s.cfg.Logger.Info("worker attached", keySession, l.session, keyTerm, l.term, keyHeld, len(a.Held), keyEnded, len(greeting.Ended))
	return greeting, 0
}

// standing says why the connection can be no session's, 0 if it can.
func (s *Server) standing(l *link) (why refusal) {
	if term := s.cfg.Term(); term == 0 || term != l.term {
		return refusedNotLeading
	}
	s.cfg.View(func(st *store.State) {
		if ses, ok := st.Session(l.session); !ok {
			why = refusedUnknown
		} else if ses.Ended {
			why = refusedEnded
		}
	})
	return why
}

// over returns those of the leases that the session does not have any more.
func over(st *store.State, session uint64, held []lease) []ended {
	var gone []ended
	for _, h := range held {
		r := st.Run(h.Run)
		mine := r != nil && r.Fence == h.Fence && r.Session == session
		switch {
		case mine && r.State == store.Running:
		case mine && r.State == store.Canceled:
			gone = append(gone, ended{h.Run, h.Fence, causeCanceled})
		default: // or it was reported: the pool knows that better
			gone = append(gone, ended{h.Run, h.Fence, causeLost})
		}
	}
	return gone
}

// settle answers a worker that retires.
func (s *Server) settle(ctx context.Context, l *link) {
	if err := s.cfg.Settle(ctx); err != nil {
		l.fail(fmt.Errorf("session: retire: %w", err)) // the worker asks the next leader
		return
	}
	l.push(message{frame: new(retired)})
}

// ifCurrent calls f, under mu, unless a newer connection of the session has replaced this one.
func (s *Server) ifCurrent(l *link, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.links[l.session] == l {
		f()
	}
}

func (s *Server) detach(l *link) {
	s.ifCurrent(l, func() {
		delete(s.links, l.session)
		s.cfg.Dispatcher.Detach(l.session)
	})
}

// Keys of log attributes.
const (
	keySession = "session"
	keyTerm    = "term"
	keyHeld    = "held"
	keyEnded   = "ended"
	keyError   = "error"
)
