// Command ledger measures what the ledger costs of the ticks' throughput: the program ../schedules, built as it is and with
// a ledger that keeps no rows, by turns.
//
//	go run ./ledger [-n schedules] [-rounds n]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/escapement-go/scheduler/bench/internal/program"
)

var (
	number = flag.Int("n", 0, "schedules that are due at the same second (default 30,000)")
	rounds = flag.Int("rounds", 0, "how often each build has its turn (default 5)")
)

// What keeps rows, and what does not. The rest of the ledger, such as the outcome in the schedule's own record, which
// keeps a tick from coming twice, is in both.
const (
	file = "store/decided.go"
	rows = `	seg := s.addRow(TickSegment, uint32(max(t.To, 0)/86_400e9), int64(64+len(t.Reason)))
	s.dirty.Ticks = append(s.dirty.Ticks, TickRow{seg, t})
`
	none = "\t_ = t\n"
)

// figures are of one run of the program.
type figures struct{ rate, cost float64 }

func main() { program.Main(run) }

func run(ctx context.Context, p *program.Program) error {
	if *number == 0 {
		*number = program.Pick(p, 30_000, 200)
	}
	if *rounds == 0 {
		*rounds = program.Pick(p, 5, 1)
	}
	with, without, err := build(ctx, p.Dir)
	if err != nil {
		return err
	}
	fmt.Printf("\n%d ticks at one second\n", *number)
	var kept, not []figures
	for range *rounds {
		for _, turn := range []struct {
			bin   string
			args  []string
			label string
			to    *[]figures
		}{{with, nil, "ledger", &kept}, {without, []string{"-no-rows"}, "no rows", &not}} {
			f, err := measure(ctx, p.Dir, turn.bin, turn.args...)
			if err != nil {
				return fmt.Errorf("%s: %w", turn.label, err)
			}
			fmt.Printf("  %-8s %.0f ticks/s, %.2f µs of processors a tick\n", turn.label, f.rate, f.cost)
			*turn.to = append(*turn.to, f)
		}
	}
	rate := func(f figures) float64 { return f.rate }
	cost := func(f figures) float64 { return f.cost }
	fmt.Printf("  medians: %.1f %% fewer ticks/s, %.1f %% more processor time with the ledger\n",
		100*(1-median(kept, rate)/median(not, rate)), 100*(median(kept, cost)/median(not, cost)-1))
	return nil
}

func median(of []figures, figure func(figures) float64) float64 {
	all := make([]float64, len(of))
	for i, f := range of {
		all[i] = figure(f)
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// build makes the two programs.
func build(ctx context.Context, dir string) (with, without string, err error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/escapement-go/scheduler").Output()
	if err != nil {
		return "", "", fmt.Errorf("find the module: %w", err)
	}
	path := filepath.Join(strings.TrimSpace(string(root)), file)
	text, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	if n := strings.Count(string(text), rows); n != 1 {
		return "", "", fmt.Errorf("what keeps rows is %d times in %s, want once", n, file)
	}
	other, overlay := filepath.Join(dir, "decided.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {path: other}})
	if err != nil {
		return "", "", err
	}
	with, without = filepath.Join(dir, "with"), filepath.Join(dir, "without")
	return with, without, errors.Join(
		os.WriteFile(other, []byte(strings.Replace(string(text), rows, none, 1)), 0o600),
		os.WriteFile(overlay, list, 0o600),
		compile(ctx, "-o", with),
		compile(ctx, "-o", without, "-overlay", overlay),
	)
}

func compile(ctx context.Context, flags ...string) error {
	out, err := exec.CommandContext(ctx, "go", append(append([]string{"build"}, flags...), "./schedules")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

func measure(ctx context.Context, dir, bin string, args ...string) (f figures, err error) {
	lead := 5*time.Second + time.Duration(*number)*100*time.Microsecond
	args = append(args, "-dir", dir, "-n", fmt.Sprint(*number), "-callers", "256", "-lead", fmt.Sprint(lead))
	out, err := exec.CommandContext(ctx, bin, args...).CombinedOutput()
	if err != nil {
		return f, fmt.Errorf("%w\n%s", err, out)
	}
	_, figure, found := strings.Cut(string(out), "in the database: ")
	if !found {
		return f, fmt.Errorf("no figures in %s", out)
	}
	_, err = fmt.Sscanf(figure, "%f ticks a second, %f", &f.rate, &f.cost)
	return f, err
}
