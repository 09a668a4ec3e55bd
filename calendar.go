package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/escapement-go/scheduler/internal/trigger"
	"github.com/escapement-go/scheduler/store"
)

// A Calendar is a set of times in which a trigger has no ticks: give it to [Except],
// or keep it in the cluster under a name with [Scheduler.SetCalendar]. Make one with
// [Days], [Blackout], [BlackoutWindow], [ICS], [NamedCalendar], or several of them with
// [Calendars]. Faults are reported by whatever uses it.
type Calendar struct {
	except []store.Exclusion
	err    error
}

// Except takes the ticks that are in any of the calendars out of the trigger. They
// leave no trace in the ledger: they are no ticks. Not for intervals.
func Except(calendars ...Calendar) TriggerOption {
	return triggerOption(func(t *Trigger) {
		c := Calendars(calendars...)
		t.data.Except, t.err = append(t.data.Except, c.except...), cmp.Or(t.err, c.err)
	})
}

// Calendars are the times of all the calendars.
func Calendars(calendars ...Calendar) (all Calendar) {
	var faults []error
	for _, c := range calendars {
		if len(c.except) == 0 && c.err == nil {
			c.err = fmt.Errorf("scheduler: zero Calendar: %w", ErrInvalid)
		}
		all.except = append(all.except, c.except...)
		faults = append(faults, c.err)
	}
	all.err = errors.Join(faults...)
	return all
}

// Days are whole days in the trigger's zone, such as "2026-12-25".
func Days(days ...string) Calendar {
	var x store.Exclusion
	for _, text := range days {
		day, err := time.Parse(time.DateOnly, text)
		if err != nil {
			return Calendar{err: fmt.Errorf("scheduler: day %q: %w: want the form 2026-12-25", text, ErrInvalid)}
		}
		x.Days = append(x.Days, trigger.DayOf(day))
	}
	if len(days) == 0 {
		return Calendar{err: fmt.Errorf("scheduler: no days: %w", ErrInvalid)}
	}
	slices.Sort(x.Days)
	x.Days = slices.Compact(x.Days)
	return Calendar{except: []store.Exclusion{x}}
}

// Blackout is the time from one instant up to another, which is not in it.
func Blackout(from, to time.Time) Calendar {
	if err := cmp.Or(checkTime(from), checkTime(to)); err != nil {
		return Calendar{err: err}
	}
	if !from.Before(to) {
		return Calendar{err: fmt.Errorf("scheduler: no time is between %v and %v: %w", from, to, ErrInvalid)}
	}
	return Calendar{except: []store.Exclusion{{Spans: []store.Span{{From: from.UnixNano(), To: to.UnixNano()}}}}}
}

// BlackoutWindow is a stretch of the given length from each firing of a cron
// expression on, in the trigger's zone: BlackoutWindow("0 22 * * FRI", 8*time.Hour) is
// each night from Friday on Saturday.
func BlackoutWindow(expr string, length time.Duration) Calendar {
	return checked(store.Exclusion{Expr: expr, Length: int64(length)})
}

// ICS are the events of an iCalendar file (RFC 5545), of which DTSTART, DTEND,
// DURATION, RRULE, RDATE and EXDATE are read; days and times without a zone are in the
// trigger's. At most 256 KiB and 5,000 events, which recur daily at most.
func ICS(file []byte) Calendar {
	if len(file) == 0 {
		return Calendar{err: fmt.Errorf("scheduler: empty iCalendar file: %w", ErrInvalid)}
	}
	return checked(store.Exclusion{ICS: slices.Clone(file)})
}

// checked makes a calendar of an exclusion that is looked at first.
func checked(x store.Exclusion) Calendar {
	t := store.Trigger{Kind: store.TriggerTimes, Except: []store.Exclusion{x}}
	_, err := compileTrigger(&t, trigger.Env{})
	return Calendar{except: t.Except, err: err}
}

// NamedCalendar is what [WithCalendar] or [Scheduler.SetCalendar] has set under the name,
// whatever that is at the time: a change of the calendar moves the next ticks of the schedules that
// exclude it.
func NamedCalendar(name string) Calendar {
	return Calendar{except: []store.Exclusion{{Calendar: name}}, err: checkName("scheduler: calendar name", name)}
}

// WithCalendar makes a named calendar when the scheduler starts, before it declares
// schedules, unless there is one of that name: from then on it is
// [Scheduler.SetCalendar]'s.
func WithCalendar(name string, c Calendar) Option {
	return option(func(o *config) {
		c := Calendars(c)
		o.fault(cmp.Or(checkName("scheduler: calendar name", name), c.err))
		if slices.ContainsFunc(c.except, func(x store.Exclusion) bool { return x.Calendar != "" }) {
			o.fault(fmt.Errorf("scheduler: calendar %q holds a named one: %w", name, ErrInvalid))
		}
		if _, twice := o.calendars[name]; twice {
			o.fault(fmt.Errorf("scheduler: calendar %q: %w", name, ErrDuplicate))
		}
		if o.calendars == nil {
			o.calendars = make(map[string]Calendar)
		}
		o.calendars[name] = c
	})
}

// declareCalendars makes the calendars of the options that are not there.
func (s *Scheduler) declareCalendars(ctx context.Context) error {
	if len(s.cfg.calendars) == 0 {
		return nil
	}
	if err := s.node.Confirmed(ctx); err != nil { // this node may lag behind what others have set
		return callError(err)
	}
	for name, c := range s.cfg.calendars {
		var there bool
		s.node.View(func(st *store.State) { there = st.Calendar(name) != nil })
		if there {
			continue
		}
		if err := s.putCalendar(ctx, name, c); err != nil {
			return fmt.Errorf("calendar %q: %w", name, err)
		}
	}
	return nil
}

// SetCalendar keeps a calendar in the cluster under a name, or replaces it. The next
// ticks of schedules that exclude it move at once; what was decided stays. It cannot
// hold named ones.
// Errors: [ErrInvalid], and those of every call.
func (s *Scheduler) SetCalendar(ctx context.Context, name string, c Calendar) error {
	if err := s.check(); err != nil {
		return err
	}
	c = Calendars(c)
	err := cmp.Or(checkName("calendar name", name), c.err)
	if err == nil {
		err = s.putCalendar(ctx, name, c)
	}
	if err != nil {
		return fmt.Errorf("scheduler: calendar %q: %w", name, err)
	}
	return nil
}

func (s *Scheduler) putCalendar(ctx context.Context, name string, c Calendar) error {
	return s.call(ctx, store.Command{Kind: store.KindPutCalendar, Calendar: &store.PutCalendar{
		Calendar: store.Calendar{Name: name, Except: c.except},
	}})
}

// DeleteCalendar deletes a named calendar. Errors: [ErrNotFound]; [ErrConflict] if a
// schedule excludes it.
func (s *Scheduler) DeleteCalendar(ctx context.Context, name string) error {
	if err := s.check(); err != nil {
		return err
	}
	err := s.call(ctx, store.Command{Kind: store.KindPutCalendar, Calendar: &store.PutCalendar{
		Calendar: store.Calendar{Name: name}, Delete: true,
	}})
	if err != nil {
		return fmt.Errorf("scheduler: delete calendar %q: %w", name, err)
	}
	return nil
}

// Calendars returns the names of the calendars kept in the cluster, sorted.
func (s *Scheduler) Calendars(ctx context.Context) ([]string, error) {
	if err := s.reading(ctx); err != nil {
		return nil, err
	}
	var names []string
	s.node.View(func(st *store.State) {
		for _, c := range st.Calendars() {
			names = append(names, c.Name)
		}
	})
	return names, nil
}
