package scheduler

import (
	"context"
	"fmt"
	"sort"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// A TickExplanation says what became of a time at which a schedule was, or was not,
// to run.
type TickExplanation struct {
	Tick   Tick   // its entry of the ledger; the zero Tick if there is none
	Reason string // a sentence
}

// ExplainTick answers why a schedule did, or did not, run at a time, in a sentence: out
// of the ledger if the time is a tick that was decided, else by looking at the trigger
// and at what holds the tick up. Errors: [ErrNotFound].
func (s *Scheduler) ExplainTick(ctx context.Context, id string, at time.Time) (TickExplanation, error) {
	if err := checkTime(at); err != nil {
		return TickExplanation{}, err
	}
	b, err := s.openBook(ctx, id)
	if err != nil {
		return TickExplanation{}, err
	}
	var e TickExplanation
	b.ticks(ctx, at.UnixNano(), at.UnixNano()+1, func(t Tick, failed error) bool {
		e.Tick, err = t, failed
		return true
	})
	if err != nil {
		return TickExplanation{}, err
	}
	if e.Tick.Outcome != 0 {
		e.Reason = e.Tick.sentence()
	} else {
		e.Reason = b.absence(ctx, at.UnixNano())
	}
	return e, nil
}

// sentence tells of a tick that has its outcome.
func (t *Tick) sentence() string {
	why := ""
	if t.Reason != "" {
		why = ": " + t.Reason
	}
	switch t.Outcome {
	case TickRan:
		late := ""
		if t.Late >= time.Second {
			late = fmt.Sprintf(", %v late", t.Late.Round(time.Second))
		}
		return fmt.Sprintf("it ran%s, as run %v of version %d%s", late, t.Run, t.Version, why)
	case TickSkipped:
		if !t.Run.IsZero() {
			why += fmt.Sprintf(" (run %v)", t.Run)
		}
	default: // the reason says it all
	}
	return fmt.Sprintf("it did not run, it was %v%s", t.Outcome, why)
}

// absence tells why the ledger has nothing at a time.
func (b *book) absence(ctx context.Context, at int64) string {
	sc := b.sc
	now := b.now()
	switch {
	case sc.Deleted != 0 && at > sc.Deleted+b.now()-b.elapsed:
		return "the schedule was deleted at " + b.text(sc.Deleted+b.wall-b.elapsed)
	case sc.Trigger.Kind == store.TriggerCustom && at == sc.Next && at > now && !sc.Paused:
		text := fmt.Sprintf("it is to come in %v", time.Duration(at-now).Round(time.Second))
		if why := b.s.askWaits(ctx, sc.ID); why != "" {
			text += ", but " + why
		}
		return text
	case b.rule == nil:
		return "this node cannot evaluate its trigger: " + b.fault.Error()
	case sc.Trigger.TickClock() == store.Wall && b.rule.Next(at-1) != at:
		text := b.noTick(at)
		if err := b.rule.Err(); err != nil {
			return "this node cannot evaluate its trigger: " + err.Error()
		}
		return text
	case waits(sc, at):
		if len(sc.Live) > 0 {
			return fmt.Sprintf("it waits for its turn: run %v has not ended", sc.Live[0])
		}
		return "it waits for its turn"
	case at < sc.CreatedAt+now-b.wall:
		return "the schedule was made later, at " + b.text(sc.CreatedAt)
	case sc.Next == 0 && sc.MaxRuns > 0 && sc.Fired >= sc.MaxRuns:
		return fmt.Sprintf("the schedule has made all the runs that it may: %d", sc.MaxRuns)
	case at > now && sc.Paused:
		return fmt.Sprintf("it is to come in %v, but the schedule is paused", time.Duration(at-now).Round(time.Second))
	case at > now:
		return fmt.Sprintf("it is to come in %v", time.Duration(at-now).Round(time.Second))
	case at == sc.Next:
		return "its time has come, and it is about to be decided"
	case sc.Trigger.TickClock() == store.Elapsed:
		return "it is no tick of the schedule, whose ticks are counted from the one before"
	case sc.Since > 1:
		return "the schedule had another trigger then, or its outcome is not kept any more"
	}
	return "its outcome is not kept any more"
}

// noTick tells why a time is no tick.
func (b *book) noTick(at int64) string {
	if end := b.rule.Excluded(at); end != 0 {
		return "a calendar of the trigger excludes it, up to " + b.text(end)
	}
	text := "it is no tick of the schedule"
	if next := b.rule.Next(at); next != 0 {
		text += ": the next one is at " + b.text(next)
	}
	if step := b.clockStep(at); step != "" {
		text += ", and " + step
	}
	return text
}

// clockStep tells of a change of the zone's offset within half a day of a time.
func (b *book) clockStep(at int64) string {
	const near = int64(12 * time.Hour)
	offset := func(ns int64) int {
		_, sec := time.Unix(0, ns).In(b.loc).Zone()
		return sec
	}
	before, after := offset(at-near), offset(at+near)
	if before == after {
		return ""
	}
	first := at - near + int64(sort.Search(int(2*near/1e9), func(s int) bool { return offset(at-near+int64(s)*1e9) != before }))*1e9
	way := "forward"
	if after < before {
		way = "back"
	}
	return fmt.Sprintf("the clock of %v is put %s by %v at %s", b.loc, way, time.Duration(max(after-before, before-after))*time.Second, b.text(first))
}

func (b *book) text(ns int64) string {
	return time.Unix(0, ns).In(b.loc).Format("2006-01-02 15:04:05 MST")
}
