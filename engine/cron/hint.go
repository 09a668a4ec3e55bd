package cron

import (
	"fmt"
	"strings"
	"time"
)

// This file guesses what a faulty expression was meant to say.

// countHint explains a wrong number of fields.
func countHint(n int, words []word) string {
	switch {
	case n == 3 && words[0].text == "every" && strings.HasPrefix(words[2].text, "minute"):
		return fmt.Sprintf("did you mean */%s * * * *?", words[1].text)
	case n == 1 && macros["@"+words[0].text].Macro != "":
		return fmt.Sprintf("did you mean @%s?", words[0].text)
	case n == 1 && strings.ContainsRune(words[0].text, '\u00a0'):
		return "the blanks are no-break spaces: write plain ones"
	case n < 5:
		return "the fields are minute hour day-of-month month day-of-week"
	case n == 5:
		return "a seconds field comes first in this dialect; 0 for the full minute"
	case n == 6:
		return "a seconds field in front needs the Seconds dialect, a year behind the Year dialect"
	case n == 7:
		return "seconds in front and a year behind need the Seconds and the Year dialect"
	default:
		return "blanks separate fields: lists have none after a comma"
	}
}

// macroHint finds the macro that was meant.
func macroHint(name string) string {
	word, _, more := strings.Cut(name, " ")
	lower := strings.ToLower(word)
	if _, ok := macros[lower]; ok {
		if more {
			return "a macro stands alone"
		}
		return fmt.Sprintf("did you mean %s?", lower)
	}
	for _, m := range [...]string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"} {
		if near(lower, m) {
			return fmt.Sprintf("did you mean %s?", m)
		}
	}
	return "the macros are @yearly @monthly @weekly @daily @hourly"
}

// durationHint explains what is missing from a duration.
func durationHint(arg string) string {
	if _, digits := number(arg); digits {
		return fmt.Sprintf("did you mean %ss?", arg)
	}
	if n, ok := strings.CutSuffix(arg, "d"); ok {
		if v, digits := number(n); digits && v < 10000 {
			return fmt.Sprintf("a day is no fixed length: write %dh", v*24)
		}
	}
	if _, err := time.ParseDuration(strings.ReplaceAll(arg, " ", "")); err == nil {
		return "a duration has no blanks"
	}
	return "write 90s, 5m or 1h30m"
}

// charHint names the plain character that was probably meant.
func charHint(c rune) string {
	switch {
	case c == '"' || c == '\'' || c == '`' || c == '“' || c == '”':
		return "leave out the quotes"
	case c == '∗' || c == '＊' || c == '⁎':
		return "write a plain *"
	case c == '–' || c == '—' || c == '−' || c == '－':
		return "write a plain -"
	case c == '，' || c == '、':
		return "write a plain comma"
	case c == '\n' || c == '\r' || c == '\u00a0' || c == '\u3000':
		return "only spaces and tabs separate fields"
	case c >= '０' && c <= '９':
		return fmt.Sprintf("write %c", '0'+c-'０')
	case c == '~':
		return "random ranges are not offered; H chooses a stable value"
	case c == ';' || c == '|' || c == '&':
		return "separate the items of a list with commas"
	default:
		return ""
	}
}

// starHint explains a * that touches other text.
func starHint(text string) string {
	if n := strings.Trim(text, "*"); n != text {
		if _, digits := number(n); digits && strings.Count(text, "*") == 1 {
			return fmt.Sprintf("did you mean */%s?", n)
		}
	}
	return ""
}

// rangeHint explains a number outside its field.
func (p *parser) rangeHint(n int) string {
	switch {
	case p.field == FieldHour && n == 24:
		return "midnight is 0"
	case (p.field == FieldMinute || p.field == FieldSecond) && n == 60:
		return "the full " + map[Field]string{FieldMinute: "hour", FieldSecond: "minute"}[p.field] + " is 0"
	case p.field == FieldDayOfMonth && n == 0:
		return "days start at 1; the last day is L"
	case p.field == FieldMonth && n == 0:
		return "months start at 1"
	case p.field == FieldDayOfWeek && p.dialect.Has(quartzDays):
		return "in this dialect 1 is Sunday and 7 Saturday"
	case p.field == FieldDayOfWeek:
		return "0 and 7 are Sunday, 6 is Saturday"
	case p.field == FieldMinute && n > 60:
		return "for a time of day write the minute first, then the hour"
	default:
		return ""
	}
}

// nameHint finds the name that was meant.
func (p *parser) nameHint(s string) string {
	up := strings.ToUpper(s)
	names, other, otherField := "", "", ""
	switch p.field {
	case FieldMonth:
		names, other, otherField = monthNames, dayNames, "weekday: the fifth of the five fields"
	case FieldDayOfWeek:
		names, other, otherField = dayNames, monthNames, "month: the fourth of the five fields"
	case FieldDayOfMonth:
		if up == "L" || strings.TrimLeft(up, "0123456789") == "W" {
			return "L and W are written in capitals and take no step"
		}
	default:
	}
	if up == "H" {
		return "H needs the Hashed dialect"
	}
	if nameIndex(other, s) >= 0 {
		return fmt.Sprintf("%s is a %s", up, otherField)
	}
	if len(s) > 3 && nameIndex(names, s[:3]) >= 0 {
		return fmt.Sprintf("did you mean %s?", up[:3])
	}
	for i := 0; i < len(names); i += 3 {
		if near(up, names[i:i+3]) {
			return fmt.Sprintf("did you mean %s?", names[i:i+3])
		}
	}
	return ""
}

// near reports whether one letter too many, too few or wrong, or two exchanged, lie
// between a and b.
func near(a, b string) bool {
	if len(a) < len(b) {
		a, b = b, a
	}
	if len(a) > len(b)+1 {
		return false
	}
	i := 0
	for i < len(b) && a[i] == b[i] {
		i++
	}
	if len(a) > len(b) {
		return a[i+1:] == b[i:]
	}
	if i >= len(b)-1 || a[i+1:] == b[i+1:] {
		return true
	}
	return a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
}
