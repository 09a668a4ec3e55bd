// Package session knows how a node's pool works for a dispatcher on another node: the worker session, over one
// connection.
//
//	worker: Client.Keep                                      leader: Server.Serve
//	     │                                                            │
//	     │── attach: session, tasks, capacity, what it holds ────────▶│ Dispatcher.Attach; looks at the state
//	     │◀─ attached: term, what of that has ended  │ refused ───────│
//	     │                                                            │
//	     │◀─ assign: runs, when they are due ─────────────────────────│ Worker.Assign
//	     │◀─ cancel: leases that have ended ──────────────────────────│ Worker.Cancel
//	     │── capacity ───────────────────────────────────────────────▶│ Dispatcher.SetCapacity
//	     │── ping: when it is sent ──────────────────────────────────▶│ still leads? session still lives?
//	     │◀─ pong: that, and what the leader's clocks say │ refused ──│
//	     │── retire ─────────────────────────────────────────────────▶│ Dispatcher.Retire; awaits what is in the log
//	     │◀─ assign …, then retired ──────────────────────────────────│
//	     │                                                            │ connection ends, or silence: Dispatcher.Detach
//
// How attempts ended does not come this way: a report is a command, and goes to the log like any other.
//
// # States of the worker
//
//	            ┌── pause, new leader, new session ──┐
//	            ▼                                    │
//	Keep ──▶ dialing ── conn ──▶ attaching ── attached ──▶ in contact ── error, silence, new leader ──▶ dialing
//	            ▲                    │
//	            └── error, refused ──┘
//
// The worker holds on to what it has through all of them. The state is the truth about leases, and is compared each time
// the worker is attached, so that nothing has to be acknowledged one by one: what the worker holds and the state does not
// grant it any more is ended before anything may be started again; what the state grants it and it does not hold was
// lost on the way, and is assigned again by the dispatcher. An assignment may so come twice; the pool executes it once.
//
// # When attempts may be started
//
// A leader gives up a worker's leases a while after it has lost contact, and others execute the runs. A worker that is
// cut off must have stopped starting attempts by then. It counts from when it has sent a ping (or attach) that was
// answered: the leader had the worker attached at that moment or later. The bound is that plus TTL, which is shorter than
// the leader's patience by more than clocks drift apart meanwhile; a new leader's patience begins when it leads. What
// runs by then goes on, and keeps its lease if contact is regained before the leader gives it up; else its context ends
// with [worker.ErrLeaseLost] when the worker is attached again.
//
// A node that led, has been deposed and does not know it yet would take leases for ended that its successor has granted.
// So a worker remembers the highest term of a leader it has been attached to, and follows no lower one.
//
// # When attempts are due
//
// Nothing starts early by the leader's clock. An assignment says when it is due on the leader's steady clock, on which it
// was counted when it was granted, so waiting for the connection costs no time. What the worker must know for that is
// how far that clock is ahead of its own, and the most that is sure of it is a lower bound: each frame from the leader
// carries when it was written, and it arrived later. The best bound is that of the frame that was fastest; it loses 1 ns
// in 1,000, for the clocks may drift. So an attempt starts late by the fastest one-way trip of late, not by that of the
// frame that brought it. (Half of a round trip would be an estimate, not a bound: ways need not be equally long.)
//
// # Frames
//
// Four bytes of the body's length, big-endian, one byte of kind, the body (msgp). No more than 8 MiB. Anything else is
// [ErrProtocol] and ends the connection. Runs travel as the state has them, with their specs listed once a frame.
//
// # Who ends what
//
// [Server.Serve] and [Client.Keep] await all goroutines they have started: on each side one that reads, one that writes,
// one that closes the connection when its context ends. The dispatcher calls under its locks, so what it says is only put
// into a queue. A worker that does not read is given up by a deadline of the write, long before the queue is at its bound.
package session
