package conditions

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Watch tells what processors did while something was measured.
type Watch struct {
	began     time.Time
	own, busy time.Duration
}

// Begin starts a watch.
func Begin() Watch { return Watch{time.Now(), CPU(), busy()} }

// CPU returns what this process has used since.
func (w Watch) CPU() time.Duration { return CPU() - w.own }

// String returns how many processors this process has used since, and how many the others on the machine: where those
// are more than a few hundredths, what was measured is worse than it is.
func (w Watch) String() string {
	passed, own := float64(time.Since(w.began)), w.CPU()
	text := fmt.Sprintf("%.2f cores", float64(own)/passed)
	if now := busy(); now > 0 {
		text += fmt.Sprintf(" (others on the machine %.2f)", max(0, float64(now-w.busy-own)/passed))
	}
	return text
}

// busy returns the time that processors of the machine were not idle, stolen time included; 0 if the system does not tell.
func busy() time.Duration {
	line, _, _ := strings.Cut(read("/proc/stat"), "\n")
	fields := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal …, in hundredths of a second
	if len(fields) < 9 {
		return 0
	}
	var sum time.Duration
	for i, f := range fields[1:9] {
		if i == 3 || i == 4 {
			continue
		}
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0
		}
		sum += time.Duration(n) * 10 * time.Millisecond
	}
	return sum
}
