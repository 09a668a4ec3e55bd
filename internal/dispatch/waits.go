package dispatch

import (
	"github.com/escapement-go/scheduler/store"
)

// maxStarts bounds the waiting starts of a schedule that one command begins.
const maxStarts = 16

// armWait sets the timer of the first of a schedule's waiting starts, if it can
// start then as far as is known.
func (d *Dispatcher) armWait(sc *store.Schedule, elapsed int64) {
	at, armed := d.waits[sc.Number]
	if len(sc.Waiting) == 0 || sc.Paused || sc.Room() == 0 {
		if armed {
			d.unwait(sc.Number)
		}
		return
	}
	due := elapsed
	if next := sc.Waiting[0].At; next > elapsed {
		due = next + releaseAhead // nothing starts early
	}
	if armed && at != deciding && at <= due {
		return
	}
	d.unwait(sc.Number)
	d.waits[sc.Number] = due
	d.ids[sc.Number] = sc.ID
	t := tickTimer(sc.Number)
	t.kind = startDue
	d.timers[store.Elapsed].Set(due, t)
}

// unwait forgets the timer of a schedule's waiting starts, which stays behind.
func (d *Dispatcher) unwait(number uint64) {
	if at, armed := d.waits[number]; armed && at != deciding {
		d.stale++
	}
	delete(d.waits, number)
}

// freed looks for what waited for the end of a run.
func (d *Dispatcher) freed(st *store.State, r *store.Run) {
	if r.More == nil || r.More.Schedule == "" {
		return
	}
	if sc := st.Schedule(r.More.Schedule); sc != nil && len(sc.Waiting) > 0 {
		d.armWait(sc, st.Meta().Elapsed)
	}
}

// start begins what of a schedule waits for its turn and has it.
func (p *preparation) start(number uint64, due int64) {
	d := p.d
	if d.waits[number] != due {
		d.stale-- // it has been decided, or moved
		return
	}
	delete(d.waits, number)
	sc := p.st.Schedule(d.ids[number])
	if sc == nil || sc.Number != number || len(sc.Waiting) == 0 || sc.Paused || sc.Room() == 0 {
		return
	}
	if sc.Waiting[0].At > p.elapsed { // one before it has started meanwhile
		d.armWait(sc, p.elapsed)
		return
	}
	rule := p.startRule(sc)
	if rule == nil {
		if d.asks(sc) {
			d.waits[number] = due // its timer comes with the answer
		}
		return
	}
	p.ticks++
	d.waits[number] = deciding
	p.add(store.Command{Kind: store.KindStart, Start: p.starts(rule, sc)})
}

// startRule returns a rule that knows the ticks of what has its turn, nil if there is
// none, or not yet.
func (p *preparation) startRule(sc *store.Schedule) Rule {
	if !p.d.asks(sc) {
		rule, err := p.d.rule(p.st, sc)
		if err != nil {
			return nil
		}
		return rule
	}
	if w := sc.Waiting[0]; w.Kind == store.WaitManual || w.From == w.To {
		return listed{w.From}
	}
	a := p.d.awaited(p.st, sc, AskStarts)
	if a == nil {
		return nil
	}
	return listed(a.Ticks)
}

// starts makes the command that begins the first of a schedule's waiting starts.
func (p *preparation) starts(rule Rule, sc *store.Schedule) *store.StartCommand {
	w := sc.Waiting[0]
	c := &store.StartCommand{Schedule: sc.ID, Wait: w}
	if w.Kind == store.WaitManual {
		c.Ticks = []store.RunNow{{Run: w.Run}}
		return c
	}
	n := min(sc.Room(), maxStarts)
	if w.Pace > 0 {
		n = 1
	}
	at := w.From
	for at != 0 && at <= w.To && len(c.Ticks) < n {
		c.Ticks = append(c.Ticks, store.RunNow{Nominal: at, Run: p.mint(at)})
		at = rule.Next(at)
	}
	if at != 0 && at <= w.To {
		c.Left = at
	}
	return c
}

// startRefused decides a refused start anew.
func (d *Dispatcher) startRefused(st *store.State, c *store.StartCommand, res *store.Result) {
	sc := st.Schedule(c.Schedule)
	if sc == nil || d.waits[sc.Number] != deciding {
		return
	}
	delete(d.waits, sc.Number)
	if res.Code == store.CodeInvalid { // deciding it again would end the same way
		d.cfg.Logger.Error("start refused as invalid, what waits stands still", keySchedule, sc.ID)
		return
	}
	d.armWait(sc, st.Meta().Elapsed)
}
