package cron

import (
	"fmt"
	"slices"
	"time"
)

// Severity says how much a finding matters.
type Severity uint8

// The severities.
const (
	Note    Severity = iota // worth knowing
	Warning                 // probably not what was meant
	Fault                   // surely not what was meant
)

// String returns "note", "warning" or "fault".
func (s Severity) String() string {
	return [...]string{"note", "warning", "fault"}[min(s, Fault)]
}

// Rule names a rule of Lint.
type Rule string

// The rules.
const (
	RuleNever       Rule = "never"        // no firing in any year
	RuleOver        Rule = "over"         // no firing any more
	RuleQuiet       Rule = "quiet"        // no firing in the window
	RuleEitherDay   Rule = "either-day"   // both day fields restricted, and either is enough
	RuleStarMinute  Rule = "star-minute"  // every minute of a fixed hour, or every second of a fixed minute
	RuleLongStep    Rule = "long-step"    // a step as long as the field or longer
	RuleUnevenStep  Rule = "uneven-step"  // a step that does not divide the field
	RuleLeapYears   Rule = "leap-years"   // fires in leap years only
	RuleRareYears   Rule = "rare-years"   // years without a firing
	RuleMissingDays Rule = "missing-days" // months without a firing
	RuleDuplicate   Rule = "duplicate"    // a value named more than once
	RuleWrap        Rule = "wrap"         // a range that runs backwards
	RuleWeekday     Rule = "weekday"      // weekdays by number in a dialect that counts them from 1 for Sunday
	RuleGap         Rule = "gap"          // times that the clock jumps over
	RuleOverlap     Rule = "overlap"      // times that the clock comes by twice
	RuleEveryDay    Rule = "every-day"    // @every with whole days, in a zone that changes its clock
)

// Finding is one thing that Lint has to say.
type Finding struct {
	Severity Severity
	Rule     Rule
	Field    Field       // where it lies; FieldExpression if in no single field
	Text     string      // an English sentence without capital and full stop
	Times    []time.Time // the instants concerned, if any, in the expression's zone
}

// String returns "warning: either-day: ...".
func (f Finding) String() string { return fmt.Sprintf("%s: %s: %s", f.Severity, f.Rule, f.Text) }

// Lint looks for what is well formed but probably meant otherwise, and for what
// the clock of the zone will do to the expression between from and to. The worst
// comes first; nil if there is nothing to say.
func (e *Expr) Lint(from, to time.Time) []Finding {
	l := linter{e: e, ast: e.AST(), from: from, to: to}
	if e.every > 0 {
		l.everyDays()
		return l.found
	}
	if l.firings() {
		l.dayFields()
		l.starMinute()
		l.weekdays()
		l.everyField()
		l.years()
		l.months()
		l.shifts()
	}
	slices.SortStableFunc(l.found, func(a, b Finding) int { return int(b.Severity) - int(a.Severity) })
	return l.found
}

// linter collects findings about one expression.
type linter struct {
	e        *Expr
	ast      AST
	from, to time.Time
	found    []Finding
}

func (l *linter) add(s Severity, r Rule, f Field, times []time.Time, format string, args ...any) {
	l.found = append(l.found, Finding{s, r, f, fmt.Sprintf(format, args...), times})
}

// firings looks for silence. It reports whether the expression fires at all.
func (l *linter) firings() bool {
	next := l.e.Next(l.from.Add(-1))
	switch {
	case !next.IsZero() && next.Before(l.to):
		return true
	case !next.IsZero():
		l.add(Note, RuleQuiet, FieldExpression, []time.Time{next}, "does not fire in the window; the next firing is on %s", date(next))
		return true
	}
	if last := l.e.Prev(l.from); !last.IsZero() {
		l.add(Fault, RuleOver, FieldExpression, []time.Time{last}, "never fires again; the last firing was on %s", date(last))
		return false
	}
	text := "never fires: there is no such date"
	if l.ast.DayOfMonth != nil && !wild(l.ast.DayOfMonth) && !wild(l.ast.DayOfWeek) {
		text = "never fires: no date fits both day fields"
	}
	l.add(Fault, RuleNever, FieldExpression, nil, "%s", text)
	return false
}

// everyDays warns of @every 24h where days have not always 24 hours.
func (l *linter) everyDays() {
	if l.e.every%(24*time.Hour) != 0 {
		return
	}
	for _, s := range l.e.zone.spans[1:] {
		if at := time.Unix(s.start, 0).In(l.e.zone.loc); !at.Before(l.from) && at.Before(l.to) {
			l.add(Note, RuleEveryDay, FieldExpression, []time.Time{at},
				"%s is elapsed time: the time of day moves when the clock is changed on %s", l.e.every, date(at))
			return
		}
	}
}

func date(t time.Time) string { return t.Format(time.DateOnly) }
