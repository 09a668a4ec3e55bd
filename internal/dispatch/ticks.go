package dispatch

import (
	"slices"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// deciding stands in for an armed tick that is in a batch on its way.
const deciding = int64(-1 << 63)

// armTick sets the timer of a schedule's armed tick.
func (d *Dispatcher) armTick(st *store.State, sc *store.Schedule) {
	if d.armed[sc.Number] == sc.Next && !sc.Paused {
		return
	}
	d.disarm(sc.Number)
	if sc.Paused || sc.Next == 0 {
		return
	}
	d.setTick(store.Armed{ID: sc.ID, Number: sc.Number, Tick: sc.Next, Clock: sc.Trigger.TickClock()})
	if d.asks(sc) {
		d.asked(st, sc, AskTick)
	}
}

func (d *Dispatcher) setTick(a store.Armed) {
	d.armed[a.Number] = a.Tick
	d.ids[a.Number] = a.ID
	d.timers[a.Clock].Set(a.Tick, tickTimer(a.Number))
}

// armAll sets the timers of all schedules; none is set.
func (d *Dispatcher) armAll(st *store.State, elapsed int64) {
	for sc := range st.Awake() {
		d.armTick(st, sc)
		d.armWait(sc, elapsed)
	}
	for a := range st.Armed() {
		d.setTick(a)
	}
}

// disarm forgets a schedule's armed tick. A timer it has stays behind, see compact.
func (d *Dispatcher) disarm(number uint64) {
	if at, armed := d.armed[number]; armed && at != deciding {
		d.stale++
	}
	delete(d.armed, number)
}

// maxRules is how many compiled triggers are kept. One takes as much memory as its
// schedule, and microseconds to compile.
const maxRules = 1 << 16

// rule returns the compiled trigger of a schedule.
func (d *Dispatcher) rule(st *store.State, sc *store.Schedule) (Rule, error) {
	c, ok := d.rules[sc.Number]
	if !ok || c.version != sc.Version {
		rule, err := d.cfg.Compile(st, sc)
		c = compiled{sc.Version, rule, err}
		if len(d.rules) >= maxRules && !ok {
			for other := range d.rules { // whichever comes: it is compiled again when it is due
				delete(d.rules, other)
				break
			}
		}
		d.rules[sc.Number] = c
		if err != nil {
			d.cfg.Logger.Error("trigger cannot be evaluated, its schedule stands still", keySchedule, sc.ID, keyError, err)
		}
	}
	return c.rule, c.err
}

// tick decides a tick that is due, or soon.
func (p *preparation) tick(number uint64, due int64) {
	d := p.d
	if d.armed[number] != due {
		d.stale-- // the tick was decided or moved
		return
	}
	sc := p.st.Schedule(d.ids[number])
	if sc == nil || sc.Number != number || sc.Paused || sc.Next != due {
		return
	}
	clock := sc.Trigger.TickClock()
	if due > p.now(clock) && sc.Contended() {
		// The run before it may end in time: decided when it is due.
		d.held = append(d.held, heldTick{clock, due, sc.ID})
		return
	}
	p.decide(sc)
}

// tickHeld decides the held ticks that are due now.
func (p *preparation) tickHeld() {
	left := p.d.held[:0]
	for _, h := range p.d.held {
		if h.due > p.now(h.clock) {
			left = append(left, h)
			continue
		}
		sc := p.st.Schedule(h.schedule)
		if sc != nil && !sc.Paused && sc.Next == h.due && p.d.armed[sc.Number] == h.due {
			p.decide(sc)
		}
	}
	p.d.held = left
}

// decide adds the command that decides the armed tick of sc and all after it up
// to now.
func (p *preparation) decide(sc *store.Schedule) {
	if p.d.asks(sc) {
		p.decideAsked(sc)
		return
	}
	if rule, err := p.d.rule(p.st, sc); err == nil {
		p.decideBy(rule, sc)
	}
}

// decideAsked is decide for a schedule whose trigger has to be asked: it is done once
// the answer is there.
func (p *preparation) decideAsked(sc *store.Schedule) {
	a := p.d.awaited(p.st, sc, AskTick)
	asked := p.d.questions[askKey{sc.Number, AskTick}]
	if a != nil {
		more := a.Tick == nil && a.Next != 0 && a.Next <= p.wall // there is more to decide by now
		back := a.Tick != nil && asked.question.Now > p.wall+stepBack
		if more || back {
			asked.outdated = true
			a = p.d.awaited(p.st, sc, AskTick)
		}
	}
	switch {
	case a == nil:
	case a.Tick != nil:
		t := *a.Tick
		if asked.healed {
			excuse(&t)
		}
		p.propose(sc, &t)
	default:
		p.decideBy(known{sc.Next, a.Next}, sc)
	}
}

// excuse says of ticks that are late that it was for the trigger, which gave no answer.
func excuse(t *store.TickCommand) {
	if t.Reason == notRunning {
		t.Reason = noAnswer
	}
	t.Spans = slices.Clone(t.Spans)
	for i := range t.Spans {
		if t.Spans[i].Reason == notRunning {
			t.Spans[i].Reason = noAnswer
		}
	}
}

// decideBy is decide by a rule.
func (p *preparation) decideBy(rule Rule, sc *store.Schedule) {
	t, next := decision(rule, sc, p.now(sc.Trigger.TickClock()), p.d.fellAway(p.st, sc))
	if t != nil {
		p.propose(sc, t)
		return
	}
	p.ticks++
	p.d.armed[sc.Number] = deciding
	p.add(store.Command{Kind: store.KindRearm, Rearm: &store.Rearm{Ticks: []store.RearmTick{p.rearmed(sc, next)}}})
}

// rearmed arms another tick of sc.
func (p *preparation) rearmed(sc *store.Schedule, next int64) store.RearmTick {
	return store.RearmTick{Schedule: sc.ID, Version: sc.Version, Armed: sc.Next, Next: next, Calendars: p.st.CalendarsOf(sc)}
}

// propose adds the command that decides the armed tick of sc.
func (p *preparation) propose(sc *store.Schedule, t *store.TickCommand) {
	p.ticks++
	p.d.armed[sc.Number] = deciding
	t.Calendars = p.st.CalendarsOf(sc)
	if t.Nominal != 0 {
		t.Run = p.mint(t.Nominal)
	}
	p.add(store.Command{Kind: store.KindTick, Tick: t})
	if t.Nominal != 0 && !sc.Contended() {
		p.fresh = append(p.fresh, freshTick{t.Run, sc, t.Nominal + t.Delay})
	}
}

// mint makes the ID of a tick's run: its time is the nominal one.
func (p *preparation) mint(nominal int64) store.RunID {
	random := p.d.cfg.Random
	return store.NewRunID(time.Unix(0, max(nominal, 0)), store.Entropy(uint16(random()), random()))
}

// stepBack is how far the wall clock must fall behind the elapsed one to count
// as set back. Less than that only makes ticks wait a little longer.
const stepBack = int64(time.Second)

func stepped(offset, seen int64) bool { return offset < seen-stepBack || offset > seen+stepBack }

// followClock notices a step of the wall clock. Forward, the timers that were
// jumped over are simply due. Backward, cron ticks are armed anew from the new
// time; what was decided already stays so.
func (p *preparation) followClock() {
	d := p.d
	offset := p.wall - p.elapsed
	if stepped(offset, d.offset) {
		d.cfg.Logger.Warn("wall clock stepped", keyBy, time.Duration(offset-d.offset))
	}
	back := offset < d.offset-stepBack
	d.offset = offset
	if back {
		p.turnBack()
	}
	if len(d.rearm) > 0 {
		p.rearm()
	}
	if len(d.recount) > 0 {
		p.countAnew()
	}
}

// turnBack sets the timers of what hangs on the wall clock anew.
func (p *preparation) turnBack() {
	d := p.d
	d.held = slices.DeleteFunc(d.held, func(h heldTick) bool { return h.clock == store.Wall })
	d.rearm = d.rearm[:0]
	d.timers[store.Wall].Reset(p.wall)
	for a := range p.st.Armed() {
		if a.Clock != store.Wall {
			continue
		}
		if d.armed[a.Number] != deciding {
			d.setTick(a)
		}
		d.rearm = append(d.rearm, a.Number)
	}
	for sc := range p.st.Awake() {
		if sc.Trigger.TickClock() != store.Wall || sc.Paused || sc.Next == 0 {
			continue
		}
		if d.armed[sc.Number] != deciding {
			delete(d.armed, sc.Number)
			d.armTick(p.st, sc)
		}
		d.rearm = append(d.rearm, sc.Number)
	}
	for r := range p.st.LiveRuns() {
		if r.State == store.Scheduled && r.Clock == store.Wall {
			if _, out := d.leases[r.ID]; !out {
				d.arm(r, p.wall, p.elapsed)
			}
		}
	}
}

// rearm has the state arm ticks that come before the armed ones, now that the
// wall clock was set back. A schedule whose tick is on its way has its turn once
// that was applied.
func (p *preparation) rearm() {
	d := p.d
	m := new(store.Rearm)
	left := d.rearm[:0]
	for _, number := range d.rearm {
		if d.armed[number] == deciding || len(m.Ticks) == maxTicks {
			left = append(left, number)
			continue
		}
		sc := p.st.Schedule(d.ids[number])
		if sc == nil || sc.Number != number || sc.Paused || sc.Trigger.TickClock() != store.Wall {
			continue
		}
		if next, ok := p.nextTick(sc, AskBack); ok && next != 0 && next < sc.Next {
			m.Ticks = append(m.Ticks, p.rearmed(sc, next))
		}
	}
	d.rearm = left
	if len(m.Ticks) > 0 {
		p.add(store.Command{Kind: store.KindRearm, Rearm: m})
	}
}

// nextTick returns the first tick that is to come and has no outcome yet. It reports
// false if nobody can say, or not yet: then the schedule has its turn again later.
func (p *preparation) nextTick(sc *store.Schedule, kind QuestionKind) (int64, bool) {
	if p.d.asks(sc) {
		a := p.d.awaited(p.st, sc, kind)
		if a == nil {
			return 0, false
		}
		delete(p.d.questions, askKey{sc.Number, kind})
		return a.Next, true
	}
	rule, err := p.d.rule(p.st, sc)
	if err != nil {
		return 0, false
	}
	return nextUndecided(rule, sc, p.wall), true
}

// mayRearm reports whether a schedule waits to be armed anew whose tick is not on
// its way.
func (d *Dispatcher) mayRearm() bool {
	idle := func(number uint64) bool { return d.armed[number] != deciding }
	return slices.ContainsFunc(d.rearm, idle) || slices.ContainsFunc(d.recount, idle)
}

// calendarSet has the schedules that exclude a calendar find their next tick anew.
func (d *Dispatcher) calendarSet(st *store.State, name string) {
	for sc := range st.SchedulesWithout(name) {
		stood := d.rules[sc.Number].err != nil
		delete(d.rules, sc.Number)
		if stood { // what was due meanwhile has no timer any more
			d.disarm(sc.Number)
			d.armTick(st, sc)
			d.armWait(sc, st.Meta().Elapsed)
		}
		for _, kind := range questionKinds {
			if a := d.questions[askKey{sc.Number, kind}]; a != nil {
				a.outdated = true
			}
		}
		d.recountOf(sc)
	}
}

// recountOf has a schedule find its next tick anew.
func (d *Dispatcher) recountOf(sc *store.Schedule) {
	d.ids[sc.Number] = sc.ID
	d.recount = append(d.recount, sc.Number)
}

// countAnew has the state arm the ticks that come now that a calendar was changed. One
// that is due is decided as it is.
func (p *preparation) countAnew() {
	d := p.d
	m := new(store.Rearm)
	left := d.recount[:0]
	for _, number := range d.recount {
		if d.armed[number] == deciding || len(m.Ticks) == maxTicks {
			left = append(left, number)
			continue
		}
		sc := p.st.Schedule(d.ids[number])
		if sc == nil || sc.Number != number || sc.Next != 0 && sc.Next <= p.wall {
			continue
		}
		if next, ok := p.nextTick(sc, AskAnew); ok && next != sc.Next {
			m.Ticks = append(m.Ticks, p.rearmed(sc, next))
		}
	}
	d.recount = left
	if len(m.Ticks) > 0 {
		p.add(store.Command{Kind: store.KindRearm, Rearm: m})
	}
}

// justNow is for how long before the last entry of an earlier leader a calendar may have
// been changed that it did not come to heed: far more than there is between two entries.
const justNow = int64(10 * time.Minute)

// fellAway reports whether the armed tick of sc is none any more: a calendar that was
// changed before its time excludes it, and nobody has come to arm the next one since. One
// that came before the change stays a tick.
func (d *Dispatcher) fellAway(st *store.State, sc *store.Schedule) bool {
	if st.CalendarsOf(sc) == 0 {
		return false
	}
	asks := d.asks(sc)
	if !asks {
		if rule, err := d.rule(st, sc); err != nil || rule.Next(sc.Next-1) == sc.Next {
			return false
		}
	}
	then := *sc
	then.Trigger.Except = slices.DeleteFunc(slices.Clone(sc.Trigger.Except), func(x store.Exclusion) bool {
		c := st.Calendar(x.Calendar)
		return c != nil && c.Changed >= sc.Next
	})
	if asks { // its calendars tell
		then.Trigger.Kind, then.Trigger.Times = store.TriggerTimes, []int64{sc.Next}
	}
	before, err := d.cfg.Compile(st, &then)
	return err == nil && before.Next(sc.Next-1) != sc.Next
}

// stamp finds the first tick of a schedule that is about to be set: that is for the
// leader to say, whose zones and clock count.
func (d *Dispatcher) stamp(b *store.Batch, st *store.State, put *store.PutSchedule) {
	if d.asks(&put.Schedule) {
		return // the caller has asked its trigger
	}
	rule, err := d.cfg.Compile(st, &put.Schedule)
	if err != nil {
		return // the caller's word stands; see rule
	}
	now := b.Wall
	if put.Schedule.Trigger.TickClock() == store.Elapsed {
		now = b.Elapsed
	}
	put.Next, put.Calendars = rule.Next(now), st.CalendarsOf(&put.Schedule)
}
