package store

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
)

// A State is everything the scheduler has decided and not yet forgotten: live
// runs, schedules, queues, sessions, unique keys, and the rows that wait to be
// flushed. It changes only through [State.Apply].
//
// A State is not safe for concurrent use; its owner guards it with a lock. The
// records it hands out are immutable and outlive the lock.
type State struct {
	meta Meta

	runs      map[RunID]*Run
	schedules map[string]*cell
	deleted   map[string]*Schedule // what is left of them, by ID
	calendars map[string]*Calendar
	queues    map[string]*queueState
	sessions  map[uint64]*session
	uniques   map[string]*Unique
	held      lapses
	tasks     map[string]struct{}
	segments  map[SegmentKey]*Segment
	parts     map[segmentTime]uint32 // the part that is being filled
	revivals  []Revival
	specs     Specs

	dirty         *Flush
	dirtySessions map[uint64]struct{}
	dirtySegments map[SegmentKey]struct{}
	finals        map[RunID]*Run // ended runs of dirty
	taken         *Flush
	takenFinals   map[RunID]*Run // ended runs of taken
	window        uint32         // of flushing, from 1

	events []Event // of the entry being applied
}

type segmentTime struct {
	kind SegmentKind
	time uint32
}

// queueState is a queue's configuration with what its live runs add up to.
type queueState struct {
	Queue
	waiting int
	leased  int
}

// session is a Session with its results by number.
type session struct {
	Session
	results map[uint64]Result
}

// firstLevel is the format level at which every state begins, whatever the build:
// the nodes of a cluster begin alike. A command raises it.
const firstLevel = 1

// NewState returns the empty state that is before the first entry.
func NewState() *State {
	return &State{
		meta:      Meta{Format: FormatLevel, Level: firstLevel},
		runs:      make(map[RunID]*Run),
		schedules: make(map[string]*cell),
		deleted:   make(map[string]*Schedule),
		calendars: make(map[string]*Calendar),
		queues:    make(map[string]*queueState),
		sessions:  make(map[uint64]*session),
		uniques:   make(map[string]*Unique),
		tasks:     make(map[string]struct{}),
		segments:  make(map[SegmentKey]*Segment),
		parts:     make(map[segmentTime]uint32),

		dirty:         newFlush(),
		finals:        make(map[RunID]*Run),
		window:        1,
		dirtySessions: make(map[uint64]struct{}),
		dirtySegments: make(map[SegmentKey]struct{}),
	}
}

// Load fills an empty state from an image. On an error the state is unusable.
func (s *State) Load(img *Image) error {
	if img.Meta.Format == 0 { // nothing was ever committed
		return nil
	}
	if img.Meta.Format > FormatLevel || img.Meta.Level > FormatLevel {
		return fmt.Errorf("%w: %w: written at format level %d, this build reads up to %d",
			ErrFormat, ErrNewer, max(img.Meta.Format, img.Meta.Level), FormatLevel)
	}
	s.meta = img.Meta
	s.meta.Format = FormatLevel
	s.dirty.Meta.Index = img.Meta.Index
	s.revivals = slices.Clone(img.Meta.Revivals)
	var pack packer
	return cmp.Or(
		img.Queues(func(q *Queue) error { s.queue(q.Name).Queue = *q; return nil }),
		img.Runs(func(r *Run) error { s.loadRun(r); return nil }),
		img.Schedules(func(sc *Schedule) error {
			if sc.Deleted != 0 {
				s.deleted[sc.ID] = sc
				return nil
			}
			sc.Spec = s.specs.share(sc.Spec)
			if sc.Canary != nil {
				sc.Canary.Spec = s.specs.share(sc.Canary.Spec)
			}
			if sc.idle(&s.meta) {
				s.schedules[sc.ID] = pack.rested(sc)
			} else {
				s.put(sc)
			}
			return nil
		}),
		img.Sessions(func(rec *Session) error { s.sessions[rec.ID] = newSession(rec); return nil }),
		img.Uniques(func(u *Unique) error { s.uniques[u.Key] = u; s.holdOn(u); return nil }),
		img.Calendars(func(c *Calendar) error { s.calendars[c.Name] = c; return nil }),
		img.Tasks(func(name string) error { s.tasks[name] = struct{}{}; return nil }),
		img.Segments(func(seg *Segment) error {
			s.segments[seg.Key()] = seg
			at := segmentTime{seg.Kind, seg.Time}
			s.parts[at] = max(s.parts[at], seg.Part)
			return nil
		}),
	)
}

func (s *State) loadRun(r *Run) {
	r.Spec = s.specs.share(r.Spec)
	s.runs[r.ID] = r
	s.count(r, +1)
	if m := r.More; m != nil && m.Unique != "" {
		key := uniqueKey(r.Spec.Task, m.Unique)
		s.uniques[key] = &Unique{Key: key, Holder: r.ID, Until: m.UniqueUntil}
	}
}

// count adds a live run to, or takes it from, its queue's sums.
func (s *State) count(r *Run, n int) {
	q := s.queue(r.Spec.Queue)
	if r.State == Running {
		q.leased += n
	} else {
		q.waiting += n
	}
}

func (s *State) queue(name string) *queueState {
	q := s.queues[name]
	if q == nil {
		q = &queueState{Queue: Queue{Name: name}}
		s.queues[name] = q
	}
	return q
}

func newSession(rec *Session) *session {
	ses := &session{Session: *rec, results: make(map[uint64]Result, len(rec.Results))}
	for _, k := range rec.Results {
		ses.results[k.Seq] = k.Result
	}
	ses.Results = nil
	return ses
}

// record returns the session's row.
func (ses *session) record() *Session {
	if ses == nil {
		return nil
	}
	rec := ses.Session
	rec.Results = make([]Kept, 0, len(ses.results))
	for seq, res := range ses.results {
		rec.Results = append(rec.Results, Kept{seq, res})
	}
	slices.SortFunc(rec.Results, func(a, b Kept) int { return cmp.Compare(a.Seq, b.Seq) })
	return &rec
}

// Meta returns the state's position and clocks.
func (s *State) Meta() Meta { return s.meta }

// Run returns the newest version of a run that is live, or final and not yet
// flushed; nil otherwise: then the backend may have it.
//
// What is flushed differs between the nodes of a cluster, so applying must not
// ask for more than the live runs.
func (s *State) Run(id RunID) *Run {
	if r := s.runs[id]; r != nil {
		return r
	}
	if r := s.finals[id]; r != nil {
		return r
	}
	return s.takenFinals[id]
}

// LiveRun returns a run that has not ended, or nil.
func (s *State) LiveRun(id RunID) *Run { return s.runs[id] }

// Newest reports whether r, a record out of the events of the last applied entry,
// is live and has not been replaced by a later event. It costs no look-up.
func (s *State) Newest(r *Run) bool {
	if r.listed != s.window || int(r.slot) >= len(s.dirty.Runs) {
		return s.runs[r.ID] == r
	}
	c := &s.dirty.Runs[r.slot]
	return c.Run == r && !c.Final
}

// LiveRuns yields the live runs in no order.
func (s *State) LiveRuns() iter.Seq[*Run] {
	return func(yield func(*Run) bool) {
		for _, r := range s.runs {
			if !yield(r) {
				return
			}
		}
	}
}

// Live returns the number of live runs.
func (s *State) Live() int { return len(s.runs) }

// FinalRuns yields the final runs that are not yet flushed, in no order.
func (s *State) FinalRuns() iter.Seq[*Run] {
	return func(yield func(*Run) bool) {
		for _, r := range s.finals {
			if !yield(r) {
				return
			}
		}
		for id, r := range s.takenFinals {
			if s.runs[id] == nil && s.finals[id] == nil && !yield(r) {
				return
			}
		}
	}
}

// DeletedSchedule returns what is left of a schedule that was deleted and not yet
// forgotten, its trigger, versions and ledger; nil if there is nothing.
func (s *State) DeletedSchedule(id string) *Schedule { return s.deleted[id] }

// DeletedSchedules returns what is left of deleted schedules, the first deleted
// first.
func (s *State) DeletedSchedules() []*Schedule {
	return slices.SortedFunc(maps.Values(s.deleted), func(a, b *Schedule) int {
		return cmp.Or(cmp.Compare(a.Deleted, b.Deleted), cmp.Compare(a.ID, b.ID))
	})
}

// Calendar returns a named calendar, or nil.
func (s *State) Calendar(name string) *Calendar { return s.calendars[name] }

// Calendars returns the named calendars, by name.
func (s *State) Calendars() []*Calendar {
	return slices.SortedFunc(maps.Values(s.calendars), func(a, b *Calendar) int { return cmp.Compare(a.Name, b.Name) })
}

// UnflushedVersions yields the changes of versions that are not yet known to be
// durable, those of one version in their order; a nil version is forgotten.
func (s *State) UnflushedVersions() iter.Seq2[VersionKey, *ScheduleVersion] {
	return func(yield func(VersionKey, *ScheduleVersion) bool) {
		for _, f := range []*Flush{s.taken, s.dirty} {
			if f == nil {
				continue
			}
			for key, v := range f.Versions {
				if !yield(key, v) {
					return
				}
			}
		}
	}
}

// UnflushedTicks yields the ledger rows that are not yet known to be durable, in
// the order of deciding.
func (s *State) UnflushedTicks() iter.Seq[*Tick] {
	return func(yield func(*Tick) bool) {
		for _, f := range []*Flush{s.taken, s.dirty} {
			if f == nil {
				continue
			}
			for i := range f.Ticks {
				if !yield(&f.Ticks[i].Tick) {
					return
				}
			}
		}
	}
}

// UnflushedEvents yields the journal rows not yet known to be durable, in log
// order.
func (s *State) UnflushedEvents() iter.Seq[PackedEvents] {
	return func(yield func(PackedEvents) bool) {
		for _, f := range []*Flush{s.taken, s.dirty} {
			if f == nil {
				continue
			}
			for _, row := range f.Events {
				if !yield(row) {
					return
				}
			}
		}
	}
}

// QueueStats is a queue's configuration and what its live runs add up to.
type QueueStats struct {
	Queue
	Waiting int // scheduled or ready
	Leased  int // assigned or running
}

// Queue returns a queue; one never configured has no limit.
func (s *State) Queue(name string) QueueStats {
	q := s.queues[name]
	if q == nil {
		return QueueStats{Queue: Queue{Name: name}}
	}
	return QueueStats{q.Queue, q.waiting, q.leased}
}

// Queues returns the queues that are configured or in use, by name, and the idle
// ones that were used lately.
func (s *State) Queues() []QueueStats {
	all := make([]QueueStats, 0, len(s.queues))
	for _, q := range s.queues {
		all = append(all, QueueStats{q.Queue, q.waiting, q.leased})
	}
	slices.SortFunc(all, func(a, b QueueStats) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Session returns a session's row without its results, and whether it exists.
func (s *State) Session(id uint64) (Session, bool) {
	ses := s.sessions[id]
	if ses == nil {
		return Session{}, false
	}
	return ses.Session, true
}

// Sessions yields all sessions without their results, in no order.
func (s *State) Sessions() iter.Seq[Session] {
	return func(yield func(Session) bool) {
		for _, ses := range s.sessions {
			if !yield(ses.Session) {
				return
			}
		}
	}
}

// KnownTask reports whether any node has ever declared the task.
func (s *State) KnownTask(name string) bool {
	_, ok := s.tasks[name]
	return ok
}

// Segments returns the history's segments, the least recently written first.
func (s *State) Segments() []Segment {
	all := make([]Segment, 0, len(s.segments))
	for _, seg := range s.segments {
		all = append(all, *seg)
	}
	slices.SortFunc(all, func(a, b Segment) int {
		return cmp.Or(cmp.Compare(a.Last, b.Last), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Time, b.Time), cmp.Compare(a.Part, b.Part))
	})
	return all
}
