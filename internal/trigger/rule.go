package trigger

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/escapement-go/scheduler/engine/cron"
	"github.com/escapement-go/scheduler/store"
)

// ErrUnknown tells that a trigger needs what this process does not have: a
// calendar, or a Go trigger of some name.
var ErrUnknown = errors.New("unknown")

// Env is what the meaning of a trigger depends on besides its data.
type Env struct {
	// ID is the hash key of a trigger that names none.
	ID string
	// Calendar returns a named calendar, nil if there is none. A nil function knows
	// none.
	Calendar func(name string) *store.Calendar
	// Custom makes a Go trigger from its parameters. A nil function knows none. What it
	// makes may say never because it has failed, if its method Err() error tells why.
	Custom func(name string, params []byte) (cron.Schedule, error)
	// Cache, if there is one, has rules share what calendars lay out.
	Cache *Cache
}

// A Rule says when a trigger has its ticks, in ns on the trigger's clock. Safe for
// concurrent use if its Go trigger is.
type Rule struct {
	data   *store.Trigger
	loc    *time.Location
	cron   *cron.Expr
	custom cron.Schedule
	fault  func() error // of custom; nil if it never fails
	except []exclusion
}

// Compile gives a trigger its meaning. t is kept. Errors: those of engine/cron,
// [ErrUnknown], and others that say what is wrong.
func Compile(t *store.Trigger, env Env) (*Rule, error) {
	r := &Rule{data: t, loc: time.UTC}
	var err error
	switch t.Kind {
	case store.TriggerEvery, store.TriggerDelay:
		if len(t.Except) > 0 {
			return nil, errors.New("an interval is not on the wall clock, so that no calendar fits it")
		}
		return r, nil
	case store.TriggerTimes:
		if r.loc, err = Location(t, env.ID); err != nil {
			return nil, err
		}
	case store.TriggerCron:
		if r.cron, err = Expr(t, env.ID); err != nil {
			return nil, err
		}
		r.loc = r.cron.Location()
	case store.TriggerCustom:
		if env.Custom == nil {
			return nil, fmt.Errorf("%w trigger %q: this process has no such Go trigger", ErrUnknown, t.Name)
		}
		if r.loc, err = Location(t, env.ID); err != nil {
			return nil, err
		}
		custom, err := env.Custom(t.Name, t.Params)
		if err != nil {
			return nil, err
		}
		if may, ok := custom.(interface{ Err() error }); ok {
			r.fault = may.Err
		}
		r.custom = cron.Adapt(custom)
	default:
		return nil, fmt.Errorf("%w trigger kind %d", ErrUnknown, t.Kind)
	}
	for i := range t.Except {
		if err = r.exclude(&t.Except[i], &env); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Expr reads the expression of a cron trigger; id is the hash key of one that names
// none. Errors: those of engine/cron; and triggers of other kinds have none.
func Expr(t *store.Trigger, id string) (*cron.Expr, error) {
	if t.Kind != store.TriggerCron {
		return nil, fmt.Errorf("trigger kind %d has no expression", t.Kind)
	}
	key := cmp.Or(t.HashKey, id)
	if key == "" {
		key = "schedule" // only to check a trigger that has no schedule yet
	}
	return cron.Options{
		Dialect: cron.Dialect(t.Dialect), Zone: t.Zone, DST: cron.DSTPolicy(t.DST), HashKey: key,
	}.Parse(t.Expr)
}

// Location returns the zone in which a trigger is read, its calendars too; id is as in
// [Expr]. Errors: those of engine/cron.
func Location(t *store.Trigger, id string) (*time.Location, error) {
	var expr *cron.Expr
	var err error
	if t.Kind == store.TriggerCron {
		expr, err = Expr(t, id) // which may name another zone
	} else {
		expr, err = cron.Options{Zone: t.Zone}.Parse("* * * * *") // looks the zone up
	}
	if err != nil {
		return nil, err
	}
	return expr.Location(), nil
}

// Err returns why its Go trigger has failed, from which on Next says never and Last
// finds nothing later; nil if it has not. To be asked after a search.
func (r *Rule) Err() error {
	if r.fault == nil {
		return nil
	}
	return r.fault()
}

// Cron returns the expression of a cron trigger, nil of another kind.
func (r *Rule) Cron() *cron.Expr { return r.cron }

// Location returns the zone in which the trigger is read.
func (r *Rule) Location() *time.Location { return r.loc }

// Excluded returns the end of the excluded stretch that holds a time at which the
// trigger would have a tick otherwise; 0 if there is none.
func (r *Rule) Excluded(at int64) int64 {
	if r.bounded(at-1) != at {
		return 0
	}
	return r.excluded(at)
}

// maxSkips bounds how many excluded ticks, or stretches of them, a search passes:
// then it says never.
const maxSkips = 10_000

// Next returns the first tick strictly after the given time, 0 if there is none.
func (r *Rule) Next(after int64) int64 {
	for range maxSkips {
		next := r.bounded(after)
		if next == 0 || len(r.except) == 0 {
			return next
		}
		until := r.excluded(next)
		if until == 0 {
			return next
		}
		after = max(next, until-1)
	}
	return 0
}

// bounded is Next without exclusions.
func (r *Rule) bounded(after int64) int64 {
	switch {
	case after == math.MaxInt64:
		return 0
	case r.data.Kind == store.TriggerEvery || r.data.Kind == store.TriggerDelay:
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

func (r *Rule) next(after int64) int64 {
	switch r.data.Kind {
	case store.TriggerEvery, store.TriggerDelay:
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
	case store.TriggerCustom:
		return Nanos(r.custom.Next(time.Unix(0, after).UTC()))
	default:
		return Nanos(r.cron.Next(time.Unix(0, after)))
	}
}

// Last returns the latest tick that is not after at; armed is one that is not.
func (r *Rule) Last(armed, at int64) int64 {
	if r.data.Until != 0 && at >= r.data.Until {
		at = r.data.Until - 1
	}
	switch {
	case r.data.Kind == store.TriggerDelay:
		return armed // the next one hangs on a run
	case len(r.except) > 0 || r.data.Kind == store.TriggerCustom:
		return r.search(armed, at)
	case r.data.Kind == store.TriggerEvery:
		return armed + (at-armed)/r.data.Every*r.data.Every
	case r.data.Kind == store.TriggerTimes:
		n, _ := slices.BinarySearch(r.data.Times, at+1)
		if n == 0 {
			return armed
		}
		return max(armed, r.data.Times[n-1])
	default:
		return max(armed, Nanos(r.cron.Prev(time.Unix(0, at).Add(time.Nanosecond))))
	}
}

// search is Last by halving: what Next says grows with what it is asked, so that the
// cost does not grow with the number of ticks.
func (r *Rule) search(armed, at int64) int64 {
	low, high := armed, at // Next(low) may be within, Next(high) is not
	last := armed
	for low < high {
		mid := low + (high-low)/2
		if next := r.Next(mid); next != 0 && next <= at {
			last = max(last, next)
			low = max(next, mid+1)
		} else {
			high = mid
		}
	}
	return last
}

// Nanos returns a time as it is stored: 0 is the zero time, and one beyond the
// range of 64 bits is an end of it.
func Nanos(t time.Time) int64 {
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
