package precise

import (
	"sync"
	"time"
)

// plain is a time.Timer, which by itself leaves nothing stale in its channel after Reset or Stop (since Go 1.23).
type plain struct {
	timer *time.Timer

	mu     sync.Mutex // guards closed, and keeps a reset from coming after it
	closed bool
}

func newPlain() *plain {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &plain{timer: t}
}

func (p *plain) c() <-chan time.Time { return p.timer.C }

func (p *plain) reset(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.timer.Reset(d)
	}
}

func (p *plain) stop() { p.timer.Stop() }

func (p *plain) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.timer.Stop()
}
