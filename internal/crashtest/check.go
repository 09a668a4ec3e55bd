package crashtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/escapement-go/scheduler"
)

// Check returns each promise that the history breaks, as a sentence; none if it
// is as it should be.
func (h *History) Check() []string {
	c := checker{h: h}
	c.acknowledged()
	c.results()
	c.endings()
	c.fences()
	c.ledgers()
	c.uniqueKeys()
	c.limits()
	c.checkpoints()
	c.dueTimes()
	return c.broken
}

type checker struct {
	h      *History
	broken []string
}

func (c *checker) breaks(format string, args ...any) {
	c.broken = append(c.broken, fmt.Sprintf(format, args...))
}

// acknowledged: what a call returned for is there, ended, and as was asked.
func (c *checker) acknowledged() {
	for _, a := range c.h.Acks {
		if a.Op != OpEnqueue && a.Op != OpCancel {
			continue
		}
		r, ok := c.h.Runs[a.Run]
		switch {
		case !ok:
			c.breaks("run %v is lost: %s was acknowledged in round %d", a.Run, a.Op, a.Round)
		case a.Op == OpCancel && r.State != scheduler.Canceled:
			c.breaks("run %v is %v: its cancel was acknowledged in round %d", a.Run, r.State, a.Round)
		case a.Op == OpEnqueue:
			if w, err := work(&r); err != nil || w != a.Work {
				c.breaks("run %v has input %s, and was asked for with %+v", a.Run, r.Input, a.Work)
			}
		}
	}
	for id, r := range c.h.Runs {
		if !r.State.Final() {
			c.breaks("run %v has not ended: it is %v", id, r.State)
		}
	}
}

// crashBudget is how many lost leases end a run that has many attempts.
const crashBudget = 3

// results: a run ends as its kind says, with the result of the attempt that was
// accepted.
func (c *checker) results() {
	ended := make(map[scheduler.RunID][]uint64)
	for _, f := range c.h.Facts {
		if f.What == Ended {
			ended[f.Run] = append(ended[f.Run], f.Fence)
		}
	}
	for id, r := range c.h.Runs {
		w, err := work(&r)
		if err != nil {
			c.breaks("run %v has an input that cannot be read: %v", id, err)
			continue
		}
		lost := r.State == scheduler.Failed && r.Crashes >= crashBudget
		switch {
		case r.State == scheduler.Succeeded && w.Kind != Doomed:
			var d Done
			if err := json.Unmarshal(r.Result, &d); err != nil {
				c.breaks("run %v has a result that cannot be read: %v", id, err)
			} else if d.N != w.N || d.Fence != r.Fence {
				c.breaks("run %v has result %+v, its input is %d and its accepted fence %d", id, d, w.N, r.Fence)
			}
			if !slices.Contains(ended[id], r.Fence) {
				c.breaks("run %v has succeeded, and its handler never returned under fence %d", id, r.Fence)
			}
		case r.State == scheduler.Failed && w.Kind == Doomed, lost, w.Kind == Victim && r.State == scheduler.Canceled:
		case r.State.Final():
			c.breaks("run %v of kind %s has %v: %s (%d failures, %d crashes)", id, w.Kind, r.State, r.Error, r.Failures, r.Crashes)
		}
	}
}

// endings: a final state never changes, nor what it came with.
func (c *checker) endings() {
	for i := range c.h.Seen {
		was := &c.h.Seen[i]
		is, ok := c.h.Runs[was.ID]
		switch {
		case !ok:
			c.breaks("run %v is lost: it was seen to have %v", was.ID, was.State)
		case is.State != was.State || is.Fence != was.Fence || !bytes.Equal(is.Result, was.Result) ||
			is.Error != was.Error || !is.Finished.Equal(was.Finished):
			c.breaks("run %v had %v under fence %d with %s at %v, and now has %v under fence %d with %s at %v", was.ID,
				was.State, was.Fence, was.Result, was.Finished, is.State, is.Fence, is.Result, is.Finished)
		}
	}
}

// fences: they grow from attempt to attempt of a run, no two runs have the same,
// and none is granted once the run has ended.
func (c *checker) fences() {
	last := make(map[scheduler.RunID]Fact)
	owner := make(map[uint64]scheduler.RunID)
	for _, f := range c.h.Facts {
		if f.What != Began {
			continue
		}
		if o, taken := owner[f.Fence]; taken && o != f.Run {
			c.breaks("runs %v and %v were both started under fence %d", o, f.Run, f.Fence)
		}
		owner[f.Fence] = f.Run
		if l, again := last[f.Run]; again && (f.Fence <= l.Fence || f.Attempt <= l.Attempt) {
			c.breaks("run %v: attempt %d with fence %d was started after attempt %d with fence %d",
				f.Run, f.Attempt, f.Fence, l.Attempt, l.Fence)
		}
		last[f.Run] = f
		if r, ok := c.h.Runs[f.Run]; !ok {
			c.breaks("run %v was started and is lost", f.Run)
		} else if f.Fence > r.Fence {
			c.breaks("run %v was started under fence %d, and ended under fence %d", f.Run, f.Fence, r.Fence)
		}
	}
}

// ledgers: each tick has one outcome, and each run of a schedule its tick.
func (c *checker) ledgers() {
	for i := range c.h.Ledgers {
		c.ledger(&c.h.Ledgers[i])
	}
}

func (c *checker) ledger(l *Ledger) {
	if len(l.Ticks) == 0 {
		c.breaks("schedule %q has no ticks", l.Schedule)
		return
	}
	want := l.Ticks[0].Nominal
	if first := want; !l.Created.IsZero() && first.After(l.Next(l.Created)) {
		c.breaks("schedule %q: its first tick is %v, it was made at %v", l.Schedule, first, l.Created)
	}
	made := make(map[scheduler.RunID]bool)
	for _, t := range l.Ticks {
		switch {
		case t.Nominal.Before(want):
			c.breaks("schedule %q: tick %v has two outcomes, or is none of the trigger's", l.Schedule, t.Nominal)
			continue
		case t.Nominal.After(want):
			c.breaks("schedule %q: tick %v has no outcome, the next is %v", l.Schedule, want, t.Nominal)
		}
		if t.Outcome == scheduler.TickRan {
			c.madeRun(l, &t, made)
		}
		last := t.Nominal
		for !t.Until.IsZero() && last.Before(t.Until) {
			last = l.Next(last)
		}
		if !t.Until.IsZero() && !last.Equal(t.Until) {
			c.breaks("schedule %q: the span from %v to %v does not end with a tick", l.Schedule, t.Nominal, t.Until)
		}
		want = l.Next(last)
	}
	for id, r := range c.h.Runs {
		if r.Schedule == l.Schedule && !made[id] {
			c.breaks("schedule %q: run %v of %v is of no tick", l.Schedule, id, r.Nominal)
		}
	}
}

func (c *checker) madeRun(l *Ledger, t *scheduler.Tick, made map[scheduler.RunID]bool) {
	r, ok := c.h.Runs[t.Run]
	switch {
	case !ok:
		c.breaks("schedule %q: run %v of tick %v is lost", l.Schedule, t.Run, t.Nominal)
	case r.Schedule != l.Schedule || !r.Nominal.Equal(t.Nominal):
		c.breaks("schedule %q: tick %v made run %v, which is of %q and %v", l.Schedule, t.Nominal, t.Run, r.Schedule, r.Nominal)
	case made[t.Run]:
		c.breaks("schedule %q: run %v is of two ticks, the second being %v", l.Schedule, t.Run, t.Nominal)
	}
	made[t.Run] = true
}

// uniqueKeys: no two runs that hold a key are live at a time.
func (c *checker) uniqueKeys() {
	holders := make(map[string][]scheduler.Run)
	for _, r := range c.h.Runs {
		if r.UniqueKey != "" {
			key := r.Task + " " + r.UniqueKey
			holders[key] = append(holders[key], r)
		}
	}
	for key, runs := range holders {
		slices.SortFunc(runs, func(a, b scheduler.Run) int {
			return cmp.Or(a.Created.Compare(b.Created), a.Finished.Compare(b.Finished))
		})
		for i := 1; i < len(runs); i++ {
			a, b := &runs[i-1], &runs[i]
			if a.Finished.IsZero() || b.Created.Before(a.Finished) {
				c.breaks("unique key %q: run %v was made at %v, while %v held it until %v", key, b.ID, b.Created, a.ID, a.Finished)
			}
		}
	}
}

// limits: of a queue's runs no more than its limit execute at a time.
func (c *checker) limits() {
	busy := make(map[string]map[scheduler.RunID]bool)
	life := 0
	for _, f := range c.h.Facts {
		if f.Life != life { // whatever an earlier process executed has ended with it
			life = f.Life
			clear(busy)
		}
		limit := c.h.Limits[f.Queue]
		if limit == 0 {
			continue
		}
		switch f.What {
		case Began:
			if busy[f.Queue] == nil {
				busy[f.Queue] = make(map[scheduler.RunID]bool)
			}
			busy[f.Queue][f.Run] = true
			if n := len(busy[f.Queue]); n > limit {
				c.breaks("queue %q executed %d runs at a time, its limit is %d", f.Queue, n, limit)
			}
		case Ended, Gave:
			delete(busy[f.Queue], f.Run)
		case Saved, Nothing:
		}
	}
}

// checkpoints: an attempt resumes from the last one that was acknowledged, or
// from a later one.
func (c *checker) checkpoints() {
	saved := make(map[scheduler.RunID]int)
	for _, f := range c.h.Facts {
		switch f.What {
		case Began:
			if f.Step < saved[f.Run] {
				c.breaks("run %v: attempt %d resumed from step %d, and step %d was saved", f.Run, f.Attempt, f.Step, saved[f.Run])
			}
		case Saved:
			saved[f.Run] = f.Step
		case Ended, Gave, Nothing:
		}
	}
}

// early is by how much a start may be before its time as the wall clock shows
// it: delays are counted on another clock, which a correction of the time of day
// does not move.
const early = 100 * time.Millisecond

// dueTimes: nothing starts before its time.
func (c *checker) dueTimes() {
	due := make(map[scheduler.RunID]int64)
	for _, a := range c.h.Acks {
		if a.Op == OpEnqueue && a.Delay > 0 {
			due[a.Run] = a.Begun + int64(a.Delay)
		}
	}
	for _, f := range c.h.Facts {
		if f.What != Began {
			continue
		}
		for _, at := range [...]int64{due[f.Run], f.Due} {
			if at != 0 && f.At < at-int64(early) {
				c.breaks("run %v was started %v before its time", f.Run, time.Duration(at-f.At))
			}
		}
	}
}
