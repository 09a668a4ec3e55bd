package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/internal/trigger"
	"github.com/escapement-go/scheduler/store"
)

// A Load is what is to come in one minute.
type Load struct {
	Minute    time.Time // its beginning
	Ticks     int
	Schedules int // that have any of them
}

// maxForecast bounds the window of a forecast.
const maxForecast = 35 * 24 * time.Hour

// Forecast returns the ticks of all schedules that are not paused, by the minute from
// the one of from on and before to; minutes without a tick are left out. The window is
// 35 days at most. It tells of nominal times: jitter, delays that hang on runs, and the
// overlap policy come to it. The cost grows with the number of ticks.
// Errors: [ErrInvalid], that of ctx. With [ErrTriggerUnavailable] it returns what there is
// without schedules whose Go triggers are not on this node or do not answer, to the end.
func (s *Scheduler) Forecast(ctx context.Context, from, to time.Time) ([]Load, error) {
	if err := cmp.Or(checkTime(from), checkTime(to)); err != nil {
		return nil, err
	}
	if window := to.Sub(from); window <= 0 || window > maxForecast {
		return nil, fmt.Errorf("scheduler: forecast from %v to %v: want a window up to 35 days: %w", from, to, ErrInvalid)
	}
	from = from.Truncate(time.Minute)
	minutes := int((to.Sub(from) + time.Minute - 1) / time.Minute)
	all, err := s.meanings(ctx)
	if err != nil {
		return nil, err
	}
	loads, err := forecast(ctx, all, (*meant).ticks, from, to, minutes)
	if err != nil {
		return nil, err
	}
	return loads, failed(all)
}

// failed tells of the first schedules whose Go triggers give no answer, or are not here.
func failed(all []meant) error {
	const most = 10
	var faults []error
	n := 0
	for i := range all {
		m := &all[i]
		err := m.fault
		if m.rule != nil {
			err = m.rule.Err()
		}
		if m.sc.Paused || !errors.Is(err, ErrTriggerUnavailable) {
			continue
		}
		if n++; n <= most {
			faults = append(faults, fmt.Errorf("schedule %q: %w", m.sc.ID, err))
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("scheduler: forecast without all of %d schedules: %w", n, errors.Join(faults...))
}

// times yields wall times of a schedule in a window, in ns.
type times func(m *meant, from, to int64) iter.Seq[int64]

// forecast returns the loads of the given number of minutes, the first of which begins at
// from, by times of the given schedules.
func forecast(ctx context.Context, all []meant, of times, from, to time.Time, minutes int) ([]Load, error) {
	loads := make([]Load, minutes)
	seen := make([]int, minutes) // the last one that has any, counted from 1
	for k := range all {
		m := &all[k]
		if m.sc.Paused || m.rule == nil {
			continue
		}
		for at := range of(m, from.UnixNano(), to.UnixNano()) {
			i := int((at - from.UnixNano()) / int64(time.Minute))
			loads[i].Ticks++
			if seen[i] != k+1 {
				loads[i].Schedules++
				seen[i] = k + 1
				if ctx.Err() != nil {
					break
				}
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("scheduler: forecast: %w", err)
		}
	}
	for i := range loads {
		loads[i].Minute = from.Add(time.Duration(i) * time.Minute)
	}
	return slices.DeleteFunc(loads, func(l Load) bool { return l.Ticks == 0 }), nil
}

// meant is a schedule with its meaning.
type meant struct {
	sc    *store.Schedule
	rule  *trigger.Rule // nil if this node cannot evaluate the trigger
	fault error
	where string // of its definition, if that is one of a file and not yet applied
	shift int64  // from the trigger's clock to the wall clock, ns
}

// meanings returns all schedules, by ID.
func (s *Scheduler) meanings(ctx context.Context) ([]meant, error) {
	if err := s.reading(ctx); err != nil {
		return nil, err
	}
	var all []meant
	var envs []trigger.Env
	q := s.asker.Query(ctx)
	s.node.View(func(st *store.State) {
		for sc := range st.Schedules() {
			all, envs = append(all, meant{sc: sc}), append(envs, s.env(st, sc, q))
		}
	})
	wall, elapsed := s.node.Now()
	for i := range all {
		m := &all[i]
		m.rule, m.fault = compileTrigger(&m.sc.Trigger, envs[i])
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("scheduler: %w", err)
		}
		m.shift = wall - clockTime(m.sc.Trigger.TickClock(), wall, elapsed)
	}
	slices.SortFunc(all, func(a, b meant) int { return cmp.Compare(a.sc.ID, b.sc.ID) })
	return all, nil
}

// ticks yields the wall times of the ticks that are to come in a window.
func (m *meant) ticks(from, to int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for at, n := m.start(from-m.shift), m.sc.Fired; at != 0 && at+m.shift < to; at = m.rule.Next(at) {
			if most := m.sc.MaxRuns; most > 0 && n >= most {
				return
			}
			if at+m.shift >= from && !yield(at+m.shift) {
				return
			}
			n++
		}
	}
}

// starts yields the wall times at which the runs of such ticks are to start, within the
// window, in the order of the ticks: they are later by jitter.
func (m *meant) starts(from, to int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for at := range m.ticks(from, to) {
			if at += dispatch.Jitter(m.sc, at-m.shift); at < to && !yield(at) {
				return
			}
		}
	}
}

// start returns a tick to come from which those of a window that begins at from are
// near; the next tick of all if they have to be counted.
func (m *meant) start(from int64) int64 {
	at, every := m.sc.Next, m.sc.Trigger.Every
	switch {
	case at == 0 || at >= from || m.sc.MaxRuns > 0:
		return at
	case m.sc.Trigger.Kind == store.TriggerDelay: // as if runs took no time
		return at + (from-at)/every*every
	default:
		return m.rule.Last(at, from)
	}
}
