package sim

import (
	"time"

	"github.com/escapement-go/scheduler"
)

// The queues that the load plays with, and the one that it leaves alone. Each life of
// a node sets another limit of the narrow one, up to narrowLimit.
const (
	narrow      = "narrow"
	narrowLimit = 4
	steadyQueue = "steady"
)

// The schedules that the load plays with. Those that are edited are deleted and made
// again, too; each of the others has one policy that is judged.
const (
	pausable = "pausable"
	skipping = "skip"
	queued   = "queued"
	replaced = "replaced"
	madeUp   = "made up"
	filled   = "filled"
	closed   = "closed" // while its calendar says so
	editedAt = "edited cron"
	editedBy = "edited interval"
	editedIn = "edited overlap"
)

// holidays is the calendar of the schedule that closes.
const holidays = "holidays"

// How many starts wait at most, how many ticks are made up, and how far apart.
const (
	queueMax   = 3
	madeUpMax  = 4
	madeUpPace = 300 * time.Millisecond
)

// plans are the schedules whose triggers stay as they are.
func plans() map[string]Plan {
	const window = 100 * time.Millisecond
	return map[string]Plan{
		"steady": {Every: time.Second, Steady: true, Window: window},
		"wall":   {Every: 2 * time.Second, Wall: true, Steady: true, Window: window},
		"none":   {Every: 3 * time.Second, Wall: true, Steady: true, Window: window},
		skipping: {Every: 700 * time.Millisecond},
		pausable: {Every: 1500 * time.Millisecond},
		queued:   {Every: 900 * time.Millisecond},
		replaced: {Every: 1100 * time.Millisecond},
		madeUp:   {Every: time.Second, Wall: true},
		filled:   {Every: 2 * time.Second, Wall: true},
	}
}

// options are what every life of a node is made with.
func (l *life) options() []scheduler.Option {
	steady := func(n int) scheduler.Call {
		return job.With(Work{Kind: Plain, N: n}, scheduler.InQueue(steadyQueue))
	}
	slow := func(n int, d time.Duration) scheduler.Call { return job.With(Work{Kind: Slow, N: n, For: d}) }
	allow := scheduler.Overlap(scheduler.OverlapAllow)
	none := scheduler.Misfire(scheduler.CatchUp{Policy: scheduler.CatchUpNone})
	opts := []scheduler.Option{
		scheduler.WithHandler(job, l.handle),
		scheduler.WithConcurrency(64),
		scheduler.WithQueue(narrow, scheduler.QueueLimit(uint32(1+l.node.lives%narrowLimit))),
	}
	if l.world.o.NoSchedules {
		return opts
	}
	return append(opts,
		scheduler.WithSchedule("steady", scheduler.Every(time.Second), steady(1), allow),
		scheduler.WithSchedule("wall", scheduler.Cron("*/2 * * * * *"), steady(2), allow),
		scheduler.WithSchedule("none", scheduler.Cron("*/3 * * * * *"), steady(3), allow, none),
		scheduler.WithSchedule(skipping, scheduler.Every(700*time.Millisecond), slow(4, time.Second)),
		scheduler.WithSchedule(pausable, scheduler.Every(1500*time.Millisecond), job.With(Work{Kind: Flaky, N: 5})),
		scheduler.WithSchedule(queued, scheduler.Every(900*time.Millisecond), slow(6, 1200*time.Millisecond),
			scheduler.Overlap(scheduler.OverlapQueue(queueMax))),
		scheduler.WithSchedule(replaced, scheduler.Every(1100*time.Millisecond), slow(7, 1600*time.Millisecond),
			scheduler.Overlap(scheduler.OverlapReplace)),
		scheduler.WithSchedule(madeUp, scheduler.Cron("* * * * * *"), job.With(Work{Kind: Plain, N: 8}), allow,
			scheduler.Misfire(scheduler.CatchUp{Policy: scheduler.CatchUpAll, MaxCount: madeUpMax, Pace: madeUpPace})),
		scheduler.WithSchedule(filled, scheduler.Cron("*/2 * * * * *"), job.With(Work{Kind: Plain, N: 9}), allow, none),
	)
}
