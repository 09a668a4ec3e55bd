package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/escapement-go/scheduler/engine/cron"
	"github.com/escapement-go/scheduler/internal/ask"
	"github.com/escapement-go/scheduler/internal/trigger"
	"github.com/escapement-go/scheduler/store"
)

// A Trigger is a rule that says when, as data. Make one with [Cron], [Every],
// [After], [Times] or [Custom]. Faults are reported by whatever uses it.
type Trigger struct {
	data store.Trigger
	id   string // the schedule's that has it, "" if none does yet: the hash key if it names none
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
// month, weekday), six with seconds first, or a macro such as @daily; [Dialect] has
// it read otherwise. The zone is UTC unless [Zone] or a TZ= prefix says otherwise.
// "@every 90s" is [Every]. Errors: [*SyntaxError], and those of zones and dialects that
// package engine/cron has, all of them [ErrInvalid].
//
// In a zone with daylight saving time, an expression with fixed hours whose time
// does not exist on a day runs once right after the gap; one whose time comes
// twice runs at the first. See package engine/cron for the language and [DST]
// for other policies.
func Cron(expr string, opts ...TriggerOption) Trigger {
	if strings.HasPrefix(strings.TrimSpace(expr), "@every") {
		e, err := cron.Parse(expr)
		if err != nil {
			return Trigger{err: fmt.Errorf("scheduler: %w: %w", ErrInvalid, err)}
		}
		return Every(e.AST().Every, opts...)
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

// After triggers d after the run before has ended, however it did, and the first
// time d after the schedule was made; d is on the elapsed clock and at least a
// millisecond. Runs of it never overlap.
func After(d time.Duration, opts ...TriggerOption) Trigger {
	t := Trigger{data: store.Trigger{Kind: store.TriggerDelay, Every: int64(d)}}
	if d < time.Millisecond {
		t.err = fmt.Errorf("scheduler: after %v: %w: shorter than a millisecond", d, ErrInvalid)
	}
	return t.with(opts)
}

// Times triggers at each of the given times once. [Trigger.With] adds options.
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

// Custom triggers by a Go function that is registered under the name ([WithTrigger]) on
// at least one node. params are its parameters, which are stored as JSON.
//
// The leader asks for the next tick as soon as one is armed: itself, or else a node that
// has the function. As long as none has it, or it panics or does not return, the
// schedule waits, alone: [Scheduler.Health] of the leader says so, and from the time of
// its tick on the ledger and [Scheduler.ExplainTick], which show it as blocked. It is
// asked again, after 30 s at most, and goes on by itself, with its catch-up policy for
// what came meanwhile. Calls that need its ticks at once have [ErrTriggerUnavailable]
// then.
//
// A schedule of [WithSchedule] or a file whose trigger cannot be asked stays as it is, and
// is declared again until it can; Health of the node that declares it says so.
func Custom(name string, params any, opts ...TriggerOption) Trigger {
	t := Trigger{data: store.Trigger{Kind: store.TriggerCustom, Name: name}}
	t.err = checkName("scheduler: trigger name", name)
	data, err := json.Marshal(params)
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("scheduler: parameters of trigger %q: %w: %w", name, ErrInvalid, err)
	}
	t.data.Params = data
	return t.with(opts)
}

// A TriggerFunc makes a trigger of its parameters. What it returns is asked for the
// first tick strictly after a time, the zero Time meaning never; a schedule of
// github.com/robfig/cron/v3 will do. Equal questions must have equal answers, on every
// node that has the function: the same question may be asked of several, and more than
// once.
//
// It is called without a lock, for each schedule on a goroutine of its own, which is left
// behind if it does not return: five seconds are its time.
type TriggerFunc func(params json.RawMessage) (cron.Schedule, error)

// WithTrigger registers a Go trigger under a name for [Custom]. Nodes may differ in which
// they have.
func WithTrigger(name string, f TriggerFunc) Option {
	return option(func(c *config) {
		c.fault(checkName("scheduler: trigger name", name))
		switch {
		case f == nil:
			c.fault(fmt.Errorf("scheduler: trigger %q is nil: %w", name, ErrInvalid))
		case c.triggers[name] != nil:
			c.fault(fmt.Errorf("scheduler: trigger %q: %w", name, ErrDuplicate))
		}
		if c.triggers == nil {
			c.triggers = make(map[string]TriggerFunc)
		}
		c.triggers[name] = f
	})
}

// With returns the trigger with further options.
func (t Trigger) With(opts ...TriggerOption) Trigger { return t.with(opts) }

func (t Trigger) with(opts []TriggerOption) Trigger {
	for _, o := range opts {
		if o == nil {
			t.err = cmp.Or(t.err, fmt.Errorf("scheduler: nil option of a trigger: %w", ErrInvalid))
			continue
		}
		o.applyTrigger(&t)
	}
	if t.err == nil {
		t.err = t.check()
	}
	return t
}

// bounds reports whether any time is between those of [Between].
func (t *Trigger) bounds() error {
	if d := &t.data; d.From != 0 && d.Until != 0 && d.From >= d.Until {
		return fmt.Errorf("scheduler: no time is between %v and %v: %w", instant(d.From), instant(d.Until), ErrInvalid)
	}
	return nil
}

// check reports what no scheduler could accept. Calendars and Go triggers are known
// to a scheduler alone.
func (t *Trigger) check() error {
	d := &t.data
	interval := d.Kind == store.TriggerEvery || d.Kind == store.TriggerDelay
	switch {
	case interval && (d.Zone != "" || d.DST != 0):
		return fmt.Errorf("scheduler: every %v: an interval has no zone or DST policy: %w", time.Duration(d.Every), ErrInvalid)
	case d.Kind == store.TriggerEvery && d.HashKey != "" && d.Jitter == 0:
		return fmt.Errorf("scheduler: every %v: an interval without jitter has no use for a hash key: %w", time.Duration(d.Every), ErrInvalid)
	case d.Jitter < 0:
		return fmt.Errorf("scheduler: jitter %v: %w", time.Duration(d.Jitter), ErrInvalid)
	}
	if err := t.bounds(); err != nil {
		return err
	}
	_, err := compileTrigger(d, trigger.Env{Calendar: anyCalendar, Custom: anyCustom})
	return err
}

// anyCalendar and anyCustom stand for what a scheduler has.
func anyCalendar(name string) *store.Calendar { return &store.Calendar{Name: name} }

func anyCustom(string, []byte) (cron.Schedule, error) { return never{}, nil }

type never struct{}

func (never) Next(time.Time) time.Time { return time.Time{} }

// Zone names the IANA time zone in which a cron expression is read, and the days and
// windows of calendars ([Except]) with it. A zone that this build does not know is an
// error, never UTC.
func Zone(name string) TriggerOption {
	return triggerOption(func(t *Trigger) { t.data.Zone = name })
}

// Dialect has a cron expression read in another dialect, which is stored with the
// trigger: [cron.Quartz] are the expressions of the Java scheduler, and
// cron.Standard|cron.OptionalYear|cron.And a year field last, and days that fit both
// day fields. Default: cron.Standard|cron.OptionalSeconds.
func Dialect(d cron.Dialect) TriggerOption {
	return triggerOption(func(t *Trigger) {
		switch {
		case t.data.Kind == store.TriggerCron:
			stored := (d &^ cron.Every).Pinned() // of @every Cron makes an interval
			t.data.Dialect, t.data.Version = uint32(stored), uint32(stored.Version())
		case t.data.Kind == store.TriggerEvery && d.Has(cron.Every): // it may be such an interval
		default:
			t.err = cmp.Or(t.err, fmt.Errorf("scheduler: dialect %v: only cron expressions have one: %w", d, ErrInvalid))
		}
	})
}

// Between limits the trigger to ticks from the first time on and before the
// second. A zero time is no limit.
func Between(from, to time.Time) TriggerOption {
	return triggerOption(func(t *Trigger) { t.data.From, t.data.Until = max(nanos(from), 0), nanos(to) })
}

// Jitter has each run start later than its tick by a share of d that depends on the
// hash key and the tick alone, so that schedules of one expression do not start
// together. The nominal time stays the tick's. Default: 0.
func Jitter(d time.Duration) TriggerOption {
	return triggerOption(func(t *Trigger) { t.data.Jitter = int64(d) })
}

// HashKey is the identity from which H in a cron expression chooses its value,
// and [Jitter] its share. Default: the schedule's ID.
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
// more. An interval is counted from after. H in a cron expression goes by [HashKey];
// without one, by the ID of the schedule if the trigger was read from one.
// Errors: those of the trigger itself; [ErrInvalid] for one that needs what only a
// scheduler knows, which are named calendars and Go triggers.
func (t Trigger) Next(after time.Time, n int) ([]time.Time, error) {
	if t.err != nil {
		return nil, t.err
	}
	rule, err := compileTrigger(&t.data, trigger.Env{ID: t.id})
	if err != nil {
		return nil, err
	}
	var ticks []time.Time
	for at := nanos(after); len(ticks) < n; {
		if at = rule.Next(at); at == 0 {
			break
		}
		ticks = append(ticks, time.Unix(0, at).In(rule.Location()))
	}
	return ticks, nil
}

// Finding is one thing that [Trigger.Lint] has to say.
type Finding = cron.Finding

// Lint looks for what is well formed but probably meant otherwise, and for what
// daylight saving time will do to it from the given time on for a year. The worst
// comes first; nil if there is nothing to say, and for triggers that are not cron
// expressions.
func (t Trigger) Lint(from time.Time) []Finding {
	if t.err != nil {
		return nil
	}
	expr, err := trigger.Expr(&t.data, t.id)
	if err != nil {
		return nil
	}
	return lintExpr(expr, from)
}

// lintExpr lints an expression for a year.
func lintExpr(e *cron.Expr, from time.Time) []Finding { return e.Lint(from, from.AddDate(1, 0, 0)) }

// checkTime refuses a time that has no nanoseconds since 1970 in 64 bits.
func checkTime(t time.Time) error {
	if t.IsZero() || t.Year() < 1678 || t.Year() > 2261 {
		return fmt.Errorf("scheduler: time %v cannot be represented: %w", t, ErrInvalid)
	}
	return nil
}

// nanos returns a time as it is stored: 0 is the zero time, and one beyond the
// range of 64 bits is an end of it.
func nanos(t time.Time) int64 { return trigger.Nanos(t) }

// compileTrigger gives a trigger its meaning. Errors: [ErrInvalid]; of one whose Go
// trigger is asked [ErrTriggerUnavailable], and that of the query's context.
func compileTrigger(t *store.Trigger, env trigger.Env) (*trigger.Rule, error) {
	r, err := trigger.Compile(t, env)
	switch {
	case err == nil:
		return r, nil
	case errors.Is(err, ErrTriggerUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	return nil, fmt.Errorf("scheduler: %w: %w", ErrInvalid, err)
}

// compile gives the trigger of a schedule its meaning, with the calendars of the state.
// Go triggers have none: the dispatcher asks them.
func (s *Scheduler) compile(st *store.State, sc *store.Schedule) (*trigger.Rule, error) {
	return compileTrigger(&sc.Trigger, s.env(st, sc, nil))
}

// env returns what the meaning of a schedule's trigger depends on; a nil query has no Go
// triggers.
func (s *Scheduler) env(st *store.State, sc *store.Schedule, q *ask.Query) trigger.Env {
	env := trigger.Env{ID: sc.ID, Cache: &s.calendars}
	if q != nil {
		env.Custom = func(name string, params []byte) (cron.Schedule, error) { return q.Make(sc.ID, name, params) }
	}
	calendars := make(map[string]*store.Calendar)
	for i := range sc.Trigger.Except {
		if name := sc.Trigger.Except[i].Calendar; name != "" {
			calendars[name] = st.Calendar(name)
		}
	}
	env.Calendar = func(name string) *store.Calendar { return calendars[name] }
	return env
}

// remembered returns a schedule, or what is left of a deleted one; nil if there was none.
func remembered(st *store.State, id string) *store.Schedule {
	if sc := st.Schedule(id); sc != nil {
		return sc
	}
	return st.DeletedSchedule(id)
}

// meaning returns a schedule, or what is left of a deleted one, and its rule.
func (s *Scheduler) meaning(ctx context.Context, id string) (*store.Schedule, *trigger.Rule, error) {
	var sc *store.Schedule
	var env trigger.Env
	s.node.View(func(st *store.State) {
		if sc = remembered(st, id); sc != nil {
			env = s.env(st, sc, s.asker.Query(ctx))
		}
	})
	if sc == nil {
		return nil, nil, fmt.Errorf("scheduler: schedule %q: %w", id, ErrNotFound)
	}
	rule, err := compileTrigger(&sc.Trigger, env)
	return sc, rule, err
}
