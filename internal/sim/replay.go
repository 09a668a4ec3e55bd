package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// An Applied is an entry with what applying it did.
type Applied struct {
	Entry
	Batch   *store.Batch
	Elapsed int64 // the state's elapsed clock, ns
	Results []store.Result
	Events  []store.Event
}

// A Story is a history with its log replayed: what the checkers read.
type Story struct {
	*History
	Applied []Applied
	Digests map[uint64]uint64 // of the state at each index that was sampled
	State   *store.State      // at the end

	offsets map[uint64]time.Duration // by term
	leases  map[uint64]int           // index in Applied, by fence
	last    map[store.RunID]*store.Run
}

// Replay applies the log of a history to an empty state.
func Replay(h *History) (*Story, error) {
	s := &Story{
		History: h, Digests: make(map[uint64]uint64), State: store.NewState(),
		offsets: make(map[uint64]time.Duration), leases: make(map[uint64]int),
		last: make(map[store.RunID]*store.Run),
	}
	sampled := make(map[uint64]bool)
	for _, v := range h.Samples {
		sampled[v.Index] = true
	}
	for i := range h.Log {
		e := &h.Log[i]
		switch {
		case e.Config:
			s.State.Advance(e.Index, e.Term)
		case e.Data != nil:
			if err := s.apply(e); err != nil {
				return nil, err
			}
		default:
			continue
		}
		if sampled[e.Index] {
			s.Digests[e.Index] = s.State.Digest()
		}
	}
	return s, nil
}

func (s *Story) apply(e *Entry) error {
	b, err := store.DecodeBatch(e.Data)
	if err != nil {
		return fmt.Errorf("sim: entry %d: %w", e.Index, err)
	}
	results, events := s.State.Apply(e.Index, e.Term, b)
	for i := range events {
		if events[i].Kind == store.EventLeased {
			s.leases[events[i].Fence] = len(s.Applied)
		}
		if r := events[i].Run; r != nil {
			s.last[r.ID] = r
		}
	}
	s.Applied = append(s.Applied, Applied{*e, b, s.State.Meta().Elapsed, results, slices.Clone(events)})
	// A stamp is not younger than the write that carries it, so the most that the
	// elapsed clock was seen ahead by is what it is ahead by.
	ahead := time.Duration(b.Elapsed - e.At.UnixNano())
	if known, ok := s.offsets[e.Term]; !ok || ahead > known {
		s.offsets[e.Term] = ahead
	}
	return nil
}

// elapsedAt returns what the elapsed clock of a term's leader shows at a true
// time.
func (s *Story) elapsedAt(term uint64, at time.Time) int64 {
	return at.Add(s.offsets[term]).UnixNano()
}

// leaseOf returns the entry and the record of the lease with a fence, or nil.
func (s *Story) leaseOf(fence uint64) (*Applied, *store.Run) {
	at, ok := s.leases[fence]
	if !ok {
		return nil, nil
	}
	a := &s.Applied[at]
	for i := range a.Events {
		if e := &a.Events[i]; e.Kind == store.EventLeased && e.Fence == fence {
			return a, e.Run
		}
	}
	return nil, nil
}
