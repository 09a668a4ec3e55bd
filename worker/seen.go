package worker

import (
	"encoding/binary"

	"github.com/escapement-go/scheduler/store"
)

// key names an attempt.
type key struct {
	run   store.RunID
	fence uint64
}

// seen remembers the attempts whose reports were acked, so that an assignment that comes a second time is not executed
// a second time. Fences are dense, so a table indexed by fence is a memory of the last attempts, without a map
// that would have to be cleared. It forgets when fences have moved on by its length; no scheduler assigns what it has
// recorded as ended, so this guards against messages that were on their way meanwhile.
type seen struct {
	marks [1 << 15]uint64
}

func (s *seen) add(k key)      { s.marks[k.fence&(1<<15-1)] = k.mark() }
func (s *seen) has(k key) bool { return s.marks[k.fence&(1<<15-1)] == k.mark() }

// mark is a hash of k, never zero, which stands for nothing.
func (k key) mark() uint64 {
	m := binary.BigEndian.Uint64(k.run[8:]) ^ k.fence*0x9e3779b97f4a7c15
	return max(m, 1)
}
