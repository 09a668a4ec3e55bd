package cron

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// english tells a calendar in English: clock, days, months, years.
type english struct{}

func (english) beat(every string) string { return "every " + every }

func (english) length(d time.Duration) string {
	s := d.String()
	for _, zero := range [...]string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

func (w english) sentence(c *calendar) string {
	clock, days := w.clock(c), w.days(c)
	if days == "" && c.form() == formTimes {
		days = "every day"
	}
	return phrase(clock, days, w.years(c))
}

func (w english) clock(c *calendar) string {
	minute, hours := bits.TrailingZeros64(c.minute), uint64(c.hour)
	switch c.form() {
	case formTimes:
		return "at " + w.list(c.times())
	case formSeconds:
		return phrase(w.ticks(c.second, "second"), w.within(c))
	case formMinutes:
		return phrase(w.ticks(c.minute, "minute"), w.hours(c))
	case formHourly:
		if minute == 0 {
			return "every hour"
		}
		return fmt.Sprintf("at minute %d of every hour", minute)
	case formEvery:
		start, step, _ := evenly(hours, 24)
		if start == 0 && minute == 0 {
			return fmt.Sprintf("every %d hours", step)
		}
		return fmt.Sprintf("every %d hours from %02d:%02d", step, start, minute)
	case formHourSpan:
		from, to, _ := run(hours, 24)
		return fmt.Sprintf("every hour from %02d:%02d to %02d:%02d", from, minute, to, minute)
	default:
		return fmt.Sprintf("at minute %d of %s", minute, w.hourList(hours))
	}
}

// ticks tells the seconds or minutes that fit.
func (w english) ticks(mask uint64, unit string) string {
	start, step, even := evenly(mask, 60)
	from, to, unbroken := run(mask, 60)
	switch {
	case mask == allSixty:
		return "every " + unit
	case even && start == 0:
		return fmt.Sprintf("every %d %ss", step, unit)
	case even:
		return fmt.Sprintf("every %d %ss from %s %d", step, unit, unit, start)
	case unbroken && from < to && to-from >= 2:
		return fmt.Sprintf("at %ss %d to %d", unit, from, to)
	case mask&(mask-1) == 0:
		return fmt.Sprintf("at %s %d", unit, from)
	default:
		return fmt.Sprintf("at %ss %s", unit, w.list(mapped(values(mask), strconv.Itoa)))
	}
}

// within tells the minutes and hours in which seconds tick.
func (w english) within(c *calendar) string {
	if c.minute == allSixty {
		if c.second == allSixty || c.hour != allHours {
			return w.hours(c)
		}
		if _, _, even := evenly(c.second, 60); even {
			return ""
		}
		return "of every minute"
	}
	if c.hour == allHours {
		return "of " + strings.TrimPrefix(w.ticks(c.minute, "minute"), "at ")
	}
	return phrase("of "+strings.TrimPrefix(w.ticks(c.minute, "minute"), "at "), w.hours(c))
}

// hours tells the hours in which minutes or seconds tick.
func (w english) hours(c *calendar) string {
	from, to, unbroken := run(uint64(c.hour), 24)
	switch {
	case c.hour != allHours && unbroken:
		return fmt.Sprintf("from %02d:00 to %02d:59", from, to)
	case c.hour != allHours:
		return "in " + w.hourList(uint64(c.hour))
	}
	if _, _, even := evenly(c.minute, 60); even {
		return ""
	}
	return "of every hour"
}

func (w english) hourList(hours uint64) string {
	if start, step, even := evenly(hours, 24); even && start == 0 {
		return "every " + ordinal(step) + " hour"
	}
	return "the hours " + w.list(mapped(values(hours), func(h int) string { return fmt.Sprintf("%02d", h) }))
}

// days tells which days, months included; "" if every day.
func (w english) days(c *calendar) string {
	s := &c.days
	months := w.months(c)
	inMonths := ""
	if months != "" {
		inMonths = "in " + months
	} else {
		months = "every month"
	}
	dow := w.weekdays(s, months)
	switch {
	case s.anyDOM && s.anyDOW:
		if inMonths != "" && c.form() == formTimes {
			inMonths = "every day " + inMonths
		}
		return inMonths
	case s.anyDOM && s.hasNth:
		return dow
	case s.anyDOM:
		return phrase(dow, inMonths)
	case s.anyDOW:
		return w.monthDays(s, months)
	case s.both:
		return w.monthDays(s, months) + " if it is " + w.oneOf(s)
	default:
		return w.monthDays(s, months) + ", and also " + phrase(dow, inMonths)
	}
}

// monthDays tells the day-of-month field.
func (w english) monthDays(s *days, months string) string {
	var parts []string
	if from, to, ok := run(uint64(s.dom>>1), 31); ok && to-from >= 2 {
		parts = append(parts, fmt.Sprintf("days %d to %d", from+1, to+1))
	} else if bits.OnesCount32(s.dom) > 6 {
		parts = append(parts, "days "+w.list(mapped(values(uint64(s.dom)), strconv.Itoa)))
	} else if s.dom != 0 {
		parts = append(parts, "the "+w.list(mapped(values(uint64(s.dom)), ordinal)))
	}
	for _, n := range values(uint64(s.last)) {
		switch n {
		case 0:
			parts = append(parts, "the last day")
		case 1:
			parts = append(parts, "the day before the last day")
		default:
			parts = append(parts, fmt.Sprintf("the day %d days before the last day", n))
		}
	}
	switch {
	case s.nearestKind == nearestToDay:
		parts = append(parts, "the working day nearest to the "+ordinal(int(s.nearest)))
	case s.nearestKind == nearestToLast && s.nearest == 0:
		parts = append(parts, "the last working day")
	case s.nearestKind == nearestToLast:
		parts = append(parts, fmt.Sprintf("the working day nearest to %d days before the last day", s.nearest))
	}
	return "on " + w.list(parts) + " of " + months
}

// weekdays tells the weekday field as days that recur.
func (w english) weekdays(s *days, months string) string {
	var parts []string
	switch from, to, unbroken := run(uint64(s.dow), 7); {
	case s.dow == workingDays:
		parts = append(parts, "weekdays")
	case s.dow == weekend:
		parts = append(parts, "weekends")
	case s.dow == 1<<7-1:
		return "every day of the week"
	case unbroken && bits.OnesCount8(s.dow) > 3:
		parts = append(parts, fmt.Sprintf("%ss to %ss", time.Weekday(from), time.Weekday(to)))
	default:
		parts = mapped(values(uint64(s.dow)), func(d int) string { return time.Weekday(d).String() + "s" })
	}
	if s.hasNth {
		parts = append(parts, w.list(w.nths(s))+" of "+months)
	}
	return "on " + w.list(parts)
}

// oneOf tells the weekday field as what a day can be.
func (w english) oneOf(s *days) string {
	var parts []string
	switch s.dow {
	case workingDays:
		parts = append(parts, "a weekday")
	case weekend:
		parts = append(parts, "on a weekend")
	default:
		parts = mapped(values(uint64(s.dow)), func(d int) string { return "a " + time.Weekday(d).String() })
	}
	return joined(append(parts, w.nths(s)...), ", ", " or ")
}

// nths tells the weekdays that have a number.
func (w english) nths(s *days) []string {
	words := [...]string{"last", "first", "second", "third", "fourth", "fifth"}
	var parts []string
	for _, n := range [...]int{1, 2, 3, 4, 5, 0} {
		for _, d := range values(uint64(s.nth[n])) {
			parts = append(parts, "the "+words[n]+" "+time.Weekday(d).String())
		}
	}
	return parts
}

// months tells the months; "" if all.
func (w english) months(c *calendar) string {
	if c.month == allMonths {
		return ""
	}
	return w.list(mapped(values(uint64(c.month)), func(m int) string { return time.Month(m).String() }))
}

func (w english) years(c *calendar) string {
	ys := c.yearsOf()
	if ys == nil {
		return ""
	}
	return "in " + w.list(ys)
}

func (english) list(items []string) string { return joined(items, ", ", " and ") }

// ordinal returns 1st, 2nd, 3rd, 4th.
func ordinal(n int) string {
	suffix := "th"
	if n/10 != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}
