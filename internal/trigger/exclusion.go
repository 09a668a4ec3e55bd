package trigger

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/escapement-go/scheduler/engine/cron"
	"github.com/escapement-go/scheduler/store"
)

// An exclusion is a set of times. until returns the end of the stretch of them that
// holds t, zero if t is not among them.
type exclusion interface {
	until(t time.Time) time.Time
}

// excluded returns the end of the excluded stretch that holds a tick, 0 if none does.
func (r *Rule) excluded(tick int64) (until int64) {
	t := time.Unix(0, tick).In(r.Location())
	for _, x := range r.except {
		if end := x.until(t); !end.IsZero() {
			until = max(until, Nanos(end))
		}
	}
	return until
}

func (r *Rule) exclude(x *store.Exclusion, env *Env) error {
	switch {
	case x.Calendar != "":
		var c *store.Calendar
		if env.Calendar != nil {
			c = env.Calendar(x.Calendar)
		}
		if c == nil {
			return fmt.Errorf("%w calendar %q", ErrUnknown, x.Calendar)
		}
		for i := range c.Except {
			if err := r.exclude(&c.Except[i], &Env{Cache: env.Cache}); err != nil {
				return fmt.Errorf("calendar %q: %w", x.Calendar, err)
			}
		}
		return nil
	case x.Expr != "":
		expr, err := cron.Options{Dialect: windowDialect, Zone: r.loc.String()}.Parse(x.Expr)
		if err != nil {
			return fmt.Errorf("excluded window: %w", err)
		}
		if x.Length <= 0 {
			return fmt.Errorf("excluded window %q: length %v", x.Expr, time.Duration(x.Length))
		}
		r.except = append(r.except, windows{expr, time.Duration(x.Length)})
	case len(x.ICS) > 0:
		a, err := env.Cache.agenda(x.ICS, r.Location())
		if err != nil {
			return err
		}
		r.except = append(r.except, a)
	case len(x.Days) > 0:
		r.except = append(r.except, days(x.Days))
	default:
		r.except = append(r.except, spans(x.Spans))
	}
	return nil
}

// windowDialect is what the beginning of a window is written in.
const windowDialect = cron.Standard&^(cron.Every|cron.Hashed|cron.ZonePrefix) | cron.DialectVersion<<24

// days are whole days in the zone of the time that is asked about, counted from
// 1970-01-01, sorted.
type days []int32

func (d days) until(t time.Time) time.Time {
	if _, found := slices.BinarySearch(d, DayOf(t)); !found {
		return time.Time{}
	}
	y, m, day := t.Date()
	return time.Date(y, m, day+1, 0, 0, 0, 0, t.Location())
}

// DayOf returns the day of a time in its zone, counted from 1970-01-01.
func DayOf(t time.Time) int32 {
	y, m, d := t.Date()
	return int32(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86_400)
}

// spans are stretches of time, their ends not included, sorted by their beginnings.
type spans []store.Span

func (s spans) until(t time.Time) time.Time {
	at := t.UnixNano()
	end := int64(0)
	for _, span := range s[:sort.Search(len(s), func(i int) bool { return s[i].From > at })] {
		if at < span.To {
			end = max(end, span.To)
		}
	}
	if end == 0 {
		return time.Time{}
	}
	return time.Unix(0, end)
}

// windows begin at each firing of an expression.
type windows struct {
	expr   *cron.Expr
	length time.Duration
}

func (w windows) until(t time.Time) time.Time {
	from := w.expr.Prev(t.Add(time.Nanosecond))
	if end := from.Add(w.length); !from.IsZero() && end.After(t) {
		return end
	}
	return time.Time{}
}
