package cron

import "fmt"

// monthNames and dayNames are the names of three letters, in the order of their numbers.
const (
	monthNames = "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC" // from 1
	dayNames   = "SUNMONTUEWEDTHUFRISAT"                // from 0
)

// number reads s as a decimal number. Numbers too large to be anything here come
// out as 1e9, never wrapped round.
func number(s string) (n int, digits bool) {
	if s == "" {
		return 0, false
	}
	for i := range len(s) {
		c := s[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		if n = n*10 + int(c-'0'); n > 1e9 {
			n = 1e9
		}
	}
	return n, true
}

// value reads a number or a name of the field, and checks its range. Weekdays
// come out as 0 to 7.
func (p *parser) value(w word) (int, bool) {
	if n, digits := number(w.text); digits {
		return p.inRange(w, n)
	}
	for i := range len(w.text) {
		if c := w.text[i] | 0x20; c < 'a' || c > 'z' {
			return 0, p.fail(KindShape, w.pos, fmt.Sprintf("%q is neither number nor name", w.text), p.nameHint(w.text))
		}
	}
	if p.field == FieldMonth {
		if i := nameIndex(monthNames, w.text); i >= 0 {
			return i + 1, true
		}
	}
	if p.field == FieldDayOfWeek {
		if i := nameIndex(dayNames, w.text); i >= 0 {
			return i, true
		}
	}
	return 0, p.fail(KindBadName, w.pos, fmt.Sprintf("%q is no name for this field", w.text), p.nameHint(w.text))
}

// inRange checks n as it is written in this dialect.
func (p *parser) inRange(w word, n int) (int, bool) {
	lo, hi := p.field.bounds()
	shift := 0
	if p.field == FieldDayOfWeek {
		hi = 7
		if p.dialect.Has(quartzDays) {
			lo, shift = 1, 1
		}
	}
	if n < lo || n > hi {
		return 0, p.fail(KindOutOfRange, w.pos, fmt.Sprintf("%s is outside %d-%d", w.text, lo, hi), p.rangeHint(n))
	}
	return n - shift, true
}

// nameIndex returns the place of the name among names of three letters, or -1.
// Case does not matter, and is ASCII case: no locale can change what a name means.
func nameIndex(names, s string) int {
	if len(s) != 3 {
		return -1
	}
	a, b, c := s[0]&^0x20, s[1]&^0x20, s[2]&^0x20
	for i := 0; i < len(names); i += 3 {
		if names[i] == a && names[i+1] == b && names[i+2] == c {
			return i / 3
		}
	}
	return -1
}
