package store

import (
	"bytes"
	"iter"
	"slices"
)

// A cell holds a schedule: its record or, while nothing happens to it, what that is
// made of, which takes a third of the memory. It is immutable.
//
// Whether a schedule rests differs between nodes and is not part of the state.
type cell struct {
	sc *Schedule // nil while it rests

	spec    *Spec
	packed  []byte // the record without ID and Spec
	number  uint64
	armed   int64 // the tick that is armed, 0 if it is paused
	clock   Clock
	excepts bool // it excludes times
}

// restAhead is how far away the next tick of a schedule that rests is (ns).
const restAhead = int64(10e9)

// record returns the schedule, which has that ID; nil if c is.
func (c *cell) record(id string) *Schedule {
	switch {
	case c == nil:
		return nil
	case c.sc != nil:
		return c.sc
	}
	sc := new(Schedule)
	if _, err := sc.UnmarshalMsg(c.packed); err != nil {
		panic("store: unpack schedule: " + err.Error()) // we have packed it
	}
	sc.ID, sc.Spec = id, c.spec
	return sc
}

// mayExcept reports whether the schedule excludes times.
func (c *cell) mayExcept() bool {
	if c.sc != nil {
		return len(c.sc.Trigger.Except) > 0
	}
	return c.excepts
}

// packer packs schedules. Its zero value is ready for use.
type packer struct{ buf []byte }

// rested returns a cell in which sc rests.
func (p *packer) rested(sc *Schedule) *cell {
	bare := *sc
	bare.ID, bare.Spec = "", nil
	b, err := bare.MarshalMsg(p.buf[:0])
	if err != nil {
		panic("store: pack schedule: " + err.Error()) // no field of ours can fail
	}
	p.buf = b
	c := &cell{
		spec: sc.Spec, packed: bytes.Clone(b), number: sc.Number, armed: sc.Next,
		clock: sc.Trigger.TickClock(), excepts: len(sc.Trigger.Except) > 0,
	}
	if sc.Paused {
		c.armed = 0
	}
	return c
}

// idle reports whether nothing is about to happen to the schedule at the clocks of m.
// One whose trigger has to be asked may be asked at any time, and what an iCalendar file
// means is kept by where its bytes are.
func (sc *Schedule) idle(m *Meta) bool {
	now := m.Elapsed
	if sc.Trigger.TickClock() == Wall {
		now = m.Wall
	}
	return len(sc.Live) == 0 && len(sc.Waiting) == 0 && sc.Canary == nil && sc.Trigger.Kind != TriggerCustom &&
		!slices.ContainsFunc(sc.Trigger.Except, func(x Exclusion) bool { return len(x.ICS) > 0 }) &&
		(sc.Paused || sc.Next == 0 || sc.Next-now > restAhead)
}

// Rest prepares the schedules of a taken flush for their rest, which they begin when
// it is durable. It may be called without the state's lock.
func (f *Flush) Rest() {
	f.resting = make(map[string]*cell)
	var p packer
	for id, sc := range f.Schedules {
		if sc != nil && sc.Deleted == 0 && sc.idle(&f.Meta) {
			f.resting[id] = p.rested(sc)
		}
	}
}

// rest has the schedules of a durable flush rest that were not changed meanwhile.
func (s *State) rest(f *Flush) {
	for id, c := range f.resting {
		if now := s.schedules[id]; now != nil && now.sc == f.Schedules[id] {
			s.schedules[id] = c
		}
	}
}

// Schedule returns a schedule by ID, or nil.
func (s *State) Schedule(id string) *Schedule { return s.schedules[id].record(id) }

// Schedules returns all schedules of now, in no order. What it returns may be ranged
// over without the state's lock, and makes the records of those that rest meanwhile.
func (s *State) Schedules() iter.Seq[*Schedule] {
	type place struct {
		id string
		*cell
	}
	places := make([]place, 0, len(s.schedules))
	for id, c := range s.schedules {
		places = append(places, place{id, c})
	}
	return func(yield func(*Schedule) bool) {
		for _, p := range places {
			if !yield(p.record(p.id)) {
				return
			}
		}
	}
}

// An Armed is the armed tick of a schedule that rests.
type Armed struct {
	ID     string // of the schedule
	Number uint64 // of the schedule
	Tick   int64  // on Clock
	Clock  Clock
}

// Armed yields the armed ticks of the schedules that rest and are not paused, in no
// order.
func (s *State) Armed() iter.Seq[Armed] {
	return func(yield func(Armed) bool) {
		for id, c := range s.schedules {
			if c.sc == nil && c.armed != 0 && !yield(Armed{id, c.number, c.armed, c.clock}) {
				return
			}
		}
	}
}

// Awake yields the schedules that do not rest, in no order.
func (s *State) Awake() iter.Seq[*Schedule] {
	return func(yield func(*Schedule) bool) {
		for _, c := range s.schedules {
			if c.sc != nil && !yield(c.sc) {
				return
			}
		}
	}
}

// NumSchedules returns how many schedules there are.
func (s *State) NumSchedules() int { return len(s.schedules) }

// SchedulesWithout yields the schedules that exclude what the named calendar holds,
// in no order.
func (s *State) SchedulesWithout(calendar string) iter.Seq[*Schedule] {
	return func(yield func(*Schedule) bool) {
		for id, c := range s.schedules {
			if !c.mayExcept() {
				continue
			}
			if sc := c.record(id); sc.Trigger.Uses(calendar) && !yield(sc) {
				return
			}
		}
	}
}

// put puts a schedule in its place.
func (s *State) put(sc *Schedule) { s.schedules[sc.ID] = &cell{sc: sc} }
