package cluster

import (
	"sync"
	"time"
)

// healAfter is how long log and Storage must not have failed before a fault counts
// as over. Each of them is tried again within it.
const healAfter = 5 * time.Second

// ailment is the fault of the disk that a node tells of. A disk that is full takes
// some writes now and then, so the fault stays, as it was first, until nothing has
// failed for a while; else a node would look well in between.
type ailment struct {
	mu    sync.Mutex
	fault *StorageError // nil: there was none
	ill   int           // of log and Storage, how many fail now
	well  time.Time     // since when none does, while there is a fault
}

// begin tells that log or Storage, which worked, fails.
func (a *ailment) begin(fault *StorageError) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.overLocked() {
		a.fault = fault
	}
	a.ill++
}

// end tells that what failed works again.
func (a *ailment) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ill--
	a.well = time.Now()
}

// now returns the fault, nil once it is over.
func (a *ailment) now() *StorageError {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.overLocked() {
		a.fault = nil
	}
	return a.fault
}

func (a *ailment) overLocked() bool {
	return a.fault == nil || a.ill == 0 && time.Since(a.well) >= healAfter
}
