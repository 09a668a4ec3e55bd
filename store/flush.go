package store

//msgp:ignore Flush VersionKey ChangedRun TickRow PackedEvents Image

import "slices"

// A Flush is all that changed since the last one: what a backend must write, in
// one durable transaction, to be at Index. Its records are immutable; the maps
// belong to the Flush.
type Flush struct {
	Meta Meta

	// Runs are in no order of IDs. An ID that comes twice (its history was pruned
	// and it is live again) has its changes in order.
	Runs []ChangedRun

	Schedules map[string]*Schedule            // nil: deleted
	Queues    map[string]*Queue               //
	Sessions  map[uint64]*Session             // nil: gone
	Uniques   map[string]*Unique              // nil: free
	Calendars map[string]*Calendar            // nil: deleted
	Versions  map[VersionKey]*ScheduleVersion // nil: forgotten
	Tasks     []string                        // newly known
	Segments  map[SegmentKey]*Segment         // nil: gone
	Dropped   []SegmentKey                    // dropped with all their rows, before this flush adds new ones
	Ticks     []TickRow                       // in the order of deciding
	Events    []PackedEvents                  // one row of the journal per entry

	resting map[string]*cell // see Rest
}

// VersionKey identifies a version of a schedule.
type VersionKey struct {
	Number  uint64 // of the schedule
	Version uint64
}

// A ChangedRun is the newest version of a run that changed, and what is to become
// of its row.
type ChangedRun struct {
	ID  RunID
	Run *Run // nil: there is nothing to write

	// Final rows go to the history, into Segment; the others are live rows.
	Final   bool
	Segment SegmentKey

	// Gone tells that an earlier flush may have written a live row, which is to go.
	Gone bool
}

// TickRow is a ledger row and the segment it goes to.
type TickRow struct {
	Segment SegmentKey
	Tick    Tick
}

// PackedEvents is the journal row of one log entry, see [UnpackEvents].
type PackedEvents struct {
	Index uint64
	Data  []byte
}

// Meta is the part of the state that is one small row.
type Meta struct {
	Format   uint16 `msg:"f"` // FormatLevel of the build that wrote it
	Level    uint16 `msg:"l"`
	Index    uint64 `msg:"i"` // last applied log index
	Term     uint64 `msg:"t"` // its term
	Elapsed  int64  `msg:"e"`
	Wall     int64  `msg:"w"`
	Fence    uint64 `msg:"g"` // last fence given
	Session  uint64 `msg:"s"` // last session number given
	Schedule uint64 `msg:"c"` // last schedule number given

	Revivals      []Revival `msg:"r,omitempty"` // the last final runs taken up again
	RevivedBefore uint64    `msg:"b,omitempty"` // index up to which revivals are forgotten

	Cluster string       `msg:"n,omitempty"` // ID of the cluster; "" if it never had a second node
	Nodes   []NodeRecord `msg:"m,omitempty"` // by ID; never changed in place
}

// Revival remembers that a final run was taken up again by the entry at Index.
type Revival struct {
	ID    RunID  `msg:"i"`
	Index uint64 `msg:"x"`
}

// Unique is a unique key that is held by a run that has ended (UniqueFor), or of
// a live run. Only the former are rows of their own.
type Unique struct {
	Key    string `msg:"k"` // task, NUL, key
	Holder RunID  `msg:"h"`
	Until  int64  `msg:"u"` // ns elapsed
}

// TakeFlush takes what changed since the last call, or nil if nothing did. The
// state goes on answering for the taken rows until [State.Flushed]; a flush that
// failed is retried by its taker, which must not take another meanwhile.
// Cost: O(sessions + queues), however much changed.
func (s *State) TakeFlush() *Flush {
	if s.taken != nil {
		panic("store: TakeFlush before the last one was flushed")
	}
	if s.dirty.empty() && s.dirty.Meta.Index == s.meta.Index {
		return nil
	}
	f := s.dirty
	f.Meta = s.meta
	f.Meta.Revivals = slices.Clone(s.revivals)
	for id := range s.dirtySessions {
		f.Sessions[id] = s.sessions[id].record()
	}
	clear(s.dirtySessions)
	for key := range s.dirtySegments {
		seg := *s.segments[key]
		f.Segments[key] = &seg
	}
	clear(s.dirtySegments)
	s.forgetQueues()
	s.taken, s.takenFinals = f, s.finals
	s.dirty, s.finals = newFlush(), make(map[RunID]*Run)
	s.dirty.Meta.Index = f.Meta.Index
	s.window++
	return f
}

// maxIdleQueues is how many queues are kept in memory that have no runs and were
// never configured: callers that make a queue for every user, say, would otherwise
// grow the memory for ever.
const maxIdleQueues = 1024

// forgetQueues drops idle queues if there are many. That changes nothing but their
// being listed.
func (s *State) forgetQueues() {
	if len(s.queues) <= maxIdleQueues {
		return
	}
	for name, q := range s.queues { // order is not seen: each is judged alone
		if *q == (queueState{Queue: Queue{Name: name}}) {
			delete(s.queues, name)
		}
	}
}

// Flushed tells that f, the last taken flush, is durable.
func (s *State) Flushed(f *Flush) {
	if s.taken != f {
		panic("store: Flushed with another flush than the one taken")
	}
	s.taken, s.takenFinals = nil, nil
	s.rest(f)
}

// Unflushed returns the number of rows not yet known to be durable.
func (s *State) Unflushed() int {
	n := s.dirty.rows()
	if s.taken != nil {
		n += s.taken.rows()
	}
	return n
}

func newFlush() *Flush {
	return &Flush{
		Schedules: make(map[string]*Schedule), Queues: make(map[string]*Queue),
		Sessions: make(map[uint64]*Session), Uniques: make(map[string]*Unique),
		Segments: make(map[SegmentKey]*Segment), Calendars: make(map[string]*Calendar),
		Versions: make(map[VersionKey]*ScheduleVersion),
	}
}

func (f *Flush) rows() int {
	return len(f.Runs) + len(f.Schedules) + len(f.Queues) + len(f.Sessions) + len(f.Uniques) +
		len(f.Calendars) + len(f.Versions) + len(f.Tasks) + len(f.Segments) + len(f.Ticks) + len(f.Events)
}

func (f *Flush) empty() bool { return f.rows() == 0 }

// An Image is a whole state at one index, read from a backend by [State.Load].
// Its functions call yield with each record until it returns an error, and
// return that error or their own; records become the state's.
type Image struct {
	Meta      Meta
	Runs      func(yield func(*Run) error) error
	Schedules func(yield func(*Schedule) error) error
	Queues    func(yield func(*Queue) error) error
	Sessions  func(yield func(*Session) error) error
	Uniques   func(yield func(*Unique) error) error
	Calendars func(yield func(*Calendar) error) error
	Tasks     func(yield func(string) error) error
	Segments  func(yield func(*Segment) error) error
}
