package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

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
	paused     bool
	app        string
	generation uint64
	refused    bool // by newScheduleDef
}

// OverlapPolicy says what a tick does while an earlier run of its schedule has
// not ended.
type OverlapPolicy = store.Overlap

// The overlap policies.
const (
	OverlapSkip  = store.OverlapSkip  // the tick is skipped; the default
	OverlapAllow = store.OverlapAllow // it runs beside the other
)

// Overlap sets the schedule's overlap policy. Default: [OverlapSkip].
func Overlap(p OverlapPolicy) ScheduleOption {
	return scheduleOption(func(d *scheduleDef) { d.overlap = p })
}

// CatchUpPolicy says what becomes of ticks that no scheduler was there to
// decide.
type CatchUpPolicy = store.CatchUp

// The catch-up policies.
const (
	CatchUpLatest = store.CatchUpLatest // the latest runs late, the others are merged into it; the default
	CatchUpNone   = store.CatchUpNone   // all are missed, but one that is late by no more than ten seconds
)

// CatchUp is the misfire policy of a schedule.
type CatchUp struct {
	Policy CatchUpPolicy
	MaxAge time.Duration // ticks older than this are missed; 0 is no bound
}

// Misfire sets what becomes of missed ticks. Default: [CatchUpLatest] of any
// age.
func Misfire(c CatchUp) ScheduleOption {
	return scheduleOption(func(d *scheduleDef) { d.catchUp = c })
}

// Paused creates the schedule paused. It does not pause one that exists.
func Paused() ScheduleOption {
	return scheduleOption(func(d *scheduleDef) { d.paused = true })
}

func newScheduleDef(id string, trigger Trigger, call Call, opts []ScheduleOption) (*scheduleDef, error) {
	d := &scheduleDef{id: id, trigger: trigger, call: call}
	for _, o := range opts {
		if o == nil {
			return d, fmt.Errorf("scheduler: schedule %q: nil option: %w", id, ErrInvalid)
		}
		o.applySchedule(d)
	}
	if err := checkName("schedule ID", id); err != nil {
		return d, fmt.Errorf("scheduler: %w", err)
	}
	if trigger.err != nil {
		return d, fmt.Errorf("scheduler: schedule %q: %w", id, trigger.err)
	}
	if trigger.data.Kind == 0 {
		return d, fmt.Errorf("scheduler: schedule %q: zero Trigger: %w", id, ErrInvalid)
	}
	if call.err != nil {
		return d, fmt.Errorf("scheduler: schedule %q: %w", id, call.err)
	}
	if set := call.settings; set != nil && (set.delay != 0 || !set.at.IsZero() || set.unique != "" || !set.id.IsZero()) {
		return d, fmt.Errorf("scheduler: schedule %q: its runs cannot have In, At, Unique or WithID: %w", id, ErrInvalid)
	}
	if d.overlap > OverlapAllow || d.catchUp.Policy > CatchUpNone {
		return d, fmt.Errorf("scheduler: schedule %q: overlap policy %d, catch-up policy %d: %w", id, d.overlap, d.catchUp.Policy, ErrInvalid)
	}
	if d.catchUp.MaxAge < 0 {
		return d, fmt.Errorf("scheduler: schedule %q: catch-up age %v: %w", id, d.catchUp.MaxAge, ErrInvalid)
	}
	return d, nil
}

// Schedule creates a schedule, or changes the one of this ID to this definition.
// A changed definition is a new version; an unchanged one changes nothing. When
// the trigger changes, the next tick is counted from the change: nothing is
// caught up under the new rule that the old one did not promise. Runs that the
// schedule made before are not touched.
//
// Errors: [ErrInvalid], [*SyntaxError], [ErrUnknownTask], and those of every
// call.
func (s *Scheduler) Schedule(ctx context.Context, id string, trigger Trigger, call Call, opts ...ScheduleOption) error {
	if err := s.check(); err != nil {
		return err
	}
	def, err := newScheduleDef(id, trigger, call, opts)
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

func (s *Scheduler) putSchedule(ctx context.Context, d *scheduleDef) error {
	set := d.call.settings
	spec := set.spec
	put := &store.PutSchedule{Schedule: store.Schedule{
		ID: d.id, Trigger: d.trigger.data, Spec: &spec, Input: d.call.input, Meta: set.meta,
		Overlap: d.overlap, CatchUp: d.catchUp.Policy, MaxAge: int64(d.catchUp.MaxAge),
		Paused: d.paused, App: d.app, Gen: d.generation,
	}}
	rule, err := compileTrigger(&d.trigger.data, d.id)
	if err != nil {
		return err
	}
	if rule.cron != nil && rule.cron.Next(time.Unix(0, 0)).IsZero() {
		return fmt.Errorf("cron %q never fires: %w", d.trigger.data.Expr, ErrInvalid)
	}
	wall, elapsed := s.node.Now()
	put.Next = rule.Next(clockTime(d.trigger.data.TickClock(), wall, elapsed))
	return s.call(ctx, store.Command{Kind: store.KindPutSchedule, Schedule: put})
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
	Created time.Time
	Changed time.Time
}

// Schedules yields all schedules, by ID.
func (s *Scheduler) Schedules(ctx context.Context) iter.Seq2[Schedule, error] {
	return func(yield func(Schedule, error) bool) {
		if err := s.check(); err != nil {
			yield(Schedule{}, err)
			return
		}
		var all []*store.Schedule
		s.node.View(func(st *store.State) { all = slices.Collect(st.Schedules()) })
		slices.SortFunc(all, func(a, b *store.Schedule) int { return cmp.Compare(a.ID, b.ID) })
		wall, elapsed := s.node.Now()
		for _, sc := range all {
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

func viewSchedule(sc *store.Schedule, wall, elapsed int64) Schedule {
	loc := time.UTC
	if r, err := compileTrigger(&sc.Trigger, sc.ID); err == nil {
		loc = r.location()
	}
	v := Schedule{
		ID: sc.ID, Version: int(sc.Version), Task: sc.Spec.Task, Trigger: Trigger{data: sc.Trigger},
		Paused: sc.Paused, Live: sc.Live, Created: instant(sc.CreatedAt), Changed: instant(sc.ChangedAt),
	}
	if !sc.Paused && sc.Next != 0 {
		v.Next = instant(sc.Next).In(loc)
		if sc.Trigger.TickClock() == store.Elapsed {
			v.Next = instant(sc.Next + wall - elapsed).In(loc)
		}
	}
	return v
}

// PauseSchedule stops a schedule's ticks until [Scheduler.ResumeSchedule]. Runs
// it has made go on. Errors: [ErrNotFound].
func (s *Scheduler) PauseSchedule(ctx context.Context, id string) error {
	if err := s.check(); err != nil {
		return err
	}
	err := s.call(ctx, store.Command{Kind: store.KindPauseSchedule, Pause: &store.PauseSchedule{ID: id, Paused: true}})
	if err != nil {
		return fmt.Errorf("scheduler: pause schedule %q: %w", id, err)
	}
	return nil
}

// ResumeSchedule ends a pause. The ticks met while paused are recorded as paused
// and do not run; the next one is counted from now. Errors: [ErrNotFound].
func (s *Scheduler) ResumeSchedule(ctx context.Context, id string) error {
	if err := s.check(); err != nil {
		return err
	}
	for {
		p, err := s.resume(id)
		if err == nil {
			var res store.Result
			if res, err = s.node.Call(ctx, store.Command{Kind: store.KindPauseSchedule, Pause: p}); err == nil {
				if res.Code == store.CodeConflict && ctx.Err() == nil {
					continue // its tick has moved meanwhile
				}
				err = resultError(res)
			}
		}
		if err != nil {
			return fmt.Errorf("scheduler: resume schedule %q: %w", id, callError(err))
		}
		return nil
	}
}

// resume decides what a resumption now means.
func (s *Scheduler) resume(id string) (*store.PauseSchedule, error) {
	var sc *store.Schedule
	s.node.View(func(st *store.State) { sc = st.Schedule(id) })
	if sc == nil {
		return nil, ErrNotFound
	}
	rule, err := compileTrigger(&sc.Trigger, sc.ID)
	if err != nil {
		return nil, err
	}
	wall, elapsed := s.node.Now()
	now := clockTime(sc.Trigger.TickClock(), wall, elapsed)
	p := &store.PauseSchedule{ID: id, Armed: sc.Next, Next: sc.Next}
	switch {
	case sc.Next == 0:
	case sc.Next <= now:
		p.Last = rule.Last(sc.Next, now)
		p.Next = rule.Next(p.Last)
	case sc.Trigger.TickClock() == store.Wall:
		p.Next = rule.Next(now) // sooner, if the clock was set back during the pause
	}
	return p, nil
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

// TickOutcome is what became of a tick.
type TickOutcome = store.TickOutcome

// The outcomes of ticks.
const (
	TickRan     = store.TickRan     // it made the run named in Tick.Run
	TickSkipped = store.TickSkipped // an earlier run, Tick.Run, had not ended
	TickMerged  = store.TickMerged  // a later tick ran for it
	TickMissed  = store.TickMissed  // no scheduler was there, and the catch-up policy let it go
	TickPaused  = store.TickPaused  // the schedule was paused
	TickBlocked = store.TickBlocked // it could not be decided; Tick.Reason says why
)

// A Tick is a nominal time of a schedule and what became of it.
type Tick struct {
	Nominal time.Time // in the trigger's zone
	// Until is the last nominal time of a span of ticks that fared alike, if it
	// cannot be taken apart because the trigger has changed since; else zero.
	Until   time.Time
	Outcome TickOutcome
	Reason  string
	Run     RunID
	Version int           // of the schedule
	Decided time.Time     // when the outcome was recorded
	Late    time.Duration // of a tick that ran: from its nominal time until it was decided
}

// Ticks yields the ledger of a schedule: the one outcome of each tick with a
// nominal time in [from, to), in order; a zero time is no bound. Nominal times of an interval are on the
// elapsed clock. A schedule that was deleted still has its ledger. Errors:
// [ErrNotFound]; what retention has dropped is absent.
func (s *Scheduler) Ticks(ctx context.Context, id string, from, to time.Time) iter.Seq2[Tick, error] {
	lo, hi := max(nanos(from), 0), int64(math.MaxInt64)
	if !to.IsZero() {
		hi = nanos(to)
	}
	return func(yield func(Tick, error) bool) {
		rows, rule, version, err := s.ledger(id, lo, hi)
		if err != nil {
			yield(Tick{}, err)
			return
		}
		for row, err := range rows {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(Tick{}, fmt.Errorf("scheduler: ticks of %q: %w", id, err))
				return
			}
			apart := rule
			if row.Version != version {
				apart = nil
			}
			if !expand(row, apart, rule.location(), lo, hi, yield) {
				return
			}
		}
	}
}

// ledger returns the rows of a schedule that touch the range, those not yet
// flushed included, and the rule that takes the spans of the given version apart.
func (s *Scheduler) ledger(id string, lo, hi int64) (rows iter.Seq2[*store.Tick, error], r *rule, version uint64, err error) {
	if err := s.check(); err != nil {
		return nil, nil, 0, err
	}
	var sc *store.Schedule
	unflushed := make(map[int64]*store.Tick) // by the last tick: a later row takes the place of an earlier one
	s.node.View(func(st *store.State) {
		if sc = st.Schedule(id); sc == nil {
			sc = st.DeletedSchedule(id)
		}
		if sc == nil {
			return
		}
		for t := range st.UnflushedTicks() {
			if t.Schedule == sc.Number {
				unflushed[t.To] = t
			}
		}
	})
	if sc == nil {
		return nil, nil, 0, fmt.Errorf("scheduler: schedule %q: %w", id, ErrNotFound)
	}
	r, err = compileTrigger(&sc.Trigger, sc.ID)
	if err != nil {
		return nil, nil, 0, err
	}
	if met := s.metWhilePaused(sc, r); met != nil {
		unflushed[met.To] = met
	}
	return mergeTicks(s.storage.Ticks(sc.Number, lo, hi), unflushed, lo, hi), r, sc.Version, nil
}

// metWhilePaused returns the row that resuming now would write, nil if there is
// none.
func (s *Scheduler) metWhilePaused(sc *store.Schedule, r *rule) *store.Tick {
	wall, elapsed := s.node.Now()
	now := clockTime(sc.Trigger.TickClock(), wall, elapsed)
	if !sc.Paused || sc.Next == 0 || sc.Next > now {
		return nil
	}
	return &store.Tick{
		Schedule: sc.Number, Version: sc.Version, From: sc.Next, To: r.Last(sc.Next, now), Outcome: TickPaused,
		Reason: "the schedule is paused", Decided: wall,
	}
}

// mergeTicks merges rows from disk with those that may be on their way to it,
// which take the place of rows with the same last tick.
func mergeTicks(disk iter.Seq2[*store.Tick, error], unflushed map[int64]*store.Tick, lo, hi int64) iter.Seq2[*store.Tick, error] {
	var recent []*store.Tick
	for _, t := range unflushed {
		if t.To >= lo && t.From < hi {
			recent = append(recent, t)
		}
	}
	slices.SortFunc(recent, func(a, b *store.Tick) int { return cmp.Compare(a.To, b.To) })
	return func(yield func(*store.Tick, error) bool) {
		recent := recent
		for row, err := range disk {
			if err != nil {
				yield(nil, err)
				return
			}
			for len(recent) > 0 && recent[0].To < row.To {
				if !yield(recent[0], nil) {
					return
				}
				recent = recent[1:]
			}
			if unflushed[row.To] == nil && !yield(row, nil) {
				return
			}
		}
		for _, row := range recent {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// expand yields the ticks of a ledger row that are in [from, to).
func expand(row *store.Tick, r *rule, loc *time.Location, from, to int64, yield func(Tick, error) bool) bool {
	t := Tick{
		Nominal: instant(row.From).In(loc), Outcome: row.Outcome, Reason: row.Reason, Run: row.Run,
		Version: int(row.Version), Decided: instant(row.Decided), Late: time.Duration(row.Late),
	}
	if row.From == row.To || r == nil {
		if row.To != row.From {
			t.Until = instant(row.To).In(loc)
		}
		return yield(t, nil)
	}
	at := row.From
	if r.data.Kind != store.TriggerEvery {
		at = r.Next(at - 1) // a pause over ticks that were decided before is cut at them, not at ticks
	}
	if at != 0 && at < from {
		if at = r.Last(at, from); at < from {
			at = r.Next(at)
		}
	}
	for ; at != 0 && at <= row.To && at < to; at = r.Next(at) {
		t.Nominal = instant(at).In(loc)
		if !yield(t, nil) {
			return false
		}
	}
	return true
}
