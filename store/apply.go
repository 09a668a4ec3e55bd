package store

import "slices"

// Apply applies the entry at index, which must be the one after the last applied
// (entries without commands may be skipped, see [State.Advance]), and returns one
// result per command and the events in order. An entry that was applied already
// changes nothing and returns nil. Byte slices of b are not kept.
//
// The returned events are valid until the next call.
func (s *State) Apply(index, term uint64, b *Batch) ([]Result, []Event) {
	if index <= s.meta.Index {
		return nil, nil
	}
	s.meta.Index, s.meta.Term = index, term
	s.meta.Wall = b.Wall
	s.meta.Elapsed = max(s.meta.Elapsed, b.Elapsed)
	clear(s.events)
	s.events = s.events[:0]
	results := make([]Result, len(b.Commands))
	for i := range b.Commands {
		results[i] = s.once(&b.Commands[i])
	}
	if len(s.events) > 0 {
		s.dirty.Events = append(s.dirty.Events, PackedEvents{index, packEvents(b.Wall, s.events)})
	}
	return results, s.events
}

// Advance moves the position over an entry that holds no batch.
func (s *State) Advance(index, term uint64) {
	if index > s.meta.Index {
		s.meta.Index, s.meta.Term = index, term
	}
}

// once applies a command unless its session has had it applied before.
func (s *State) once(c *Command) Result {
	if c.Session == 0 || c.Seq == 0 {
		return s.apply(c)
	}
	ses := s.sessions[c.Session]
	if ses == nil || ses.Ended {
		return Result{Code: CodeSessionGone}
	}
	if kept, ok := ses.results[c.Seq]; ok {
		return kept
	}
	if c.Seq < ses.Acked {
		return Result{Code: CodeRepeated}
	}
	ses.Seen = s.meta.Elapsed
	if c.Ack > ses.Acked {
		ses.acknowledge(c.Ack)
	}
	res := s.apply(c)
	ses.results[c.Seq] = res
	s.dirtySessions[c.Session] = struct{}{}
	return res
}

// acknowledge drops the results below ack.
func (ses *session) acknowledge(ack uint64) {
	if ack-ses.Acked <= uint64(len(ses.results)) {
		for seq := ses.Acked; seq < ack; seq++ {
			delete(ses.results, seq)
		}
	} else {
		for seq := range ses.results { // order is not seen: each is judged alone
			if seq < ack {
				delete(ses.results, seq)
			}
		}
	}
	ses.Acked = ack
}

func (s *State) apply(c *Command) Result {
	switch c.Kind {
	case KindEnqueue:
		return s.applyEnqueue(c.Enqueue)
	case KindLease:
		return s.applyLease(c.Lease)
	case KindComplete:
		return s.applyComplete(c.Complete)
	case KindEndLease:
		return s.applyEndLease(c.EndLease)
	case KindCheckpoint:
		return s.applyCheckpoint(c.Checkpoint)
	case KindCancel:
		return s.applyCancel(c.Run)
	case KindRetryNow:
		return s.applyRetryNow(c.Run)
	case KindExpire:
		return s.applyExpire(c.Expire)
	case KindPutSchedule:
		return s.applyPutSchedule(c.Schedule)
	case KindPauseSchedule:
		return s.applyPauseSchedule(c.Pause)
	case KindDeleteSchedule:
		return s.applyDeleteSchedule(c.Delete)
	case KindTick:
		return s.applyTick(c.Tick)
	case KindRearm:
		return s.applyRearm(c.Rearm)
	case KindPutQueue:
		return s.applyPutQueue(c.Queue, c.QueuePart)
	case KindOpenSession:
		return s.applyOpenSession(c.Open)
	case KindEndSession:
		return s.applyEndSession(c.End)
	case KindPrune:
		return s.applyPrune(c.Prune)
	case KindSetCluster:
		return s.applySetCluster(c.Cluster)
	case KindStart:
		return s.applyStart(c.Start)
	case KindRunNow:
		return s.applyRunNow(c.RunNow)
	case KindBackfill:
		return s.applyBackfill(c.Backfill)
	case KindPutCalendar:
		return s.applyPutCalendar(c.Calendar)
	case KindCanary:
		return s.applyEndCanary(c.Canary)
	}
	panic("store: command that DecodeBatch should have refused")
}

func (s *State) emit(e Event) { s.events = append(s.events, e) }

// replace publishes n as the new version of the live run r (nil for a new run).
func (s *State) replace(r, n *Run) {
	if r != nil {
		s.count(r, -1)
	} else {
		n.window, n.listed = s.window, 0
		if last := s.finals[n.ID]; last != nil {
			// It has ended in this window. If that was to take away a live row, the
			// row still has to go when it ends again.
			n.listed, n.slot = last.listed, last.slot
			if s.dirty.Runs[n.slot].Gone {
				n.window--
			}
			delete(s.finals, n.ID)
		}
	}
	s.count(n, +1)
	s.runs[n.ID] = n
	*s.changed(n) = ChangedRun{ID: n.ID, Run: n}
}

// changed returns the entry of n, which is about to be published, in the list of
// changed runs.
func (s *State) changed(n *Run) *ChangedRun {
	if n.listed != s.window {
		n.listed, n.slot = s.window, uint32(len(s.dirty.Runs))
		s.dirty.Runs = append(s.dirty.Runs, ChangedRun{})
	}
	return &s.dirty.Runs[n.slot]
}

func (s *State) applyPutQueue(q *Queue, part QueuePart) Result {
	if q.Name == "" {
		return Result{Code: CodeInvalid, Text: "queue name is empty"}
	}
	have := s.queue(q.Name)
	rec := *q
	switch part {
	case QueueConfig:
		rec.Paused = have.Paused
	case QueuePause:
		rec = have.Queue
		rec.Paused = q.Paused
	default:
	}
	if have.Queue == rec {
		return Result{}
	}
	have.Queue = rec
	s.dirty.Queues[q.Name] = &rec
	s.emit(Event{Kind: EventQueueSet, Queue: &rec})
	return Result{}
}

func (s *State) applyOpenSession(o *OpenSession) Result {
	if o.Below != 0 {
		for id, ses := range s.sessions { // order is not seen: one is enough
			if ses.Node == o.Node && id >= o.Below {
				return Result{Code: CodeConflict}
			}
		}
	}
	s.endSessions(o.Node)
	s.meta.Session++
	id := s.meta.Session
	s.sessions[id] = &session{
		Session: Session{ID: id, Node: o.Node, Opened: s.meta.Elapsed, Seen: s.meta.Elapsed},
		results: make(map[uint64]Result),
	}
	s.dirtySessions[id] = struct{}{}
	for _, name := range o.Tasks {
		if _, known := s.tasks[name]; !known {
			s.tasks[name] = struct{}{}
			s.dirty.Tasks = append(s.dirty.Tasks, name)
		}
	}
	s.emit(Event{Kind: EventSessionOpened, Session: id})
	return Result{N: id}
}

// endSessions marks all sessions of a node as ended.
func (s *State) endSessions(node string) {
	for id, ses := range s.sessions { // order is not seen: each is set alike
		if ses.Node == node && !ses.Ended {
			ses.Ended = true
			s.dirtySessions[id] = struct{}{}
		}
	}
}

func (s *State) applyEndSession(e *EndSession) Result {
	if s.sessions[e.ID] == nil {
		return Result{Code: CodeNotFound}
	}
	delete(s.sessions, e.ID)
	s.dirtySessions[e.ID] = struct{}{}
	s.emit(Event{Kind: EventSessionEnded, Session: e.ID})
	return Result{}
}

func (s *State) applyPrune(p *Prune) Result {
	for _, key := range p.Segments {
		if s.segments[key] == nil {
			continue
		}
		delete(s.segments, key)
		delete(s.dirtySegments, key)
		s.dirty.Segments[key] = nil
		s.dirty.Dropped = append(s.dirty.Dropped, key)
		s.forgetUnflushed(key)
		s.forgetPart(key)
	}
	for _, id := range p.Schedules {
		if old := s.deleted[id]; old != nil {
			s.forgetVersions(old)
			delete(s.deleted, id)
			s.dirty.Schedules[id] = nil
		}
	}
	s.freeUniques()
	if len(p.Segments) > 0 {
		s.emit(Event{Kind: EventPruned})
	}
	return Result{}
}

// forgetUnflushed takes the rows of a dropped segment out of the flush that is
// being gathered, so that the flush does not bring the segment back.
func (s *State) forgetUnflushed(key SegmentKey) {
	for i := range s.dirty.Runs {
		c := &s.dirty.Runs[i]
		if c.Final && c.Segment == key {
			delete(s.finals, c.ID)
			*c = ChangedRun{ID: c.ID, Gone: c.Gone} // the live row still has to go
		}
	}
	if s.taken != nil {
		for i := range s.taken.Runs {
			if c := &s.taken.Runs[i]; c.Final && c.Segment == key {
				delete(s.takenFinals, c.ID)
			}
		}
	}
	s.dirty.Ticks = slices.DeleteFunc(s.dirty.Ticks, func(t TickRow) bool { return t.Segment == key })
}

// forgetPart makes the part to be filled the highest one that is left, as loading
// finds it.
func (s *State) forgetPart(key SegmentKey) {
	at := segmentTime{key.Kind, key.Time}
	delete(s.parts, at)
	for k := range s.segments { // order is not seen: the highest part is taken
		if k.Kind == at.kind && k.Time == at.time {
			s.parts[at] = max(s.parts[at], k.Part)
		}
	}
}

// addRow accounts for a row of the history and returns the segment it goes to.
func (s *State) addRow(kind SegmentKind, time uint32, bytes int64) SegmentKey {
	at := segmentTime{kind, time}
	part := s.parts[at]
	seg := s.segments[SegmentKey{kind, time, part}]
	if seg != nil && seg.Rows >= SegmentRows {
		part++
		s.parts[at] = part
		seg = nil
	}
	key := SegmentKey{kind, time, part}
	if seg == nil {
		seg = &Segment{Kind: kind, Time: time, Part: part}
		s.segments[key] = seg
	}
	seg.Rows++
	seg.Bytes += bytes
	seg.Last = s.meta.Elapsed
	s.dirtySegments[key] = struct{}{}
	return key
}

// dropRow takes a row of the history out of the account: its run lives again, and
// will have a newer row.
func (s *State) dropRow(key SegmentKey, bytes int64) {
	if seg := s.segments[key]; seg != nil {
		seg.Rows = max(seg.Rows-1, 0)
		seg.Bytes = max(seg.Bytes-bytes, 0)
		s.dirtySegments[key] = struct{}{}
	}
}
