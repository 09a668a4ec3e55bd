package cron

import (
	"iter"
	"time"
)

// Expr is a parsed expression together with its Options: all that is needed to
// say when it fires. It is immutable and safe for concurrent use.
//
// It satisfies the Schedule interface of github.com/robfig/cron/v3 and [Schedule].
type Expr struct {
	src     string
	opts    Options
	zone    *zone
	every   time.Duration // of "@every d", else zero
	elapsed bool          // minute or hour is * or */n: follows elapsed time
	cal     calendar
}

// MaxLength is the length in bytes past which an expression is refused unread, and
// after reading if its canonical text ([Expr.String]) is longer.
const MaxLength = 1024

// Parse reads expr in the Standard dialect, in UTC, with the RunOnce policy, or as
// the options say. The error is a *SyntaxError, a *ZoneError or an *OptionError.
func Parse(expr string, opts ...Option) (*Expr, error) {
	o := Options{Dialect: Standard}
	for _, opt := range opts {
		opt(&o)
	}
	return o.Parse(expr)
}

// MustParse is Parse for expressions known to be good; it panics on an error.
func MustParse(expr string, opts ...Option) *Expr {
	e, err := Parse(expr, opts...)
	if err != nil {
		panic(err)
	}
	return e
}

// Parse reads expr under exactly these options. The error is a *SyntaxError, a
// *ZoneError or an *OptionError.
func (o Options) Parse(expr string) (*Expr, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o.Dialect = o.Dialect.Pinned()
	ast, prefix, err := parse(expr, o)
	if err != nil {
		return nil, err
	}
	e := &Expr{src: expr, opts: o, zone: prefix}
	if o.Zone != "" || prefix == nil { // a zone given is checked even if the prefix wins
		z, err := loadZone(o.Zone, -1)
		if err != nil {
			return nil, err
		}
		if prefix == nil {
			e.zone = z
		}
	}
	e.compile(&ast)
	return e, nil
}

// Next returns the first firing strictly after the given instant, in the
// expression's zone; the zero Time if there is none before the year 2200. It
// allocates nothing, and its cost does not depend on how far away the firing is.
func (e *Expr) Next(after time.Time) time.Time {
	if e.every > 0 {
		return e.everyFrom(after, e.every)
	}
	return e.time(e.nextUnix(after.Unix() + 1))
}

// Prev returns the last firing strictly before the given instant, in the
// expression's zone; the zero Time if there is none since 1970. For "@every d",
// which has no beat of its own, it is d earlier.
func (e *Expr) Prev(before time.Time) time.Time {
	if e.every > 0 {
		return e.everyFrom(before, -e.every)
	}
	t := before.Unix()
	if before.Nanosecond() == 0 {
		t--
	}
	return e.time(e.prevUnix(t))
}

// NextN returns the first n firings strictly after the given instant, fewer if
// there are no more.
func (e *Expr) NextN(after time.Time, n int) []time.Time { return NextN(e, after, n) }

// All yields the firings strictly after the given instant, in order, until there
// is none or the loop is left.
func (e *Expr) All(after time.Time) iter.Seq[time.Time] { return All(e, after) }

// Location returns the zone in which the expression is read.
func (e *Expr) Location() *time.Location { return e.zone.loc }

// Source returns the text that was parsed, as it was given.
func (e *Expr) Source() string { return e.src }

// Options returns the options the expression was parsed under, with the version
// of the dialect filled in: Options().Parse(Source()) is the same schedule, also
// under later versions of this package.
func (e *Expr) Options() Options { return e.opts }

// AST returns the expression as it was read. It is read anew: an Expr keeps no
// tree, since there may be millions of them.
func (e *Expr) AST() AST {
	ast, _, err := parse(e.src, e.opts)
	if err != nil {
		panic("cron: expression no longer parses: " + err.Error())
	}
	return ast
}

// time makes the answer of a search into one for the caller.
func (e *Expr) time(unix int64, ok bool) time.Time {
	if !ok {
		return time.Time{}
	}
	return time.Unix(unix, 0).In(e.zone.loc)
}

// everyFrom is one beat of "@every d" from t, within the known years.
func (e *Expr) everyFrom(t time.Time, d time.Duration) time.Time {
	if t.Unix() >= realEnd || t.Unix() < realStart {
		return time.Time{}
	}
	t = t.Add(d).Round(0).In(e.zone.loc)
	if y := t.Year(); y < minYear || y > maxYear {
		return time.Time{}
	}
	return t
}
