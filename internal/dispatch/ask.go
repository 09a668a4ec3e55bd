package dispatch

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// A Go trigger may take its time, hang or panic, and may be on another node. So the
// dispatcher never calls one. What it has to know is a [Question], which it asks in
// time, as soon as a tick is armed, and whose answer comes back by [Dispatcher.Told]; it
// decides when it has the answer, and what has to wait for one is late alone. Of what an
// answer says nothing is left to be asked again: it goes into the log.
//
//	tick armed ── Config.Ask ──▶ … ── Told ──▶ the tick is due: decided
//	                             │
//	                             └─ Told with an error: asked again after a pause

// A QuestionKind says what a [Question] asks for.
type QuestionKind uint8

// The kinds of questions. They are sent between nodes and never renumbered.
const (
	AskTick   QuestionKind = 1 + iota // what becomes of the armed tick, and of those after it up to Now
	AskStarts                         // the first ticks of the first waiting start
	AskBack                           // the first tick after Now: the wall clock was set back
	AskAnew                           // the first tick after Now: a calendar was changed
)

var questionKinds = [...]QuestionKind{AskTick, AskStarts, AskBack, AskAnew}

// A Question asks what the Go trigger of a schedule says. It is read-only.
type Question struct {
	Kind QuestionKind
	// Schedule has what an answer depends on, and the exclusions of named calendars in
	// the place of their names.
	Schedule *store.Schedule
	Now      int64 // ns wall
	Fell     bool  // of AskTick: the armed tick is none any more, a calendar has taken it away
}

// An Answer is what a trigger says to a [Question].
type Answer struct {
	// Tick decides the armed tick and those after it, but for the ID of a run; nil if
	// none of those to be decided had come yet.
	Tick *store.TickCommand
	// Next is the tick after the armed one, or the one after Now; 0 if there is none.
	Next int64
	// Ticks are those of AskStarts, in order. Rest tells that there are more.
	Ticks []int64
	Rest  bool
}

// maxListed is how many ticks an answer to AskStarts has at most.
const maxListed = 256

// Answer answers the question by the rule of its schedule. It calls the Go trigger about
// a hundred times after an outage, once for each tick that is to be made up if their
// number is bounded, and a few times else.
func (q *Question) Answer(rule Rule) Answer {
	sc := q.Schedule
	w := &walker{Rule: rule, known: make(map[int64]int64)}
	switch {
	case q.Kind == AskStarts:
		return w.list(sc.Waiting[0])
	case q.Kind != AskTick:
		return Answer{Next: nextUndecided(w, sc, q.Now)}
	case q.Now < sc.Next:
		return Answer{Next: nextUndecided(w, sc, sc.Next)}
	default:
		t, next := decision(w, sc, q.Now, q.Fell)
		return Answer{Tick: t, Next: next}
	}
}

// Valid reports whether the question is one that can be answered.
func (q *Question) Valid() bool {
	return q.Kind >= AskTick && q.Kind <= AskAnew && (q.Kind != AskStarts || len(q.Schedule.Waiting) > 0)
}

// ask is a question and what has come of it.
type ask struct {
	question *Question
	answer   *Answer // nil before it is there
	late     bool    // something waits for the answer, which wakes it
	outdated bool    // the answer, if there is one, does not count any more
	healed   bool    // the answer came after a failure

	failures int
	failed   int64 // ns elapsed of the first failure in a row
	again    int64 // ns elapsed after which it is asked again; 0 while the question is out
	err      error
}

type askKey struct {
	number uint64 // of the schedule
	kind   QuestionKind
}

// ErrSlow is wrapped by the error for a trigger that is still at it: asking again gets
// what it comes to meanwhile.
var ErrSlow = errors.New("it has not answered in time")

// The pause after a question that has failed grows up to askMost; after [ErrSlow] up to
// slowMost, lest the answer comes late.
const (
	askFirst = time.Second
	askMost  = 30 * time.Second
	slowMost = 4 * time.Second
)

// asks reports whether a schedule's trigger is one that has to be asked.
func (d *Dispatcher) asks(sc *store.Schedule) bool {
	return d.cfg.Ask != nil && sc.Trigger.Kind == store.TriggerCustom
}

// asked returns the answer to a question about a schedule, nil as long as it is not
// there. If nobody has asked it yet, it is asked.
func (d *Dispatcher) asked(st *store.State, sc *store.Schedule, kind QuestionKind) *Answer {
	key := askKey{sc.Number, kind}
	a := d.questions[key]
	if a == nil || !a.about(sc) {
		late := a != nil && a.late && a.question.Schedule.Next == sc.Next
		a = &ask{late: late}
		d.questions[key], d.ids[sc.Number] = a, sc.ID
		d.pose(st, sc, kind, a)
	}
	return a.answer
}

// awaited is asked for what cannot go on without the answer: it is looked at again once
// that is there.
func (d *Dispatcher) awaited(st *store.State, sc *store.Schedule, kind QuestionKind) *Answer {
	answer := d.asked(st, sc, kind)
	d.questions[askKey{sc.Number, kind}].late = answer == nil
	return answer
}

// about reports whether the question is still the one to be asked about sc.
func (a *ask) about(sc *store.Schedule) bool {
	was := a.question.Schedule
	switch {
	case a.outdated || was.Version != sc.Version:
		return false
	case a.question.Kind != AskStarts:
		return was.Next == sc.Next && was.Pause == sc.Pause && slices.Equal(was.Decided, sc.Decided)
	case a.answer == nil:
		return was.Waiting[0] == sc.Waiting[0]
	}
	// The list serves for as long as it has enough for the next start.
	w := sc.Waiting[0]
	at, found := slices.BinarySearch(a.answer.Ticks, w.From)
	return found && was.Waiting[0].To == w.To && (!a.answer.Rest || len(a.answer.Ticks)-at > maxStarts)
}

// pose asks a question.
func (d *Dispatcher) pose(st *store.State, sc *store.Schedule, kind QuestionKind, a *ask) {
	wall, _ := d.cfg.Now()
	a.question, a.answer, a.again, a.outdated = NewQuestion(st, sc, kind, wall), nil, 0, false
	a.question.Fell = kind == AskTick && d.fellAway(st, sc)
	d.cfg.Ask(a.question)
}

// NewQuestion makes a question about sc.
func NewQuestion(st *store.State, sc *store.Schedule, kind QuestionKind, now int64) *Question {
	q := &Question{Kind: kind, Now: now, Schedule: &store.Schedule{
		ID: sc.ID, Number: sc.Number, Version: sc.Version, Trigger: sc.Trigger, CatchUp: sc.CatchUp, MaxAge: sc.MaxAge,
		MaxCount: sc.MaxCount, Next: sc.Next, Decided: sc.Decided, Pause: sc.Pause,
	}}
	if kind == AskStarts {
		q.Schedule.Waiting = sc.Waiting[:1:1]
	}
	t := &q.Schedule.Trigger
	t.Except = nil
	for _, x := range sc.Trigger.Except {
		if c := st.Calendar(x.Calendar); x.Calendar != "" && c != nil {
			t.Except = append(t.Except, c.Except...)
		} else {
			t.Except = append(t.Except, x)
		}
	}
	return q
}

// Told gives the answer to a question of [Config].Ask, or says why there is none. It may
// be called from anywhere, and late: an answer that is not wanted any more is ignored.
func (d *Dispatcher) Told(q *Question, answer Answer, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	sc := q.Schedule
	a := d.questions[askKey{sc.Number, q.Kind}]
	if a == nil || a.question != q {
		return
	}
	_, elapsed := d.cfg.Now()
	if err != nil {
		if a.failures == 0 {
			a.failed = elapsed
			d.cfg.Logger.Error("trigger does not answer, its schedule waits", keySchedule, sc.ID, keyTrigger, sc.Trigger.Name, keyError, err)
		}
		a.err = err
		most := askMost
		if errors.Is(err, ErrSlow) {
			most = slowMost
		}
		a.again = elapsed + int64(min(askFirst<<min(a.failures, 10), most))
		a.failures++
		d.askAt = min(d.askAt, a.again)
		d.poke()
		return
	}
	if a.failures > 0 {
		d.cfg.Logger.Info("trigger answers again", keySchedule, sc.ID, keyTrigger, sc.Trigger.Name)
	}
	a.answer, a.healed, a.failures, a.err = &answer, a.failures > 0, 0, nil
	if !a.late {
		return
	}
	a.late = false
	switch q.Kind {
	case AskTick:
		d.held = append(d.held, heldTick{store.Wall, sc.Next, sc.ID})
	case AskStarts:
		if at, armed := d.waits[sc.Number]; armed && at != deciding {
			t := tickTimer(sc.Number)
			t.kind = startDue
			d.timers[store.Elapsed].Set(at, t)
		}
	case AskBack:
		d.rearm = append(d.rearm, sc.Number)
	case AskAnew:
		d.recount = append(d.recount, sc.Number)
	}
	d.poke()
}

// askAgain asks what has failed, if its pause is over.
func (p *preparation) askAgain() {
	d := p.d
	if p.elapsed < d.askAt {
		return
	}
	d.askAt = math.MaxInt64
	for key, a := range d.questions {
		switch {
		case a.again == 0:
			continue
		case a.again > p.elapsed:
			d.askAt = min(d.askAt, a.again)
			continue
		}
		if sc := p.st.Schedule(d.ids[key.number]); sc != nil && sc.Number == key.number && wanted(sc, key.kind) {
			d.pose(p.st, sc, key.kind, a)
		} else {
			delete(d.questions, key)
		}
	}
}

// wanted reports whether an answer would be of use.
func wanted(sc *store.Schedule, kind QuestionKind) bool {
	switch kind {
	case AskTick:
		return !sc.Paused && sc.Next != 0
	case AskStarts:
		return !sc.Paused && len(sc.Waiting) > 0
	default:
		return true
	}
}

// askSoon has what has failed asked again at once: a node has come that may have the
// trigger.
func (d *Dispatcher) askSoon() {
	for _, a := range d.questions {
		if a.again != 0 {
			a.again, d.askAt = 1, 0
		}
	}
}

// Unanswered returns, in no order, the schedules that wait for their Go triggers, each
// with the question that has failed for the longest.
func (d *Dispatcher) Unanswered() []Unanswered {
	d.mu.Lock()
	defer d.mu.Unlock()
	oldest := make(map[uint64]*ask)
	for key, a := range d.questions {
		if was := oldest[key.number]; a.err != nil && (was == nil || a.failed < was.failed) {
			oldest[key.number] = a
		}
	}
	_, elapsed := d.cfg.Now()
	list := make([]Unanswered, 0, len(oldest))
	for _, a := range oldest {
		list = append(list, Unanswered{a.question.Schedule.ID, a.question.Schedule.Trigger.Name, a.err, time.Duration(elapsed - a.failed)})
	}
	return list
}

// Unanswered is a schedule that waits for its Go trigger.
type Unanswered struct {
	Schedule string
	Trigger  string
	Err      error
	For      time.Duration // how long it does
}

// known is a rule that knows an armed tick and the one after it.
type known struct{ armed, next int64 }

func (k known) Next(after int64) int64 {
	if after < k.armed {
		return k.armed
	}
	return k.next
}

func (k known) Last(armed, at int64) int64 {
	if k.next != 0 && k.next <= at {
		return k.next
	}
	return armed
}

// listed is a rule that knows some ticks, in order.
type listed []int64

func (l listed) Next(after int64) int64 {
	if at, _ := slices.BinarySearch(l, after+1); at < len(l) {
		return l[at]
	}
	return 0
}

// Last is not asked of it.
func (listed) Last(armed, _ int64) int64 { return armed }

// walker asks a Go trigger, which is all that a tick costs there, as seldom as can be.
type walker struct {
	Rule
	known map[int64]int64
}

// maxKnown bounds what a walker remembers.
const maxKnown = 1 << 16

func (w *walker) Next(after int64) int64 {
	next, ok := w.known[after]
	if !ok {
		if next = w.Rule.Next(after); len(w.known) < maxKnown {
			w.known[after] = next
		}
	}
	return next
}

// Last goes on tick by tick at first: mostly few were missed.
func (w *walker) Last(armed, at int64) int64 {
	for range 16 {
		next := w.Next(armed)
		if next == 0 || next > at {
			return armed
		}
		armed = next
	}
	return w.Rule.Last(armed, at)
}

// list returns the first ticks of a waiting start.
func (w *walker) list(wait store.Wait) Answer {
	var a Answer
	for at := wait.From; at != 0 && at <= wait.To; at = w.Next(at) {
		if len(a.Ticks) == maxListed {
			a.Rest = true
			break
		}
		a.Ticks = append(a.Ticks, at)
	}
	return a
}

// nthBefore is as the function of that name: it goes forward from a time from which on
// there may be as many, and from an earlier one if there are not.
func (w *walker) nthBefore(armed, last, first int64, n int) int64 {
	before := w.Last(armed, last-1)
	if before >= last {
		return last
	}
	ring := make([]int64, n) // the newest n
	for span := last - before; ; span *= 2 {
		from := first
		if d := span * int64(n); d/int64(n) == span && last-d > first {
			from = last - d
		}
		found := 0
		for at := w.Next(max(from, armed) - 1); at != 0 && at <= last; at = w.Next(at) {
			ring[found%n] = at
			found++
		}
		switch {
		case found >= n:
			return ring[found%n]
		case found > 0 && from == first:
			return ring[0]
		case from == first: // it contradicts itself
			return last
		}
	}
}
