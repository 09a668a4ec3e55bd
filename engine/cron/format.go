package cron

import (
	"strconv"
	"time"
)

// String returns the expression in canonical text: single blanks, no leading
// zeros, weekdays by name, L and # in one spelling. Parsed again under the same
// options it is the same schedule and has the same text.
func (e *Expr) String() string {
	a := e.AST()
	return a.text(e.opts.Dialect)
}

func (a *AST) text(d Dialect) string {
	p := printer{dialect: d}
	p.ast(a)
	return string(p.buf)
}

// printer writes a tree in the spelling of a dialect.
type printer struct {
	buf     []byte
	dialect Dialect
	field   Field
}

func (p *printer) text(s string) { p.buf = append(p.buf, s...) }

func (p *printer) ast(a *AST) {
	if a.Zone != "" {
		p.text("CRON_TZ=" + a.Zone + " ")
	}
	switch {
	case a.Every > 0:
		p.text("@every " + a.Every.String())
		return
	case a.Macro != "":
		p.text(a.Macro)
		return
	}
	for _, f := range [...]struct {
		field Field
		node  Node
	}{
		{FieldSecond, a.Second},
		{FieldMinute, a.Minute},
		{FieldHour, a.Hour},
		{FieldDayOfMonth, a.DayOfMonth},
		{FieldMonth, a.Month},
		{FieldDayOfWeek, a.DayOfWeek},
		{FieldYear, a.Year},
	} {
		if f.node == nil {
			continue
		}
		if n := len(p.buf); n > 0 && p.buf[n-1] != ' ' {
			p.text(" ")
		}
		if f.field == FieldDayOfWeek && a.Both {
			p.text("+")
		}
		p.field = f.field
		p.node(f.node)
	}
}

func (p *printer) node(n Node) {
	switch n := n.(type) {
	case Wildcard:
		if n.Question && p.dialect.Has(quartzDays) {
			p.text("?")
		} else {
			p.text("*")
		}
	case Value:
		p.value(n.N)
	case Range:
		p.span(n)
	case Step:
		p.node(n.Of)
		p.text("/" + strconv.Itoa(n.N))
	case List:
		for i, item := range n.Items {
			if i > 0 {
				p.text(",")
			}
			p.node(item)
		}
	case Last:
		p.fromLast(n.Before)
	case NearestWeekday:
		if n.Last {
			p.fromLast(n.Day)
		} else {
			p.text(strconv.Itoa(n.Day))
		}
		p.text("W")
	case NthWeekday:
		p.value(int(n.Weekday))
		if n.N == LastWeek {
			p.text("#L")
		} else {
			p.text("#" + strconv.Itoa(n.N))
		}
	case Hash:
		p.text("H")
		if !n.Bare {
			p.text("(")
			p.span(Range{n.From, n.To})
			p.text(")")
		}
	}
}

// value writes one value, weekdays by name.
func (p *printer) value(n int) {
	if p.field == FieldDayOfWeek {
		p.text(dayName(time.Weekday(n % 7)))
		return
	}
	p.text(strconv.Itoa(n))
}

// span writes a range. The whole week from Sunday to Sunday has no spelling by name;
// Quartz, where 7 is Saturday, reads nothing as that.
func (p *printer) span(r Range) {
	if p.field == FieldDayOfWeek && r.From == 0 && r.To == 7 {
		p.text("0-7")
		return
	}
	p.value(r.From)
	p.text("-")
	p.value(r.To)
}

func (p *printer) fromLast(before int) {
	p.text("L")
	if before > 0 {
		p.text("-" + strconv.Itoa(before))
	}
}

// dayName returns the name of three capitals.
func dayName(w time.Weekday) string { return dayNames[3*w : 3*w+3] }

// text returns one field as String writes it.
func (f Field) text(d Dialect, n Node) string {
	p := printer{dialect: d, field: f}
	p.node(n)
	return string(p.buf)
}
