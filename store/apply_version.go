package store

import (
	"bytes"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"github.com/tinylib/msgp/msgp"
)

// sameEncoding reports whether two records are equal in all that is stored.
func sameEncoding(a, b msgp.Marshaler) bool {
	x, _ := a.MarshalMsg(nil)
	y, _ := b.MarshalMsg(nil)
	return bytes.Equal(x, y)
}

// Reverted is what [ScheduleVersion].Trial begins with if the version did not stand its
// trial.
const Reverted = "reverted"

// SameDefinition reports whether two schedules are alike but for their place in time.
func SameDefinition(a, b *Schedule) bool { return sameEncoding(a.definition(), b.definition()) }

// Sum hashes what a schedule is declared as, with the trial that it is to stand. It is
// never 0. Builds may differ in it, so no state computes it.
func Sum(sc *Schedule, trial *Canary) uint64 {
	b, _ := sc.definition().MarshalMsg(nil) // no field of ours can fail
	if trial != nil {
		b, _ = trial.MarshalMsg(b)
	}
	return max(xxhash.Sum64(b), 1)
}

// SameTrigger reports whether two triggers are alike in all that is stored.
func SameTrigger(a, b *Trigger) bool { return sameEncoding(a, b) }

// definition returns what of a schedule its caller decides: all but its place in
// time.
func (sc *Schedule) definition() *Schedule {
	return &Schedule{
		ID: sc.ID, Trigger: sc.Trigger, Spec: sc.Spec, Input: sc.Input, Meta: sc.Meta,
		Overlap: sc.Overlap, QueueMax: sc.QueueMax, CatchUp: sc.CatchUp, MaxAge: sc.MaxAge, MaxCount: sc.MaxCount,
		Pace: sc.Pace, MaxRuns: sc.MaxRuns,
	}
}

// tried returns the definition of sc with what is on trial.
func (sc *Schedule) tried() *Schedule {
	def, c := sc.definition(), sc.Canary
	def.Spec, def.Input, def.Meta = c.Spec, c.Input, c.Meta
	return def
}

// Stands reports whether sc is of a definition, or tries it.
func (sc *Schedule) Stands(def *Schedule) bool {
	return SameDefinition(sc, def) || sc.Canary != nil && SameDefinition(sc.tried(), def)
}

// keepVersion writes a version's row, and forgets the oldest one.
func (s *State) keepVersion(v *ScheduleVersion) {
	s.dirty.Versions[VersionKey{v.Number, v.Version}] = v
	if v.Version > MaxVersions {
		s.dirty.Versions[VersionKey{v.Number, v.Version - MaxVersions}] = nil
	}
}

// forgetVersions forgets the versions of a schedule.
func (s *State) forgetVersions(sc *Schedule) {
	for v := sc.Last; v > 0 && v+MaxVersions > sc.Last; v-- {
		s.dirty.Versions[VersionKey{sc.Number, v}] = nil
	}
}

// try puts what n runs on trial.
func (s *State) try(old, n *Schedule, p *PutSchedule) Result {
	c := *p.Canary
	same := n.definition()
	same.Spec, same.Input, same.Meta = old.Spec, old.Input, old.Meta
	if !sameEncoding(same, old.definition()) {
		return Result{Code: CodeInvalid, Text: "a version on trial changes what runs, not when"}
	}
	c.Version, c.Spec, c.Input, c.Meta = old.Last+1, n.Spec, n.Input, n.Meta
	c.Ended, c.Failures = 0, 0
	if on := old.Canary; on != nil && on.same(&c) {
		s.declared(old, n)
		return Result{N: on.Version}
	}
	next := *old
	next.declaredBy(n.App, n.Gen, n.Declared)
	next.Last, next.Canary, next.ChangedAt = c.Version, &c, s.meta.Wall
	c.Author, c.Note, c.At = p.Author, p.Note, s.meta.Wall
	s.keepVersion(&ScheduleVersion{
		Number: old.Number, Version: c.Version, At: c.At, Author: c.Author, Note: c.Note, Schedule: n.definition(),
	})
	s.set(&next)
	s.emit(Event{Kind: EventScheduleSet, Schedule: &next})
	return Result{N: c.Version}
}

// same reports whether c tries the same, in the same way.
func (c *Canary) same(other *Canary) bool {
	a, b := *c, *other
	for _, x := range []*Canary{&a, &b} {
		x.Version, x.Author, x.Note, x.At, x.Ended, x.Failures = 0, "", "", 0, 0, 0
	}
	return sameEncoding(&a, &b)
}

func (s *State) applyEndCanary(c *EndCanary) Result {
	old := s.Schedule(c.Schedule)
	switch {
	case old == nil:
		return Result{Code: CodeNotFound, Text: c.Schedule}
	case old.Canary == nil:
		return Result{Code: CodeConflict, Text: "no version is on trial"}
	}
	n := *old
	how := Reverted
	if c.Promote {
		how = "promoted"
	}
	if c.Author != "" {
		how += " by " + c.Author
	}
	s.endTrial(&n, c.Promote, how)
	s.set(&n)
	s.emit(Event{Kind: EventScheduleSet, Schedule: &n})
	return Result{N: n.Version}
}

// endTrial makes the version on trial the own one of n, not yet published, or drops
// it, and notes how.
func (s *State) endTrial(n *Schedule, promote bool, how string) {
	c := n.Canary
	s.keepVersion(&ScheduleVersion{
		Number: n.Number, Version: c.Version, At: c.At, Author: c.Author, Note: c.Note, Trial: how, Schedule: n.tried(),
	})
	if promote {
		n.Version, n.Spec, n.Input, n.Meta = c.Version, c.Spec, c.Input, c.Meta
	}
	n.Canary, n.ChangedAt = nil, s.meta.Wall
}

// tries reports whether a tick is one of those that the version on trial runs: a
// share that depends on nothing but the schedule and the tick.
func (sc *Schedule) tries(nominal int64) bool {
	h := (uint64(nominal) ^ sc.Number<<40) * 0x9e3779b97f4a7c15
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	return sc.Canary != nil && uint32((h^h>>32)%1000) < sc.Canary.Share
}

// judge counts an ended run of the version on trial in n, which is not yet
// published.
func (s *State) judge(n *Schedule, r *Run) {
	c := n.Canary
	if c == nil || r.More.Version != c.Version || r.State == Canceled {
		return
	}
	next := *c
	next.Ended++
	if r.State != Succeeded || c.MaxTook > 0 && r.Started > 0 && r.Finished-r.Started > c.MaxTook {
		next.Failures++
	}
	n.Canary = &next
	switch {
	case next.Failures > next.Allowed:
		s.endTrial(n, false, fmt.Sprintf(Reverted+": %d of %d runs failed or took too long", next.Failures, next.Ended))
	case next.Need > 0 && next.Ended >= next.Need:
		s.endTrial(n, true, fmt.Sprintf("promoted after %d runs", next.Ended))
	default:
		return
	}
	s.emit(Event{Kind: EventScheduleSet, Schedule: n})
}
