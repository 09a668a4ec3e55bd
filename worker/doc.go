// Package worker executes attempts: a [Pool] takes leased runs, starts each one when it is due, never earlier, and
// reports how it ended until the report is committed.
//
// # The life of an attempt
//
//	Assign ─▶ waiting ── due ──▶ ready ── slot free ──▶ running ── handler returns ──▶ reported ── acked ──▶ forgotten
//	             │                 │                       ▲  │
//	             │                 │                resume │  ▼ Yield
//	             │                 │                     (waits for another run, without a slot)
//	             └─ Cancel, Drain ─┴─ held up too long ──▶ reported as released or canceled
//
// Waiting attempts share one exact alarm, ready ones wait in line by priority class, and handlers run on goroutines
// that are kept: a run costs neither a goroutine nor a timer of its own.
//
// # Slots
//
// At most Config.Slots handlers run at a time. Of the slots an eighth, and at least one if there are four or more, is
// kept for runs of [store.Critical]: the others may use Slots less that many. Critical work therefore starts even while
// long ordinary work holds every slot it can get. A handler that waits for another run gives its slot back meanwhile
// ([Execution.Yield]), so that parents never keep their own children from starting.
//
// Among the ready, a higher class goes first; but one that has waited for 50 ms goes before all that wait less, so that
// a steady stream of a higher class cannot hold it for ever. Which run comes to this pool at all, and in which order, is
// not decided here.
//
// The pool asks for more than it has slots for while its handlers are short ([Pool.Capacity]), so that slots never wait
// for a commit. If that was a mistake, because handlers became long, the runs that have waited for more than 100 ms are
// handed back, except for as many as were started during the last 100 ms: no run hides behind a slow one while
// another worker could have it. The rule is the same for a pool that is the only one; its runs then wait at the leader.
//
// # How an attempt ends
//
// What the handler returns names the outcome: nil is success, an error a failure, and [Permanent], [RetryAfter] and
// [Snooze] say more. A panic is a failure with its stack, as is leaving the goroutine by runtime.Goexit. (A panic in a
// goroutine that the handler has started itself ends the process, as in every Go program: nothing can catch it but that
// goroutine.) If the handler's context was ended, the reason has a say, in this order:
//
//	ErrLeaseLost   nothing is reported: the run has another holder
//	ErrCanceled    canceled, whatever the handler returned
//	ErrPreempted   interrupted, unless it returned nil (succeeded), snoozed or panicked
//	ErrShutdown    likewise
//	ErrTimeout     failed with ErrTimeout's text, unless it returned nil (succeeded), snoozed or panicked
//
// # Shutdown
//
// [Pool.Drain] stops starting and hands back at once what has not started; handlers go on until the context of Drain
// ends; then theirs end, for [ErrShutdown], and they get Config.Grace to return; each report is delivered, for which
// the same time again is given once the context has ended. Only if nothing was lost does Drain return nil. It
// may be called any number of times, from any goroutine, before and after [Pool.Run].
package worker
