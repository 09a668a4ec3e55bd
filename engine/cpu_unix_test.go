//go:build unix

package engine_test

import (
	"syscall"
	"time"
)

// cpuTime returns the processor time that this process has used: unlike elapsed time, it does not count what others do
// on the machine meanwhile.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
