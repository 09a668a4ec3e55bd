package cron

import (
	"fmt"
	"strings"
	"time"
)

// parser reads one expression. fail is the only way out of the middle: it records
// the error, and every caller returns at once on !ok.
type parser struct {
	expr    string
	dialect Dialect
	key     string
	field   Field // the field being read
	zone    *zone // of a prefix
	err     error
}

// parse reads an expression. z is the zone of a TZ= prefix, nil without one. The
// error is a *SyntaxError or, for the prefix, a *ZoneError.
func parse(expr string, o Options) (ast AST, z *zone, err error) {
	p := parser{expr: expr, dialect: o.Dialect, key: o.HashKey}
	if len(expr) > MaxLength {
		p.expr = expr[:MaxLength]
		p.fail(KindTooLong, MaxLength, fmt.Sprintf("%d bytes, at most %d are read", len(expr), MaxLength), "")
		return AST{}, nil, p.err
	}
	if !p.expression(&ast) || !p.fits(&ast) {
		return AST{}, nil, p.err
	}
	return ast, p.zone, nil
}

// fits checks that what String makes of the expression is not too long to be read
// again: names of weekdays take more room than their numbers.
func (p *parser) fits(ast *AST) bool {
	if len(p.expr) < MaxLength/3 { // names at most double a text, a prefix and a duration add a few bytes
		return true
	}
	if n := len(ast.text(p.dialect)); n > MaxLength {
		p.field = FieldExpression
		return p.fail(KindTooLong, 0, fmt.Sprintf("%d bytes with its weekdays by name, at most %d are read", n, MaxLength), "")
	}
	return true
}

// fail records what is wrong and returns false.
func (p *parser) fail(kind Kind, pos int, msg, hint string) bool {
	if p.err == nil {
		p.err = &SyntaxError{Expr: p.expr, Field: p.field, Pos: pos, Kind: kind, Msg: msg, Hint: hint}
	}
	return false
}

// expression reads prefix, then macro or fields.
func (p *parser) expression(ast *AST) bool {
	pos, ok := p.prefix(ast, p.skipBlanks(0))
	if !ok {
		return false
	}
	pos = p.skipBlanks(pos)
	switch {
	case pos == len(p.expr) && p.zone != nil:
		return p.fail(KindFieldCount, pos, "zone prefix and nothing after it", "")
	case pos == len(p.expr):
		return p.fail(KindEmpty, 0, "nothing but blanks", "for every minute write * * * * *")
	case p.expr[pos] == '@':
		return p.macro(ast, pos)
	}
	return p.fields(ast, pos)
}

// prefix reads a TZ= or CRON_TZ= prefix at pos, if there is one, and returns where
// it ends. The zone is looked up before anything else is read: if the blank behind
// it was forgotten, that is what the error shows.
func (p *parser) prefix(ast *AST, pos int) (end int, ok bool) {
	rest := p.expr[pos:]
	if !strings.HasPrefix(rest, "TZ=") && !strings.HasPrefix(rest, "CRON_TZ=") {
		return pos, true
	}
	at := pos + strings.IndexByte(rest, '=') + 1
	if !p.dialect.Has(ZonePrefix) {
		p.field = FieldMinute
		return pos, p.fail(KindBadChar, at-1, "character '='", "a zone prefix needs the ZonePrefix dialect")
	}
	for end = at; end < len(p.expr) && !blank(p.expr[end]); {
		end++
	}
	if end == at {
		return pos, p.fail(KindShape, at, "zone prefix without a zone", "write CRON_TZ=Europe/Berlin")
	}
	ast.Zone = p.expr[at:end]
	p.zone, p.err = loadZone(ast.Zone, at)
	return end, p.err == nil
}

// skipBlanks returns the first position from pos on that is no blank.
func (p *parser) skipBlanks(pos int) int {
	for pos < len(p.expr) && blank(p.expr[pos]) {
		pos++
	}
	return pos
}

func blank(c byte) bool { return c == ' ' || c == '\t' }

// word is one field's text and where it stands.
type word struct {
	text string
	pos  int
}

// fields reads all fields from pos on.
func (p *parser) fields(ast *AST, pos int) bool {
	var words [7]word
	n := 0
	for pos < len(p.expr) {
		start := pos
		for pos < len(p.expr) && !blank(p.expr[pos]) {
			pos++
		}
		if n < len(words) {
			words[n] = word{p.expr[start:pos], start}
		}
		n++
		pos = p.skipBlanks(pos)
	}
	least, most := p.dialect.fieldCounts()
	if n < least || n > most {
		want := most
		if n < least {
			want = least
		}
		return p.fail(KindFieldCount, words[0].pos, fmt.Sprintf("%d fields where %d are wanted", n, want), countHint(n, words[:min(n, 7)]))
	}
	in := words[:n]
	if p.dialect.Has(Seconds) || p.dialect.Has(OptionalSeconds) && n > least {
		if !p.one(FieldSecond, in[0], &ast.Second) {
			return false
		}
		in = in[1:]
	}
	ok := p.one(FieldMinute, in[0], &ast.Minute) &&
		p.one(FieldHour, in[1], &ast.Hour) &&
		p.one(FieldDayOfMonth, in[2], &ast.DayOfMonth) &&
		p.one(FieldMonth, in[3], &ast.Month) &&
		p.weekdays(in[4], ast)
	if ok && len(in) > 5 {
		ok = p.one(FieldYear, in[5], &ast.Year)
	}
	return ok && p.questions(ast, in[4].pos)
}

// weekdays reads the weekday field with the + that may precede it.
func (p *parser) weekdays(w word, ast *AST) bool {
	if len(w.text) > 1 && w.text[0] == '+' {
		ast.Both = true
		w.text, w.pos = w.text[1:], w.pos+1
	}
	return p.one(FieldDayOfWeek, w, &ast.DayOfWeek)
}

// questions checks the rule of Quartz about its two day fields.
func (p *parser) questions(ast *AST, pos int) bool {
	if !p.dialect.Has(quartzDays) {
		return true
	}
	dom, _ := ast.DayOfMonth.(Wildcard)
	dow, _ := ast.DayOfWeek.(Wildcard)
	if dom.Question == dow.Question {
		return p.fail(KindBadQuestion, pos, "exactly one of the two day fields must be ?", "put ? in the day field that does not matter")
	}
	return true
}

// macros are the names in front of which stands @, and what they stand for.
var macros = map[string]AST{
	"@yearly":   macro("@yearly", Value{0}, Value{0}, Value{1}, Value{1}, Wildcard{}),
	"@annually": macro("@yearly", Value{0}, Value{0}, Value{1}, Value{1}, Wildcard{}),
	"@monthly":  macro("@monthly", Value{0}, Value{0}, Value{1}, Wildcard{}, Wildcard{}),
	"@weekly":   macro("@weekly", Value{0}, Value{0}, Wildcard{}, Wildcard{}, Value{0}),
	"@daily":    macro("@daily", Value{0}, Value{0}, Wildcard{}, Wildcard{}, Wildcard{}),
	"@midnight": macro("@daily", Value{0}, Value{0}, Wildcard{}, Wildcard{}, Wildcard{}),
	"@hourly":   macro("@hourly", Value{0}, Wildcard{}, Wildcard{}, Wildcard{}, Wildcard{}),
}

func macro(name string, minute, hour, dom, month, dow Node) AST {
	return AST{Macro: name, Minute: minute, Hour: hour, DayOfMonth: dom, Month: month, DayOfWeek: dow}
}

// macro reads the @ name at pos, which is all that may be left.
func (p *parser) macro(ast *AST, pos int) bool {
	name := strings.TrimRight(p.expr[pos:], " \t")
	if strings.HasPrefix(name, "@every") {
		return p.every(ast, pos, name)
	}
	m, ok := macros[name]
	switch {
	case ok:
		m.Zone = ast.Zone
		*ast = m
		return true
	case name == "@reboot":
		return p.fail(KindUnsupportedMacro, pos, "@reboot is an event, not a time", "")
	default:
		return p.fail(KindBadMacro, pos, fmt.Sprintf("unknown macro %q", name), macroHint(name))
	}
}

// minEvery is the shortest beat of @every: below it a schedule is a hot loop.
const minEvery = time.Millisecond

// every reads "@every d".
func (p *parser) every(ast *AST, pos int, text string) bool {
	if !p.dialect.Has(Every) {
		return p.fail(KindUnsupportedMacro, pos, "@every needs the Every dialect", "")
	}
	rest := text[len("@every"):]
	arg := strings.TrimLeft(rest, " \t")
	if arg == "" || len(arg) == len(rest) {
		return p.fail(KindBadDuration, pos, "@every needs a duration", `write "@every 5m"`)
	}
	at := pos + len(text) - len(arg)
	d, err := time.ParseDuration(arg)
	switch {
	case err != nil:
		return p.fail(KindBadDuration, at, fmt.Sprintf("%q is not a duration", arg), durationHint(arg))
	case d <= 0:
		return p.fail(KindBadDuration, at, "duration must be positive", "")
	case d < minEvery:
		return p.fail(KindBadDuration, at, "duration must be at least "+minEvery.String(), "")
	}
	ast.Every = d
	return true
}
