package store

import "slices"

func (s *State) applyEnqueue(e *Enqueue) Result {
	specs := make([]*Spec, len(e.Specs))
	for i, raw := range e.Specs {
		spec, err := s.specs.Intern(raw)
		if err != nil {
			return Result{Code: CodeInvalid, Text: err.Error()}
		}
		if !s.KnownTask(spec.Task) {
			return Result{Code: CodeUnknownTask, Text: spec.Task}
		}
		specs[i] = spec
	}
	if res := s.mayEnqueue(e, specs); res.Code != OK {
		return res
	}
	for i := range e.Runs {
		s.enqueue(&e.Runs[i], specs[e.Runs[i].Spec])
	}
	return Result{}
}

// mayEnqueue looks at all runs of the command before any is added, so that there
// is nothing to take back.
func (s *State) mayEnqueue(e *Enqueue, specs []*Spec) Result {
	seen := newRuns{ids: e.Runs}
	for i := range e.Runs {
		n := &e.Runs[i]
		switch {
		case int(n.Spec) >= len(specs):
			return Result{Code: CodeInvalid, Run: n.ID, Text: "no such spec"}
		case !n.ID.Valid():
			return Result{Code: CodeInvalid, Run: n.ID, Text: "run ID is not a UUIDv7"}
		case s.runs[n.ID] != nil || seen.id(i):
			return Result{Code: CodeConflict, Run: n.ID}
		}
		if n.Unique == "" {
			continue
		}
		task := specs[n.Spec].Task
		holder, held := s.UniqueHolder(task, n.Unique, s.meta.Elapsed)
		if !held {
			holder, held = seen.holder(uniqueKey(task, n.Unique), n.ID)
		}
		if held {
			return Result{Code: CodeUnique, Run: holder, Text: n.Unique}
		}
	}
	return Result{}
}

// newRuns tells whether a command names an ID or a unique key twice. IDs in order,
// as they are minted, need no memory for that.
type newRuns struct {
	ids     []NewRun
	known   map[RunID]struct{}
	holders map[string]RunID
}

// id reports whether run i has the ID of one before it. It is asked for each i in
// order.
func (v *newRuns) id(i int) bool {
	if v.known == nil {
		if i == 0 || v.ids[i-1].ID.Compare(v.ids[i].ID) < 0 {
			return false
		}
		v.known = make(map[RunID]struct{}, len(v.ids))
		for j := range v.ids[:i] {
			v.known[v.ids[j].ID] = struct{}{}
		}
	}
	_, twice := v.known[v.ids[i].ID]
	v.known[v.ids[i].ID] = struct{}{}
	return twice
}

// holder returns the run that was given the key before, or gives it to id.
func (v *newRuns) holder(key string, id RunID) (RunID, bool) {
	if first, held := v.holders[key]; held {
		return first, true
	}
	if v.holders == nil {
		v.holders = make(map[string]RunID)
	}
	v.holders[key] = id
	return RunID{}, false
}

// own returns a copy of b that a record may keep; nil if it is empty, for that is
// how it will be read again.
func own(b []byte) []byte { return append([]byte(nil), b...) }

// enqueue adds a run that was looked at.
func (s *State) enqueue(n *NewRun, spec *Spec) {
	r := &Run{
		ID: n.ID, Spec: spec, Input: own(n.Input),
		Clock: n.Clock, Due: n.Due, Created: s.meta.Wall,
	}
	if n.Clock == Elapsed {
		r.Due = s.in(n.Due)
	}
	if n.Unique != "" || len(n.Meta) > 0 || n.Trace != "" || spec.ExpireAfter > 0 {
		r.More = &RunMore{Unique: n.Unique, Meta: n.Meta, Trace: n.Trace}
		if spec.ExpireAfter > 0 {
			r.More.ExpireAt = s.in(spec.ExpireAfter)
		}
	}
	if n.Unique != "" {
		s.holdUnique(r)
	}
	s.replace(nil, r)
	s.emit(Event{Kind: EventEnqueued, Run: r})
}

// finish ends the live run r as n, whose state is final.
func (s *State) finish(r, n *Run, outcome Outcome) {
	n.Finished = s.meta.Wall
	s.count(r, -1)
	delete(s.runs, r.ID)
	s.releaseUnique(r)
	seg := s.addRow(RunSegment, uint32(r.ID.millis()/3_600_000), n.weight())
	*s.changed(n) = ChangedRun{ID: n.ID, Run: n, Final: true, Segment: seg, Gone: r.window != s.window}
	s.finals[n.ID] = n
	if m := n.More; m != nil && m.Schedule != "" {
		s.dropLive(n)
	}
	ev := Event{Kind: EventFinished, Run: n, Outcome: outcome}
	if r.State == Running {
		ev.Session, ev.Fence = r.Session, r.Fence
	}
	s.emit(ev)
}

func (s *State) applyCancel(c *RunCommand) Result {
	r := s.runs[c.ID]
	if r == nil {
		if c.Row != nil && c.Row.ID == c.ID && c.Row.State.Final() {
			return Result{Code: CodeFinal, Run: c.ID, N: uint64(c.Row.State)}
		}
		return Result{Code: CodeNotFound, Run: c.ID}
	}
	n := *r
	n.State = Canceled
	n.More = r.more()
	n.More.Error = "canceled"
	s.finish(r, &n, OutcomeCanceled)
	// N tells whether a worker holds it: its handler may have started.
	if r.State == Running {
		return Result{N: r.Session}
	}
	return Result{}
}

func (s *State) applyExpire(e *Expire) Result {
	for _, id := range e.Runs {
		r := s.runs[id]
		if r == nil || r.State != Scheduled || r.More == nil || r.Attempt > 0 ||
			r.More.ExpireAt == 0 || r.More.ExpireAt > s.meta.Elapsed {
			continue
		}
		n := *r
		n.State = Expired
		n.More = r.more()
		n.More.Error = "expired before it started"
		s.finish(r, &n, 0)
	}
	return Result{}
}

// maxRevivals bounds the memory of revivals; a command about a row read before
// the oldest of them is refused and decided again.
const maxRevivals = 256

func (s *State) applyRetryNow(c *RunCommand) Result {
	if r := s.runs[c.ID]; r != nil {
		if r.State != Scheduled {
			return Result{Code: CodeConflict, Run: c.ID, Text: "run has started"}
		}
		n := *r
		n.Clock, n.Due = Elapsed, s.meta.Elapsed
		s.replace(r, &n)
		s.emit(Event{Kind: EventRescheduled, Run: &n})
		return Result{}
	}
	if res := s.mayRevive(c); res.Code != OK {
		return res
	}
	n := *c.Row
	n.Spec = s.specs.share(n.Spec)
	n.State, n.Clock, n.Due = Scheduled, Elapsed, s.meta.Elapsed
	n.Finished, n.Failures, n.Crashes = 0, 0, 0
	n.More = n.more()
	n.More.Revived++
	n.More.ExpireAt = 0
	n.More.Home = c.Segment.Part + 1
	if n.More.Unique != "" {
		if holder, held := s.UniqueHolder(n.Spec.Task, n.More.Unique, s.meta.Elapsed); held && holder != n.ID {
			return Result{Code: CodeUnique, Run: holder, Text: n.More.Unique}
		}
		s.holdUnique(&n)
	}
	if len(s.revivals) == maxRevivals {
		s.meta.RevivedBefore = s.revivals[0].Index
		s.revivals = slices.Delete(s.revivals, 0, 1)
	}
	s.revivals = append(s.revivals, Revival{n.ID, s.meta.Index})
	s.dropRow(c.Segment, c.Row.weight())
	s.replace(nil, &n)
	s.addLive(&n)
	s.emit(Event{Kind: EventRescheduled, Run: &n})
	return Result{}
}

func (s *State) mayRevive(c *RunCommand) Result {
	if c.Row == nil {
		return Result{Code: CodeNotFound, Run: c.ID}
	}
	if c.Row.ID != c.ID || c.Row.Spec == nil || !c.Row.State.Final() || c.Row.State == Succeeded {
		return Result{Code: CodeFinal, Run: c.ID, N: uint64(c.Row.State)}
	}
	stale := c.AsOf < s.meta.RevivedBefore
	for _, v := range s.revivals {
		stale = stale || v.ID == c.ID && v.Index > c.AsOf
	}
	if stale {
		return Result{Code: CodeConflict, Run: c.ID, Text: "run has moved on"}
	}
	return Result{}
}
