package cron

import (
	"fmt"
	"time"
)

// This file has the rules about changes of the clock.

// shifts tells what the changes of the clock between from and to do.
func (l *linter) shifts() {
	z, c := l.e.zone, &l.e.cal
	var gaps, overlaps []shift
	for _, s := range z.spans[1:] {
		at := time.Unix(s.start, 0)
		if at.Before(l.from) || !at.Before(l.to) {
			continue
		}
		lo, hi := min(s.front, s.startLocal()), max(s.front, s.startLocal())
		r, ok := c.next(lo)
		if !ok || r >= hi {
			continue
		}
		if s.front < s.startLocal() {
			gaps = append(gaps, shift{at.In(z.loc), r})
		} else {
			overlaps = append(overlaps, shift{at.In(z.loc), r})
		}
	}
	l.gaps(gaps)
	l.overlaps(overlaps)
}

// shift is a change of the clock and the first matching reading that it concerns.
type shift struct {
	at      time.Time
	reading int64
}

// wall returns a reading as a time of UTC with the same fields.
func wall(reading int64) time.Time { return time.Unix(reading, 0).UTC() }

func (l *linter) gaps(gaps []shift) {
	if len(gaps) == 0 {
		return
	}
	severity, outcome := Warning, ""
	switch {
	case l.e.elapsed && l.ast.hourly():
		return // an hourly beat loses nothing that elapsed time has
	case l.e.elapsed:
		outcome = "nothing is made up, since * and */n follow elapsed time"
	case l.e.opts.DST == Skip:
		outcome = "that firing is left out"
	case l.e.opts.DST == Shift:
		outcome = "it fires as much later as the clock jumps"
	default:
		severity = Note
		outcome = fmt.Sprintf("it fires at %s instead", gaps[0].at.Format("15:04"))
	}
	l.shift(severity, RuleGap, gaps, "does not exist", outcome)
}

func (l *linter) overlaps(overlaps []shift) {
	if len(overlaps) == 0 {
		return
	}
	severity, outcome := Warning, ""
	switch {
	case l.e.elapsed && l.ast.hourly():
		return
	case l.e.elapsed:
		outcome = "it fires on both passes, since * and */n follow elapsed time"
	case l.e.opts.DST == Both:
		outcome = "it fires on both passes"
	default:
		severity = Note
		outcome = "it fires on the first pass only"
	}
	l.shift(severity, RuleOverlap, overlaps, "comes twice", outcome)
}

// shift words a finding: what happens to the first reading, when, and with what outcome.
func (l *linter) shift(severity Severity, r Rule, shifts []shift, what, outcome string) {
	var times []time.Time
	for _, s := range shifts {
		times = append(times, s.at)
	}
	first := wall(shifts[0].reading)
	more := ""
	if n := len(shifts) - 1; n > 0 {
		more = fmt.Sprintf(" (and %s in the window)", count(n, "more time"))
	}
	l.add(severity, r, FieldHour, times, "%s %s in %s on %s%s: %s", first.Format("15:04"), what, l.e.zone.loc, date(first), more, outcome)
}

// hourly reports whether the hour is a plain *: the beat has no hour to lose.
func (a *AST) hourly() bool { return wild(a.Hour) }
