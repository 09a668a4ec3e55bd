package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/escapement-go/scheduler/engine/cron"
	"github.com/escapement-go/scheduler/internal/ask"
	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/internal/schedfile"
	"github.com/escapement-go/scheduler/store"
)

// By names who makes a change of a schedule, for [Scheduler.ScheduleVersions].
// Default: the application ([WithApp]), if one is named.
func By(author string) ScheduleOption {
	return scheduleOption(func(d *scheduleDef) { d.author = author })
}

// Note says why a schedule is changed, for [Scheduler.ScheduleVersions].
func Note(text string) ScheduleOption {
	return scheduleOption(func(d *scheduleDef) { d.note = text })
}

// A Trial is what [Canary] asks for.
type Trial struct {
	Share      float64       // of the ticks that the new version runs: from 0.001 to 1
	Failures   int           // runs of it that may fail for good; one more reverts it. Default 0
	MaxLatency time.Duration // a run whose last attempt takes longer has failed; 0 is no bound
	Runs       int           // after as many of its runs have ended it takes the schedule over; 0: it stays on trial until [Scheduler.PromoteSchedule]
}

// Canary puts a change of a schedule on trial: for a share of the ticks the new
// version runs, for the others the one that is in force, until the new one is reverted
// by itself, or takes over. Which ticks they are depends on nothing but the schedule
// and the tick. Only what runs may change: the task, its input and options. Another
// change of the schedule ends the trial; the same one again changes nothing. Where it is
// declared, in code or in a file, it is on trial once: after it was reverted only when it
// is declared otherwise; and another declaration ends the trial, also one of what is in
// force. A schedule that is new has no trial.
func Canary(t Trial) ScheduleOption {
	return scheduleOption(func(d *scheduleDef) {
		d.canary = &store.Canary{
			Share: uint32(max(min(t.Share, 2), 0)*1000 + 0.5), Allowed: uint32(max(t.Failures, 0)),
			MaxTook: int64(max(t.MaxLatency, 0)), Need: uint32(max(t.Runs, 0)),
		}
	})
}

// declareSchedule puts a definition that is declared again and again in force, or on
// trial, unless it was the last time it was declared.
func (s *Scheduler) declareSchedule(ctx context.Context, d *scheduleDef) error {
	as := d.record()
	once := *d
	once.sum = store.Sum(&as, d.canary)
	err := s.putSchedule(ctx, &once)
	if once.canary != nil && errors.Is(err, ErrNotFound) { // it is new
		once.canary = nil
		err = s.putSchedule(ctx, &once)
	}
	if err != nil {
		return err
	}
	var is *store.Schedule
	s.node.View(func(st *store.State) { is = st.Schedule(d.id) })
	if is != nil && is.Declared == once.sum && !is.Stands(&as) {
		s.cfg.logger.Warn("schedule is not what it is declared as, and stays so until it is declared otherwise",
			keyScheduleID, d.id, keyVersion, is.Version)
	}
	return nil
}

// declareAll puts definitions in force, but for those whose Go triggers cannot be asked:
// it returns these, to be declared again later, and notes in held what is wrong with them.
func (s *Scheduler) declareAll(ctx context.Context, defs []*scheduleDef, held *atomic.Pointer[error]) (later []*scheduleDef, err error) {
	patience := ask.Patience
	var faults []error
	for _, d := range defs {
		once := *d
		once.patience = patience
		if err = s.declareSchedule(ctx, &once); err == nil {
			continue
		}
		if err = fmt.Errorf("schedule %q: %w", d.id, err); d.at.File != "" {
			err = &schedfile.Error{Pos: d.at, Err: err}
		}
		if !notAsked(err) {
			return nil, err
		}
		if errors.Is(err, dispatch.ErrSlow) {
			patience = ask.Impatient(patience)
		}
		later, faults = append(later, d), append(faults, err)
	}
	s.hold(held, errors.Join(faults...))
	return later, nil
}

// hold notes what is wrong with definitions that are to be declared again, and logs it
// once; nil if nothing is.
func (s *Scheduler) hold(held *atomic.Pointer[error], err error) {
	last := held.Load()
	if err == nil {
		if held.Store(nil); last != nil {
			s.cfg.logger.Info("schedules that waited for their triggers are in force")
		}
		return
	}
	if held.Store(&err); last == nil || (*last).Error() != err.Error() {
		s.cfg.logger.Error("triggers cannot be asked, their schedules are declared again later", keyError, err)
	}
}

// declareLater declares those definitions of the options again that wait for their Go
// triggers, until all are in force or ctx ends.
func (s *Scheduler) declareLater(ctx context.Context, later []*scheduleDef) {
	const first, most = time.Second, 30 * time.Second
	pause := time.NewTimer(first)
	defer pause.Stop()
	for next := first; ; next = min(2*next, most) {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		still, err := s.declareAll(ctx, later, &s.codeHeld)
		switch {
		case err != nil && ctx.Err() == nil:
			s.hold(&s.codeHeld, err)
		case err == nil && len(still) == 0:
			return
		case err == nil:
			later = still
		}
		pause.Reset(next)
	}
}

// A ScheduleVersion is what a schedule was, or is, or tries to be.
type ScheduleVersion struct {
	Version int
	At      time.Time
	Author  string
	Note    string
	Trial   string // how its trial ended, if it had one

	Trigger Trigger
	Task    string
	Input   []byte   // JSON; read-only
	Changes []Change // against the version kept before it; nil for the first
}

// A Change is a field of a schedule that differs from the version before.
type Change struct{ Field, From, To string }

// String returns "field: from → to".
func (c Change) String() string { return fmt.Sprintf("%s: %s → %s", c.Field, c.From, c.To) }

// ScheduleVersions yields the last fifty versions of a schedule, the oldest first, also
// of one that was deleted. Errors: [ErrNotFound].
func (s *Scheduler) ScheduleVersions(ctx context.Context, id string) iter.Seq2[ScheduleVersion, error] {
	return func(yield func(ScheduleVersion, error) bool) {
		rows, err := s.versions(ctx, id)
		if err != nil {
			yield(ScheduleVersion{}, fmt.Errorf("scheduler: versions of schedule %q: %w", id, err))
			return
		}
		for i, row := range rows {
			v := ScheduleVersion{
				Version: int(row.Version), At: instant(row.At), Author: row.Author, Note: row.Note, Trial: row.Trial,
				Trigger: triggerOf(row.Schedule), Task: row.Schedule.Spec.Task, Input: row.Schedule.Input,
			}
			if i > 0 {
				v.Changes = changes(rows[i-1].Schedule, row.Schedule)
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}

// versions returns the kept versions of a schedule, in order.
func (s *Scheduler) versions(ctx context.Context, id string) ([]*store.ScheduleVersion, error) {
	if err := s.reading(ctx); err != nil {
		return nil, err
	}
	return s.versionRows(id)
}

// versionRows is versions as far as this node knows of them.
func (s *Scheduler) versionRows(id string) ([]*store.ScheduleVersion, error) {
	var sc *store.Schedule
	recent := make(map[store.VersionKey]*store.ScheduleVersion)
	s.node.View(func(st *store.State) {
		if sc = remembered(st, id); sc != nil {
			recent = maps.Collect(st.UnflushedVersions())
		}
	})
	if sc == nil {
		return nil, ErrNotFound
	}
	var rows []*store.ScheduleVersion
	for row, err := range s.storage.Versions(sc.Number) {
		if err != nil {
			return nil, storageError(err)
		}
		if _, newer := recent[store.VersionKey{Number: row.Number, Version: row.Version}]; !newer {
			rows = append(rows, row)
		}
	}
	for key, row := range recent {
		if key.Number == sc.Number && row != nil {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b *store.ScheduleVersion) int { return int(a.Version) - int(b.Version) })
	return rows, nil
}

// changes compares two definitions.
func changes(a, b *store.Schedule) (list []Change) {
	from, to := fields(a), fields(b)
	for _, name := range slices.Sorted(maps.Keys(to)) {
		if from[name] != to[name] {
			list = append(list, Change{name, from[name], to[name]})
		}
	}
	return list
}

// fields are a definition's fields, readable.
func fields(sc *store.Schedule) map[string]string {
	t := triggerOf(sc)
	spec, err := json.Marshal(sc.Spec)
	if err != nil {
		spec = []byte(err.Error())
	}
	meta := make([]string, len(sc.Meta))
	for i, p := range sc.Meta {
		meta[i] = p.Key + "=" + p.Value
	}
	except, err := json.Marshal(sc.Trigger.Except)
	if err != nil {
		except = []byte(err.Error())
	}
	return map[string]string{
		"trigger": t.Describe() + between(sc.Trigger.From, sc.Trigger.Until), "exclusions": string(except),
		"expression": strings.TrimSpace(sc.Trigger.Zone + " " + sc.Trigger.Expr), "dialect": dialectText(sc.Trigger.Dialect),
		"parameters": string(sc.Trigger.Params),
		"dst":        DSTPolicy(sc.Trigger.DST).String(), "hash key": sc.Trigger.HashKey,
		"task": sc.Spec.Task, "options": string(spec), "input": string(sc.Input), "meta": strings.Join(meta, " "),
		"overlap":  (OverlapPolicy(sc.Overlap) | OverlapPolicy(sc.QueueMax)<<overlapBits).String(),
		"catch-up": fmt.Sprintf("%v, age %v, count %d, pace %v", sc.CatchUp, time.Duration(sc.MaxAge), sc.MaxCount, time.Duration(sc.Pace)),
		"max runs": fmt.Sprint(sc.MaxRuns), "times": timesText(sc.Trigger.Times),
	}
}

func dialectText(d uint32) string {
	if d == 0 {
		return "" // not a cron expression
	}
	return cron.Dialect(d).String()
}

func timesText(list []int64) string {
	text := make([]string, len(list))
	for i, t := range list {
		text[i] = instant(t).Format(time.RFC3339Nano)
	}
	return strings.Join(text, " ")
}

func between(from, until int64) (text string) {
	if from != 0 {
		text += " from " + instant(from).Format(time.RFC3339Nano)
	}
	if until != 0 {
		text += " until " + instant(until).Format(time.RFC3339Nano)
	}
	return text
}

// RollbackSchedule makes a kept version's definition the schedule's newest version. As
// with every change of a trigger, the next tick is counted from now. Of the options
// [By] and [Note] count. A schedule that is declared, in code or in a file, stays rolled
// back until it is declared otherwise than it was; see [WithSchedule].
// Errors: [ErrNotFound]; [ErrConflict] if the schedule is changed at the same time.
func (s *Scheduler) RollbackSchedule(ctx context.Context, id string, version int, opts ...ScheduleOption) error {
	err := s.rollback(ctx, id, version, opts)
	if err != nil {
		return fmt.Errorf("scheduler: roll schedule %q back to version %d: %w", id, version, err)
	}
	return nil
}

func (s *Scheduler) rollback(ctx context.Context, id string, version int, opts []ScheduleOption) error {
	rows, err := s.versions(Linearizable(ctx), id)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(rows, func(v *store.ScheduleVersion) bool { return int(v.Version) == version })
	var now *store.Schedule
	s.node.View(func(st *store.State) { now = st.Schedule(id) })
	if at < 0 || now == nil {
		return ErrNotFound
	}
	d := scheduleDef{note: fmt.Sprintf("back to version %d", version), author: s.cfg.author()}
	for _, o := range opts {
		if o == nil {
			return fmt.Errorf("nil option: %w", ErrInvalid)
		}
		o.applySchedule(&d)
	}
	put := &store.PutSchedule{Schedule: *rows[at].Schedule, Author: d.author, Note: d.note, Only: now.Version}
	put.Schedule.App, put.Schedule.Gen = now.App, now.Gen
	return s.put(ctx, put, ask.Patience)
}

// author names this application as the author of a change.
func (c *config) author() string {
	if c.app == "" {
		return ""
	}
	return fmt.Sprintf("%s/%d", c.app, c.generation)
}

// PromoteSchedule ends the trial of a version ([Canary]): it takes the schedule over.
// Errors: [ErrNotFound]; [ErrConflict] if no version is on trial.
func (s *Scheduler) PromoteSchedule(ctx context.Context, id string) error {
	return s.endTrial(ctx, id, true)
}

// RevertSchedule ends the trial of a version: it runs no more ticks. Errors:
// [ErrNotFound]; [ErrConflict] if no version is on trial.
func (s *Scheduler) RevertSchedule(ctx context.Context, id string) error {
	return s.endTrial(ctx, id, false)
}

func (s *Scheduler) endTrial(ctx context.Context, id string, promote bool) error {
	err := s.check()
	if err == nil {
		err = s.call(ctx, store.Command{Kind: store.KindCanary, Canary: &store.EndCanary{
			Schedule: id, Promote: promote, Author: s.cfg.author(),
		}})
	}
	if err != nil {
		return fmt.Errorf("scheduler: end the trial of schedule %q: %w", id, err)
	}
	return nil
}
