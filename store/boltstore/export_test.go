package boltstore

import "github.com/escapement-go/scheduler/internal/boltfile"

// BreakFile makes what is written to the file fail, once, as a disk does that
// reports an error: reading mapped pages goes on.
func (s *Store) BreakFile() {
	_ = boltfile.Unlock(s.file.f)
	_ = s.file.f.Close()
}
