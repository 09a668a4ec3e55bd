package seglog

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"syscall"
)

// spares makes segments ahead of their use: written once with zeros, because to write to space that never was
// written costs a commit of the file system's journal. Its one goroutine runs from start to stop.
type spares struct {
	in    folder
	sizes sizes
	name  func() uint64         // the id of the next segment
	keep  func(id uint64) error // makes it part of the log, durably

	// For the writer alone.
	queue   []*segment // ready, in the order of the log
	asked   bool       // a result is still to come
	largest int64      // size of the newest segment asked for or in the log

	asks    chan wish     // capacity 1: at most one is asked for
	results chan prepared // capacity 1: one for each ask
	quit    chan struct{} // closed by stop
	done    sync.WaitGroup
}

// wish is the size of a segment to be made, and the least one that will do if the disk has no room for it.
type wish struct{ size, least int64 }

type prepared struct {
	segment *segment
	err     error
}

var errStopped = errors.New("seglog: closing")

func (p *spares) start() {
	p.asks, p.results = make(chan wish, 1), make(chan prepared, 1)
	p.quit = make(chan struct{})
	p.done.Go(p.run) // until stop
}

// stop ends the goroutine, and forgets the segments that are ready: they are on disk for the next opening.
func (p *spares) stop() error {
	close(p.quit)
	p.done.Wait()
	select {
	case r := <-p.results:
		if r.segment != nil {
			p.queue = append(p.queue, r.segment)
		}
	default:
	}
	var errs []error
	for _, s := range p.queue {
		errs = append(errs, s.release())
	}
	p.queue = nil
	return errors.Join(errs...)
}

func (p *spares) run() {
	for {
		select {
		case <-p.quit:
			return
		case w := <-p.asks:
			s, err := p.create(w.size)
			for errors.Is(err, syscall.ENOSPC) && w.size > w.least {
				w.size = max(roundUp(w.size/4, pageSize), w.least)
				s, err = p.create(w.size)
			}
			p.results <- prepared{s, err}
		}
	}
}

// ask has a segment made, unless one is ready or under way.
func (p *spares) ask() {
	if !p.asked && len(p.queue) == 0 {
		p.askFor(p.sizes.after(p.largest), p.sizes.after(0))
	}
}

func (p *spares) askFor(size, least int64) {
	p.asked = true
	p.asks <- wish{size, min(size, least)}
}

// take returns the next segment with room for need bytes, and those before it that are too small. It waits if the
// segment is not ready; after an error nothing has changed and take may be called again.
func (p *spares) take(need int64) (next *segment, skipped []*segment, err error) {
	fresh := false // the result under way was asked for by this call
	for i := 0; ; {
		for ; i < len(p.queue); i++ {
			if next = p.queue[i]; pageSize+need <= next.size {
				skipped = p.queue[:i:i]
				p.queue = p.queue[i+1:]
				p.ask()
				return next, skipped, nil
			}
		}
		if !p.asked {
			least := roundUp(pageSize+need, pageSize)
			p.askFor(max(p.sizes.after(p.largest), least), least)
			fresh = true
		}
		r := <-p.results
		p.asked = false
		switch {
		case r.err == nil:
			p.largest = min(r.segment.size, p.sizes.most)
			p.queue = append(p.queue, r.segment)
		case fresh:
			return nil, nil, r.err
		}
	}
}

// create makes one segment that is durable and part of the log.
func (p *spares) create(size int64) (*segment, error) {
	id := p.name()
	f, err := p.in.Create(segmentName(id))
	if err != nil {
		return nil, fmt.Errorf("seglog: create segment: %w", err)
	}
	var salt [8]byte
	_, _ = rand.Read(salt[:]) // it never fails
	s := newSegment(id, binary.LittleEndian.Uint64(salt[:])|1<<63, size, f)
	if err = p.fill(s); err == nil {
		err = p.in.Sync()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("seglog: make segment %s: %w", s.name, err), f.Close(), p.in.Remove(s.name))
	}
	if err := p.keep(id); err != nil {
		return nil, errors.Join(err, f.Close()) // whether it was kept is unknown, so the file must stay
	}
	return s, nil
}

// fillStep is how much of a segment is written at a time: a sync of more would hold up those of the appends.
const fillStep = 1 << 20

func (p *spares) fill(s *segment) error {
	b := make([]byte, min(fillStep, s.size))
	copy(b, s.header())
	for off := int64(0); off < s.size; off += int64(len(b)) {
		select {
		case <-p.quit:
			return errStopped
		default:
		}
		b = b[:min(int64(len(b)), s.size-off)]
		if _, err := s.f.WriteAt(b, off); err != nil {
			return err
		}
		if err := s.f.Sync(); err != nil {
			return err
		}
		if off == 0 {
			clear(b[:segmentHeader])
		}
	}
	return nil
}
