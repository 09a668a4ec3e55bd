package cron

import (
	"errors"
	"fmt"
)

// The sentinels, for errors.Is.
var (
	// ErrSyntax: the text is no expression of its dialect. The error is a *SyntaxError.
	ErrSyntax = errors.New("cron: not a valid expression")
	// ErrUnknownZone: no such time zone. The error is a *ZoneError.
	ErrUnknownZone = errors.New("cron: unknown time zone")
	// ErrOption: options that this version does not know. The error is an *OptionError.
	ErrOption = errors.New("cron: unknown option")
)

// Field names a place in an expression.
type Field uint8

// The fields, in the order in which they are written, and the whole.
const (
	FieldExpression Field = iota // the expression as a whole: its count of fields, its macro
	FieldSecond
	FieldMinute
	FieldHour
	FieldDayOfMonth
	FieldMonth
	FieldDayOfWeek
	FieldYear
)

// String returns the name in snake case: "day_of_month".
func (f Field) String() string {
	names := [...]string{"expression", "second", "minute", "hour", "day_of_month", "month", "day_of_week", "year"}
	if int(f) >= len(names) {
		return fmt.Sprintf("field_%d", uint8(f))
	}
	return names[f]
}

// words returns the name as it is written in a sentence.
func (f Field) words() string {
	switch f {
	case FieldDayOfMonth:
		return "day-of-month"
	case FieldDayOfWeek:
		return "day-of-week"
	default:
		return f.String()
	}
}

// Kind is the sort of a syntax error, for programs; Msg is for people.
type Kind string

// The kinds.
const (
	KindEmpty            Kind = "empty"             // nothing but blanks
	KindTooLong          Kind = "too_long"          // more than MaxLength bytes, as it is or in canonical text
	KindFieldCount       Kind = "field_count"       // too few or too many fields
	KindBadChar          Kind = "bad_char"          // a character that has no place in any field
	KindBadMacro         Kind = "bad_macro"         // unknown macro
	KindUnsupportedMacro Kind = "unsupported_macro" // known elsewhere, not offered
	KindBadDuration      Kind = "bad_duration"      // @every without a proper duration
	KindBadName          Kind = "bad_name"          // letters that are no name in this field
	KindOutOfRange       Kind = "out_of_range"      // a number outside the field
	KindBadRange         Kind = "bad_range"         // a range backwards, or with an end missing
	KindBadStep          Kind = "bad_step"          // a step that is zero, no number, or out of place
	KindBadModifier      Kind = "bad_modifier"      // L W # + where it has no meaning
	KindBadQuestion      Kind = "bad_question"      // ? where it has no meaning
	KindBadHash          Kind = "bad_hash"          // H without a key, or with a malformed range
	KindShape            Kind = "syntax"            // characters are fine, the shape is not
)

// SyntaxError says what is wrong with an expression, where, and what was
// probably meant. It unwraps to ErrSyntax.
type SyntaxError struct {
	Expr  string // the expression as given, cut to MaxLength bytes
	Field Field  // the field at fault
	Pos   int    // byte offset in Expr of the text at fault
	Kind  Kind   // the sort of fault
	Msg   string // what is wrong
	Hint  string // what was probably meant; "" if there is no good guess
}

// Error returns `cron: parse "0 25 * * *": hour at offset 2: 25 is outside 0-23`, and the hint.
func (e *SyntaxError) Error() string {
	s := fmt.Sprintf("cron: parse %q: %s at offset %d: %s", e.Expr, e.Field.words(), e.Pos, e.Msg)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Unwrap returns ErrSyntax.
func (e *SyntaxError) Unwrap() error { return ErrSyntax }

// ZoneError says that a zone's name is not known, here, or at all. A schedule is
// never run in UTC instead. It unwraps to ErrUnknownZone.
type ZoneError struct {
	Zone string // the name as given
	Pos  int    // byte offset of the name in the expression's prefix; -1 if it was given as an option
	Msg  string // what is wrong with it
	Hint string // what was probably meant; "" if there is no good guess
}

// Error returns `cron: zone "Mars/Olympus": unknown zone`, and the hint.
func (e *ZoneError) Error() string {
	s := fmt.Sprintf("cron: zone %q: %s", e.Zone, e.Msg)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Unwrap returns ErrUnknownZone.
func (e *ZoneError) Unwrap() error { return ErrUnknownZone }

// OptionError names an option this version of the package does not know,
// typically one stored by a newer version. It unwraps to ErrOption.
type OptionError struct {
	Option string // "dialect" or "dst"
	Msg    string
}

// Error returns `cron: option dialect: unknown flags 0x8000`.
func (e *OptionError) Error() string { return "cron: option " + e.Option + ": " + e.Msg }

// Unwrap returns ErrOption.
func (e *OptionError) Unwrap() error { return ErrOption }
