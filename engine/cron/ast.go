package cron

import "time"

// AST is an expression as it was written, read but not yet worked out. Numbers
// are normalised: weekdays count from Sunday = 0 in every dialect, and 7 is left
// only as the end of a range.
type AST struct {
	Zone  string        // the zone of a TZ= or CRON_TZ= prefix; "" without one
	Macro string        // "@daily" and so on; the fields are then those it stands for
	Every time.Duration // of "@every d"; the fields are then nil

	Second     Node // nil if the dialect has no such field or it was left out
	Minute     Node
	Hour       Node
	DayOfMonth Node
	Month      Node
	DayOfWeek  Node
	Year       Node // nil as Second

	Both bool // the weekday field begins with +: both day fields must fit
}

// Node is one of Wildcard, Value, Range, Step, List, Last, NearestWeekday,
// NthWeekday and Hash.
type Node interface{ node() }

type (
	// Wildcard is * or ?: no restriction.
	Wildcard struct {
		Question bool // written as ?
	}

	// Value is one number: 5, MON.
	Value struct{ N int }

	// Range is From to To, both included. From > To runs through the end of the
	// field.
	Range struct{ From, To int }

	// Step is every Nth value of a Wildcard, Range or Hash, or from a Value to the end
	// of the field.
	Step struct {
		Of Node
		N  int
	}

	// List is any of its items, which are no lists themselves.
	List struct{ Items []Node }

	// Last is the last day of the month (L), or Before days before it (L-n).
	Last struct{ Before int }

	// NearestWeekday is the working day nearest to a day in the same month: nW, or
	// counted from the end, LW and L-nW.
	NearestWeekday struct {
		Day  int  // the day; or the days before the last one
		Last bool // counted from the end
	}

	// NthWeekday is the Nth such weekday of the month (FRI#2), or the last one
	// (FRI#L, FRIL) if N is LastWeek.
	NthWeekday struct {
		Weekday time.Weekday
		N       int
	}

	// Hash is one value from From to To, chosen by the hash key: H, H(1-5).
	Hash struct {
		From, To int
		Bare     bool // written without a range
	}
)

// LastWeek is the N of a NthWeekday that means the last one of the month.
const LastWeek = -1

func (Wildcard) node()       {}
func (Value) node()          {}
func (Range) node()          {}
func (Step) node()           {}
func (List) node()           {}
func (Last) node()           {}
func (NearestWeekday) node() {}
func (NthWeekday) node()     {}
func (Hash) node()           {}

// items returns the items of a list, or n alone.
func items(n Node) []Node {
	if l, ok := n.(List); ok {
		return l.Items
	}
	return []Node{n}
}

// wild reports whether n leaves its field unrestricted. Only * and ? do: */1 and
// full ranges are restrictions.
func wild(n Node) bool {
	_, ok := n.(Wildcard)
	return ok
}

// elapsing reports whether n is * or */n: the job then follows elapsed time.
func elapsing(n Node) bool {
	if s, ok := n.(Step); ok {
		n = s.Of
	}
	return wild(n)
}
