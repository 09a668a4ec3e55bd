package conditions

import (
	"runtime/metrics"
	"strconv"
	"strings"
)

// Memory is what this process takes, in bytes. The resident parts are 0 where the system does not tell them.
type Memory struct {
	Heap uint64 // live objects, as of the last collection
	RSS  uint64 // resident: Anon + File, and a little shared
	Anon uint64 // resident and the process's own
	File uint64 // resident pages of mapped files, which the system can take back
}

// ReadMemory returns what the process takes now.
func ReadMemory() Memory {
	heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(heap)
	m := Memory{Heap: heap[0].Value.Uint64()}
	for line := range strings.Lines(read("/proc/self/status")) {
		key, value, _ := strings.Cut(line, ":")
		kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			continue
		}
		switch key {
		case "VmRSS":
			m.RSS = kib << 10
		case "RssAnon":
			m.Anon = kib << 10
		case "RssFile":
			m.File = kib << 10
		}
	}
	return m
}
