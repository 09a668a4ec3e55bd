package precise

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// exact is a timerfd. One goroutine reads it, which parks in the network poller until the kernel's timer expires, and
// passes each expiry on to the channel.
//
//	reset ──▶ armed ──expiry──▶ fired (in fires) ──receive──▶ idle
//	            └──────reset, stop──────┴──▶ armed anew, idle
type exact struct {
	file  *os.File
	fires chan time.Time // capacity 1: only an armed timer fires, and arming empties it
	done  chan struct{}  // closed when the goroutine has ended

	mu     sync.Mutex // guards what follows, the use of fd, and what goes into fires
	fd     int        // of file; not to be used once closed
	armed  bool
	at     time.Time // when it is armed: not before this
	closed bool
}

// newExact returns nil if there is no timerfd to be had: no descriptors left, a sandbox that forbids it.
func newExact() source {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil
	}
	file := os.NewFile(uintptr(fd), "timerfd")
	if file.SetReadDeadline(time.Time{}) != nil { // the poller does not take it: a read would not wait
		_ = file.Close() // nothing was written
		return nil
	}
	e := &exact{file: file, fd: fd, fires: make(chan time.Time, 1), done: make(chan struct{})}
	go e.run() // ended and awaited by close
	return e
}

func (e *exact) c() <-chan time.Time { return e.fires }

func (e *exact) reset(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.disarmLocked()
	e.armed, e.at = true, time.Now().Add(d)
	e.setLocked(d)
}

func (e *exact) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.disarmLocked()
	e.programLocked(0)
}

func (e *exact) close() {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		e.disarmLocked()
		_ = e.file.Close() // ends the read; nothing was written that could be lost
	}
	e.mu.Unlock()
	<-e.done
}

func (e *exact) run() {
	defer close(e.done)
	var count [8]byte
	for {
		if _, err := e.file.Read(count[:]); err != nil {
			return // closed: a timerfd has no other error to give
		}
		e.fire()
	}
}

// fire passes an expiry on. The expiry may be of an earlier arming: it was read just before a reset, and had to wait for
// the lock. Then it is not time yet, and the kernel is asked once more for the present one, in case that was meant.
func (e *exact) fire() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.armed {
		return
	}
	now := time.Now()
	if left := e.at.Sub(now); left > 0 {
		e.setLocked(left)
		return
	}
	e.armed = false
	e.fires <- now // does not block: armed means empty
}

// disarmLocked makes sure that nothing is in fires and nothing comes.
func (e *exact) disarmLocked() {
	e.armed = false
	select {
	case <-e.fires:
	default:
	}
}

// setLocked makes the kernel's timer expire in d, or at once; zero would switch it off.
func (e *exact) setLocked(d time.Duration) { e.programLocked(max(d, 1)) }

func (e *exact) programLocked(d time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if err := unix.TimerfdSettime(e.fd, 0, &spec, nil); err != nil {
		panic("precise: timerfd_settime: " + err.Error()) // only for a bad descriptor or argument, and we own both
	}
}
