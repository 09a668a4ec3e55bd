package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/store"
)

// control changes schedules, calendars and queues.
func (c *client) control(ctx context.Context) {
	s := c.life.s
	kind := c.rng.IntN(12)
	if c.life.world.o.NoSchedules {
		kind %= 7 // none that is about schedules which are not there
	}
	switch kind {
	case 0:
		id := c.one(pausable, madeUp, filled, queued)
		c.do(Call{Op: OpPause, Target: id}, func() error { return s.PauseSchedule(ctx, id) })
	case 1, 2:
		id := c.one(pausable, madeUp, filled, queued)
		c.do(Call{Op: OpResume, Target: id}, func() error { return s.ResumeSchedule(ctx, id) })
	case 3, 4:
		c.edit(ctx)
	case 5:
		if c.rng.IntN(2) == 0 {
			id := c.one(editedAt, editedBy, editedIn)
			c.do(Call{Op: OpDelete, Target: id}, func() error { return s.DeleteSchedule(ctx, id) })
			return
		}
		c.do(Call{Op: OpQueue, Target: narrow}, func() error { return s.PauseQueue(ctx, narrow) })
	case 6:
		c.do(Call{Op: OpQueue, Target: narrow}, func() error { return s.ResumeQueue(ctx, narrow) })
	case 7:
		c.rollback(ctx)
	case 8:
		c.backfill(ctx)
	case 9:
		c.close(ctx)
	default:
		c.trigger(ctx)
	}
}

func (c *client) one(ids ...string) string { return ids[c.rng.IntN(len(ids))] }

// edit changes a schedule, or makes it.
func (c *client) edit(ctx context.Context) {
	c.n++
	work := Work{Kind: Plain, N: c.n}
	var trigger scheduler.Trigger
	var opts []scheduler.ScheduleOption
	id := c.one(editedAt, editedBy, editedIn)
	switch id {
	case editedAt:
		trigger = scheduler.Cron(fmt.Sprintf("*/%d * * * * *", 1+c.rng.IntN(4)))
	case editedBy:
		trigger = scheduler.Every(time.Duration(500+c.rng.IntN(5)*250) * time.Millisecond)
	default:
		trigger = scheduler.Every(time.Second)
		work = Work{Kind: c.kind(Slow, Stubborn), N: c.n, For: 1500 * time.Millisecond}
		opts = append(opts, scheduler.Overlap([]scheduler.OverlapPolicy{
			scheduler.OverlapSkip, scheduler.OverlapAllow, scheduler.OverlapReplace, scheduler.OverlapQueue(1 + c.rng.IntN(3)),
		}[c.rng.IntN(4)]))
	}
	c.do(Call{Op: OpSchedule, Target: id}, func() error { return c.life.s.Schedule(ctx, id, trigger, job.With(work), opts...) })
}

func (c *client) kind(kinds ...Kind) Kind { return kinds[c.rng.IntN(len(kinds))] }

// rollback takes a schedule back to one of its versions.
func (c *client) rollback(ctx context.Context) {
	id, version := c.one(editedAt, editedBy, editedIn), 1+c.rng.IntN(4)
	c.do(Call{Op: OpRollback, Target: id, N: version}, func() error { return c.life.s.RollbackSchedule(ctx, id, version) })
}

// backfill has ticks run that were missed.
func (c *client) backfill(ctx context.Context) {
	to := time.Now().Round(0).Add(-time.Second)
	call := Call{Op: OpBackfill, Target: filled, From: to.Add(-time.Duration(5+c.rng.IntN(30)) * time.Second), To: to}
	pace := time.Duration(c.rng.IntN(3)) * 50 * time.Millisecond
	n := 0
	answered := c.do(call, func() (err error) {
		n, err = c.life.s.Backfill(ctx, call.Target, call.From, call.To, pace)
		return err
	})
	if answered.number >= 0 && answered.err == nil {
		c.life.world.rec.end(answered.number, func(k *Call) { k.N = n })
	}
}

// close sets the calendar to a stretch that begins soon, and has a schedule keep to it.
func (c *client) close(ctx context.Context) {
	s := c.life.s
	from := time.Now().Round(0).Add(time.Duration(c.rng.IntN(8)) * time.Second)
	calendar := scheduler.Blackout(from, from.Add(time.Duration(1+c.rng.IntN(5))*time.Second))
	answered := c.do(Call{Op: OpCalendar, Target: holidays}, func() error { return s.SetCalendar(ctx, holidays, calendar) })
	if answered.err == nil {
		c.do(Call{Op: OpSchedule, Target: closed}, func() error {
			return s.Schedule(ctx, closed, scheduler.Cron("* * * * * *", scheduler.Except(scheduler.NamedCalendar(holidays))),
				job.With(Work{Kind: Plain, N: 10}), scheduler.Overlap(scheduler.OverlapAllow))
		})
	}
}

// trigger starts a run of a schedule by hand.
func (c *client) trigger(ctx context.Context) {
	id := c.one(skipping, queued, replaced, pausable, filled, editedBy, editedIn)
	var run scheduler.RunID
	answered := c.do(Call{Op: OpTrigger, Target: id}, func() (err error) {
		run, err = c.life.s.Trigger(ctx, id)
		return err
	})
	if answered.number < 0 || run == (scheduler.RunID{}) {
		return
	}
	c.life.world.rec.end(answered.number, func(k *Call) { k.Runs = []store.RunID{run} })
	c.life.world.remember([]scheduler.RunID{run})
}
