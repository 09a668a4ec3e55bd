package session_test

import (
	"net"
	"sync"
	"time"
)

// A stream is a connection with a latency, which can be held up or cut.
type stream struct {
	near, far net.Conn // of the worker, of the leader

	mu      sync.Mutex // guards what follows
	latency time.Duration
	held    chan struct{} // closed when it flows on; nil while it flows
	left    int           // bytes that the leader may still send; < 0: no end
	gone    sync.WaitGroup
}

type chunk struct {
	data []byte
	at   time.Time
}

// newStream returns a stream that ends when both of its ends are closed, or one and the latency has passed.
func newStream(latency time.Duration) *stream {
	s := &stream{latency: latency, left: -1}
	var near, far net.Conn // inside
	s.near, near = net.Pipe()
	far, s.far = net.Pipe()
	s.carry(near, far, false)
	s.carry(far, near, true)
	return s
}

// carry takes what one end writes to the other.
func (s *stream) carry(from, to net.Conn, counted bool) {
	chunks := make(chan chunk, 1<<10) // more than any test writes within the latency
	s.gone.Go(func() {                // ends when either end is closed
		defer close(chunks)
		for {
			buf := make([]byte, 16<<10)
			n, err := from.Read(buf)
			if err != nil {
				return
			}
			s.mu.Lock()
			cut := false
			if counted && s.left >= 0 {
				cut = n >= s.left
				n = min(n, s.left)
				s.left -= n
			}
			chunks <- chunk{buf[:n], time.Now().Add(s.latency)}
			s.mu.Unlock()
			if cut {
				return
			}
		}
	})
	s.gone.Go(func() { // ends with the one above
		for c := range chunks {
			time.Sleep(time.Until(c.at))
			s.mu.Lock()
			held := s.held
			s.mu.Unlock()
			if held != nil {
				<-held
			}
			if _, err := to.Write(c.data); err != nil {
				break
			}
		}
		_ = to.Close()
		_ = from.Close()
	})
}

// hold lets nothing arrive any more, in either direction, until release.
func (s *stream) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held = make(chan struct{})
	}
}

func (s *stream) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != nil {
		close(s.held)
		s.held = nil
	}
}

// cutAfter ends the stream when the leader has sent so many more bytes.
func (s *stream) cutAfter(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = n
}
