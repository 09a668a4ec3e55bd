package cron

import (
	"fmt"
	"strings"
)

// bounds are the least and the greatest value of a field. Weekdays are those of
// the AST, 0 to 6.
func (f Field) bounds() (lo, hi int) {
	switch f {
	case FieldSecond, FieldMinute:
		return 0, 59
	case FieldHour:
		return 0, 23
	case FieldDayOfMonth:
		return 1, 31
	case FieldMonth:
		return 1, 12
	case FieldDayOfWeek:
		return 0, 6
	default:
		return minYear, maxYear
	}
}

// isDay reports whether f is one of the two day fields.
func (f Field) isDay() bool { return f == FieldDayOfMonth || f == FieldDayOfWeek }

// one reads a whole field into node.
func (p *parser) one(f Field, w word, node *Node) bool {
	p.field = f
	if w.text == "*" {
		*node = Wildcard{}
		return true
	}
	if !p.characters(w) {
		return false
	}
	if w.text == "?" {
		*node = Wildcard{Question: true}
		return true
	}
	first, rest, list := strings.Cut(w.text, ",")
	if !list {
		n, ok := p.item(word{first, w.pos}, false)
		*node = n
		return ok
	}
	items := make([]Node, 0, 2+strings.Count(rest, ","))
	for text, pos := first, w.pos; ; {
		n, ok := p.item(word{text, pos}, true)
		if !ok {
			return false
		}
		items = append(items, n)
		if !list {
			*node = List{items}
			return true
		}
		pos += len(text) + 1
		text, rest, list = strings.Cut(rest, ",")
	}
}

// characters checks those things about a field that a single character decides.
func (p *parser) characters(w word) bool {
	for i, c := range w.text {
		at := w.pos + i
		switch {
		case c >= '0' && c <= '9', c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c == '*', c == ',', c == '-', c == '/':
		case (c == '(' || c == ')') && p.dialect.Has(Hashed):
		case c == '?' && !p.field.isDay():
			return p.fail(KindBadQuestion, at, "? only belongs in a day field", "write *")
		case c == '?' && w.text != "?":
			return p.fail(KindBadQuestion, at, "? must stand alone", "")
		case c == '?':
		case (c == '#' || c == '+') && p.field != FieldDayOfWeek:
			return p.fail(KindBadModifier, at, "# and + only belong in the weekday field", "")
		case c == '+':
			return p.fail(KindBadModifier, at, "+ only as first character", "")
		case c == '#':
		default:
			return p.fail(KindBadChar, at, fmt.Sprintf("character %q", c), charHint(c))
		}
	}
	return true
}

// item reads one item of a list, or all of a field that is none.
func (p *parser) item(w word, inList bool) (Node, bool) {
	if w.text == "" {
		return nil, p.fail(KindShape, w.pos, "empty list item", "remove the extra comma, or the blank after it")
	}
	var n Node
	var done, ok bool
	switch p.field {
	case FieldDayOfMonth:
		n, done, ok = p.specialDay(w, inList)
	case FieldDayOfWeek:
		n, done, ok = p.specialWeekday(w, inList)
	default:
		done, ok = p.refuseModifiers(w)
	}
	if done {
		return n, ok
	}
	base, step, hasStep := strings.Cut(w.text, "/")
	n, ok = p.base(word{base, w.pos})
	if !ok {
		return nil, false
	}
	every := 1
	if hasStep {
		if every, ok = p.step(word{step, w.pos + len(base) + 1}, n); !ok {
			return nil, false
		}
	}
	if r, isRange := n.(Range); isRange && r.From == r.To {
		return Value{r.From}, true // 5-5 and 5-5/2 are 5 and no more, unlike 5/2
	}
	if !hasStep {
		return n, true
	}
	return Step{Of: n, N: every}, true
}

// base reads an item without its step.
func (p *parser) base(w word) (Node, bool) {
	switch {
	case w.text == "*":
		return Wildcard{}, true
	case w.text == "":
		return nil, p.fail(KindBadStep, w.pos, "step without a base", "write */n")
	case strings.Contains(w.text, "*"):
		return nil, p.fail(KindShape, w.pos, "* mixed with other text", starHint(w.text))
	case p.dialect.Has(Hashed) && (w.text == "H" || strings.ContainsAny(w.text, "()")):
		return p.hash(w)
	case strings.Contains(w.text, "-"):
		r, ok := p.span(w)
		return r, ok
	}
	v, ok := p.value(w)
	if ok && p.field == FieldDayOfWeek {
		v %= 7
	}
	return Value{v}, ok
}

// span reads a range.
func (p *parser) span(w word) (Range, bool) {
	from, to, _ := strings.Cut(w.text, "-")
	if from == "" || to == "" || strings.Contains(to, "-") {
		return Range{}, p.fail(KindBadRange, w.pos, "range with a missing or surplus end", "write from-to")
	}
	a, ok := p.value(word{from, w.pos})
	if !ok {
		return Range{}, false
	}
	b, ok := p.value(word{to, w.pos + len(from) + 1})
	if !ok {
		return Range{}, false
	}
	if p.field == FieldDayOfWeek && b == 0 && a > 0 && (to[0] > '9' || p.dialect.Has(Wrap)) {
		b = 7 // a Sunday that ends a range comes after Saturday
	}
	if a > b && (!p.dialect.Has(Wrap) || p.field == FieldYear) {
		return Range{}, p.fail(KindBadRange, w.pos, "range runs backwards", fmt.Sprintf("did you mean %s-%s, or the Wrap dialect?", to, from))
	}
	if p.field == FieldDayOfWeek && a == 7 { // 7-2 is 0-2, 7-7 is 0
		a, b = 0, b%7
	}
	return Range{a, b}, true
}

// maxStep is the greatest step that is read; no field is longer.
const maxStep = 9999

// step reads what comes after the slash; n is what came before.
func (p *parser) step(w word, n Node) (int, bool) {
	if strings.Contains(w.text, "/") {
		return 0, p.fail(KindBadStep, w.pos, "two slashes", "")
	}
	v, digits := number(w.text)
	switch {
	case !digits:
		return 0, p.fail(KindBadStep, w.pos, fmt.Sprintf("step %q is not a whole number", w.text), "")
	case v == 0:
		return 0, p.fail(KindBadStep, w.pos, "step of zero", "")
	case v > maxStep:
		return 0, p.fail(KindBadStep, w.pos, "step too large", "")
	}
	if b, single := n.(Value); single && !p.dialect.Has(NStep) {
		_, hi := p.field.bounds()
		return 0, p.fail(KindBadStep, w.pos-1, "step on a single value",
			fmt.Sprintf("did you mean %s?", p.field.text(p.dialect, Step{Range{b.N, hi}, v})))
	}
	return v, true
}

// hash reads H or H(a-b).
func (p *parser) hash(w word) (Node, bool) {
	lo, hi := p.field.bounds()
	switch {
	case p.field == FieldYear:
		return nil, p.fail(KindBadHash, w.pos, "H has no meaning in the year field", "")
	case p.key == "":
		return nil, p.fail(KindBadHash, w.pos, "H needs a hash key to be chosen by", "")
	case w.text == "H":
		if p.field == FieldDayOfMonth {
			hi = 28 // a day that every month has
		}
		return Hash{From: lo, To: hi, Bare: true}, true
	}
	inner, opened := strings.CutPrefix(w.text, "H(")
	inner, closed := strings.CutSuffix(inner, ")")
	if !opened || !closed || strings.ContainsAny(inner, "()") || !strings.Contains(inner, "-") {
		return nil, p.fail(KindBadHash, w.pos, fmt.Sprintf("%q is no form of H", w.text), "write H or H(from-to)")
	}
	r, ok := p.span(word{inner, w.pos + 2})
	switch {
	case !ok:
		return nil, false
	case r.From > r.To:
		return nil, p.fail(KindBadHash, w.pos, "H does not take a range that runs backwards", "")
	}
	return Hash{From: r.From, To: r.To}, true
}
