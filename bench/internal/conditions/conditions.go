// Package conditions knows on what a benchmark has run: the machine, and what its disk takes for a durable write.
package conditions

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/escapement-go/scheduler/bench/internal/spread"
)

// fsyncs is how many durable writes are measured.
const fsyncs = 200

// Print writes the conditions to w, and measures durable appends of 4 KiB in the folder.
func Print(w io.Writer, dir string) error {
	fmt.Fprintf(w, "conditions: %s %s/%s, %d cores (GOMAXPROCS %d), %s, kernel %s\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.GOMAXPROCS(0), model(), kernel())
	fmt.Fprintf(w, "            load %s at start, folder on %s, GOGC %s\n", Load(), filesystem(dir), gogc())
	took, err := Fsync(dir, fsyncs)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "            append 4 KiB + fsync: %v\n", took)
	return nil
}

// Fsync measures n durable appends of 4 KiB to a file of its own in the folder.
func Fsync(dir string, n int) (spread.Sample, error) {
	path := filepath.Join(dir, "fsync.tmp")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("measure fsync: %w", err)
	}
	defer os.Remove(path)
	defer f.Close()
	block := make([]byte, 4<<10)
	took := make([]time.Duration, 0, n)
	for range n {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return nil, fmt.Errorf("measure fsync: %w", err)
		}
		if err := f.Sync(); err != nil {
			return nil, fmt.Errorf("measure fsync: %w", err)
		}
		took = append(took, time.Since(began))
	}
	return spread.Of(took), nil
}

// Load returns the load averages of the machine; above the number of cores it disturbs what is measured.
func Load() string {
	text := read("/proc/loadavg")
	if f := strings.Fields(text); len(f) >= 3 {
		return strings.Join(f[:3], " ")
	}
	return unknown
}

const unknown = "unknown"

func gogc() string {
	if v := os.Getenv("GOGC"); v != "" {
		return v
	}
	return "default"
}

func kernel() string {
	if v := strings.TrimSpace(read("/proc/sys/kernel/osrelease")); v != "" {
		return v
	}
	return unknown
}

func model() string {
	for line := range strings.Lines(read("/proc/cpuinfo")) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "cpu unknown"
}

// filesystem returns the type of the file system that holds the folder, and warns where fsync means nothing.
func filesystem(dir string) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return unknown
	}
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		dir = target
	}
	best, kind := "", unknown
	for line := range strings.Lines(read("/proc/self/mountinfo")) {
		// … 5: mount point, then optional fields up to "-", then the type and the device; see proc(5).
		before, after, ok := strings.Cut(line, " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(rest) < 2 {
			continue
		}
		point := fields[4]
		if within(dir, point) && len(point) >= len(best) {
			best, kind = point, rest[0]
		}
	}
	if kind == "tmpfs" || kind == "ramfs" {
		kind += " (memory: nothing here is durable, choose another -dir)"
	}
	return kind
}

func within(dir, point string) bool {
	return point == "/" || dir == point || strings.HasPrefix(dir, point+"/")
}

func read(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}
