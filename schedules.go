package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/escapement-go/scheduler/internal/ask"
	"github.com/escapement-go/scheduler/internal/schedfile"
	"github.com/escapement-go/scheduler/internal/trigger"
	"github.com/escapement-go/scheduler/store"
)

// A ScheduleOption changes how a schedule's ticks become runs.
type ScheduleOption interface {
	applySchedule(*scheduleDef)
}

type scheduleOption func(*scheduleDef)

func (f scheduleOption) applySchedule(d *scheduleDef) { f(d) }

// scheduleDef is a schedule's definition on its way into the state.
type scheduleDef struct {
	id         string
	trigger    Trigger
	call       Call
	overlap    OverlapPolicy
	catchUp    CatchUp
	maxRuns    int
	author     string
	note       string
	canary     *store.Canary
	paused     bool
	app        string
	generation uint64
	sum        uint64        // of what is declared; 0 of a change by hand
	refused    bool          // by newScheduleDef
	patience   time.Duration // with its Go trigger; 0 is that of a call
	at         schedfile.Pos // of a definition of a file
}

// OverlapPolicy says what a start does while an earlier run of its schedule has
// not ended. Ticks and starts by hand ([Scheduler.Trigger]) pass it alike. Ticks
// that are made up or backfilled never overlap: they start one after another, but
// under OverlapAllow.
type OverlapPolicy uint32

// The overlap policies; and see [OverlapQueue].
const (
	OverlapSkip    = OverlapPolicy(store.OverlapSkip)    // the tick is skipped, the call refused; the default
	OverlapAllow   = OverlapPolicy(store.OverlapAllow)   // it runs beside the other
	OverlapReplace = OverlapPolicy(store.OverlapReplace) // the other is canceled; its handler may take a moment to end
)

// OverlapQueue lets a start wait until its turn comes, if fewer than n do already;
// else the tick is skipped, the call refused. n is from 1 to 1,000.
func OverlapQueue(n int) OverlapPolicy {
	return OverlapPolicy(store.OverlapQueue) | OverlapPolicy(min(max(n, 0), 1<<20))<<overlapBits
}

// An OverlapPolicy has the kind in its low bits and the length of the queue above.
const (
	overlapBits = 8
	maxQueue    = 1000
)

func (p OverlapPolicy) kind() store.Overlap { return store.Overlap(p) }
func (p OverlapPolicy) queue() uint32       { return uint32(p >> overlapBits) }

func (p OverlapPolicy) valid() bool {
	if p.kind() == store.OverlapQueue {
		return p.queue() >= 1 && p.queue() <= maxQueue
	}
	return p <= OverlapReplace
}

// String names the policy: "skip", "allow", "queue(3)", "replace".
func (p OverlapPolicy) String() string {
	switch {
	case p.kind() == store.OverlapQueue:
		return fmt.Sprintf("queue(%d)", p.queue())
	case p <= OverlapReplace:
		return [...]string{store.OverlapSkip: "skip", store.OverlapAllow: "allow", store.OverlapReplace: "replace"}[p]
	}
	return fmt.Sprintf("overlap-policy-%d", uint32(p))
}

// Overlap sets the schedule's overlap policy. Default: [OverlapSkip].
func Overlap(p OverlapPolicy) ScheduleOption {
	return scheduleOption(func(d *scheduleDef) { d.overlap = p })
}

// CatchUpPolicy says what becomes of ticks that were not decided in time, because
// no scheduler was there, the clock was put forward, or the schedule was paused.
type CatchUpPolicy = store.CatchUp

// The catch-up policies.
const (
	CatchUpLatest = store.CatchUpLatest // the latest runs late, the others are merged into it; the default
	CatchUpNone   = store.CatchUpNone   // none runs; of those not met in a pause the last does if it is late by ten seconds at most
	CatchUpAll    = store.CatchUpAll    // all run, the earliest first, one after another
)

// CatchUp is the misfire policy of a schedule. However many ticks were missed, no
// more than the policy asks for cost anything: the others are one row of the ledger.
type CatchUp struct {
	Policy   CatchUpPolicy
	MaxAge   time.Duration // ticks older than this are missed; 0 is no bound
	MaxCount int           // CatchUpAll: as many of the last ticks run, up to 10,000; 0 is no bound
	Pace     time.Duration // CatchUpAll: at least this long between two starts that are made up; 0 is no delay
}

const maxCatchUp = 10_000

func (c CatchUp) check() error {
	switch {
	case c.Policy > CatchUpAll:
		return fmt.Errorf("catch-up policy %d: %w", c.Policy, ErrInvalid)
	case c.MaxAge < 0:
		return fmt.Errorf("catch-up age %v: %w", c.MaxAge, ErrInvalid)
	case c.MaxCount < 0 || c.MaxCount > maxCatchUp:
		return fmt.Errorf("catch-up count %d is not within 0 … %d: %w", c.MaxCount, maxCatchUp, ErrInvalid)
	case c.Pace < 0:
		return fmt.Errorf("catch-up pace %v: %w", c.Pace, ErrInvalid)
	case c.Policy != CatchUpAll && (c.MaxCount != 0 || c.Pace != 0):
		return fmt.Errorf("catch-up count %d, pace %v: they are of CatchUpAll: %w", c.MaxCount, c.Pace, ErrInvalid)
	}
	return nil
}

// Misfire sets what becomes of ticks that were not decided in time. Default:
// [CatchUpLatest] of any age.
func Misfire(c CatchUp) ScheduleOption {
	return scheduleOption(func(d *scheduleDef) { d.catchUp = c })
}

// StartAt lets no tick come before a time; EndAt none at a time or after it. They are
// [Between] as options of a schedule.
func StartAt(t time.Time) ScheduleOption {
	return scheduleOption(func(d *scheduleDef) { d.trigger.data.From = max(nanos(t), 0) })
}

// EndAt is what [StartAt] says.
func EndAt(t time.Time) ScheduleOption {
	return scheduleOption(func(d *scheduleDef) { d.trigger.data.Until = nanos(t) })
}

// MaxRuns ends a schedule once its ticks have made n runs; starts by hand and
// backfills do not count. Default: 0, no bound. A higher number later lets it go on, a
// lower one may end it at once.
func MaxRuns(n int) ScheduleOption {
	return scheduleOption(func(d *scheduleDef) { d.maxRuns = n })
}

// Paused creates the schedule paused. It does not pause one that exists.
func Paused() ScheduleOption {
	return scheduleOption(func(d *scheduleDef) { d.paused = true })
}

func newScheduleDef(id string, when Trigger, call Call, opts []ScheduleOption) (*scheduleDef, error) {
	d := &scheduleDef{id: id, trigger: when, call: call}
	for _, o := range opts {
		if o == nil {
			return d, fmt.Errorf("scheduler: schedule %q: nil option: %w", id, ErrInvalid)
		}
		o.applySchedule(d)
	}
	if err := checkName("schedule ID", id); err != nil {
		return d, fmt.Errorf("scheduler: %w", err)
	}
	if d.trigger.err == nil {
		d.trigger.err = d.trigger.bounds() // StartAt and EndAt may have changed them
	}
	if d.trigger.err != nil {
		return d, fmt.Errorf("scheduler: schedule %q: %w", id, d.trigger.err)
	}
	if c := d.canary; c != nil && (c.Share < 1 || c.Share > 1000) {
		return d, fmt.Errorf("scheduler: schedule %q: a trial for %d of a thousand ticks: %w", id, c.Share, ErrInvalid)
	}
	if d.maxRuns < 0 {
		return d, fmt.Errorf("scheduler: schedule %q: %d runs at most: %w", id, d.maxRuns, ErrInvalid)
	}
	if d.trigger.data.Kind == 0 {
		return d, fmt.Errorf("scheduler: schedule %q: zero Trigger: %w", id, ErrInvalid)
	}
	if call.err != nil {
		return d, fmt.Errorf("scheduler: schedule %q: %w", id, call.err)
	}
	if set := call.settings; set != nil && (set.delay != 0 || !set.at.IsZero() || set.unique != "" || !set.id.IsZero()) {
		return d, fmt.Errorf("scheduler: schedule %q: its runs cannot have In, At, Unique or WithID: %w", id, ErrInvalid)
	}
	if !d.overlap.valid() {
		return d, fmt.Errorf("scheduler: schedule %q: overlap policy %v: %w", id, d.overlap, ErrInvalid)
	}
	if err := d.catchUp.check(); err != nil {
		return d, fmt.Errorf("scheduler: schedule %q: %w", id, err)
	}
	return d, nil
}

// Schedule creates a schedule, or changes the one of this ID to this definition.
// A changed definition is a new version; an unchanged one changes nothing. When
// the trigger changes, the next tick is counted from the change: nothing is
// caught up under the new rule that the old one did not promise. Runs that the
// schedule made before are not touched.
//
// Errors: [ErrInvalid], [*SyntaxError], [ErrUnknownTask], [ErrTriggerUnavailable], and
// those of every call.
func (s *Scheduler) Schedule(ctx context.Context, id string, when Trigger, call Call, opts ...ScheduleOption) error {
	if err := s.check(); err != nil {
		return err
	}
	def, err := newScheduleDef(id, when, call, opts)
	if err != nil {
		return err
	}
	if err := call.check(s.cfg.maxPayload); err != nil {
		return err
	}
	if err := s.putSchedule(ctx, def); err != nil {
		return fmt.Errorf("scheduler: schedule %q: %w", id, err)
	}
	return nil
}

// record returns the definition as it is stored.
func (d *scheduleDef) record() store.Schedule {
	set := d.call.settings
	spec := set.spec
	return store.Schedule{
		ID: d.id, Trigger: d.trigger.data, Spec: &spec, Input: d.call.input, Meta: set.meta,
		Overlap: d.overlap.kind(), QueueMax: d.overlap.queue(), CatchUp: d.catchUp.Policy,
		MaxAge: int64(d.catchUp.MaxAge), MaxCount: uint32(d.catchUp.MaxCount), Pace: int64(d.catchUp.Pace),
		MaxRuns: uint64(d.maxRuns),
		Paused:  d.paused, App: d.app, Gen: d.generation,
	}
}

func (s *Scheduler) putSchedule(ctx context.Context, d *scheduleDef) error {
	return s.put(ctx, &store.PutSchedule{
		Schedule: d.record(), Author: cmp.Or(d.author, s.cfg.author()), Note: d.note, Canary: d.canary, Declared: d.sum,
	}, cmp.Or(d.patience, ask.Patience))
}

// put sets a schedule; its next tick is counted from now. Its Go trigger is waited for as
// long as the patience lasts.
func (s *Scheduler) put(ctx context.Context, p *store.PutSchedule, patience time.Duration) error {
	if err := s.node.Promised(ctx); err != nil { // a calendar that was just set is to be found
		return callError(err)
	}
	if p.Schedule.Trigger.Kind == store.TriggerCustom {
		return s.putCustom(ctx, p, patience)
	}
	var env trigger.Env
	s.node.View(func(st *store.State) { env = s.env(st, &p.Schedule, nil) })
	rule, err := compileTrigger(&p.Schedule.Trigger, env)
	if err != nil {
		return err
	}
	if err := fires(rule, &p.Schedule.Trigger); err != nil {
		return err
	}
	wall, elapsed := s.node.Now()
	p.Next = rule.Next(clockTime(p.Schedule.Trigger.TickClock(), wall, elapsed))
	return s.call(ctx, store.Command{Kind: store.KindPutSchedule, Schedule: p})
}

// putCustom is put of a schedule with a Go trigger, which is not asked if the schedule
// keeps its next tick.
func (s *Scheduler) putCustom(ctx context.Context, p *store.PutSchedule, patience time.Duration) error {
	var old *store.Schedule
	s.node.View(func(st *store.State) { old, p.Calendars = st.Schedule(p.Schedule.ID), st.CalendarsOf(&p.Schedule) })
	if p.Again(old) || p.Canary == nil && old != nil && store.KeepsTick(old, &p.Schedule) {
		same := *p
		same.Keep = true
		err := s.call(ctx, store.Command{Kind: store.KindPutSchedule, Schedule: &same})
		if p.Only != 0 || !errors.Is(err, ErrConflict) { // else it has changed meanwhile
			return err
		}
	}
	if p.Canary == nil { // a trial changes what runs alone
		next, err := s.firstTick(ctx, &p.Schedule, patience)
		if err != nil {
			return err
		}
		p.Next = next
	}
	return s.call(ctx, store.Command{Kind: store.KindPutSchedule, Schedule: p})
}

// fires returns an error for a cron expression that no time fits.
func fires(rule *trigger.Rule, t *store.Trigger) error {
	if c := rule.Cron(); c != nil && c.Next(time.Unix(0, 0)).IsZero() {
		return fmt.Errorf("cron %q never fires: %w", t.Expr, ErrInvalid)
	}
	return nil
}

func clockTime(c store.Clock, wall, elapsed int64) int64 {
	if c == store.Wall {
		return wall
	}
	return elapsed
}

// A Schedule is a schedule as it was when it was read.
type Schedule struct {
	ID      string
	Version int
	Task    string
	Trigger Trigger
	Paused  bool
	Next    time.Time // the next tick, in the trigger's zone; zero if there is none or it is paused
	Live    []RunID   // runs that have not ended; read-only
	Waiting int       // starts, or spans of them, whose turn has not come
	Trial   int       // the version that is on trial; 0 if none is
	Created time.Time
	Changed time.Time
}

// Schedules yields all schedules, by ID.
func (s *Scheduler) Schedules(ctx context.Context) iter.Seq2[Schedule, error] {
	return func(yield func(Schedule, error) bool) {
		if err := s.reading(ctx); err != nil {
			yield(Schedule{}, err)
			return
		}
		var all iter.Seq[*store.Schedule]
		s.node.View(func(st *store.State) { all = st.Schedules() })
		wall, elapsed := s.node.Now()
		for _, sc := range slices.SortedFunc(all, func(a, b *store.Schedule) int { return cmp.Compare(a.ID, b.ID) }) {
			if err := ctx.Err(); err != nil {
				yield(Schedule{}, err)
				return
			}
			if !yield(viewSchedule(sc, wall, elapsed), nil) {
				return
			}
		}
	}
}

// triggerOf returns the trigger of a schedule.
func triggerOf(sc *store.Schedule) Trigger { return Trigger{data: sc.Trigger, id: sc.ID} }

func viewSchedule(sc *store.Schedule, wall, elapsed int64) Schedule {
	loc, err := trigger.Location(&sc.Trigger, sc.ID)
	if err != nil {
		loc = time.UTC // this build does not know the zone
	}
	v := Schedule{
		ID: sc.ID, Version: int(sc.Version), Task: sc.Spec.Task, Trigger: triggerOf(sc),
		Paused: sc.Paused, Live: sc.Live, Waiting: len(sc.Waiting), Created: instant(sc.CreatedAt), Changed: instant(sc.ChangedAt),
	}
	if sc.Canary != nil {
		v.Trial = int(sc.Canary.Version)
	}
	if !sc.Paused && sc.Next != 0 {
		v.Next = instant(sc.Next).In(loc)
		if sc.Trigger.TickClock() == store.Elapsed {
			v.Next = instant(sc.Next + wall - elapsed).In(loc)
		}
	}
	return v
}

// PauseSchedule stops a schedule's ticks, and what waits for its turn, until
// [Scheduler.ResumeSchedule]. Runs it has made go on. Errors: [ErrNotFound].
func (s *Scheduler) PauseSchedule(ctx context.Context, id string) error {
	return s.setPaused(ctx, "pause", id, true)
}

// ResumeSchedule ends a pause. What becomes of the ticks met while paused is for
// the catch-up policy to say ([Misfire]); those that do not run are recorded as
// paused. Errors: [ErrNotFound].
func (s *Scheduler) ResumeSchedule(ctx context.Context, id string) error {
	return s.setPaused(ctx, "resume", id, false)
}

func (s *Scheduler) setPaused(ctx context.Context, verb, id string, paused bool) error {
	if err := s.check(); err != nil {
		return err
	}
	err := s.call(ctx, store.Command{Kind: store.KindPauseSchedule, Pause: &store.PauseSchedule{ID: id, Paused: paused}})
	if err != nil {
		return fmt.Errorf("scheduler: %s schedule %q: %w", verb, id, err)
	}
	return nil
}

// Trigger starts a run of a schedule now, as its overlap policy lets, whether the
// schedule is paused or not. It is no tick: the ledger does not have it, and its
// handler is told the time of the call as the nominal one. Under [OverlapQueue] the
// run may come about later, under the ID that is returned; until then it is not
// found.
//
// Errors: [ErrNotFound]; [*OverlapError] if an earlier run has not ended; those of
// every call. With [ErrOutcomeUnknown] the ID tells later.
func (s *Scheduler) Trigger(ctx context.Context, id string) (RunID, error) {
	if err := s.check(); err != nil {
		return RunID{}, err
	}
	run := s.mintRunID()
	err := s.call(ctx, store.Command{Kind: store.KindRunNow, RunNow: &store.RunNow{Schedule: id, Run: run}})
	switch {
	case errors.Is(err, ErrOutcomeUnknown):
		return run, fmt.Errorf("scheduler: trigger schedule %q: %w", id, err)
	case err != nil:
		return RunID{}, fmt.Errorf("scheduler: trigger schedule %q: %w", id, err)
	}
	return run, nil
}

// DeleteSchedule removes a schedule. Runs it has made go on, and its ledger can be
// asked for as long as retention keeps it. One that is made under its ID later goes
// on with its versions and its ledger: no tick that was decided comes about again.
// Errors: [ErrNotFound].
func (s *Scheduler) DeleteSchedule(ctx context.Context, id string) error {
	if err := s.check(); err != nil {
		return err
	}
	if err := s.call(ctx, store.Command{Kind: store.KindDeleteSchedule, Delete: &store.DeleteSchedule{ID: id}}); err != nil {
		return fmt.Errorf("scheduler: delete schedule %q: %w", id, err)
	}
	return nil
}
