package cron

import (
	"fmt"
	"strings"
	"time"
)

// This file reads the items that only a day field has: L, W and #. Each reader says
// done if the item is one of these, or is meant to be, and ok if it is well formed.

// refuseModifiers turns down L and W in the fields that count no days.
func (p *parser) refuseModifiers(w word) (done, ok bool) {
	end := w.text[len(w.text)-1]
	if end != 'L' && end != 'W' {
		return false, false
	}
	if strings.Trim(w.text, "0123456789LW") != "" {
		return false, false // JUL
	}
	return true, p.fail(KindBadModifier, w.pos+len(w.text)-1, fmt.Sprintf("%c does not belong in this field", end), "")
}

// specialDay reads L, L-n, LW, L-nW and nW.
func (p *parser) specialDay(w word, inList bool) (n Node, done, ok bool) {
	body, nearest := strings.CutSuffix(w.text, "W")
	before, fromEnd := strings.CutPrefix(body, "L-")
	if nearest && inList && body != "W" {
		return nil, true, p.fail(KindBadModifier, w.pos, "W may not stand in a list", "")
	}
	switch {
	case w.text == "L":
		return Last{}, true, true
	case w.text == "W":
		return nil, true, p.fail(KindBadModifier, w.pos, "W needs a day", "write 15W")
	case fromEnd || nearest && body == "L":
		n, ok = p.fromLast(w, before, body == "L", nearest)
		return n, true, ok
	case !nearest:
		return nil, false, false
	case strings.ContainsAny(body, "-/*"):
		return nil, true, p.fail(KindBadModifier, w.pos, "W takes one day, no range or step", "")
	}
	if _, digits := number(body); !digits {
		v, ok := p.value(w)
		return Value{v}, true, ok // no number, no name: value says so
	}
	v, ok := p.value(word{body, w.pos})
	return NearestWeekday{Day: v}, true, ok
}

// fromLast reads L-n, LW and L-nW.
func (p *parser) fromLast(w word, before string, plain, nearest bool) (Node, bool) {
	if !p.dialect.Has(Ext) {
		return nil, p.fail(KindBadModifier, w.pos, w.text+" needs the Ext dialect", "")
	}
	v := 0
	if !plain {
		var digits bool
		v, digits = number(before)
		if !digits {
			return nil, p.fail(KindBadModifier, w.pos+2, "L- needs a number", "write L-3 for three days before the last")
		}
		if v > 30 {
			return nil, p.fail(KindOutOfRange, w.pos+2, before+" is outside 0-30", "")
		}
	}
	if nearest {
		return NearestWeekday{Day: v, Last: true}, true
	}
	return Last{Before: v}, true
}

// specialWeekday reads day#n, day#L, dayL and the L of Quartz.
func (p *parser) specialWeekday(w word, inList bool) (n Node, done, ok bool) {
	day, nth, sharp := strings.Cut(w.text, "#")
	if sharp {
		n, ok = p.nth(w, day, nth, inList)
		return n, true, ok
	}
	switch end := w.text[len(w.text)-1]; {
	case w.text == "L":
		if p.dialect.Has(quartzDays) && !inList {
			return Value{int(time.Saturday)}, true, true
		}
		return nil, true, p.fail(KindBadModifier, w.pos, "a bare L has no meaning here", "for the last Friday of the month write FRIL")
	case end == 'W':
		return nil, true, p.fail(KindBadModifier, w.pos+len(w.text)-1, "W belongs in the day-of-month field", "for working days write MON-FRI")
	case end == 'L':
		n, ok = p.lastWeekday(word{w.text[:len(w.text)-1], w.pos}, inList)
		return n, true, ok
	}
	return nil, false, false
}

// nth reads day#n and day#L.
func (p *parser) nth(w word, day, nth string, inList bool) (Node, bool) {
	if p.dialect.Has(quartzDays) && inList {
		return nil, p.fail(KindBadModifier, w.pos, "Quartz takes a single # item only", "give the others an expression of their own")
	}
	if day == "" || strings.ContainsAny(day, "-*/") {
		return nil, p.fail(KindBadModifier, w.pos, "# takes one weekday", "write MON#2 for the second Monday")
	}
	v, ok := p.value(word{day, w.pos})
	if !ok {
		return nil, false
	}
	at := w.pos + len(day) + 1
	if nth == "L" {
		return NthWeekday{time.Weekday(v % 7), LastWeek}, true
	}
	k, digits := number(nth)
	switch {
	case !digits:
		return nil, p.fail(KindBadModifier, at, "# needs a number", "write MON#2 for the second Monday")
	case k < 1 || k > 5:
		return nil, p.fail(KindOutOfRange, at, "occurrence must be 1-5", "for the last one write L")
	}
	return NthWeekday{time.Weekday(v % 7), k}, true
}

// lastWeekday reads the day of dayL.
func (p *parser) lastWeekday(w word, inList bool) (Node, bool) {
	if strings.ContainsAny(w.text, "-*/") {
		return nil, p.fail(KindBadModifier, w.pos, "L takes one weekday", "")
	}
	v, ok := p.value(w)
	if !ok {
		return nil, false
	}
	if p.dialect.Has(quartzDays) && inList {
		return nil, p.fail(KindBadModifier, w.pos, "Quartz takes L alone, not with other weekdays", "give the others an expression of their own")
	}
	return NthWeekday{time.Weekday(v % 7), LastWeek}, true
}
