package engine_test

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/engine"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata")

// TestStories plays each script in testdata and compares the answers with those written in it. A line that begins with
// "> " is a command; the lines below it are its answer; "#" begins a comment. With -update the answers are rewritten.
//
//	> new TIME                 a new wheel that stands at TIME
//	> set NAME TIME            arm a timer; the payload is the name
//	> move NAME TIME           arm it anew
//	> cancel NAME              by the handle that the last set of that name returned
//	> lookup NAME
//	> pop TIME                 all that is due
//	> next, len, all
//	> run TIME                 what a loop does that sleeps until Next each time, up to TIME
//	> rebase TIME, reset TIME
//
// A TIME is a duration since time 0 ("1m0.1s", "-5s"), or min, max, optionally followed by +d or -d.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("the answers differ (see git diff after -update); got:\n%s", got)
			}
		})
	}
}

func play(t *testing.T, script string) string {
	t.Helper()
	var out strings.Builder
	var s story
	for line := range strings.Lines(script) {
		command, isCommand := strings.CutPrefix(line, "> ")
		switch {
		case isCommand:
			out.WriteString(line)
			if err := s.do(&out, strings.Fields(command)); err != nil {
				t.Fatalf("%s: %v", strings.TrimSpace(line), err)
			}
		case strings.HasPrefix(line, "#"), strings.TrimSpace(line) == "":
			out.WriteString(line)
		}
	}
	return out.String()
}

type story struct {
	w       *engine.Wheel[uint64]
	now     int64
	names   []string // the payload is an index into it
	handles map[string]engine.Handle
}

func (s *story) do(out *strings.Builder, args []string) error {
	args = append(args, "", "")
	verb, name := args[0], args[1]
	var at int64
	if when := args[2]; when != "" || slices.Contains([]string{"new", "pop", "run", "rebase", "reset"}, verb) {
		if when == "" {
			when = name
		}
		var err error
		if at, err = parseTime(when); err != nil {
			return err
		}
	}
	switch verb {
	case "new":
		*s = story{w: engine.New[uint64](at), now: at, handles: map[string]engine.Handle{}}
	case "set":
		s.names = append(s.names, name)
		s.handles[name] = s.w.Set(at, uint64(len(s.names)-1))
	case "move":
		fmt.Fprintln(out, s.w.Move(s.handles[name], at))
	case "cancel":
		fmt.Fprintln(out, s.w.Cancel(s.handles[name]))
	case "lookup":
		p, due, ok := s.w.Lookup(s.handles[name])
		if !ok {
			fmt.Fprintln(out, "none")
			break
		}
		fmt.Fprintln(out, s.names[p], formatTime(due))
	case "pop":
		s.pop(out, at)
	case "run":
		s.run(out, at)
	case "next":
		if at, ok := s.w.Next(); ok {
			fmt.Fprintln(out, formatTime(at))
		} else {
			fmt.Fprintln(out, "never")
		}
	case "len":
		fmt.Fprintln(out, s.w.Len())
	case "all":
		names := map[string]bool{}
		for _, p := range s.w.All() {
			names[s.names[p]] = true
		}
		fmt.Fprintln(out, slices.Sorted(maps.Keys(names)))
	case "rebase":
		s.w.Rebase(at)
	case "reset":
		s.w.Reset(at)
	default:
		return fmt.Errorf("unknown command")
	}
	return nil
}

func (s *story) pop(out *strings.Builder, now int64) {
	s.now = now
	for {
		p, due, ok := s.w.Pop(now)
		if !ok {
			return
		}
		fmt.Fprintln(out, s.names[p], formatTime(due))
	}
}

func (s *story) run(out *strings.Builder, end int64) {
	for {
		at, ok := s.w.Next()
		if !ok || at > end {
			return
		}
		fmt.Fprintln(out, "wake", formatTime(max(at, s.now)))
		s.pop(out, max(at, s.now))
	}
}

func parseTime(text string) (int64, error) {
	base := int64(0)
	if rest, ok := strings.CutPrefix(text, "min"); ok {
		base, text = math.MinInt64, rest
	} else if rest, ok := strings.CutPrefix(text, "max"); ok {
		base, text = math.MaxInt64, rest
	}
	if text == "" {
		return base, nil
	}
	d, err := time.ParseDuration(text)
	return base + int64(d), err
}

func formatTime(ns int64) string {
	const near = int64(time.Hour)
	switch {
	case ns < math.MinInt64+near:
		return "min+" + time.Duration(ns-math.MinInt64).String()
	case ns > math.MaxInt64-near:
		return "max-" + time.Duration(math.MaxInt64-ns).String()
	}
	return time.Duration(ns).String()
}
