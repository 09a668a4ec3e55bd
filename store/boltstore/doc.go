// Package boltstore keeps a state of package store on disk: in one bbolt file,
// written behind by one flush at a time.
//
// # What is where
//
//	meta        format, state (the position), totals (the sums' own sum)
//	config      the membership as of the position, opaque
//	sums        per bucket: rows, bytes and digest
//	runs        live runs by ID, in blocks
//	schedules, queues, sessions, uniques, tasks, segments, calendars, versions
//	history     a bucket per hour and part: final runs by ID, in blocks
//	ticks       a bucket per day and part: ledger rows by schedule and nominal time
//	journal     a bucket per stretch of log indexes: packed events by index
//
// # Blocks
//
// A row of bbolt costs a search, a node's growth and some fifty bytes; at a hundred
// thousand runs a second that is most of what storing them costs. So runs are packed
// into blocks, each a row under the ID of its first run, and blocks of one bucket never
// overlap: a run is looked for in one block, and a listing reads one after the other.
// A block has up to 4 KB: a few dozen runs. A change among older runs writes one block
// again, so changes in no order cost about what they would if each run had a row.
//
// # What is checked, and when
//
// Each row carries a checksum of its key and content, and each bucket has a row
// count and a digest that does not depend on order. Opening walks the page tree
// and compares the row counts of all buckets, so that bbolt is only ever given a
// file it can read. The digests of live rows, but for versions, are compared when
// the image is loaded. Versions and rows of the history are checked when they are
// read. A damaged block takes
// its runs with it, a few dozen, and a commit that has to change it fails.
//
// A power cut leaves the file at the last commit or at the one before, never
// between: bbolt writes the pages first and the page that points at them last. A
// damaged copy of that last page is the same thing to see as a power cut while it
// was written, and has the same effect: the file opens at the commit before.
//
// # Concurrency
//
// All methods of a [Store] may be called at the same time. Listings read in short
// transactions of their own, so a slow consumer pins nothing: a listing shows
// each row as it was at some moment of the listing.
package boltstore
