package dispatch

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/escapement-go/scheduler/store"
)

// missedAfter is how late a tick may still run under CatchUpNone: lateness of an
// election or a restart is not a missed tick.
const missedAfter = int64(10 * time.Second)

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
	if _, done := sc.DecidedAt(sc.Next); done {
		// The wall clock was set back, and a change of the trigger has armed a tick
		// that had its outcome before.
		p.ticks++
		p.d.armed[sc.Number] = deciding
		p.add(store.Command{Kind: store.KindRearm, Rearm: &store.Rearm{Ticks: []store.RearmTick{
			{Schedule: sc.ID, Version: sc.Version, Armed: sc.Next, Next: nextUndecided(rule, sc, sc.Next)},
		}}})
		return
	}
	p.propose(sc, verdict(rule, sc, p.now(sc.Trigger.TickClock())))
}

// propose adds the command that decides the armed tick of sc.
func (p *preparation) propose(sc *store.Schedule, t *store.TickCommand) {
	p.ticks++
	p.d.armed[sc.Number] = deciding
	if t.Nominal != 0 {
		t.Run = p.mint(t.Nominal)
	}
	p.add(store.Command{Kind: store.KindTick, Tick: t})
	if t.Nominal != 0 && !sc.Contended() {
		p.fresh = append(p.fresh, freshTick{t.Run, sc, t.Nominal + t.Delay})
	}
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
			m.Ticks = append(m.Ticks, store.RearmTick{Schedule: sc.ID, Version: sc.Version, Armed: sc.Next, Next: next})
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
		delete(d.rules, sc.Number)
		for _, kind := range questionKinds {
			if a := d.questions[askKey{sc.Number, kind}]; a != nil {
				a.outdated = true
			}
		}
		d.ids[sc.Number] = sc.ID
		d.recount = append(d.recount, sc.Number)
	}
}

// countAnew has the state arm the ticks that come now that a calendar was changed.
// A tick that is due stays armed: it came before the change.
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
			m.Ticks = append(m.Ticks, store.RearmTick{Schedule: sc.ID, Version: sc.Version, Armed: sc.Next, Next: next})
		}
	}
	d.recount = left
	if len(m.Ticks) > 0 {
		p.add(store.Command{Kind: store.KindRearm, Rearm: m})
	}
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
	put.Next = rule.Next(now)
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

// pruneEvery is how often the history's bounds are looked at.
const pruneEvery = 10 * time.Second

// prune drops the history that is over its bounds, the oldest first, and forgets
// ended sessions that hold nothing and queues that were merely used.
func (p *preparation) prune() {
	for name, q := range p.d.queues {
		if q.idle() {
			delete(p.d.queues, name)
		}
	}
	keep := p.d.cfg.Retention
	segments := p.st.Segments()
	var rows [2]int64 // by store.SegmentKind
	var bytes int64
	for _, s := range segments {
		rows[s.Kind] += s.Rows
		bytes += s.Bytes
	}
	most := [...]int64{store.RunSegment: keep.MaxRuns, store.TickSegment: keep.MaxTicks}
	drop := new(store.Prune)
	for _, s := range segments {
		old := keep.MaxAge > 0 && p.elapsed-s.Last > int64(keep.MaxAge)
		many := most[s.Kind] > 0 && rows[s.Kind]-s.Rows >= most[s.Kind]
		big := keep.MaxBytes > 0 && bytes-s.Bytes >= keep.MaxBytes
		if !old && !many && !big {
			continue
		}
		drop.Segments = append(drop.Segments, s.Key())
		bytes -= s.Bytes
		rows[s.Kind] -= s.Rows
	}
	drop.Schedules = p.deletedOver()
	if len(drop.Segments)+len(drop.Schedules) > 0 || p.st.UniquesOver() {
		p.add(store.Command{Kind: store.KindPrune, Prune: drop})
	}
	p.forgetSessions()
}

func (p *preparation) forgetSessions() {
	d := p.d
	if len(d.dead) == 0 {
		return
	}
	holds := make(map[uint64]bool)
	for _, l := range d.leases {
		if d.dead[l.session] {
			holds[l.session] = true
		}
	}
	for id := range d.dead {
		if !holds[id] {
			p.add(store.Command{Kind: store.KindEndSession, End: &store.EndSession{ID: id}})
		}
	}
}
