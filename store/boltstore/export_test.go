package boltstore

import "github.com/escapement-go/scheduler/internal/boltfile"

// BreakFile makes what is written to the file fail, once, as a disk does that
// reports an error: reading mapped pages goes on.
func (s *Store) BreakFile() {
	_ = boltfile.Unlock(s.file.f)
	_ = s.file.f.Close()
}

// UnpackBlock decodes the runs in the body of a block and returns how many there
// are, before an error too.
func UnpackBlock(body []byte) (n int, err error) {
	runs, err := unpack(nil, body)
	if err != nil {
		return len(runs), damaged("%v", err)
	}
	var d runReader
	for i := range runs {
		if _, err := d.read(runsBucket, &runs[i]); err != nil {
			return i, err
		}
	}
	return len(runs), nil
}
