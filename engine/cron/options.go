package cron

import (
	"fmt"
	"slices"
	"strings"
)

// DialectVersion is the newest version of the rules by which expressions are
// read. A schedule stores the version it was written under (in the top byte of
// its [Dialect]), so that a later change of the rules never moves the ticks of
// a schedule that already exists.
const DialectVersion = 1

// Dialect says which spellings an expression may use. It is a set of flags with
// a version number in its top byte, so that one stored integer rebuilds the same
// parser for ever. A version of zero means the newest; [Expr.Options] returns
// the dialect with its version filled in.
type Dialect uint32

// The flags of version 1. Numbers are stored: never renumber.
const (
	// Seconds: a seconds field comes first.
	Seconds Dialect = 1 << iota
	// OptionalSeconds: a seconds field may come first.
	OptionalSeconds
	// Year: a year field comes last.
	Year
	// OptionalYear: a year field may come last.
	OptionalYear
	// NStep: N/step is allowed and runs from N to the end of the field.
	NStep
	// Wrap: ranges may run backwards, through the end of the field (22-2).
	Wrap
	// Ext: LW, L-n and L-nW are allowed as days of the month.
	Ext
	// Hashed: H is a value chosen by the hash key, stable on every machine.
	Hashed
	// Every: "@every <Go duration>" is allowed.
	Every
	// ZonePrefix: TZ=Area/City or CRON_TZ=Area/City may come first; it wins over
	// the zone given as an option.
	ZonePrefix
	// And: if both day fields are restricted, both must fit. Without it either
	// is enough, unless the weekday field begins with a +.
	And
	// quartzDays: weekdays are 1-7 from Sunday, and exactly one day field is ?.
	quartzDays

	flagsEnd
)

// The presets.
const (
	// Plain is what every cron reads: five fields, names, ranges, steps on stars
	// and ranges, L, nW, weekday#n and the macros. Nothing else.
	Plain Dialect = 0
	// Standard is the default: Plain and every extension that changes no
	// expression that Plain accepts.
	Standard = NStep | Wrap | Ext | Hashed | Every | ZonePrefix
	// Quartz reads the expressions of the Java scheduler of that name: seconds
	// first, weekdays 1-7 from Sunday, ? in exactly one day field, year optional. A
	// weekday with L or # is no item of a list.
	Quartz = Seconds | OptionalYear | NStep | Wrap | Ext | quartzDays
)

const (
	versionShift = 24
	flagMask     = Dialect(1)<<versionShift - 1
)

// Version returns the version of the rules, zero if it was left open.
func (d Dialect) Version() int { return int(d >> versionShift) }

// Has reports whether all flags of f are set in d.
func (d Dialect) Has(f Dialect) bool { return d&f&flagMask == f&flagMask }

// Pinned returns d with an open version replaced by the newest: what to store.
func (d Dialect) Pinned() Dialect {
	if d.Version() == 0 {
		d |= DialectVersion << versionShift
	}
	return d
}

// fieldCounts returns how few and how many fields an expression may have.
func (d Dialect) fieldCounts() (least, most int) {
	least, most = 5, 5
	switch {
	case d.Has(Seconds):
		least, most = least+1, most+1
	case d.Has(OptionalSeconds):
		most++
	}
	switch {
	case d.Has(Year):
		least, most = least+1, most+1
	case d.Has(OptionalYear):
		most++
	}
	return least, most
}

// flagNames are the names of the flags in messages and in configuration, in order.
var flagNames = [...]string{
	"seconds", "seconds?", "year", "year?", "n/step", "wrap", "ext", "hash", "every", "tz", "and", "quartz",
}

// ParseDialect reads a dialect of the newest version as it is written in configuration:
// plain, standard or quartz, or several names with | between them, of these and of the
// flags as [Dialect.String] has them: "standard|year?|and". The error is an *OptionError.
func ParseDialect(text string) (Dialect, error) {
	presets := map[string]Dialect{"plain": Plain, "standard": Standard, "quartz": Quartz}
	var d Dialect
	for name := range strings.SplitSeq(text, "|") {
		name = strings.TrimSpace(name)
		flags, known := presets[name]
		if at := slices.Index(flagNames[:], name); !known && at >= 0 {
			flags, known = 1<<at, true
		}
		if !known {
			return 0, &OptionError{Option: "dialect", Msg: fmt.Sprintf("unknown name %q: want plain, standard, quartz, or several of these and of %s with | between them",
				name, strings.Join(flagNames[:len(flagNames)-1], ", "))}
		}
		d |= flags
	}
	return d.Pinned(), nil
}

// String returns the version and the flags, for messages: "v1 seconds|wrap".
func (d Dialect) String() string {
	var on []string
	for i, name := range flagNames {
		if d.Has(1 << i) {
			on = append(on, name)
		}
	}
	if len(on) == 0 {
		on = append(on, "plain")
	}
	return fmt.Sprintf("v%d %s", d.Version(), strings.Join(on, "|"))
}

// DSTPolicy says what becomes of wall-clock readings that a change of the
// zone's offset leaves out (a gap, in spring) or gives twice (an overlap, in
// autumn).
//
// It concerns fixed expressions only. An expression whose minute or hour field
// is * or */n follows elapsed time: it fires at every real instant whose wall
// clock fits, on both passes of a repeated hour, and nothing is made up for
// readings that did not exist.
type DSTPolicy uint8

// The policies. Numbers are stored: never renumber.
const (
	// RunOnce, the default: readings in a gap fire once, at the first instant
	// after it; readings in an overlap fire on the first pass only.
	RunOnce DSTPolicy = iota
	// Skip: readings in a gap do not fire. Overlaps as in RunOnce.
	Skip
	// Shift: each reading in a gap fires later by the length of the gap.
	// Overlaps as in RunOnce.
	Shift
	// Both: readings in an overlap fire on both passes. Gaps as in RunOnce.
	Both

	policiesEnd
)

// String returns the policy's name in lower case: "run-once", "skip", "shift", "both".
func (p DSTPolicy) String() string {
	names := [...]string{"run-once", "skip", "shift", "both"}
	if p >= policiesEnd {
		return fmt.Sprintf("dst-policy-%d", uint8(p))
	}
	return names[p]
}

// Options are all that decides the meaning of an expression besides its text.
// They are plain data: an expression and its Options, stored and parsed again
// on another machine, give the same schedule.
//
// The zero value reads Plain expressions in UTC.
type Options struct {
	// Zone is the IANA name of the zone whose wall clock is read; "" is UTC.
	// "Local" is refused: it means something else on every machine.
	Zone string
	// Dialect is what the expression may use. Unlike [Parse], Options do not
	// replace a zero Dialect by Standard: zero is Plain.
	Dialect Dialect
	// DST is what happens when the zone's clock is put forward or back.
	DST DSTPolicy
	// HashKey is the identity from which H is drawn, usually the schedule's ID.
	HashKey string
}

// Option changes one of the Options of a call of Parse.
type Option func(*Options)

// WithZone sets the zone by its IANA name; the default is UTC.
func WithZone(name string) Option { return func(o *Options) { o.Zone = name } }

// WithDialect sets the dialect; the default is Standard.
func WithDialect(d Dialect) Option { return func(o *Options) { o.Dialect = d } }

// WithDST sets the policy for missing and repeated readings; the default is RunOnce.
func WithDST(p DSTPolicy) Option { return func(o *Options) { o.DST = p } }

// WithHashKey sets the identity from which H is drawn; without one, H is an error.
func WithHashKey(key string) Option { return func(o *Options) { o.HashKey = key } }

// validate reports options that no version of this package has offered.
func (o Options) validate() error {
	switch d := o.Dialect; {
	case d.Version() > DialectVersion:
		return &OptionError{Option: "dialect", Msg: fmt.Sprintf("version %d is newer than %d, the newest known here", d.Version(), DialectVersion)}
	case d&flagMask >= flagsEnd:
		return &OptionError{Option: "dialect", Msg: fmt.Sprintf("unknown flags %#x", uint32(d&flagMask&^(flagsEnd-1)))}
	case o.DST >= policiesEnd:
		return &OptionError{Option: "dst", Msg: fmt.Sprintf("unknown policy %d", o.DST)}
	}
	return nil
}
