package sim

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// recorder keeps what happens, while it happens.
type recorder struct {
	mu      sync.Mutex // guards all below
	began   time.Time
	lines   []string
	calls   []Call
	facts   []Fact
	samples []Sample
	faults  []string // what must not happen at all

	installs int // copies of a leader's state
}

func (r *recorder) say(node, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sayLocked(node, fmt.Sprintf(format, args...))
}

func (r *recorder) sayLocked(node, text string) {
	r.lines = append(r.lines, fmt.Sprintf("%12.6f %-4s %s", time.Since(r.began).Seconds(), node, text))
}

// wrong notes what must not happen at all.
func (r *recorder) wrong(node, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sayLocked(node, "!!! "+text)
	r.faults = append(r.faults, node+": "+text)
}

// begin notes a call that begins, and returns its number.
func (r *recorder) begin(c Call) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.Begin = time.Now()
	r.calls = append(r.calls, c)
	return len(r.calls) - 1
}

// end notes the answer of a call.
func (r *recorder) end(number int, settle func(c *Call)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.calls[number]
	c.End = time.Now()
	settle(c)
	if c.Answer == Done || c.Answer == Conflict || c.Answer == Missing {
		return
	}
	r.sayLocked(c.Node, fmt.Sprintf("%s %s %v: %s", c.Op, c.Target, c.Runs, c.Err))
}

func (r *recorder) fact(f Fact) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.facts = append(r.facts, f)
}

// installed notes that a copy of a leader's state has taken the place of a node's.
func (r *recorder) installed(node string, index uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.installs++
	r.sayLocked(node, fmt.Sprintf("--- a copy is installed, at index %d", index))
}

func (r *recorder) sample(s Sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples = append(r.samples, s)
}

// tail is how many lines of the timeline a failure shows.
const tail = 400

// timeline returns the last lines.
func (r *recorder) timeline() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	head := ""
	if n := len(lines) - tail; n > 0 {
		lines = lines[n:]
		head = fmt.Sprintf("(%d lines before)\n", n)
	}
	return head + strings.Join(lines, "\n")
}

// logger returns a logger of a life, which writes to the timeline while the life
// lasts.
func (l *life) logger() *slog.Logger { return slog.New(&lineHandler{life: l}) }

// lineHandler writes log lines to the timeline.
type lineHandler struct {
	life  *life
	attrs string
}

// Enabled implements [slog.Handler].
func (h *lineHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo && !h.life.dead.Load() // a dead process says nothing
}

// Handle implements [slog.Handler].
func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "run failed") {
		return nil // many are made to
	}
	text := r.Message + h.attrs
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	h.life.world.rec.say(h.life.node.id, "%s", text)
	return nil
}

// WithAttrs implements [slog.Handler].
func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	n := *h
	for _, a := range attrs {
		if a.Key != "node_id" { // each line has it already
			n.attrs += " " + a.String()
		}
	}
	return &n
}

// WithGroup implements [slog.Handler].
func (h *lineHandler) WithGroup(string) slog.Handler { return h }
