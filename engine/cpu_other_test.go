//go:build !unix

package engine_test

import "time"

var started = time.Now()

// cpuTime stands in for processor time where there is no portable way to ask for it.
func cpuTime() time.Duration { return time.Since(started) }
