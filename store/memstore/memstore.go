package memstore

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/escapement-go/scheduler/store"
)

// Options of a store. The zero value is a good choice.
type Options struct {
	// FinalRuns bounds the final runs that are kept, and Ticks the ledger rows;
	// the oldest go first. Default: 100,000 each.
	FinalRuns int
	Ticks     int

	// JournalBytes bounds the journal; its oldest rows go first. Default: 16 MiB.
	JournalBytes int64
}

func (o Options) withDefaults() Options {
	if o.FinalRuns <= 0 {
		o.FinalRuns = 100_000
	}
	if o.Ticks <= 0 {
		o.Ticks = 100_000
	}
	if o.JournalBytes <= 0 {
		o.JournalBytes = 16 << 20
	}
	return o
}

// A Store keeps one state. Its methods may be called concurrently.
type Store struct {
	opts Options

	mu     sync.RWMutex // guards what follows
	kept   *kept
	closed bool
}

// kept is a whole state. The records in it are immutable and may be a State's.
type kept struct {
	meta   store.Meta
	config []byte

	runs      map[store.RunID]*store.Run
	schedules map[string]*store.Schedule
	calendars map[string]*store.Calendar
	versions  map[store.VersionKey]*store.ScheduleVersion
	queues    map[string]*store.Queue
	sessions  map[uint64]*store.Session
	uniques   map[string]*store.Unique
	tasks     map[string]struct{}
	segments  map[store.SegmentKey]*store.Segment

	history group[store.RunID, *store.Run]
	ticks   group[tickKey, *store.Tick]

	journal      []store.PackedEvents
	journalBytes int64
}

func newKept() *kept {
	return &kept{
		runs:      make(map[store.RunID]*store.Run),
		schedules: make(map[string]*store.Schedule),
		calendars: make(map[string]*store.Calendar),
		versions:  make(map[store.VersionKey]*store.ScheduleVersion),
		queues:    make(map[string]*store.Queue),
		sessions:  make(map[uint64]*store.Session),
		uniques:   make(map[string]*store.Unique),
		tasks:     make(map[string]struct{}),
		segments:  make(map[store.SegmentKey]*store.Segment),
		history:   newGroup[store.RunID, *store.Run](store.RunID.Compare),
		ticks:     newGroup[tickKey, *store.Tick](tickKey.compare),
	}
}

// New returns an empty store.
func New(opts Options) *Store {
	return &Store{opts: opts.withDefaults(), kept: newKept()}
}

// Close ends the store; later calls return [store.ErrClosed].
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.kept = newKept()
	return nil
}

// Commit keeps a flush, with the configuration as of its index (nil: it has not
// changed). A repetition changes nothing. The records of the flush are shared
// with it, its maps are not.
// Errors: [store.ErrBehind], [store.ErrClosed].
func (s *Store) Commit(f *store.Flush, configuration []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kept
	if s.closed {
		return store.ErrClosed
	}
	known := k.meta.Format != 0
	if known && f.Meta.Index < k.meta.Index {
		return fmt.Errorf("memstore: commit of index %d: %w", f.Meta.Index, store.ErrBehind)
	}
	if configuration != nil {
		k.config = bytes.Clone(configuration)
	}
	if known && f.Meta.Index == k.meta.Index {
		return nil
	}
	k.meta = f.Meta
	k.putHistory(f)
	k.putLive(f)
	k.history.bound(s.opts.FinalRuns)
	k.ticks.bound(s.opts.Ticks)
	k.trimJournal(s.opts.JournalBytes)
	return nil
}

func (k *kept) putHistory(f *store.Flush) {
	for _, key := range f.Dropped {
		k.dropSegment(key)
	}
	for key, seg := range f.Segments {
		if seg == nil {
			k.dropSegment(key)
		}
	}
	for i := range f.Runs {
		c := &f.Runs[i]
		if c.Gone || c.Final {
			delete(k.runs, c.ID)
		}
		switch {
		case c.Run == nil:
		case c.Final:
			k.history.put(c.Segment, c.ID, c.Run)
		default:
			k.runs[c.ID] = c.Run
		}
	}
	for i := range f.Ticks {
		t := f.Ticks[i].Tick
		k.ticks.put(f.Ticks[i].Segment, keyOf(&t), &t)
	}
	for _, e := range f.Events {
		k.journal = append(k.journal, e)
		k.journalBytes += eventBytes(e)
	}
}

func (k *kept) dropSegment(key store.SegmentKey) {
	if key.Kind == store.TickSegment {
		k.ticks.drop(key)
	} else {
		k.history.drop(key)
	}
}

func (k *kept) putLive(f *store.Flush) {
	putAll(k.schedules, f.Schedules)
	putAll(k.calendars, f.Calendars)
	putAll(k.versions, f.Versions)
	putAll(k.queues, f.Queues)
	putAll(k.sessions, f.Sessions)
	putAll(k.uniques, f.Uniques)
	putAll(k.segments, f.Segments)
	for _, name := range f.Tasks {
		k.tasks[name] = struct{}{}
	}
}

func putAll[K comparable, R any](have, changed map[K]*R) {
	for key, rec := range changed {
		if rec == nil {
			delete(have, key)
		} else {
			have[key] = rec
		}
	}
}

// eventBytes is what a row of the journal counts.
func eventBytes(e store.PackedEvents) int64 { return int64(len(e.Data)) + 8 }

func (k *kept) trimJournal(bound int64) {
	n := 0
	for ; k.journalBytes > bound && n < len(k.journal)-1; n++ {
		k.journalBytes -= eventBytes(k.journal[n])
	}
	k.journal = slices.Delete(k.journal, 0, n)
}

// Configuration returns the configuration of the last commit, nil if there was
// none. The caller must not change it.
func (s *Store) Configuration() []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.kept.config
}

// Stats returns counts as of the last commit, and about the bytes they take.
func (s *Store) Stats() store.Stats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	k := s.kept
	st := store.Stats{
		Index:    k.meta.Index,
		LiveRuns: int64(len(k.runs)), FinalRuns: int64(k.history.rows), Ticks: int64(k.ticks.rows),
		JournalBytes: k.journalBytes,
	}
	const perRun, perTick = 512, 160 // a guess: nothing is walked to know better
	st.Bytes = (st.LiveRuns+st.FinalRuns)*perRun + st.Ticks*perTick + st.JournalBytes
	if n := len(k.journal); n > 0 {
		st.JournalFirst, st.JournalLast = k.journal[0].Index, k.journal[n-1].Index
	}
	return st
}

// Image returns a copy of the whole state as of the last commit; its Meta is zero
// if there was none. Its records share nothing with those that were committed.
// Errors, also of the image's functions: [store.ErrClosed].
func (s *Store) Image() (*store.Image, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	k := s.kept
	meta := k.meta
	meta.Revivals = slices.Clone(meta.Revivals)
	tasks := slices.Sorted(maps.Keys(k.tasks))
	return &store.Image{
		Meta:      meta,
		Runs:      copies(k.runs),
		Schedules: copies(k.schedules),
		Calendars: copies(k.calendars),
		Queues:    copies(k.queues),
		Sessions:  copies(k.sessions),
		Uniques:   copies(k.uniques),
		Segments:  copies(k.segments),
		Tasks: func(yield func(string) error) error {
			for _, name := range tasks {
				if err := yield(name); err != nil {
					return err
				}
			}
			return nil
		},
	}, nil
}

// copies returns a function that yields a deep copy of each record.
func copies[K comparable, T any, P record[T]](recs map[K]P) func(func(*T) error) error {
	all := slices.Collect(maps.Values(recs)) // the map goes on changing
	return func(yield func(*T) error) error {
		for _, rec := range all {
			c, err := clone[T](rec)
			if err != nil {
				return err
			}
			if err := yield(c); err != nil {
				return err
			}
		}
		return nil
	}
}
