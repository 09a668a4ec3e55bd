// Package seglog knows how a Raft log is kept in preallocated segment files, so that an append is one write and one
// fdatasync.
//
// [Log] implements raft.LogStore, raft.StableStore and raft.MonotonicLogStore. What it promises:
//
//   - When StoreLogs returns nil, all its entries survive loss of power. When it does not, or the process dies within
//     it, the next Open shows the entries before it, and those of this one call all or not at all.
//   - When Set or DeleteRange returns nil it survives loss of power; interrupted, it has happened or it has not.
//   - What is read is what was stored, or a [CorruptError]: all is checked at Open and again by each GetLog.
//   - After a failed write or sync nothing more is written until the log is opened anew ([ErrPoisoned]).
//
// It relies on two things: a sync that succeeds is durable, and a disk sector of 512 bytes is written whole or not at
// all. DESIGN.md beside this file has the format, how a torn write is told from damage, and what was rejected.
package seglog
