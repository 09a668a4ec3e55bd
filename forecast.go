package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/escapement-go/scheduler/engine/cron"
	"github.com/escapement-go/scheduler/internal/trigger"
	"github.com/escapement-go/scheduler/store"
)

// A Load is what is to come in one minute.
type Load struct {
	Minute    time.Time // its beginning
	Ticks     int
	Schedules int // that have any of them
}

// maxForecast bounds the window of a forecast, in minutes.
const maxForecast = 35 * 24 * 60

// Forecast returns the ticks of all schedules that are not paused, by the minute from
// the one of from on and before to; minutes without a tick are left out. The window is
// 35 days at most. It tells of nominal times: jitter, delays that hang on runs, and the
// overlap policy come to it. The cost grows with the number of ticks.
// Errors: [ErrInvalid], that of ctx.
func (s *Scheduler) Forecast(ctx context.Context, from, to time.Time) ([]Load, error) {
	from = from.Truncate(time.Minute)
	minutes := int(min(to.Sub(from)+time.Minute-1, math.MaxInt64/2) / time.Minute)
	if err := cmp.Or(checkTime(from), checkTime(to)); err != nil {
		return nil, err
	}
	if minutes < 1 || minutes > maxForecast {
		return nil, fmt.Errorf("scheduler: forecast from %v to %v: want a window up to 35 days: %w", from, to, ErrInvalid)
	}
	all, err := s.meanings(ctx)
	if err != nil {
		return nil, err
	}
	return forecast(ctx, all, from, to, minutes)
}

// forecast is Forecast of given schedules, for as many minutes from one of them on.
func forecast(ctx context.Context, all []meant, from, to time.Time, minutes int) ([]Load, error) {
	loads := make([]Load, minutes)
	for _, m := range all {
		if m.sc.Paused || m.rule == nil {
			continue
		}
		last := -1
		for at := range m.ticks(from.UnixNano(), to.UnixNano()) {
			i := int((at - from.UnixNano()) / int64(time.Minute))
			loads[i].Ticks++
			if i != last {
				loads[i].Schedules++
				if last = i; ctx.Err() != nil {
					return nil, fmt.Errorf("scheduler: forecast: %w", ctx.Err())
				}
			}
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
	shift int64 // from the trigger's clock to the wall clock, ns
}

// meanings returns all schedules, by ID.
func (s *Scheduler) meanings(ctx context.Context) ([]meant, error) {
	if err := s.reading(ctx); err != nil {
		return nil, err
	}
	var all []meant
	var envs []trigger.Env
	s.node.View(func(st *store.State) {
		for sc := range st.Schedules() {
			all, envs = append(all, meant{sc: sc}), append(envs, s.env(st, sc))
		}
	})
	wall, elapsed := s.node.Now()
	for i := range all {
		m := &all[i]
		m.rule, m.fault = compileTrigger(&m.sc.Trigger, envs[i])
		m.shift = wall - clockTime(m.sc.Trigger.TickClock(), wall, elapsed)
	}
	slices.SortFunc(all, func(a, b meant) int { return cmp.Compare(a.sc.ID, b.sc.ID) })
	return all, nil
}

// ticks yields the wall times of the ticks that are to come in a window.
func (m *meant) ticks(from, to int64) func(func(int64) bool) {
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

// The rules of [Scheduler.Lint] that look at more than a trigger.
const (
	RuleHotMinute cron.Rule = "hot-minute"        // many schedules tick in the same minute
	RuleOverlaps  cron.Rule = "predicted-overlap" // runs take longer than it is to the next tick
	RuleStorm     cron.Rule = "catch-up-storm"    // an outage would be followed by many runs at once
	RuleBlocked   cron.Rule = "blocked"           // the trigger cannot be evaluated here
)

// A ScheduleFinding is what [Scheduler.Lint] has to say of a schedule; of all of them
// together if it names none.
type ScheduleFinding struct {
	Schedule string
	Finding
}

// Lint looks at all schedules for what is probably not meant: what [Trigger.Lint] finds,
// ticks that never come, minutes of the coming week in which many schedules tick, runs
// that take longer, by the history's last ten thousand, than it is to the next tick, and
// catch-up policies that would follow an outage of a day by a storm. The worst comes
// first.
func (s *Scheduler) Lint(ctx context.Context) ([]ScheduleFinding, error) {
	all, err := s.meanings(ctx)
	if err != nil {
		return nil, err
	}
	took, err := s.lately(ctx)
	if err != nil {
		return nil, err
	}
	wall, _ := s.node.Now()
	now := time.Unix(0, wall)
	var found []ScheduleFinding
	for i := range all {
		m := &all[i]
		add := func(f Finding) { found = append(found, ScheduleFinding{m.sc.ID, f}) }
		if m.rule == nil {
			add(Finding{Severity: cron.Fault, Rule: RuleBlocked, Text: "its trigger cannot be evaluated: " + m.fault.Error()})
			continue
		}
		var own []Finding
		if e := m.rule.Cron(); e != nil {
			own = lintExpr(e, now)
		}
		for _, f := range own {
			add(f)
		}
		if m.sc.Next == 0 && m.sc.Trigger.Kind != store.TriggerDelay && len(own) == 0 {
			add(Finding{Severity: cron.Warning, Rule: cron.RuleOver, Text: "it has no tick any more: its trigger, its calendars or its number of runs leave none"})
		}
		m.lint(wall, took[m.sc.ID], add)
	}
	hot, err := hotMinutes(ctx, all, now)
	if err != nil {
		return nil, err
	}
	found = append(found, hot...)
	slices.SortStableFunc(found, func(a, b ScheduleFinding) int { return cmp.Compare(b.Severity, a.Severity) })
	return found, nil
}

// maxLately is how many runs of the history the linter looks at.
const maxLately = 10_000

// lately returns the longest of the last runs of each schedule.
func (s *Scheduler) lately(ctx context.Context) (map[string]time.Duration, error) {
	took := make(map[string]time.Duration)
	n := 0
	for r, err := range s.storage.FinalRuns(0, math.MaxInt64, true) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("scheduler: lint: %w", storageError(err))
		}
		if r.More != nil && r.More.Schedule != "" && r.Started != 0 && r.State == store.Succeeded {
			took[r.More.Schedule] = max(took[r.More.Schedule], time.Duration(r.Finished-r.Started))
		}
		if n++; n == maxLately {
			break
		}
	}
	return took, nil
}

// lint looks at the ticks of the coming day.
func (m *meant) lint(now int64, took time.Duration, add func(Finding)) {
	const most = 2000
	n, last, gap := 0, int64(0), int64(math.MaxInt64)
	for at := range m.ticks(now, now+int64(24*time.Hour)) {
		if n > 0 {
			gap = min(gap, at-last)
		}
		if last = at; n == most {
			break
		}
		n++
	}
	if took > time.Duration(gap) && m.sc.Trigger.Kind != store.TriggerDelay {
		what := map[store.Overlap]string{
			store.OverlapSkip: "ticks will be skipped", store.OverlapAllow: "runs will be beside each other",
			store.OverlapQueue: "ticks will wait, and be skipped", store.OverlapReplace: "runs will be canceled",
		}[m.sc.Overlap]
		add(Finding{Severity: cron.Warning, Rule: RuleOverlaps, Text: fmt.Sprintf(
			"a run took %v lately, and ticks are only %v apart: %s", took.Round(time.Millisecond), time.Duration(gap), what)})
	}
	const storm = 100
	if c := m.sc; c.CatchUp == store.CatchUpAll && c.Pace == 0 && n > storm && (c.MaxCount == 0 || c.MaxCount > storm) && c.MaxAge == 0 {
		if c.MaxCount > 0 {
			n = min(n, int(c.MaxCount))
		}
		add(Finding{Severity: cron.Warning, Rule: RuleStorm, Text: fmt.Sprintf(
			"after an outage of a day %d ticks, or more, are made up without a pace", n)})
	}
}

// hotMinutes finds the minutes of the coming week in which far more schedules tick than
// in others.
func hotMinutes(ctx context.Context, all []meant, now time.Time) ([]ScheduleFinding, error) {
	const week, least, times = 7 * 24 * 60, 10, 5
	from := now.Truncate(time.Minute)
	loads, err := forecast(ctx, all, from, from.Add(week*time.Minute), week)
	if err != nil {
		return nil, err
	}
	sum, hottest := 0, Load{}
	for _, l := range loads {
		if sum += l.Schedules; l.Schedules > hottest.Schedules {
			hottest = l
		}
	}
	if mean := max(sum/max(len(loads), 1), 1); hottest.Schedules < least || hottest.Schedules < times*mean {
		return nil, nil
	}
	var f Finding
	f.Severity, f.Rule = cron.Note, RuleHotMinute
	for _, l := range loads {
		if l.Schedules*2 > hottest.Schedules && len(f.Times) < 100 {
			f.Times = append(f.Times, l.Minute)
		}
	}
	f.Text = fmt.Sprintf("%d schedules tick in the minute of %s, and many in %d minutes of the week: H or Jitter spreads them",
		hottest.Schedules, hottest.Minute.UTC().Format("2006-01-02 15:04 MST"), len(f.Times))
	return []ScheduleFinding{{"", f}}, nil
}
