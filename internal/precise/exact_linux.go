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
	expiry time.Time // what the kernel was asked for
	lead   lead
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
	now := time.Now()
	e.armed, e.at = true, now.Add(d)
	e.setLocked(now, d-e.lead.d)
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

// fire passes an expiry on. It may be early by the lead: the rest is waited for, the last few microseconds of it here.
// It may also be of an earlier arming: read just before a reset, it had to wait for the lock. Then the kernel is asked
// once more for the present one, in case that was meant.
func (e *exact) fire() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.armed {
		return
	}
	now := time.Now()
	if now.Before(e.expiry) { // of an earlier arming
		e.setLocked(now, e.expiry.Sub(now))
		return
	}
	e.lead.learn(now.Sub(e.expiry))
	left := e.at.Sub(now)
	if left > maxSpin {
		e.setLocked(now, left)
		return
	}
	for left > 0 {
		now = time.Now()
		left = e.at.Sub(now)
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

// setLocked makes the kernel's timer expire in d from now, or at once; zero would switch it off.
func (e *exact) setLocked(now time.Time, d time.Duration) {
	d = max(d, 1)
	e.expiry = now.Add(d)
	e.programLocked(d)
}

func (e *exact) programLocked(d time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if err := unix.TimerfdSettime(e.fd, 0, &spec, nil); err != nil {
		panic("precise: timerfd_settime: " + err.Error()) // only for a bad descriptor or argument, and we own both
	}
}

// maxSpin is how long fire waits for the very end by looking at the clock: less than it takes to sleep and be woken.
const maxSpin = 15 * time.Microsecond

// lead is how much earlier than its time the kernel is asked for a timer, since waking the reader takes some time every
// time: what nine in ten wake-ups take at least. So one in ten comes early, by a little, and waits for the rest.
type lead struct{ d time.Duration }

const (
	maxLead  = 200 * time.Microsecond
	leadStep = 2 * time.Microsecond
)

// learn moves the lead towards the tenth percentile of what wake-ups take: up a little for one that took longer, down
// nine times as much for one that did not.
func (l *lead) learn(took time.Duration) {
	if took > l.d {
		l.d = min(l.d+leadStep/10, maxLead)
		if took > 4*l.d { // far off, as it is at first
			l.d = min(l.d+leadStep, maxLead)
		}
		return
	}
	l.d = max(l.d-leadStep*9/10, 0)
}
