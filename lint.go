package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/escapement-go/scheduler/engine/cron"
	"github.com/escapement-go/scheduler/internal/trigger"
	"github.com/escapement-go/scheduler/store"
)

// The rules of [Scheduler.Lint] that look at more than a trigger.
const (
	RuleHotMinute cron.Rule = "hot-minute"        // many schedules start in the same minute
	RuleOverlaps  cron.Rule = "predicted-overlap" // runs take longer than it is to the next tick
	RuleStorm     cron.Rule = "catch-up-storm"    // an outage would be followed by many runs at once
	RuleBlocked   cron.Rule = "blocked"           // the trigger cannot be evaluated here
	RuleRefused   cron.Rule = "refused"           // a declaration would not be applied
)

// A ScheduleFinding is what [Scheduler.Lint] has to say of a schedule; of all of them
// together if it names none.
type ScheduleFinding struct {
	Schedule string
	Where    string // file:line:column of the definition, if that is one of a file and not yet applied
	Finding
}

// String returns "schedules.yaml:3:5: digest: warning: either-day: ...".
func (f ScheduleFinding) String() string {
	text := f.Finding.String()
	for _, s := range []string{f.Schedule, f.Where} {
		if s != "" {
			text = s + ": " + text
		}
	}
	return text
}

// Lint looks at all schedules for what is probably not meant: what [Trigger.Lint] finds,
// ticks that never come, minutes of the coming week in which many schedules start, runs
// that take longer, by the history's last ten thousand, than it is to the next tick, and
// catch-up policies that would follow an outage of a day by a storm. The worst comes
// first.
//
// With declarations, [WithSchedule] or [WithScheduleFile], it looks at the schedules as
// they would be once those were applied, which they are not; what would be refused is
// found too. Before Start, the schedules are those that the options and the declarations
// declare, so that files can be checked where nothing runs; a file given here is read
// instead of the options' own, named calendars count as empty, and tasks are looked up
// among those of the options, if these have any.
//
// Errors: those of reading; the faults of declarations, joined, each of a file with its
// line and column.
func (s *Scheduler) Lint(ctx context.Context, declared ...Declaration) ([]ScheduleFinding, error) {
	p, err := s.plan(ctx, declared)
	if err != nil {
		return nil, err
	}
	now := time.Unix(0, p.wall)
	found := p.refused
	for i := range p.all {
		m := &p.all[i]
		m.lint(now, p.took[m.sc.ID], func(f Finding) { found = append(found, ScheduleFinding{m.sc.ID, m.where, f}) })
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("scheduler: lint: %w", err)
		}
	}
	hot, err := hotMinutes(ctx, p.all, now)
	if err != nil {
		return nil, err
	}
	found = append(found, hot...)
	for i := range p.all {
		m := &p.all[i]
		m.lintAnswers(func(f Finding) { found = append(found, ScheduleFinding{m.sc.ID, m.where, f}) })
	}
	slices.SortStableFunc(found, func(a, b ScheduleFinding) int { return cmp.Compare(b.Severity, a.Severity) })
	return found, nil
}

// lint looks at a schedule alone.
func (m *meant) lint(now time.Time, took time.Duration, add func(Finding)) {
	if m.rule == nil {
		add(Finding{Severity: cron.Fault, Rule: RuleBlocked, Text: "its trigger cannot be evaluated: " + m.fault.Error()})
		return
	}
	over := false
	if e := m.rule.Cron(); e != nil {
		for _, f := range lintExpr(e, now) {
			add(f)
			over = over || f.Rule == cron.RuleNever || f.Rule == cron.RuleOver
		}
	}
	if m.sc.Next == 0 && m.sc.Trigger.Kind != store.TriggerDelay && !over && m.rule.Err() == nil {
		add(Finding{Severity: cron.Warning, Rule: cron.RuleOver, Text: "it has no tick any more: its trigger, its calendars or its number of runs leave none"})
	}
	m.lintDay(now.UnixNano(), took, add)
}

// lintAnswers tells of a Go trigger that gave no answer meanwhile.
func (m *meant) lintAnswers(add func(Finding)) {
	if m.rule != nil && m.rule.Err() != nil {
		add(Finding{Severity: cron.Fault, Rule: RuleBlocked, Text: "its ticks could not be looked at: " + m.rule.Err().Error()})
	}
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

// lintDay looks at the ticks of the coming day.
func (m *meant) lintDay(now int64, took time.Duration, add func(Finding)) {
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

// hotMinutes finds the minutes of the coming week in which far more schedules start runs
// than in one of it on average.
func hotMinutes(ctx context.Context, all []meant, now time.Time) ([]ScheduleFinding, error) {
	const week, least, times = 7 * 24 * 60, 10, 5
	from := now.Truncate(time.Minute)
	loads, err := forecast(ctx, all, (*meant).starts, from, from.Add(week*time.Minute), week)
	if err != nil {
		return nil, err
	}
	sum, hottest := 0, Load{}
	for _, l := range loads {
		if sum += l.Schedules; l.Schedules > hottest.Schedules {
			hottest = l
		}
	}
	if mean := max(sum/week, 1); hottest.Schedules < least || hottest.Schedules < times*mean {
		return nil, nil
	}
	var f Finding
	f.Severity, f.Rule = cron.Note, RuleHotMinute
	for _, l := range loads {
		if l.Schedules*2 > hottest.Schedules && len(f.Times) < 100 {
			f.Times = append(f.Times, l.Minute)
		}
	}
	f.Text = fmt.Sprintf("%d schedules start in the minute of %s, and many in %d minutes of the week: H or Jitter spreads them",
		hottest.Schedules, hottest.Minute.UTC().Format("2006-01-02 15:04 MST"), len(f.Times))
	return []ScheduleFinding{{Finding: f}}, nil
}

// A plan is the schedules as they are or, once something was applied, would be.
type plan struct {
	wall    int64
	all     []meant                  // by ID
	took    map[string]time.Duration // the longest of the last runs, by ID
	refused []ScheduleFinding        // why something would not be applied
}

// plan looks at all schedules, with those of declarations in their place.
func (s *Scheduler) plan(ctx context.Context, declared []Declaration) (*plan, error) {
	s.mu.Lock()
	started := s.phase != idle
	s.mu.Unlock()
	now := s.cfg.clock.Now().UnixNano()
	p, elapsed := &plan{wall: now}, now
	if started {
		var err error
		if p.all, err = s.meanings(ctx); err != nil {
			return nil, err
		}
		if p.took, err = s.lately(ctx); err != nil {
			return nil, err
		}
		p.wall, elapsed = s.node.Now()
	}
	defs, files, err := s.declared(declared, started)
	if err != nil {
		return nil, err
	}
	if files != nil {
		gone := files.pruned(p.schedules(), s.cfg.schedules)
		p.all = slices.DeleteFunc(p.all, func(m meant) bool { return slices.Contains(gone, m.sc.ID) })
	}
	at := make(map[string]int)
	for i := range p.all {
		at[p.all[i].sc.ID] = i
	}
	prospects := s.prospects(ctx, defs, started)
	for i := range prospects {
		next := &prospects[i]
		if !p.takes(next) {
			continue
		}
		i, exists := at[next.sc.ID]
		if !exists {
			i = len(p.all)
			at[next.sc.ID] = i
			p.all = append(p.all, meant{})
		}
		p.all[i] = next.meant(p.wall, elapsed)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("scheduler: lint: %w", err)
		}
	}
	slices.SortFunc(p.all, func(a, b meant) int { return cmp.Compare(a.sc.ID, b.sc.ID) })
	return p, nil
}

func (p *plan) schedules() iter.Seq[*store.Schedule] {
	return func(yield func(*store.Schedule) bool) {
		for i := range p.all {
			if !yield(p.all[i].sc) {
				return
			}
		}
	}
}

// takes reports whether a prospect is to be looked at in the place of what exists, and
// notes why it would not be applied: one of an older generation changes nothing, one that
// is refused is looked at all the same.
func (p *plan) takes(next *prospect) bool {
	add := func(severity cron.Severity, text string) {
		p.refused = append(p.refused, ScheduleFinding{next.sc.ID, next.where(), Finding{Severity: severity, Rule: RuleRefused, Text: text}})
	}
	for _, err := range next.refusals {
		add(cron.Fault, "it would be refused: "+err.Error())
	}
	if old := next.old; old != nil && old.App == next.sc.App && old.Gen > next.sc.Gen {
		add(cron.Warning, fmt.Sprintf("it would change nothing: it is of generation %d of %q, and generation %d is in force", next.sc.Gen, old.App, old.Gen))
		return false
	}
	if next.again() && !next.old.Stands(&next.sc) {
		add(cron.Warning, fmt.Sprintf("it would change nothing: it was declared so before, and version %d stays in force until it is declared otherwise", next.old.Version))
		return false
	}
	return true
}

// declared returns what declarations declare and, before Start, the options do.
func (s *Scheduler) declared(declared []Declaration, started bool) (defs []*scheduleDef, files *fileSet, err error) {
	c := *s.cfg
	c.scheduleFile, c.faults = "", nil
	if c.schedules = slices.Clip(c.schedules); started {
		c.schedules = nil
	}
	own := len(c.schedules)
	for _, o := range declared {
		if o == nil {
			c.fault(fmt.Errorf("scheduler: nil declaration: %w", ErrInvalid))
			continue
		}
		o.applyScheduler(&c)
	}
	if !started {
		c.scheduleFile = cmp.Or(c.scheduleFile, s.cfg.scheduleFile)
	}
	c.settle(c.schedules[own:])
	defs = c.schedules
	if c.scheduleFile != "" {
		files, err = s.parseFiles(c.scheduleFile)
		c.fault(err)
		defs = append(slices.Clip(defs), files.defs...)
	}
	return defs, files, errors.Join(c.faults...)
}

// A prospect is what a definition would be as a schedule.
type prospect struct {
	def      *scheduleDef
	sc       store.Schedule
	env      trigger.Env
	old      *store.Schedule // of its ID; nil if there is none
	refusals []error         // why it would not be taken, whatever its trigger
}

// again reports whether the schedule was declared so the last time: then it stays what it
// is.
func (p *prospect) again() bool {
	return p.old != nil && p.old.Declared == store.Sum(&p.sc, p.def.canary)
}

// prospects looks at definitions beside what the state knows or, before Start, the
// options do.
func (s *Scheduler) prospects(ctx context.Context, defs []*scheduleDef, started bool) []prospect {
	list := make([]prospect, len(defs))
	inCode := make(map[string]bool)
	q := s.asker.Query(ctx)
	for _, d := range slices.Concat(s.cfg.schedules, defs) {
		inCode[d.id] = inCode[d.id] || d.at.File == ""
	}
	look := func(st *store.State) {
		for i, d := range defs {
			p := &list[i]
			p.def, p.sc, p.old = d, d.record(), st.Schedule(d.id)
			p.env = s.env(st, &p.sc, q)
			if d.at.File != "" && p.old != nil && p.old.App != "" && p.old.App != d.app {
				p.refusals = append(p.refusals, fmt.Errorf("it is declared by %q: %w", p.old.App, ErrConflict))
			}
			if d.at.File != "" && inCode[d.id] {
				p.refusals = append(p.refusals, fmt.Errorf("%w: WithSchedule declares it too", ErrDuplicate))
			}
			if task := p.sc.Spec.Task; started && !st.KnownTask(task) || !started && !s.mayKnow(task) {
				p.refusals = append(p.refusals, fmt.Errorf("%w %q", ErrUnknownTask, task))
			}
		}
	}
	if started {
		s.node.View(look)
		return list
	}
	look(store.NewState())
	for i := range list {
		list[i].env.Calendar = anyCalendar
	}
	return list
}

// mayKnow reports whether the options have a task, or none at all.
func (s *Scheduler) mayKnow(task string) bool {
	return len(s.cfg.handlers)+len(s.cfg.tasks) == 0 || s.cfg.handlers[task] != nil || slices.Contains(s.cfg.tasks, task)
}

// where returns the place of a definition of a file.
func (p *prospect) where() string {
	if p.def.at.File == "" {
		return ""
	}
	return p.def.at.String()
}

// meant gives a prospect the place in time that applying it would.
func (p *prospect) meant(wall, elapsed int64) meant {
	now := clockTime(p.sc.Trigger.TickClock(), wall, elapsed)
	m := meant{sc: &p.sc, where: p.where(), shift: wall - now}
	if p.old != nil {
		p.sc.Fired, p.sc.Paused = p.old.Fired, p.old.Paused
		if store.SameTrigger(&p.old.Trigger, &p.sc.Trigger) {
			p.sc.Next = p.old.Next
		}
	}
	m.rule, m.fault = compileTrigger(&p.sc.Trigger, p.env)
	if m.rule != nil && p.sc.Next == 0 && (p.sc.MaxRuns == 0 || p.sc.Fired < p.sc.MaxRuns) {
		p.sc.Next = m.rule.Next(now)
	}
	return m
}
