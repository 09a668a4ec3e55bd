package cron

import "math/bits"

// calendar is an expression worked out to bit masks. It knows nothing of zones:
// it finds matching readings of a wall clock, by jumping from field to field.
type calendar struct {
	second, minute      uint64 // bit n: value n
	hour                uint32
	firstTime, lastTime int32 // first and last second of a day that fit
	month               uint16
	kinds               uint16 // bit leap*7+weekday of 1 January: years of this kind have a matching day
	days                days
	years               [4]uint64 // bit n: year minYear+n
}

// allKinds is the set of all fourteen kinds of years.
const allKinds = 1<<14 - 1

// next returns the first matching reading at or after l; ok is false if none is
// left before localEnd. The cost is bounded by the number of months that the
// expression names and that have no matching day; years without any are passed
// over whole.
func (c *calendar) next(l int64) (r int64, ok bool) {
	if l < 0 {
		l = 0
	}
	if l >= localEnd {
		return 0, false
	}
	day, clock := int(l/daySeconds), int(l%daySeconds)
	y, m, d := civil(day)
	if clock <= int(c.lastTime) && c.fits(y, m, d, day) {
		return int64(day)*daySeconds + int64(c.nextClock(clock)), true
	}
	day, ok = c.nextDay(y, m, d+1)
	return int64(day)*daySeconds + int64(c.firstTime), ok
}

// prev returns the last matching reading at or before l; ok is false if there is
// none from minYear on.
func (c *calendar) prev(l int64) (r int64, ok bool) {
	if l < 0 {
		return 0, false
	}
	if l >= localEnd {
		l = localEnd - 1
	}
	day, clock := int(l/daySeconds), int(l%daySeconds)
	y, m, d := civil(day)
	if clock >= int(c.firstTime) && c.fits(y, m, d, day) {
		return int64(day)*daySeconds + int64(c.prevClock(clock)), true
	}
	day, ok = c.prevDay(y, m, d-1)
	return int64(day)*daySeconds + int64(c.lastTime), ok
}

// fits reports whether the date, which is day, matches.
func (c *calendar) fits(y, m, d, day int) bool {
	return c.month>>m&1 != 0 && c.hasYear(y) && c.daysOf(y, m, day-d+1)>>d&1 != 0
}

func (c *calendar) hasYear(y int) bool {
	n := y - minYear
	return c.years[n>>6]>>(n&63)&1 != 0
}

// daysOf returns the matching days of a month whose first day is first.
func (c *calendar) daysOf(y, m, first int) uint32 {
	lp := leap(y)
	return c.days.of(weekday(first), int(monthStart[lp][m+1]-monthStart[lp][m]))
}

// yearDays returns 1 January, and whether the year can have a matching day.
func (c *calendar) yearDays(y int) (start, lp int, ok bool) {
	start, lp = yearStart(y), leap(y)
	return start, lp, c.hasYear(y) && c.kinds>>(lp*7+weekday(start))&1 != 0
}

// nextDay returns the first matching day at or after the d-th of the month; d may
// lie past the month's end.
func (c *calendar) nextDay(y, m, d int) (day int, ok bool) {
	from := ^uint64(0) << d
	for ; y <= maxYear; y, m, from = y+1, 1, ^uint64(0) {
		start, lp, ok := c.yearDays(y)
		if !ok {
			continue
		}
		for months := c.month >> m << m; months != 0; months &= months - 1 {
			n := bits.TrailingZeros16(months)
			if n != m {
				from = ^uint64(0)
			}
			first := start + int(monthStart[lp][n])
			set := uint64(c.days.of(weekday(first), int(monthStart[lp][n+1]-monthStart[lp][n]))) & from
			if set != 0 {
				return first + bits.TrailingZeros64(set) - 1, true
			}
		}
	}
	return 0, false
}

// prevDay returns the last matching day at or before the d-th of the month; d may be zero.
func (c *calendar) prevDay(y, m, d int) (day int, ok bool) {
	upTo := uint64(1)<<(d+1) - 1
	for ; y >= minYear; y, m, upTo = y-1, 12, ^uint64(0) {
		start, lp, ok := c.yearDays(y)
		if !ok {
			continue
		}
		for months := c.month & (1<<(m+1) - 1); months != 0; {
			n := 15 - bits.LeadingZeros16(months)
			months &^= 1 << n
			if n != m {
				upTo = ^uint64(0)
			}
			first := start + int(monthStart[lp][n])
			set := uint64(c.days.of(weekday(first), int(monthStart[lp][n+1]-monthStart[lp][n]))) & upTo
			if set != 0 {
				return first + 62 - bits.LeadingZeros64(set), true
			}
		}
	}
	return 0, false
}

// nextClock returns the first matching second of the day at or after clock,
// which is not after lastTime.
func (c *calendar) nextClock(clock int) int {
	h, m, s := clock/3600, clock/60%60, clock%60
	if c.hour>>h&1 != 0 {
		if c.minute>>m&1 != 0 {
			if left := c.second >> s; left != 0 {
				return clock + bits.TrailingZeros64(left)
			}
		}
		if left := c.minute >> (m + 1); left != 0 {
			m += 1 + bits.TrailingZeros64(left)
			return h*3600 + m*60 + bits.TrailingZeros64(c.second)
		}
	}
	h += 1 + bits.TrailingZeros32(c.hour>>(h+1))
	return h*3600 + bits.TrailingZeros64(c.minute)*60 + bits.TrailingZeros64(c.second)
}

// prevClock returns the last matching second of the day at or before clock,
// which is not before firstTime.
func (c *calendar) prevClock(clock int) int {
	h, m, s := clock/3600, clock/60%60, clock%60
	if c.hour>>h&1 != 0 {
		if c.minute>>m&1 != 0 {
			if left := c.second & (1<<(s+1) - 1); left != 0 {
				return h*3600 + m*60 + top(left)
			}
		}
		if left := c.minute & (1<<m - 1); left != 0 {
			return h*3600 + top(left)*60 + top(c.second)
		}
	}
	h = top(uint64(c.hour) & (1<<h - 1))
	return h*3600 + top(c.minute)*60 + top(c.second)
}

// top returns the highest bit of a mask that is not zero.
func top(mask uint64) int { return 63 - bits.LeadingZeros64(mask) }

// finish fills in what follows from the masks.
func (c *calendar) finish() {
	c.firstTime = int32(bits.TrailingZeros32(c.hour)*3600 + bits.TrailingZeros64(c.minute)*60 + bits.TrailingZeros64(c.second))
	c.lastTime = int32(top(uint64(c.hour))*3600 + top(c.minute)*60 + top(c.second))
	c.kinds = allKinds
	if c.days.dense() {
		return
	}
	c.kinds = 0
	for kind := range 14 {
		if c.yearFits(kind/7, kind%7) {
			c.kinds |= 1 << kind
		}
	}
}

// yearFits reports whether a year of this kind has a matching day.
func (c *calendar) yearFits(lp, jan1 int) bool {
	for months := c.month; months != 0; months &= months - 1 {
		m := bits.TrailingZeros16(months)
		start := int(monthStart[lp][m])
		if c.days.of((jan1+start)%7, int(monthStart[lp][m+1])-start) != 0 {
			return true
		}
	}
	return false
}
