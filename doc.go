// Package scheduler is a durable job scheduler that runs inside your process:
// cron, delayed and queued runs, retries and leases that survive crashes, with no
// server beside it.
//
// An application declares tasks ([NewTask]), registers handlers for them
// ([WithHandler]), and asks for runs ([Task.Enqueue]) or schedules them
// ([WithSchedule]). What a call returned for is on disk.
//
//	var SendEmail = scheduler.NewTask[Email, string]("email.send")
//
//	s, err := scheduler.New(
//		scheduler.WithDataDir("data"),
//		scheduler.WithHandler(SendEmail, send),
//	)
//	…
//	err = s.Run(ctx)
//
// # What it promises
//
// An acknowledged call is never lost. Each tick of a schedule has exactly one
// recorded outcome. A run has one valid lease at a time and one accepted result.
// A handler may nevertheless run twice, when its process was lost in the middle
// of it or was cut off: side effects are at least once. [Execution.Fence] is the
// number that lets a store of yours refuse the older of two attempts.
//
// # What handlers return
//
// nil ends the run as succeeded; an error is retried by the task's [Backoff];
// [Permanent], [RetryAfter] and [Snooze] say otherwise; a panic is an error with
// its stack. The handler's context ends with a cause: [ErrTimeout],
// [ErrCanceled], [ErrLeaseLost], [ErrPreempted] or [ErrShutdown].
//
// # Stopping
//
// [Scheduler.Shutdown] starts no more runs, hands back what has not started, lets
// running handlers finish until its context ends, then ends their contexts with
// [ErrShutdown] and gives their runs back without spending a retry, writes every
// result, and closes the folder. Calls are taken until then, for handlers may need
// them; later ones get [ErrClosed]. It is safe to call at any time and more than
// once: the calls share one shutdown, and the context that ends first counts.
package scheduler
