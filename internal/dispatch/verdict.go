package dispatch

import (
	"cmp"
	"math"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/escapement-go/scheduler/store"
)

// missedAfter is how late a tick may still run under CatchUpNone: lateness of an
// election or a restart is not a missed tick.
const missedAfter = int64(10 * time.Second)

// decision says what becomes of the armed tick of sc and all after it up to now, as verdict
// does, if it is one that is to be decided: not if it fell away, or had its outcome before,
// because the wall clock was set back and a change of the trigger has armed it again. Then
// it gives way to the next one; t is nil if that is still to come.
func decision(rule Rule, sc *store.Schedule, now int64, fell bool) (t *store.TickCommand, next int64) {
	if _, done := sc.DecidedAt(sc.Next); done || fell {
		next = nextUndecided(rule, sc, sc.Next)
		if next == 0 || next > now {
			return nil, next
		}
		from := *sc
		from.Next = next
		t = verdict(rule, &from, now)
		t.Armed = sc.Next
		return t, t.Next
	}
	t = verdict(rule, sc, now)
	return t, t.Next
}

// verdict says what becomes of the armed tick of sc and all after it up to now, on the
// trigger's clock. The run has no ID yet. The overlap policy has its say when the state
// applies it.
func verdict(rule Rule, sc *store.Schedule, now int64) *store.TickCommand {
	t := &store.TickCommand{Schedule: sc.ID, Version: sc.Version, Armed: sc.Next}
	last := sc.Next
	if sc.Next <= now {
		last = lastUndecided(rule, sc, now)
	}
	t.Next = nextUndecided(rule, sc, last)
	first, let := madeUp(rule, sc, last, now)
	switch {
	case first == 0:
		t.Spans = letGo(rule, sc, last, let)
		return t
	case first > sc.Next:
		t.Spans = letGo(rule, sc, rule.Last(sc.Next, first-1), let)
	}
	if first == last {
		t.Nominal, t.Delay = last, Jitter(sc, last)
		if now-last > missedAfter {
			t.Reason = notRunning
			if inPause(sc, last) {
				t.Reason = store.WasPaused
			}
		}
		return t
	}
	for _, span := range undecided(rule, sc, first, last) {
		t.Waits = append(t.Waits, store.Span{From: span.From, To: span.To})
	}
	return t
}

// The reasons for what becomes of ticks.
const (
	notRunning = "the scheduler was not running"
	noAnswer   = "the trigger had given no answer"
	tooOld     = "it was older than the schedule allows"
	tooMany    = "more ticks were missed than the schedule makes up"
)

// madeUp returns the first tick, of those from the armed one to the last, from
// which on they run, 0 if none does, and what becomes of those before it.
func madeUp(rule Rule, sc *store.Schedule, last, now int64) (first int64, let store.DecidedSpan) {
	oldest := int64(math.MinInt64)
	if sc.MaxAge > 0 {
		oldest = now - sc.MaxAge
	}
	let = store.DecidedSpan{Outcome: store.TickMissed, Reason: notRunning}
	if last < oldest {
		let.Reason = tooOld
		return 0, let
	}
	switch sc.CatchUp {
	case store.CatchUpNone:
		if now-last > missedAfter || inPause(sc, last) {
			return 0, let
		}
	case store.CatchUpAll:
		first = max(sc.Next, oldest)
		if let.Reason = tooOld; first > sc.Next {
			first = tickAfter(rule, sc, first-1)
		}
		if n := nthBefore(rule, sc, last, first, sc.MaxCount); n > first {
			first, let.Reason = n, tooMany
		}
		return first, let
	default: // CatchUpLatest
		let.Outcome = store.TickMerged
	}
	return last, let
}

// nthBefore returns the first of the n ticks that end with the last one, but none
// before first; n = 0 is no bound.
func nthBefore(rule Rule, sc *store.Schedule, last, first int64, n uint32) int64 {
	if n == 0 {
		return first
	}
	if w, walks := rule.(*walker); walks {
		return w.nthBefore(sc.Next, last, first, int(n))
	}
	at := last
	for range n - 1 {
		if at <= first {
			break
		}
		prev := rule.Last(sc.Next, at-1)
		if prev >= at { // there is none
			break
		}
		at = prev
	}
	return max(at, first)
}

// inPause reports whether a tick was met during the schedule's last pause.
func inPause(sc *store.Schedule, tick int64) bool {
	return sc.Pause.To != 0 && sc.Pause.From <= tick && tick <= sc.Pause.To
}

// letGo returns the ticks from the armed one up to the last that have no outcome
// yet, as spans like the given one; those that were met in a pause are told apart.
func letGo(rule Rule, sc *store.Schedule, last int64, like store.DecidedSpan) (spans []store.DecidedSpan) {
	paused := store.DecidedSpan{Outcome: store.TickPaused, Reason: store.WasPaused}
	add := func(like store.DecidedSpan, from, to int64) {
		for _, span := range undecided(rule, sc, from, min(to, last)) {
			like.From, like.To = span.From, span.To
			spans = append(spans, like)
		}
	}
	if sc.Pause.To < sc.Next || sc.Pause.From > last {
		add(like, sc.Next, last)
		return spans
	}
	in, after := sc.Next, tickAfter(rule, sc, sc.Pause.To)
	if sc.Pause.From > sc.Next {
		in = tickAfter(rule, sc, sc.Pause.From-1)
		add(like, sc.Next, rule.Last(sc.Next, sc.Pause.From-1))
	}
	if in <= sc.Pause.To {
		add(paused, in, rule.Last(in, sc.Pause.To))
	}
	if after != 0 {
		add(like, after, last)
	}
	return spans
}

// lastUndecided returns the latest tick up to now that has no outcome yet; the
// armed one has none. Ticks between them may have one: the wall clock was set
// back, and then forward again over what had been decided before.
func lastUndecided(rule Rule, sc *store.Schedule, now int64) int64 {
	last := rule.Last(sc.Next, now)
	for {
		d, inside := sc.DecidedAt(last)
		if !inside || d.From <= sc.Next {
			return last
		}
		last = rule.Last(sc.Next, d.From-1)
	}
}

// undecided returns the ticks from first up to last as spans, without those that
// have an outcome.
func undecided(rule Rule, sc *store.Schedule, first, last int64) []store.Span {
	var spans []store.Span
	for from := first; from != 0 && from <= last; {
		if d, inside := sc.DecidedAt(from); inside {
			from = tickAfter(rule, sc, d.To)
			continue
		}
		to := last
		for _, d := range sc.Decided {
			if d.From > from && d.From <= to {
				to = rule.Last(from, d.From-1)
			}
		}
		spans = append(spans, store.Span{From: from, To: to})
		from = rule.Next(to)
	}
	return spans
}

// tickAfter returns the first tick after t, which need not be one itself: an
// interval is counted from the armed tick, which must not be after t.
func tickAfter(rule Rule, sc *store.Schedule, t int64) int64 {
	return rule.Next(rule.Last(sc.Next, t))
}

// nextUndecided returns the first tick after t that has no outcome yet.
func nextUndecided(rule Rule, sc *store.Schedule, t int64) int64 {
	next := rule.Next(t)
	for range len(sc.Decided) {
		d, inside := sc.DecidedAt(next)
		if next == 0 || !inside {
			break
		}
		next = rule.Next(d.To)
	}
	return next
}

// Jitter returns by how much the run of a tick is later than the tick: a share that
// depends on the schedule's hash key and the tick alone.
func Jitter(sc *store.Schedule, tick int64) int64 {
	if sc.Trigger.Jitter <= 0 {
		return 0
	}
	h := xxhash.Sum64String(cmp.Or(sc.Trigger.HashKey, sc.ID))
	return int64((h ^ uint64(tick)*0x9e3779b97f4a7c15) * 0xd6e8feb86659fd93 >> 1 % uint64(sc.Trigger.Jitter))
}
