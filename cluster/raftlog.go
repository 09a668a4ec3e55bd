package cluster

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
)

// raftLogger writes raft's own log to slog. What raft calls information is
// debugging to a host: the node tells of leadership itself. So is what raft says
// many times a second while a peer is away or catches up, for the leader tells of
// that once, and what it says while a node founds or leaves a cluster.
type raftLogger struct {
	to      slog.Handler
	name    string
	implied []any
}

func newRaftLogger(l *slog.Logger) hclog.Logger { return &raftLogger{to: l.Handler(), name: "raft"} }

// chatter is how raft's lines about peers begin.
var chatter = []string{
	"failed to heartbeat to", "failed to appendEntries to", "failed to contact", "failed to make requestVote RPC",
	"failed to make requestPreVote RPC", "failed to decode incoming command", "failed to get previous log",
	"appendEntries rejected", "failed to pipeline", "heartbeat timeout reached", "Election timeout reached",
	"failed to flush response", "no known peers", "rejecting pre-vote request", "rejecting vote request",
}

func (l *raftLogger) level(level hclog.Level) slog.Level {
	switch level {
	case hclog.Error:
		return slog.LevelError
	case hclog.Warn:
		return slog.LevelWarn
	default:
		return slog.LevelDebug
	}
}

// Log implements [hclog.Logger].
func (l *raftLogger) Log(level hclog.Level, msg string, args ...any) {
	ctx := context.Background() //nolint:forbidigo // hclog has no contexts
	to := l.level(level)
	if slices.ContainsFunc(chatter, func(prefix string) bool { return strings.HasPrefix(msg, prefix) }) {
		to = slog.LevelDebug
	}
	if !l.to.Enabled(ctx, to) {
		return
	}
	r := slog.NewRecord(time.Now(), to, l.name+": "+msg, 0)
	r.AddAttrs(attrs(l.implied)...)
	r.AddAttrs(attrs(args)...)
	_ = l.to.Handle(ctx, r) // there is nowhere to tell that the log fails
}

// attrs turns hclog's pairs into attributes; its keys are in kebab case.
func attrs(args []any) []slog.Attr {
	var out []slog.Attr
	for i := 0; i+1 < len(args); i += 2 {
		value := args[i+1]
		if f, ok := value.(hclog.Format); ok && len(f) > 0 {
			value = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
		out = append(out, slog.Any(strings.ReplaceAll(fmt.Sprint(args[i]), "-", "_"), value)) //nolint:sloglint // the keys are raft's
	}
	return out
}

func (l *raftLogger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }
func (l *raftLogger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }
func (l *raftLogger) Info(msg string, args ...any)  { l.Log(hclog.Info, msg, args...) }
func (l *raftLogger) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l *raftLogger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

func (l *raftLogger) is(level hclog.Level) bool {
	return l.to.Enabled(context.Background(), l.level(level)) //nolint:forbidigo // hclog has no contexts
}

func (l *raftLogger) IsTrace() bool { return l.is(hclog.Trace) }
func (l *raftLogger) IsDebug() bool { return l.is(hclog.Debug) }
func (l *raftLogger) IsInfo() bool  { return l.is(hclog.Info) }
func (l *raftLogger) IsWarn() bool  { return l.is(hclog.Warn) }
func (l *raftLogger) IsError() bool { return l.is(hclog.Error) }

func (l *raftLogger) ImpliedArgs() []any { return l.implied }
func (l *raftLogger) Name() string       { return l.name }

func (l *raftLogger) With(args ...any) hclog.Logger {
	return &raftLogger{l.to, l.name, append(append([]any(nil), l.implied...), args...)}
}

func (l *raftLogger) Named(name string) hclog.Logger { return l.ResetNamed(l.name + "." + name) }

func (l *raftLogger) ResetNamed(name string) hclog.Logger {
	return &raftLogger{l.to, name, l.implied}
}

func (l *raftLogger) SetLevel(hclog.Level) {} // the handler decides

func (l *raftLogger) GetLevel() hclog.Level {
	for level := hclog.Debug; level <= hclog.Error; level++ {
		if l.is(level) {
			return level
		}
	}
	return hclog.Off
}

func (l *raftLogger) StandardLogger(o *hclog.StandardLoggerOptions) *log.Logger { //nolint:forbidigo // hclog's interface; it writes to slog
	return log.New(l.StandardWriter(o), "", 0) //nolint:forbidigo // as above
}

func (l *raftLogger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer {
	return &lineWriter{l}
}

// lineWriter logs what is written to it, a line a call.
type lineWriter struct{ to *raftLogger }

func (w *lineWriter) Write(b []byte) (int, error) {
	w.to.Debug(strings.TrimRight(string(b), "\n"))
	return len(b), nil
}
