package dispatch

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// Applied follows what an applied entry changed; b may be an entry that this leader
// did not propose. Called under the state's lock.
func (d *Dispatcher) Applied(st *store.State, b *store.Batch, results []store.Result, events []store.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.leading {
		return
	}
	d.takeBack(st, b, results)
	meta := st.Meta()
	wall, elapsed := meta.Wall, meta.Elapsed
	var grants map[*worker][]Grant
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case store.EventEnqueued, store.EventRescheduled:
			if e.Fence != 0 {
				d.ended(e)
			}
			if st.Newest(e.Run) { // else a later event of the entry tells
				d.arm(e.Run, wall, elapsed)
			}
		case store.EventLeased:
			d.leases[e.Run.ID] = d.granted(e)
			d.unwatch(e.Run)
			if !st.Newest(e.Run) {
				continue
			}
			w := d.workers[e.Session]
			if w == nil { // detached while the lease was on its way
				d.orphan(st, e.Run, elapsed)
				continue
			}
			if grants == nil {
				grants = make(map[*worker][]Grant)
			}
			grants[w] = append(grants[w], Grant{Run: e.Run, In: d.untilDue(e.Run)})
		case store.EventFinished:
			d.unwatch(e.Run)
			d.finished(e)
			d.freed(st, e.Run)
		default:
			d.configured(st, e)
		}
	}
	for w, g := range grants {
		w.Assign(g)
	}
	d.compact(st, wall, elapsed)
	d.poke() // without an event too: what was taken back may let others go
}

// configured follows an event of something other than a run.
func (d *Dispatcher) configured(st *store.State, e *store.Event) {
	switch e.Kind {
	case store.EventScheduleSet:
		// As it is after the entry: a run of it that ended later in the entry has
		// replaced the record without an event.
		if sc := st.Schedule(e.Schedule.ID); sc != nil && sc.Number == e.Schedule.Number {
			if d.waits[sc.Number] == deciding {
				delete(d.waits, sc.Number)
			}
			d.armTick(st, sc)
			d.armWait(sc, st.Meta().Elapsed)
			if sc.Pause.To == st.Meta().Wall && sc.Trigger.TickClock() == store.Wall {
				d.rearm = append(d.rearm, sc.Number) // the clock may have been set back in its pause
			}
		}
	case store.EventScheduleGone:
		d.disarm(e.Schedule.Number)
		d.unwait(e.Schedule.Number)
		delete(d.rules, e.Schedule.Number)
		delete(d.ids, e.Schedule.Number)
		for _, kind := range questionKinds {
			delete(d.questions, askKey{e.Schedule.Number, kind})
		}
	case store.EventCalendarSet:
		d.calendarSet(st, e.Calendar.Name)
	case store.EventQueueSet:
		q := d.queue(e.Queue.Name)
		q.limit, q.paused = e.Queue.Limit, e.Queue.Paused
		q.changed()
	case store.EventSessionOpened, store.EventClusterSet:
		d.opened(st)
		d.askSoon()
	case store.EventSessionEnded:
		delete(d.dead, e.Session)
	default: // of a run, or of no concern here
	}
}

// Dropped tells that a batch was not, or not surely, committed: what it reserved
// is decided anew from the state. Called under the state's lock.
func (d *Dispatcher) Dropped(st *store.State) {
	d.mu.Lock()
	leading := d.leading
	d.mu.Unlock()
	if leading {
		d.Lead(st, true)
	}
}

// granted makes the lease of an EventLeased, keeping the reservation's sums if
// this dispatcher made one.
func (d *Dispatcher) granted(e *store.Event) lease {
	l, reserved := d.leases[e.Run.ID]
	if !reserved || l.session != e.Session {
		d.free(e.Run.ID)
		l = lease{session: e.Session, queue: e.Run.Spec.Queue}
		d.queue(l.queue).leased++
		if w := d.workers[e.Session]; w != nil {
			w.held++
		}
	}
	l.fence = e.Fence
	return l
}

// takeBack undoes reservations of leases, and decisions of ticks, that the state
// refused, and looks again at what a change of a calendar has overtaken.
func (d *Dispatcher) takeBack(st *store.State, b *store.Batch, results []store.Result) {
	for i := range min(len(b.Commands), len(results)) {
		c, res := &b.Commands[i], &results[i]
		switch {
		case c.Lease != nil && (res.Code != store.OK || res.Each != nil):
			d.leaseRefused(st, c.Lease, res)
		case c.Tick != nil && res.Code != store.OK:
			d.tickRefused(st, c.Tick, res)
		case c.Start != nil && res.Code != store.OK:
			d.startRefused(st, c.Start, res)
		case c.Rearm != nil:
			d.rearmRefused(st, c.Rearm)
		case c.Schedule != nil && res.Code == store.OK && !c.Schedule.Keep && c.Schedule.Canary == nil:
			d.overtaken(st, c.Schedule)
		}
	}
}

func (d *Dispatcher) leaseRefused(st *store.State, l *store.Lease, res *store.Result) {
	meta := st.Meta()
	for j, id := range l.Runs {
		if res.Code == store.OK && res.Each[j] == store.OK {
			continue
		}
		held, ok := d.leases[id]
		if !ok || held.fence != 0 {
			continue
		}
		d.free(id)
		if r := st.LiveRun(id); r != nil && r.State == store.Scheduled {
			d.arm(r, meta.Wall, meta.Elapsed)
		}
	}
}

func (d *Dispatcher) tickRefused(st *store.State, t *store.TickCommand, res *store.Result) {
	sc := st.Schedule(t.Schedule)
	if sc == nil || d.armed[sc.Number] != deciding {
		return
	}
	if res.Code == store.CodeInvalid { // deciding it again would end the same way
		d.cfg.Logger.Error("tick refused as invalid, its schedule stands still", keySchedule, sc.ID)
		return
	}
	delete(d.armed, sc.Number)
	d.armTick(st, sc)
}

// rearmRefused decides anew those armed ticks whose time had come and that were not moved.
func (d *Dispatcher) rearmRefused(st *store.State, m *store.Rearm) {
	for i := range m.Ticks {
		t := &m.Ticks[i]
		if sc := st.Schedule(t.Schedule); sc != nil && sc.Next == t.Armed && d.armed[sc.Number] == deciding {
			delete(d.armed, sc.Number)
			d.armTick(st, sc)
		}
	}
}

// overtaken has a schedule that was set find its next tick anew, if a calendar was changed
// since that was found.
func (d *Dispatcher) overtaken(st *store.State, put *store.PutSchedule) {
	if put.Calendars == st.CalendarsOf(&put.Schedule) {
		return
	}
	if sc := st.Schedule(put.Schedule.ID); sc != nil {
		d.recountOf(sc)
	}
}

func (d *Dispatcher) untilDue(r *store.Run) time.Duration {
	wall, elapsed := d.cfg.Now()
	if r.Clock == store.Wall {
		return time.Duration(r.Due - wall)
	}
	return time.Duration(r.Due - elapsed)
}

// ended frees a lease that a report or a command has ended, and tells the worker
// unless that was its own report.
func (d *Dispatcher) ended(e *store.Event) {
	if l, ok := d.leases[e.Run.ID]; ok && l.fence == e.Fence {
		d.release(e.Run.ID, l)
	}
	if w := d.workers[e.Session]; w != nil && (e.Outcome == store.OutcomeCanceled || e.Outcome == store.OutcomeCrashed) {
		w.Cancel(e.Run, e.Fence)
	}
}

func (d *Dispatcher) finished(e *store.Event) {
	if e.Fence == 0 {
		d.stale++ // its timer, if it has one, is not wanted any more
		return
	}
	d.ended(e)
}

// opened gives up the leases of sessions that a newer one of their node has
// ended, and their workers, if they still have one.
func (d *Dispatcher) opened(st *store.State) {
	for ses := range st.Sessions() {
		if ses.Ended && !d.dead[ses.ID] {
			d.dead[ses.ID] = true
			if d.workers[ses.ID] != nil {
				delete(d.workers, ses.ID)
				d.muster()
			}
			_, elapsed := d.cfg.Now()
			for id, l := range d.leases {
				if l.session == ses.ID && l.fence != 0 {
					d.orphans = append(d.orphans, orphan{id, l.fence, ses.ID, elapsed})
				}
			}
		}
	}
}

// arm sets the timers of a waiting run, or puts it into its lane if it is due.
func (d *Dispatcher) arm(r *store.Run, wall, elapsed int64) {
	now := elapsed
	if r.Clock == store.Wall {
		now = wall
	}
	if r.Due-now <= releaseAhead {
		d.enter(r, wall, elapsed)
	} else {
		d.timers[r.Clock].Set(r.Due, timer{r.ID, runDue})
	}
	if m := r.More; m != nil && m.ExpireAt != 0 && r.Attempt == 0 {
		d.unwatch(r)
		at := min(m.ExpireAt, math.MaxInt64-releaseAhead) + releaseAhead // nothing expires early
		d.expiries[r.ID] = d.timers[store.Elapsed].Set(at, timer{r.ID, runExpires})
	}
}

// unwatch drops the timer of a run that does not wait any more: it could be far
// in the future.
func (d *Dispatcher) unwatch(r *store.Run) {
	if r.More == nil || r.More.ExpireAt == 0 {
		return
	}
	if h, watched := d.expiries[r.ID]; watched {
		d.timers[store.Elapsed].Cancel(h)
		delete(d.expiries, r.ID)
	}
}

// compact rebuilds the timing wheels once more than half of their timers belong
// to runs that have ended or moved. Timers are not looked up to be canceled: that
// would cost a map from run to timer for all, to serve the few.
func (d *Dispatcher) compact(st *store.State, wall, elapsed int64) {
	if d.stale < 1024 || d.stale < (d.timers[0].Len()+d.timers[1].Len())/2 {
		return
	}
	d.stale = 0
	d.timers[store.Elapsed].Reset(elapsed)
	d.timers[store.Wall].Reset(wall)
	clear(d.expiries)
	d.lanes = make(map[laneKey]*lane)
	d.muster()
	for r := range st.LiveRuns() {
		if _, out := d.leases[r.ID]; r.State == store.Scheduled && !out {
			d.arm(r, wall, elapsed)
		}
	}
	clear(d.armed)
	clear(d.waits)
	d.armAll(st, elapsed)
}

func tickTimer(number uint64) timer {
	t := timer{kind: tickDue}
	binary.BigEndian.PutUint64(t.id[:], number)
	return t
}

func tickNumber(id store.RunID) uint64 { return binary.BigEndian.Uint64(id[:]) }
