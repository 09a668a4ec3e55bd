// Package store knows what is true: the model of runs, schedules and their
// ledger, the commands that may change it, and the deterministic state machine
// that applies them.
//
// The package is pure. [State.Apply] reads no clock, no randomness, no disk and
// no environment; times, jitter, next ticks and identifiers are stamped into the
// commands by whoever proposes them. Two states that have applied the same
// batches are equal, and [State.Digest] says so.
//
// # Immutable records
//
// A [Run] or [Schedule] reachable from a State is never modified: a change makes
// a new record and replaces the pointer. Readers may therefore keep a record
// they were handed for as long as they like, a flush is a consistent picture of
// one log index without copying anything, and events carry records themselves.
//
// A schedule to which nothing is about to happen rests: only its encoded form is
// kept, once it is durable, and a record is made of it when somebody asks.
//
// # Two clocks
//
// Elapsed only grows and is the clock of delays, backoff, leases, intervals,
// expiry and retention. Wall is the time of day of the proposer and is the clock
// of cron expressions and absolute times; it may step either way. Both are int64
// nanoseconds since the Unix epoch; elapsed starts at the wall time of the first
// entry ever applied, so that it reads as a plausible time of day.
//
// # Disk and wire
//
// The structs of this package are their own wire and disk form, encoded as
// MessagePack maps with short, stable field names. See [FormatLevel] for how the
// form may grow.
package store
