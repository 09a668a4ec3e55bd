package cron

import (
	"fmt"
	"math/bits"
	"strings"
	"time"
)

// This file has the rules about the fields themselves.

// dayFields explains two restricted day fields, of which either is enough.
func (l *linter) dayFields() {
	s := &l.e.cal.days
	if s.both || s.anyDOM || s.anyDOW {
		return
	}
	dow := FieldDayOfWeek.text(l.e.opts.Dialect, l.ast.DayOfWeek)
	w := english{}
	switch {
	case s.dow == 1<<7-1 || s.dom == 1<<32-2:
		l.add(Warning, RuleEitherDay, FieldDayOfWeek, nil,
			"fires every day, since either day field is enough and one names all days; write * in it, or +%s for both at once", dow)
	case s.dom == 0xfe && bits.OnesCount8(s.dow) == 1 && !s.hasNth:
		l.add(Warning, RuleEitherDay, FieldDayOfWeek, nil,
			"fires on days 1 to 7 and also %s, since either day field is enough; for the first one of the month write %s#1 and * as day of month", w.weekdays(s, ""), dayName(time.Weekday(bits.TrailingZeros8(s.dow))))
	default:
		l.add(Warning, RuleEitherDay, FieldDayOfWeek, nil,
			"fires %s and also %s, since either day field is enough; for both at once write +%s", w.monthDays(s, "the month"), w.weekdays(s, "the month"), dow)
	}
}

// starMinute warns of * below a fixed value: sixty firings where one was meant.
func (l *linter) starMinute() {
	fixed := func(n Node) bool {
		for _, item := range items(n) {
			if _, ok := item.(Value); !ok {
				return false
			}
		}
		return true
	}
	switch {
	case l.ast.Second != nil && wild(l.ast.Second) && fixed(l.ast.Minute):
		l.add(Warning, RuleStarMinute, FieldSecond, nil, "fires every second of the minute; for once write 0 as second")
	case wild(l.ast.Minute) && fixed(l.ast.Hour):
		l.add(Warning, RuleStarMinute, FieldMinute, nil, "fires every minute of the hour; for once write 0 as minute")
	}
}

// weekdays points out numbers of weekdays where 1 is Sunday, as it is nowhere else.
func (l *linter) weekdays() {
	if !l.e.opts.Dialect.Has(quartzDays) {
		return
	}
	fields := strings.Fields(l.e.Source())
	if len(fields) > 0 && strings.Contains(fields[0], "=") { // the zone
		fields = fields[1:]
	}
	const weekday = 5 // after the seconds and four others
	if len(fields) <= weekday {
		return // a macro
	}
	for item := range strings.SplitSeq(fields[weekday], ",") {
		day, _, _ := strings.Cut(item, "/")
		day, _, _ = strings.Cut(day, "#")
		if strings.ContainsAny(day, "1234567") && !strings.HasPrefix(day, "H") {
			l.add(Note, RuleWeekday, FieldDayOfWeek, nil,
				"numbers weekdays from 1 for Sunday, as this dialect does and others do not; %s says the same", FieldDayOfWeek.text(l.e.opts.Dialect, l.ast.DayOfWeek))
			return
		}
	}
}

// everyField runs the rules that are the same for all fields.
func (l *linter) everyField() {
	for _, f := range [...]struct {
		field Field
		node  Node
	}{
		{FieldSecond, l.ast.Second},
		{FieldMinute, l.ast.Minute},
		{FieldHour, l.ast.Hour},
		{FieldDayOfMonth, l.ast.DayOfMonth},
		{FieldMonth, l.ast.Month},
		{FieldDayOfWeek, l.ast.DayOfWeek},
		{FieldYear, l.ast.Year},
	} {
		if f.node == nil {
			continue
		}
		for _, item := range items(f.node) {
			l.step(f.field, item)
			l.wrap(f.field, item)
		}
		l.duplicates(f.field, f.node)
	}
}

// step explains steps that are no steady beat.
func (l *linter) step(f Field, n Node) {
	s, ok := n.(Step)
	if !ok || !wild(s.Of) || f == FieldYear {
		return
	}
	lo, hi := f.bounds()
	size := hi - lo + 1
	unit := f.words()
	if f.isDay() {
		unit = "day"
	}
	switch last := lo + (size-1)/s.N*s.N; {
	case s.N >= size && s.N > 1:
		l.add(Warning, RuleLongStep, f, nil, "*/%d is %d alone, not every %d %ss: a step starts anew in each field", s.N, lo, s.N, unit)
	case f == FieldDayOfMonth && s.N > 1:
		l.add(Note, RuleUnevenStep, f, nil, "*/%d starts anew on the 1st of each month, however long the month before was", s.N)
	case size%s.N != 0:
		sev := Warning
		if f == FieldDayOfWeek {
			sev = Note
		}
		l.add(sev, RuleUnevenStep, f, nil, "*/%d does not divide %d: from %d to %d it is %s, not %d", s.N, size, last, lo, count(size-(last-lo), unit), s.N)
	}
}

// count returns "1 minute", "4 minutes".
func count(n int, unit string) string {
	if n != 1 {
		unit += "s"
	}
	return fmt.Sprintf("%d %s", n, unit)
}

// wrap points out ranges that run backwards.
func (l *linter) wrap(f Field, n Node) {
	if s, ok := n.(Step); ok {
		n = s.Of
	}
	if r, ok := n.(Range); ok && r.From > r.To {
		l.add(Note, RuleWrap, f, nil, "%s runs through the end of the field", f.text(l.e.opts.Dialect, r))
	}
}

// duplicates points out lists that name a value more than once.
func (l *linter) duplicates(f Field, n Node) {
	list, ok := n.(List)
	if !ok || f == FieldYear {
		return
	}
	var seen, twice uint64
	for _, item := range list.Items {
		switch item.(type) {
		case Last, NearestWeekday, NthWeekday:
			continue
		}
		m := mask(List{[]Node{item}}, f, l.e.opts.HashKey)
		if f == FieldDayOfWeek {
			m = m&0x7f | m>>7
		}
		twice |= seen & m
		seen |= m
	}
	if twice != 0 {
		l.add(Note, RuleDuplicate, f, nil, "names %s more than once, which fires once", english{}.list(mapped(values(twice), func(v int) string { return f.text(l.e.opts.Dialect, Value{v}) })))
	}
}

// years explains years without a firing.
func (l *linter) years() {
	const common = 1<<7 - 1
	c := &l.e.cal
	switch {
	case c.kinds == allKinds:
	case c.kinds&common == 0:
		l.add(Warning, RuleLeapYears, FieldDayOfMonth, l.e.NextN(l.from, 3), "fires in leap years only")
	default:
		times := l.e.NextN(l.from, 3)
		var years []string
		for _, t := range times {
			years = append(years, fmt.Sprint(t.Year()))
		}
		l.add(Note, RuleRareYears, FieldExpression, times, "not every year has such a day; the next firings are in %s", english{}.list(years))
	}
}

// months explains months without a firing.
func (l *linter) months() {
	c := &l.e.cal
	if c.days.dense() || c.kinds != allKinds {
		return
	}
	var never, seldom []string
	for _, m := range values(uint64(c.month)) {
		switch fits := c.monthFits(m); {
		case fits == 0:
			never = append(never, time.Month(m).String())
		case fits != allKinds:
			seldom = append(seldom, time.Month(m).String())
		}
	}
	var parts []string
	if len(never) > 0 {
		parts = append(parts, "never fires in "+english{}.list(never))
	}
	switch {
	case len(seldom) > 6:
		parts = append(parts, "passes over some months")
	case len(seldom) > 0:
		parts = append(parts, "in some years not in "+english{}.list(seldom))
	}
	if len(parts) > 0 {
		l.add(Warning, RuleMissingDays, FieldDayOfMonth, nil, "%s, where there is no such day", strings.Join(parts, ", and "))
	}
}

// monthFits returns the kinds of years in which the month has a matching day.
func (c *calendar) monthFits(m int) (kinds uint16) {
	one := *c
	one.month = 1 << m
	for kind := range 14 {
		if one.yearFits(kind/7, kind%7) {
			kinds |= 1 << kind
		}
	}
	return kinds
}
