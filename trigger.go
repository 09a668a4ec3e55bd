package scheduler

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/escapement-go/scheduler/engine/cron"
	"github.com/escapement-go/scheduler/store"
)

// A Trigger is a rule that says when, as data. Make one with [Cron], [Every] or
// [Times]. Faults are reported by whatever uses it.
type Trigger struct {
	data store.Trigger
	err  error
}

// A TriggerOption changes a [Trigger].
type TriggerOption interface {
	applyTrigger(*Trigger)
}

type triggerOption func(*Trigger)

func (f triggerOption) applyTrigger(t *Trigger) { f(t) }

// cronDialect is what [Cron] reads: five fields or, with seconds first, six.
const cronDialect = cron.Standard&^cron.Every | cron.OptionalSeconds | cron.DialectVersion<<24

// Cron triggers by a cron expression: five fields (minute, hour, day of month,
// month, weekday), six with seconds first, or a macro such as @daily. The zone
// is UTC unless [Zone] or a TZ= prefix says otherwise. "@every 90s" is [Every].
//
// In a zone with daylight saving time, an expression with fixed hours whose time
// does not exist on a day runs once right after the gap; one whose time comes
// twice runs at the first. See package engine/cron for the language and [DST]
// for other policies.
func Cron(expr string, opts ...TriggerOption) Trigger {
	if every, ok := strings.CutPrefix(strings.TrimSpace(expr), "@every "); ok {
		d, err := time.ParseDuration(strings.TrimSpace(every))
		if err != nil {
			return Trigger{err: fmt.Errorf("scheduler: cron %q: %w: %w", expr, ErrInvalid, err)}
		}
		return Every(d, opts...)
	}
	t := Trigger{data: store.Trigger{
		Kind: store.TriggerCron, Expr: expr, Dialect: uint32(cronDialect), Version: cron.DialectVersion,
	}}
	return t.with(opts)
}

// Every triggers each d on the elapsed clock, the first time d after the
// schedule was made; no step of the time of day moves it. d is at least a
// millisecond.
func Every(d time.Duration, opts ...TriggerOption) Trigger {
	t := Trigger{data: store.Trigger{Kind: store.TriggerEvery, Every: int64(d)}}
	if d < time.Millisecond {
		t.err = fmt.Errorf("scheduler: every %v: %w: shorter than a millisecond", d, ErrInvalid)
	}
	return t.with(opts)
}

// Times triggers at each of the given times once.
func Times(times ...time.Time) Trigger {
	t := Trigger{data: store.Trigger{Kind: store.TriggerTimes}}
	if len(times) == 0 {
		t.err = fmt.Errorf("scheduler: no times: %w", ErrInvalid)
	}
	for _, at := range times {
		if t.err == nil {
			t.err = checkTime(at)
		}
		t.data.Times = append(t.data.Times, at.UnixNano())
	}
	slices.Sort(t.data.Times)
	t.data.Times = slices.Compact(t.data.Times)
	return t
}

func (t Trigger) with(opts []TriggerOption) Trigger {
	for _, o := range opts {
		if o == nil {
			t.err = cmp.Or(t.err, fmt.Errorf("scheduler: nil option of a trigger: %w", ErrInvalid))
			continue
		}
		o.applyTrigger(&t)
	}
	d := &t.data
	switch {
	case t.err != nil:
	case d.Kind == store.TriggerEvery && (d.Zone != "" || d.DST != 0 || d.HashKey != ""):
		t.err = fmt.Errorf("scheduler: every %v: an interval has no zone, DST policy or hash key: %w", time.Duration(d.Every), ErrInvalid)
	case d.From != 0 && d.Until != 0 && d.From >= d.Until:
		t.err = fmt.Errorf("scheduler: no time is between %v and %v: %w", instant(d.From), instant(d.Until), ErrInvalid)
	default:
		_, t.err = compileTrigger(d, "")
	}
	return t
}

// Zone names the IANA time zone in which a cron expression is read. A zone that
// this build does not know is an error, never UTC.
func Zone(name string) TriggerOption {
	return triggerOption(func(t *Trigger) { t.data.Zone = name })
}

// Between limits the trigger to ticks from the first time on and before the
// second. A zero time is no limit.
func Between(from, to time.Time) TriggerOption {
	return triggerOption(func(t *Trigger) { t.data.From, t.data.Until = max(nanos(from), 0), nanos(to) })
}

// HashKey is the identity from which H in a cron expression chooses its value.
// Default: the schedule's ID.
func HashKey(key string) TriggerOption {
	return triggerOption(func(t *Trigger) { t.data.HashKey = key })
}

// DSTPolicy says what becomes of times of day that do not exist or come twice.
type DSTPolicy = cron.DSTPolicy

// The policies for daylight saving time.
const (
	DSTRunOnce = cron.RunOnce // a missing time runs once after the gap, a repeated one at the first pass
	DSTSkip    = cron.Skip    // a missing time does not run
	DSTShift   = cron.Shift   // a missing time runs later by the length of the gap
	DSTBoth    = cron.Both    // a repeated time runs at both passes
)

// DST sets the policy for daylight saving time. Default: [DSTRunOnce].
func DST(p DSTPolicy) TriggerOption {
	return triggerOption(func(t *Trigger) { t.data.DST = uint8(p) })
}

// Next returns the first n ticks strictly after a time; fewer if there are no
// more. An interval is counted from after. Errors: those of the trigger itself.
func (t Trigger) Next(after time.Time, n int) ([]time.Time, error) {
	if t.err != nil {
		return nil, t.err
	}
	rule, err := compileTrigger(&t.data, "")
	if err != nil {
		return nil, err
	}
	var ticks []time.Time
	for at := nanos(after); len(ticks) < n; {
		if at = rule.Next(at); at == 0 {
			break
		}
		ticks = append(ticks, time.Unix(0, at).In(rule.location()))
	}
	return ticks, nil
}

// Describe says in plain English when the trigger fires, such as "at 09:00 on
// weekdays"; the error's text if the trigger is faulty.
func (t Trigger) Describe() string {
	if t.err != nil {
		return t.err.Error()
	}
	switch t.data.Kind {
	case store.TriggerEvery:
		return "every " + time.Duration(t.data.Every).String()
	case store.TriggerTimes:
		return fmt.Sprintf("at %d given times", len(t.data.Times))
	default: // a cron expression, or unknown
	}
	rule, err := compileTrigger(&t.data, "")
	if err != nil {
		return err.Error()
	}
	text := rule.cron.Describe(cron.English)
	if zone := rule.cron.Location(); zone != time.UTC {
		text += " (" + zone.String() + ")"
	}
	return text
}

// Finding is one thing that [Trigger.Lint] has to say.
type Finding = cron.Finding

// Lint looks for what is well formed but probably meant otherwise, and for what
// daylight saving time will do to it from the given time on for a year. The worst
// comes first; nil if there is nothing to say, and for triggers that are not cron
// expressions.
func (t Trigger) Lint(from time.Time) []Finding {
	if t.err != nil || t.data.Kind != store.TriggerCron {
		return nil
	}
	rule, err := compileTrigger(&t.data, "")
	if err != nil {
		return nil
	}
	return rule.cron.Lint(from, from.AddDate(1, 0, 0))
}

// checkTime refuses a time that has no nanoseconds since 1970 in 64 bits.
func checkTime(t time.Time) error {
	if t.IsZero() || t.Year() < 1678 || t.Year() > 2261 {
		return fmt.Errorf("scheduler: time %v cannot be represented: %w", t, ErrInvalid)
	}
	return nil
}

// nanos returns a time as it is stored: 0 is the zero time, and one beyond the
// range of 64 bits is an end of it.
func nanos(t time.Time) int64 {
	switch {
	case t.IsZero():
		return 0
	case t.Year() < 1678:
		return math.MinInt64
	case t.Year() > 2261:
		return math.MaxInt64
	}
	return t.UnixNano()
}

// rule is a trigger's meaning: what dispatch.Rule asks for.
type rule struct {
	data *store.Trigger
	cron *cron.Expr
}

// compileTrigger gives a trigger its meaning. id is the hash key of a trigger
// that names none.
func compileTrigger(t *store.Trigger, id string) (*rule, error) {
	r := &rule{data: t}
	switch t.Kind {
	case store.TriggerEvery, store.TriggerTimes:
		return r, nil
	case store.TriggerCron:
		key := cmp.Or(t.HashKey, id)
		if key == "" {
			key = "schedule" // only to check a trigger that has no schedule yet
		}
		expr, err := cron.Options{
			Dialect: cron.Dialect(t.Dialect), Zone: t.Zone, DST: cron.DSTPolicy(t.DST), HashKey: key,
		}.Parse(t.Expr)
		if err != nil {
			return nil, fmt.Errorf("scheduler: %w: %w", ErrInvalid, err)
		}
		r.cron = expr
		return r, nil
	default:
		return nil, fmt.Errorf("scheduler: trigger kind %d: %w", t.Kind, ErrInvalid)
	}
}

func (r *rule) location() *time.Location {
	if r.cron != nil {
		return r.cron.Location()
	}
	return time.UTC
}

// Next returns the first tick strictly after the given time, 0 if there is none.
func (r *rule) Next(after int64) int64 {
	switch {
	case after == math.MaxInt64:
		return 0
	case r.data.Kind == store.TriggerEvery:
		after = max(after, r.data.From)
	case r.data.From != 0:
		after = max(after, r.data.From-1)
	}
	next := r.next(after)
	if next == math.MaxInt64 || r.data.Until != 0 && next >= r.data.Until {
		return 0
	}
	return next
}

func (r *rule) next(after int64) int64 {
	switch r.data.Kind {
	case store.TriggerEvery:
		if next := after + r.data.Every; next > after {
			return next
		}
		return 0
	case store.TriggerTimes:
		at, _ := slices.BinarySearch(r.data.Times, after+1)
		if at == len(r.data.Times) {
			return 0
		}
		return r.data.Times[at]
	default:
		return nanos(r.cron.Next(time.Unix(0, after)))
	}
}

// Last returns the latest tick that is not after at; armed is one that is not.
func (r *rule) Last(armed, at int64) int64 {
	if r.data.Until != 0 && at >= r.data.Until {
		at = r.data.Until - 1
	}
	switch r.data.Kind {
	case store.TriggerEvery:
		return armed + (at-armed)/r.data.Every*r.data.Every
	case store.TriggerTimes:
		n, _ := slices.BinarySearch(r.data.Times, at+1)
		if n == 0 {
			return armed
		}
		return max(armed, r.data.Times[n-1])
	default:
		return max(armed, nanos(r.cron.Prev(time.Unix(0, at).Add(time.Nanosecond))))
	}
}
