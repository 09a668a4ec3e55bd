package cluster

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// Storage keeps the state on disk, written behind the log. The node owns it from
// [Open] on and closes it in [Node.Shutdown].
//
// The methods are not called concurrently, except that Backup may run beside
// Commit.
type Storage interface {
	// Image returns what was last committed, to be loaded at start. Its Meta is
	// zero if nothing ever was.
	Image() (*store.Image, error)

	// Commit writes f, f.Meta and the configuration as of f.Meta.Index in one
	// durable transaction. After an error nothing of it is kept, and the same
	// flush is committed again later.
	Commit(f *store.Flush, configuration []byte) error

	// Configuration returns what the last Commit or Restore brought, nil if
	// there was none.
	Configuration() []byte

	// Backup writes a consistent copy of everything and returns the position
	// and the configuration that the copy holds.
	Backup(w io.Writer) (store.Meta, []byte, error)

	// Restore replaces everything by a copy that Backup made, or, after an
	// error, leaves everything as it was.
	Restore(r io.Reader) error

	Close() error
}

// A Clock tells the time of day; it may step either way.
type Clock interface {
	Now() time.Time
}

// LogKind names the implementation of the Raft log of a node with a folder.
type LogKind uint8

// The kinds of logs.
const (
	LogSegments LogKind = iota // preallocated segments in the folder log, see package seglog
	LogBolt                    // raft-boltdb: one bbolt file, raft.db
)

// Defaults and bounds of [Setup].
const (
	DefaultHeartbeat     = 500 * time.Millisecond
	DefaultElection      = 500 * time.Millisecond
	DefaultLease         = 400 * time.Millisecond
	DefaultMaxBatchBytes = 64 << 10
	DefaultDepth         = 2
	DefaultTrailingBytes = 256 << 20
	DefaultMaxWaiting    = 16 << 10
	DefaultMaxUnflushed  = 1 << 18

	// MaxEntryBytes bounds one log entry, and so one command or one call of
	// [Node.ProposeMany].
	MaxEntryBytes = 4 << 20
)

// Setup is what a node is made of. ID and Storage are required; every other
// zero field means its default.
type Setup struct {
	// ID is the node's identity in the cluster, for ever.
	ID string

	// Dir is the folder of the log. "" keeps the log in memory: the node forgets
	// everything that Storage does not keep.
	Dir string

	// Cluster makes the node one of several. nil: it is a cluster of its own, without
	// a port. Heartbeat, Election and Lease of Cluster win over those here.
	Cluster *Config

	// OnSession is given the connections of other nodes' worker sessions, on a node
	// that leads. The connection is closed when it returns; it must return when ctx
	// ends.
	OnSession func(ctx context.Context, conn net.Conn, from string)

	// OnAsk answers a question that a node has asked by [Node.Ask], on the node that
	// leads, or of this very node by [Node.AskNode]. It is called without locks.
	OnAsk func(question []byte) ([]byte, error)

	Storage Storage
	Clock   Clock        // default: the system's clock
	Logger  *slog.Logger // default: none
	Log     LogKind

	Heartbeat time.Duration // default 500 ms; must not exceed Election
	Election  time.Duration // default 500 ms
	Lease     time.Duration // default 400 ms; must not exceed Heartbeat

	// MaxBatchBytes bounds what is gathered for one entry (64 KiB). A single
	// larger call makes an entry of its own, up to MaxEntryBytes.
	MaxBatchBytes int

	// Depth is how many entries may be in flight: 1 to 4, default 2.
	Depth int

	// MaxWaiting bounds the calls that wait to be taken into an entry (16,384);
	// further ones get ErrOverloaded.
	MaxWaiting int

	// MaxUnflushed bounds the rows that are not yet in Storage (262,144), and with
	// them the memory that finished runs take: while so many wait, calls that
	// bring in work wait too, as long as their contexts last.
	MaxUnflushed int

	// TrailingBytes is about how much of the log is kept behind what Storage has
	// (256 MiB), for followers that fell behind.
	TrailingBytes int64

	// Prepare is called on the leader, under the state's read lock, just before
	// a batch is encoded: it may append commands to b and stamp what their bodies
	// leave open. Wall and Elapsed of b are set. A batch that was asked for by
	// Kick and stays empty becomes no entry. Prepare must not keep b.
	Prepare func(b *store.Batch, st *store.State)

	// OnApply is called for each entry on the apply goroutine, under the state's
	// write lock: it must be short and may call no method of the node but Now and
	// Kick. b and its commands must not be kept; events are valid during the call,
	// their records for ever. It also runs for the entries that are replayed after a
	// start, before OnLead.
	OnApply func(st *store.State, index uint64, b *store.Batch, results []store.Result, events []store.Event)

	// OnLead is called under the state's write lock when the node begins or ends
	// to lead. It begins once all earlier entries are applied and the clocks are
	// set up. st is the state from then on; Prepare is called only between a
	// beginning and its end.
	OnLead func(st *store.State, leading bool)

	// OnDrop is called under the state's write lock, on a node that leads, after
	// an entry that Prepare has seen was not applied, or not surely: what the host
	// had reserved for it is to be decided anew from st.
	OnDrop func(st *store.State)

	// OnReplace is called under the state's write lock after a copy of a leader's
	// state has taken the place of this node's: there were no events for what it
	// brought.
	OnReplace func()

	// Opened is called once, before any other function here, with the node that
	// Open is about to return.
	Opened func(n *Node)

	Observe Observe

	// OpenLog, if set, opens the log in the place of Dir, which must be empty. It is
	// called again, after Close, when the log has failed; an error that is not
	// [ErrDamaged] means that it still fails. The simulator has disks of its own.
	OpenLog func() (LogStore, error)

	wrapLog func(LogStore) LogStore // tests put faults between raft and the log
}

// Observe are hooks for telemetry. They are called on the node's own goroutines,
// without locks held, and must be short.
type Observe struct {
	// Batch tells that an entry was applied: its commands, its encoded size, and
	// the time from its encoding until its callers were answered.
	Batch func(commands, bytes int, took time.Duration)

	// Flush tells of an attempt to write rows to Storage.
	Flush func(rows int, took time.Duration, err error)

	// Leader tells that the node sees another leader, "" being none.
	Leader func(id string, term uint64)
}

// withDefaults returns the configuration to run with, or all its faults.
func (c Setup) withDefaults() (Setup, error) {
	setDefault(&c.Heartbeat, DefaultHeartbeat)
	setDefault(&c.Election, DefaultElection)
	setDefault(&c.Lease, DefaultLease)
	setDefault(&c.MaxBatchBytes, DefaultMaxBatchBytes)
	setDefault(&c.Depth, DefaultDepth)
	setDefault(&c.MaxWaiting, DefaultMaxWaiting)
	setDefault(&c.MaxUnflushed, DefaultMaxUnflushed)
	setDefault(&c.TrailingBytes, DefaultTrailingBytes)
	if c.Clock == nil {
		c.Clock = systemClock{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	var found faults
	bad := found.bad
	if c.Cluster != nil {
		own := *c.Cluster
		own.Peers, own.Join = slices.Clone(own.Peers), slices.Clone(own.Join)
		setDefault(&own.MaxClockSkew, DefaultMaxClockSkew)
		c.Cluster = &own
		own.Heartbeat, own.Election, own.Lease = cmp.Or(own.Heartbeat, c.Heartbeat), cmp.Or(own.Election, c.Election), cmp.Or(own.Lease, c.Lease)
		c.Heartbeat, c.Election, c.Lease = own.Heartbeat, own.Election, own.Lease
		if err := own.Validate(c.ID); err != nil {
			found = append(found, err)
		}
	} else {
		found.timers(c.Heartbeat, c.Election, c.Lease)
	}
	bad(c.ID == "", "no ID")
	bad(c.Storage == nil, "no Storage")
	bad(c.Log > LogBolt, "unknown kind of log %d", c.Log)
	bad(c.OpenLog != nil && c.Dir != "", "both Dir and OpenLog")
	bad(c.MaxBatchBytes < 0 || c.MaxBatchBytes > MaxEntryBytes, "batch of %d bytes is not in 1…%d", c.MaxBatchBytes, MaxEntryBytes)
	bad(c.Depth < 1 || c.Depth > 4, "depth %d is not in 1…4", c.Depth)
	bad(c.MaxWaiting < 0 || c.MaxUnflushed < 0 || c.TrailingBytes < 0, "negative bound")
	return c, errors.Join(found...)
}

func setDefault[T comparable](field *T, value T) {
	if *field == *new(T) {
		*field = value
	}
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }
