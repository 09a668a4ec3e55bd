package cron

import (
	"iter"
	"time"
)

// Schedule is anything that knows its next firing: the interface of
// github.com/robfig/cron/v3, so that schedules written for it can be used here and
// an *Expr there. The zero Time means never.
type Schedule interface {
	Next(after time.Time) time.Time
}

// Adapt guards a Schedule that is not ours: the result gives instants strictly
// after the one asked about, or the zero Time, whatever s does. An instant that s
// repeats or that lies in the past ends the schedule, since going on would fire
// without end. An *Expr is returned as it is.
//
// It cannot guard against an s that does not return.
func Adapt(s Schedule) Schedule {
	if e, ok := s.(*Expr); ok {
		return e
	}
	return adapted{s}
}

type adapted struct{ s Schedule }

func (a adapted) Next(after time.Time) time.Time {
	t := a.s.Next(after)
	if !t.After(after) {
		return time.Time{}
	}
	return t
}

// NextN returns the first n firings of s strictly after the given instant, fewer
// if there are no more.
func NextN(s Schedule, after time.Time, n int) []time.Time {
	var ts []time.Time
	for t := range All(s, after) {
		if len(ts) >= n {
			break
		}
		ts = append(ts, t)
	}
	return ts
}

// All yields the firings of s strictly after the given instant, in order, until
// there is none or the loop is left.
func All(s Schedule, after time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for t := s.Next(after); !t.IsZero(); t = s.Next(t) {
			if !yield(t) {
				return
			}
		}
	}
}
