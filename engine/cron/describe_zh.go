package cron

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// chinese tells a calendar in Chinese: years, months, days, clock.
type chinese struct{}

func (chinese) beat(every string) string { return "每 " + every }

func (chinese) length(d time.Duration) string {
	if d <= 0 {
		return "0 秒"
	}
	var parts []string
	for _, u := range [...]struct {
		size time.Duration
		name string
	}{{time.Hour, "小时"}, {time.Minute, "分钟"}, {time.Second, "秒"}, {time.Millisecond, "毫秒"}, {time.Microsecond, "微秒"}, {time.Nanosecond, "纳秒"}} {
		if n := d / u.size; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, u.name))
			d -= n * u.size
		}
	}
	return strings.Join(parts, " ")
}

func (w chinese) sentence(c *calendar) string {
	days := w.days(c)
	if days == "" && c.form() == formTimes {
		days = "每天"
	}
	years := w.years(c)
	if years == "" && c.month != allMonths {
		years = "每年"
	}
	return phrase(years, days, w.clock(c))
}

func (w chinese) clock(c *calendar) string {
	minute, hours := bits.TrailingZeros64(c.minute), uint64(c.hour)
	switch c.form() {
	case formTimes:
		return w.list(c.times())
	case formSeconds:
		return phrase(w.hours(c), w.within(c)+w.ticks(c.second, "秒", "秒"))
	case formMinutes:
		return phrase(w.hours(c), w.perHour(c)+w.ticks(c.minute, "分钟", "分"))
	case formHourly:
		if minute == 0 {
			return "每小时整点"
		}
		return fmt.Sprintf("每小时第 %d 分", minute)
	case formEvery:
		start, step, _ := evenly(hours, 24)
		if start == 0 && minute == 0 {
			return fmt.Sprintf("每 %d 小时", step)
		}
		return fmt.Sprintf("从 %02d:%02d 起每 %d 小时", start, minute, step)
	case formHourSpan:
		from, to, _ := run(hours, 24)
		return fmt.Sprintf("%02d:%02d 至 %02d:%02d 每小时", from, minute, to, minute)
	default:
		return fmt.Sprintf("%s第 %d 分", w.hourList(hours), minute)
	}
}

// ticks tells the seconds or minutes that fit; unit counts them, name numbers them.
func (w chinese) ticks(mask uint64, unit, name string) string {
	start, step, even := evenly(mask, 60)
	from, to, unbroken := run(mask, 60)
	switch {
	case mask == allSixty:
		return "每" + unit
	case even && start == 0:
		return fmt.Sprintf("每 %d %s", step, unit)
	case even:
		return fmt.Sprintf("从第 %d %s起每 %d %s", start, name, step, unit)
	case unbroken && from < to && to-from >= 2:
		return fmt.Sprintf("第 %d 至 %d %s", from, to, name)
	default:
		return fmt.Sprintf("第 %s %s", w.list(mapped(values(mask), strconv.Itoa)), name)
	}
}

// perHour leads to minutes that are no beat of their own.
func (w chinese) perHour(c *calendar) string {
	if _, _, even := evenly(c.minute, 60); even || c.hour != allHours {
		return ""
	}
	return "每小时"
}

// within tells the minutes in which seconds tick.
func (w chinese) within(c *calendar) string {
	_, _, even := evenly(c.second, 60)
	switch {
	case c.minute == allSixty && even:
		return ""
	case c.minute == allSixty:
		return "每分钟"
	default:
		return w.perHour(c) + w.ticks(c.minute, "分钟", "分") + "的"
	}
}

// hours tells the hours in which minutes or seconds tick; "" if all.
func (w chinese) hours(c *calendar) string {
	from, to, unbroken := run(uint64(c.hour), 24)
	switch {
	case c.hour == allHours:
		return ""
	case unbroken:
		return fmt.Sprintf("%02d:00 至 %02d:59", from, to)
	default:
		return w.hourList(uint64(c.hour))
	}
}

func (w chinese) hourList(hours uint64) string {
	return w.list(mapped(values(hours), strconv.Itoa)) + " 时"
}

// days tells which days, months included; "" if every day.
func (w chinese) days(c *calendar) string {
	s := &c.days
	months := w.months(c)
	dow := w.weekdays(s, months == "")
	switch {
	case s.anyDOM && s.anyDOW:
		if months != "" && c.form() == formTimes {
			return months + "每天"
		}
		return months
	case s.anyDOM && months == "":
		return dow
	case s.anyDOM:
		return months + "的" + dow
	}
	dom := months + w.monthDays(s)
	if months == "" {
		dom = "每月" + dom
	}
	switch {
	case s.anyDOW:
		return dom
	case s.both:
		return dom + "且为" + w.oneOf(s)
	default:
		return dom + "以及" + dow
	}
}

// monthDays tells the day-of-month field.
func (w chinese) monthDays(s *days) string {
	var parts []string
	if from, to, ok := run(uint64(s.dom>>1), 31); ok && to-from >= 2 {
		parts = append(parts, fmt.Sprintf(" %d 至 %d 日", from+1, to+1))
	} else if s.dom != 0 {
		parts = append(parts, " "+w.list(mapped(values(uint64(s.dom)), strconv.Itoa))+" 日")
	}
	for _, n := range values(uint64(s.last)) {
		if n == 0 {
			parts = append(parts, "最后一天")
		} else {
			parts = append(parts, fmt.Sprintf("倒数第 %d 天", n+1))
		}
	}
	switch {
	case s.nearestKind == nearestToDay:
		parts = append(parts, fmt.Sprintf("离 %d 日最近的工作日", s.nearest))
	case s.nearestKind == nearestToLast && s.nearest == 0:
		parts = append(parts, "最后一个工作日")
	case s.nearestKind == nearestToLast:
		parts = append(parts, fmt.Sprintf("离倒数第 %d 天最近的工作日", s.nearest+1))
	}
	return w.list(parts)
}

// weekdays tells the weekday field as days that recur.
func (w chinese) weekdays(s *days, everyMonth bool) string {
	var parts []string
	switch {
	case s.dow == workingDays:
		parts = append(parts, "工作日")
	case s.dow == weekend:
		parts = append(parts, "周末")
	case s.dow == 1<<7-1:
		parts = append(parts, "每周每天")
	case s.dow != 0:
		parts = append(parts, "每周"+w.list(w.numerals(s.dow)))
	}
	if s.hasNth && everyMonth {
		parts = append(parts, "每月"+w.list(w.nths(s)))
	} else if s.hasNth {
		parts = append(parts, w.list(w.nths(s)))
	}
	return strings.Join(parts, "以及")
}

// oneOf tells the weekday field as what a day can be.
func (w chinese) oneOf(s *days) string {
	var parts []string
	switch {
	case s.dow == workingDays:
		parts = append(parts, "工作日")
	case s.dow == weekend:
		parts = append(parts, "周末")
	case s.dow != 0:
		parts = append(parts, "星期"+w.list(w.numerals(s.dow)))
	}
	return strings.Join(append(parts, w.nths(s)...), "或")
}

// nths tells the weekdays that have a number.
func (w chinese) nths(s *days) []string {
	words := [...]string{"最后一个", "第一个", "第二个", "第三个", "第四个", "第五个"}
	var parts []string
	for _, n := range [...]int{1, 2, 3, 4, 5, 0} {
		for _, d := range w.numerals(s.nth[n]) {
			parts = append(parts, words[n]+"星期"+d)
		}
	}
	return parts
}

// numerals returns the weekdays from Monday on, Sunday last, as they are counted in Chinese.
func (w chinese) numerals(dow uint8) []string {
	var ds []string
	names := [...]string{"一", "二", "三", "四", "五", "六", "日"}
	if from, to, ok := run(uint64(dow), 7); ok && bits.OnesCount8(dow) > 3 {
		return []string{names[(from+6)%7] + "至" + names[(to+6)%7]}
	}
	for i, d := range names {
		if dow>>((i+1)%7)&1 != 0 {
			ds = append(ds, d)
		}
	}
	return ds
}

// months tells the months; "" if all.
func (w chinese) months(c *calendar) string {
	if c.month == allMonths {
		return ""
	}
	return w.list(mapped(values(uint64(c.month)), strconv.Itoa)) + " 月"
}

func (w chinese) years(c *calendar) string {
	ys := c.yearsOf()
	if ys == nil {
		return ""
	}
	return w.list(ys) + " 年"
}

func (chinese) list(items []string) string { return strings.Join(items, "、") }
