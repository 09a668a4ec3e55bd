package cluster

import (
	"sync"

	"github.com/hashicorp/raft"
)

// minTrailing is how many entries are kept behind the projection at least: far
// more than can be uncommitted, because a log shorter than a follower's
// conflicting tail makes raft install snapshots for ever (raft issue 697).
const minTrailing = 1024

// truncateStep is how many entries are deleted at a time: one delete of
// everything would hold up the appends behind it.
const truncateStep = 1024

// logSize knows about how many bytes of the log lie before an index, to a grain
// of 1/256 of what is kept.
type logSize struct {
	mu     sync.Mutex
	keep   int64
	total  int64
	chunks []logChunk // oldest first
}

type logChunk struct {
	last  uint64 // index of its last entry
	bytes int64
}

// newLogSize spreads the bytes of what is in the log evenly over its entries.
func newLogSize(keep int64, first, last uint64, bytes int64) *logSize {
	s := &logSize{keep: keep}
	if first == 0 || last < first {
		return s
	}
	const parts = 256
	n := last - first + 1
	for i := uint64(1); i <= parts; i++ {
		s.add(first+n*i/parts-1, bytes/parts)
	}
	return s
}

// entryBytes is about what an entry takes in a log.
func entryBytes(l *raft.Log) int64 { return int64(len(l.Data)+len(l.Extensions)) + 64 }

// append accounts for entries that were stored.
func (s *logSize) append(logs []*raft.Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range logs {
		s.add(l.Index, entryBytes(l))
	}
}

func (s *logSize) add(last uint64, bytes int64) {
	s.total += bytes
	if n := len(s.chunks); n > 0 && (s.chunks[n-1].bytes < s.keep/256 || s.chunks[n-1].last >= last) {
		s.chunks[n-1].last = last
		s.chunks[n-1].bytes += bytes
		return
	}
	s.chunks = append(s.chunks, logChunk{last, bytes})
}

// cut returns the index up to which the log may go, 0 for none, so that about
// the bytes to keep remain. The caller must delete at least up to there.
func (s *logSize) cut() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var upTo uint64
	for len(s.chunks) > 1 && s.total-s.chunks[0].bytes >= s.keep {
		upTo = s.chunks[0].last
		s.total -= s.chunks[0].bytes
		s.chunks = s.chunks[1:]
	}
	return upTo
}
