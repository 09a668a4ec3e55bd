package cron

import (
	"fmt"
	"math/bits"
	"strings"
	"time"
)

// Lang is a language of Describe.
type Lang string

// The languages.
const (
	English Lang = "en"
	Chinese Lang = "zh"
)

// Duration says a length of time, which is not negative: "1h30m", "1 小时 30 分钟". A
// language that is not known is taken for English.
func (l Lang) Duration(d time.Duration) string {
	if l == Chinese {
		return chinese{}.length(d)
	}
	return english{}.length(d)
}

// Describe says in plain words when the expression fires: "at 09:00 on weekdays",
// "工作日 09:00". Values chosen by the hash key appear as they came out. A language
// that is not known is taken for English.
func (e *Expr) Describe(lang Lang) string {
	var w interface {
		beat(every string) string
		sentence(*calendar) string
	} = english{}
	if lang == Chinese {
		w = chinese{}
	}
	if e.every > 0 {
		return w.beat(lang.Duration(e.every))
	}
	return w.sentence(&e.cal)
}

// What follows is what both languages need to know about a calendar.

// values returns the bits of a mask.
func values(mask uint64) []int {
	vs := make([]int, 0, bits.OnesCount64(mask))
	for ; mask != 0; mask &= mask - 1 {
		vs = append(vs, bits.TrailingZeros64(mask))
	}
	return vs
}

// evenly reports whether the mask is start, start+step, … all round a field of size
// values without a shorter hop at its end. Two values are not yet a beat, unless
// they are the whole field.
func evenly(mask uint64, size int) (start, step int, ok bool) {
	n := bits.OnesCount64(mask)
	if n < 2 || size%n != 0 {
		return 0, 0, false
	}
	start, step = bits.TrailingZeros64(mask), size/n
	for v := start; v < size; v += step {
		if mask>>v&1 == 0 {
			return 0, 0, false
		}
	}
	return start, step, start < step
}

// run reports whether the mask is one unbroken stretch from..to of a field of size
// values, perhaps through its end.
func run(mask uint64, size int) (from, to int, ok bool) {
	all := uint64(1)<<size - 1
	rotated := (mask<<1 | mask>>(size-1)) & all
	starts := mask &^ rotated
	if bits.OnesCount64(starts) != 1 {
		return 0, 0, false
	}
	from = bits.TrailingZeros64(starts)
	return from, (from + bits.OnesCount64(mask) - 1) % size, true
}

const (
	allSixty    = 1<<60 - 1
	allHours    = 1<<24 - 1
	allMonths   = 1<<13 - 2
	workingDays = 1<<time.Monday | 1<<time.Tuesday | 1<<time.Wednesday | 1<<time.Thursday | 1<<time.Friday
	weekend     = 1<<time.Saturday | 1<<time.Sunday
)

// clockForm is the way in which the times of a day are best told.
type clockForm uint8

const (
	formTimes    clockForm = iota // a few times of day
	formSeconds                   // some or all seconds of some minutes
	formMinutes                   // some or all minutes of some hours
	formHourly                    // one minute of every hour
	formEvery                     // one minute every few hours, evenly
	formHourSpan                  // one minute of an unbroken stretch of hours
	formHours                     // one minute of many hours
)

// form chooses the form.
func (c *calendar) form() clockForm {
	times := bits.OnesCount64(c.minute) * bits.OnesCount32(c.hour)
	_, _, even := evenly(uint64(c.hour), 24)
	_, _, unbroken := run(uint64(c.hour), 24)
	oneMinute := c.minute&(c.minute-1) == 0
	oneSecond := c.second&(c.second-1) == 0
	switch {
	case oneSecond && (times <= 3 || times <= 6 && oneMinute && !even && !unbroken):
		return formTimes
	case c.second != 1:
		return formSeconds
	case !oneMinute:
		return formMinutes
	case c.hour == allHours:
		return formHourly
	case even:
		return formEvery
	case unbroken:
		return formHourSpan
	default:
		return formHours
	}
}

// times returns all times of day, as 09:00 or 09:00:30.
func (c *calendar) times() []string {
	var ts []string
	for _, h := range values(uint64(c.hour)) {
		for _, m := range values(c.minute) {
			t := fmt.Sprintf("%02d:%02d", h, m)
			if s := bits.TrailingZeros64(c.second); s > 0 {
				t += fmt.Sprintf(":%02d", s)
			}
			ts = append(ts, t)
		}
	}
	return ts
}

// yearsOf returns the years as ranges and single years; nil if there is no restriction.
func (c *calendar) yearsOf() []string {
	var ys []string
	for y := minYear; y <= maxYear; y++ {
		if !c.hasYear(y) {
			continue
		}
		from := y
		for y < maxYear && c.hasYear(y+1) {
			y++
		}
		switch {
		case from == minYear && y == maxYear:
			return nil
		case from == y:
			ys = append(ys, fmt.Sprint(y))
		default:
			ys = append(ys, fmt.Sprintf("%d–%d", from, y))
		}
	}
	return ys
}

// joined is a list as one says it: "a, b and c" with ", " and " and ".
func joined(items []string, comma, and string) string {
	if len(items) < 2 {
		return strings.Join(items, "")
	}
	last := len(items) - 1
	return strings.Join(items[:last], comma) + and + items[last]
}

// mapped turns numbers to words.
func mapped(vs []int, word func(int) string) []string {
	ws := make([]string, len(vs))
	for i, v := range vs {
		ws[i] = word(v)
	}
	return ws
}

// phrase joins the parts that are not empty with single blanks.
func phrase(parts ...string) string {
	kept := parts[:0]
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, " ")
}
