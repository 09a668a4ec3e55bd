package boltstore

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/escapement-go/scheduler/store"
)

// The buckets. Those of the history hold buckets of their own, whose path is
// "parent/name".
const (
	metaBucket   = "meta"
	configBucket = "config"
	sumsBucket   = "sums"

	runsBucket      = "runs"
	schedulesBucket = "schedules"
	queuesBucket    = "queues"
	sessionsBucket  = "sessions"
	uniquesBucket   = "uniques"
	tasksBucket     = "tasks"
	segmentsBucket  = "segments"
	calendarsBucket = "calendars"
	versionsBucket  = "versions"

	historyBucket = "history"
	ticksBucket   = "ticks"
	journalBucket = "journal"
)

// liveBuckets have one sum each.
var liveBuckets = []string{
	runsBucket, schedulesBucket, queuesBucket, sessionsBucket, uniquesBucket, tasksBucket, segmentsBucket,
	calendarsBucket, versionsBucket,
}

// groupBuckets hold buckets, which have one sum each.
var groupBuckets = []string{historyBucket, ticksBucket, journalBucket}

// topBuckets are all that are in no group.
func topBuckets() []string {
	return append(append([]string{metaBucket, configBucket, sumsBucket}, liveBuckets...), groupBuckets...)
}

// The keys of the meta and config buckets.
var (
	formatKey = []byte("format")
	stateKey  = []byte("state")
	totalsKey = []byte("totals")
	configKey = []byte("configuration")
)

// split takes the path of a bucket apart; child is "" if it is in no group.
func split(path string) (parent, child string) {
	parent, child, _ = strings.Cut(path, "/")
	return parent, child
}

// pathText makes a path readable.
func pathText(path string) string {
	parent, child := split(path)
	switch {
	case child == "":
		return parent
	case parent == journalBucket && len(child) == 8:
		return fmt.Sprintf("%s/%d", parent, binary.BigEndian.Uint64([]byte(child)))
	case len(child) == 8:
		period, part := parseSegmentName([]byte(child))
		return fmt.Sprintf("%s/%d.%d", parent, period, part)
	}
	return fmt.Sprintf("%s/%x", parent, child)
}

// segmentPath is the path of a segment's bucket.
func segmentPath(k store.SegmentKey) string {
	parent := historyBucket
	if k.Kind == store.TickSegment {
		parent = ticksBucket
	}
	name := segmentName(k.Time, k.Part)
	return parent + "/" + string(name[:])
}

func segmentName(period, part uint32) (name [8]byte) {
	binary.BigEndian.PutUint32(name[:], period)
	binary.BigEndian.PutUint32(name[4:], part)
	return name
}

func parseSegmentName(name []byte) (period, part uint32) {
	return binary.BigEndian.Uint32(name), binary.BigEndian.Uint32(name[4:])
}

// maxTextKey is the longest text that is its own key; bbolt bounds keys.
const maxTextKey = 512

// textKey makes a key of any text: the empty one, and those that are too long.
func textKey(s string) []byte {
	if len(s) > maxTextKey {
		h := sha256.Sum256([]byte(s))
		return append([]byte{1}, h[:]...)
	}
	return append([]byte{0}, s...)
}

func numberKey(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func versionKey(k store.VersionKey) []byte {
	return binary.BigEndian.AppendUint64(numberKey(k.Number), k.Version)
}

func segmentKey(k store.SegmentKey) []byte {
	b := append(make([]byte, 0, 9), byte(k.Kind))
	b = binary.BigEndian.AppendUint32(b, k.Time)
	return binary.BigEndian.AppendUint32(b, k.Part)
}

// tickKey orders the rows of the ledger by schedule, then nominal time; what a tick
// was backfilled with is behind the outcome that it had.
func tickKey(schedule uint64, to int64, backfill bool) (key [17]byte) {
	binary.BigEndian.PutUint64(key[:], schedule)
	binary.BigEndian.PutUint64(key[8:], uint64(to)^1<<63)
	if backfill {
		key[16] = 1
	}
	return key
}

// runKeyAt is the lowest key a run with the given time (ms) can have.
func runKeyAt(ms int64) (key [16]byte) {
	ms = min(max(ms, 0), 1<<48-1)
	binary.BigEndian.PutUint64(key[:], uint64(ms)<<16)
	return key
}

// keyText makes a key readable.
func keyText(key []byte) string {
	for _, b := range key {
		if b < ' ' || b > '~' {
			return hex.EncodeToString(key)
		}
	}
	return string(key)
}
