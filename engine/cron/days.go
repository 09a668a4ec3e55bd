package cron

import (
	"math/bits"
	"time"
)

// days are the two day fields together: which days of a month fit.
type days struct {
	dom  uint32 // bit d: day d
	last uint32 // bit n: n days before the last day

	nearest     uint8 // the day of nW, or n of L-nW; there is at most one such item
	nearestKind nearestKind

	dow uint8    // bit w: each weekday w
	nth [6]uint8 // bit w of nth[n]: the nth weekday w; of nth[0]: the last one

	anyDOM, anyDOW bool // the field is * or ?
	hasNth         bool // nth is not empty
	both           bool // if both fields are restricted, both must fit
}

type nearestKind uint8

const (
	nearestNone nearestKind = iota
	nearestToDay
	nearestToLast
)

// of returns the matching days (bit d: day d) of a month of size days whose 1st
// is weekday first.
func (s *days) of(first, size int) uint32 {
	month := uint32(1)<<(size+1) - 2
	switch {
	case s.anyDOM && s.anyDOW:
		return month
	case s.anyDOM:
		return s.weekdays(first, size) & month
	case s.anyDOW:
		return s.monthDays(first, size) & month
	case s.both:
		return s.monthDays(first, size) & s.weekdays(first, size) & month
	default:
		return (s.monthDays(first, size) | s.weekdays(first, size)) & month
	}
}

// monthDays returns the days named by the day-of-month field.
func (s *days) monthDays(first, size int) uint32 {
	set := s.dom
	if s.last != 0 {
		set |= bits.Reverse32(s.last) >> (31 - size)
	}
	switch s.nearestKind {
	case nearestToDay:
		set |= nearestWeekday(int(s.nearest), first, size)
	case nearestToLast:
		set |= nearestWeekday(size-int(s.nearest), first, size)
	}
	return set
}

// nearestWeekday returns, as a set, the working day nearest to day within the
// month; nothing if the month has no such day.
func nearestWeekday(day, first, size int) uint32 {
	if day < 1 || day > size {
		return 0
	}
	switch time.Weekday((first + day - 1) % 7) {
	case time.Saturday:
		if day == 1 {
			day = 3
		} else {
			day--
		}
	case time.Sunday:
		if day == size {
			day -= 2
		} else {
			day++
		}
	}
	return 1 << day
}

// weekdays returns the days named by the weekday field.
func (s *days) weekdays(first, size int) uint32 {
	set := spread(s.dow, first)
	if !s.hasNth {
		return set
	}
	for n := 1; n <= 5; n++ {
		week := uint32(0xfe) << (7 * (n - 1)) // the nth of any weekday is in the nth seven days
		set |= spread(s.nth[n], first) & week
	}
	lastWeek := uint32(0x7f) << (size - 6)
	return set | spread(s.nth[0], first)&lastWeek
}

// spread repeats a set of weekdays over a month whose 1st is weekday first.
func spread(dow uint8, first int) uint32 {
	const weeks = 1 | 1<<7 | 1<<14 | 1<<21 | 1<<28 | 1<<35
	return uint32(uint64(dow)*weeks>>first) << 1
}

// dense reports that every month is sure to have a matching day, which is not
// always told but never told wrongly.
func (s *days) dense() bool {
	const always = 1<<29 - 2 // days 1 to 28
	dom := s.anyDOM || s.dom&always != 0 || s.last&(1<<28-1) != 0 ||
		s.nearestKind == nearestToDay && s.nearest <= 28 || s.nearestKind == nearestToLast && s.nearest <= 27
	dow := s.anyDOW || s.dow != 0 || s.nth[0]|s.nth[1]|s.nth[2]|s.nth[3]|s.nth[4] != 0
	if s.anyDOM || s.anyDOW {
		return dom && dow
	}
	return !s.both && (dom || dow)
}
