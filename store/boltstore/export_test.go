package boltstore

// BreakFile makes what is written to the file fail, once, as a disk does that
// reports an error: reading mapped pages goes on.
func (s *Store) BreakFile() {
	_ = unlock(s.file.f)
	_ = s.file.f.Close()
}
