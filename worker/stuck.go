package worker

import (
	"bytes"
	"log/slog"
	"runtime"
	"strconv"
	"time"
)

// patrolLocked expects a handler to return, now that its context ends.
func (p *Pool) patrolLocked(x *Execution, now int64) {
	if at := now + int64(p.cfg.StuckAfter); !x.told && (x.stuckAt == 0 || at < x.stuckAt) {
		x.stuckAt = at
		p.patrolAtLocked(at)
	}
}

// patrolAtLocked has the keeper look at time at, or before.
func (p *Pool) patrolAtLocked(at int64) {
	if at < p.chores.patrolAt {
		p.chores.patrolAt = at
		p.pokeKeeper()
	}
}

// tendPatrolLocked returns the handlers that should have returned and have not been told of yet.
func (p *Pool) tendPatrolLocked(now int64) (stuck []*Execution) {
	if now < p.chores.patrolAt {
		return nil
	}
	p.chores.patrolAt = never
	p.running.all(func(x *Execution) {
		switch {
		case x.stuckAt == 0 || x.told:
		case x.stuckAt <= now:
			x.told = true
			stuck = append(stuck, x)
		default:
			p.chores.patrolAt = min(p.chores.patrolAt, x.stuckAt)
		}
	})
	return stuck
}

// reportStuck tells of handlers that ignore the end of their context, and where they are.
func (p *Pool) reportStuck(stuck []*Execution, now int64) {
	if len(stuck) == 0 {
		return
	}
	all := allStacks()
	for _, x := range stuck {
		ignored := time.Duration(now-x.stuckAt) + p.cfg.StuckAfter
		stack := stackOf(all, x.g.id)
		if f := p.cfg.Observer.Stuck; f != nil {
			f(x.run, ignored, stack)
		}
		x.Logger().LogAttrs(p.base, slog.LevelWarn, "handler ignores the end of its context",
			slog.Duration(keyIgnored, ignored), slog.String(keyStack, cutText(string(stack), p.cfg.MaxError)))
	}
}

// maxStacks bounds the dump of all goroutines; a stack that lies beyond it is not found.
const maxStacks = 16 << 20

// allStacks returns the stacks of all goroutines. It stops the world for as long as that takes.
func allStacks() []byte {
	for size := 64 << 10; ; size *= 2 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size || size >= maxStacks {
			return buf[:n]
		}
	}
}

// stackOf returns the part of a dump that is about one goroutine, or nil.
func stackOf(dump []byte, id int64) []byte {
	head := strconv.AppendInt([]byte("goroutine "), id, 10)
	for part := range bytes.SplitSeq(dump, []byte("\n\n")) {
		if rest, ok := bytes.CutPrefix(part, head); ok && bytes.HasPrefix(rest, []byte(" ")) {
			return bytes.Clone(part)
		}
	}
	return nil
}

// goroutineID returns the runtime's number of this goroutine, for finding its stack in a dump, and for nothing else.
// There is no other way to tell where one handler among many is than to look for its goroutine in the text.
func goroutineID() int64 {
	var buf [64]byte
	text, _ := bytes.CutPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	digits, _, _ := bytes.Cut(text, []byte(" "))
	id, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil {
		return 0
	}
	return id
}
