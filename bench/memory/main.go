// Command memory measures what a durable node holds in memory: with very many runs that are due far in the future, with
// very many schedules, after a restart with them, and while very many runs pass through it. Each part is a process of its
// own.
//
//	go run ./memory [-scheduled runs] [-schedules n] [-finished runs] [-full]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/bench/internal/conditions"
	"github.com/escapement-go/scheduler/bench/internal/meter"
	"github.com/escapement-go/scheduler/bench/internal/program"
)

var (
	scheduled = flag.Int("scheduled", 0, "runs that are due in a year, 0 to leave the part out (default 1,000,000)")
	schedules = flag.Int("schedules", 0, "schedules that are due once a year, 0 to leave the part out (default 1,000,000)")
	finished  = flag.Int("finished", 0, "runs that pass through, 0 to leave the part out (default 1,000,000; 10,000,000 with -full)")
	full      = flag.Bool("full", false, "ten million finished runs")
	backlog   = flag.Int64("backlog", 20_000, "live runs at a time while runs pass through, about")
	settle    = flag.Duration("settle", 10*time.Second, "how long the process is left alone before it is read")
	profile   = flag.String("memprofile", "", "write heap profiles of the settled parts to PREFIX.PART.pprof")
	part      = flag.String("part", "", "fill, reopen, register, reload or pass: this process is a part of another's measurement, in -in")
	in        = flag.String("in", "", "the folder of the part")
)

const (
	inputBytes = 100 // as stored: JSON text with its quotes
	perCall    = 1000
	callers    = 4

	registering = 256 // goroutines that make schedules
)

var (
	task  = scheduler.NewJob[string]("kept")
	input = strings.Repeat("x", inputBytes-2)
)

func main() {
	began, watch := time.Now(), conditions.Begin()
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "-part") {
		flag.Parse()
		if err := runPart(context.Background(), began, watch); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	program.Main(run)
}

func run(ctx context.Context, p *program.Program) error {
	set := make(map[string]bool)
	flag.Visit(func(f *flag.Flag) { set[f.Name] = true })
	if !set["scheduled"] {
		*scheduled = program.Pick(p, 1_000_000, 20_000)
	}
	if !set["schedules"] {
		*schedules = program.Pick(p, 1_000_000, 2000)
	}
	if !set["finished"] {
		*finished = program.Pick(p, 1_000_000, 20_000)
		if *full {
			*finished = 10_000_000
		}
	}
	if p.Once {
		*settle = 500 * time.Millisecond
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	do := func(part, folder string) error {
		cmd := exec.CommandContext(ctx, self, "-part="+part, "-in="+filepath.Join(p.Dir, folder),
			fmt.Sprint("-scheduled=", *scheduled), fmt.Sprint("-schedules=", *schedules), fmt.Sprint("-finished=", *finished),
			fmt.Sprint("-backlog=", *backlog), fmt.Sprint("-settle=", *settle), fmt.Sprint("-memprofile=", *profile))
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
		return nil
	}
	twice := func(first, then string) error {
		folder := first
		if err := do(first, folder); err != nil {
			return err
		}
		if err := do(then, folder); err != nil {
			return err
		}
		return os.RemoveAll(filepath.Join(p.Dir, folder))
	}
	if *scheduled > 0 {
		fmt.Printf("\n%d runs of %d B due in a year\n", *scheduled, inputBytes)
		if err := twice("fill", "reopen"); err != nil {
			return err
		}
	}
	if *schedules > 0 {
		fmt.Printf("\n%d schedules with inputs of %d B\n", *schedules, inputBytes)
		if err := twice("register", "reload"); err != nil {
			return err
		}
	}
	if *finished > 0 {
		fmt.Printf("\n%d runs of %d B pass through\n", *finished, inputBytes)
		return do("pass", "finished")
	}
	return nil
}

func runPart(ctx context.Context, began time.Time, watch conditions.Watch) error {
	var executed atomic.Int64
	m := meter.New(meter.FlushTime, meter.FlushRows)
	parts := map[string]func(*scheduler.Scheduler) error{
		"fill": func(s *scheduler.Scheduler) error { return fill(ctx, s, m) },
		"reopen": func(s *scheduler.Scheduler) error {
			ready := time.Since(began)
			st, err := s.Stats(ctx)
			return reopened(ctx, s, ready, watch, st.Live, *scheduled, err)
		},
		"register": func(s *scheduler.Scheduler) error { return register(ctx, s, m) },
		"reload": func(s *scheduler.Scheduler) error {
			ready := time.Since(began)
			st, err := s.Stats(ctx)
			return reopened(ctx, s, ready, watch, st.Schedules, *schedules, err)
		},
		"pass": func(s *scheduler.Scheduler) error { return pass(ctx, s, m, &executed) },
	}
	do := parts[*part]
	if do == nil {
		return fmt.Errorf("no part %q", *part)
	}
	return program.NodeIn(ctx, *in, do, scheduler.WithMeterProvider(m), scheduler.WithFunc(task,
		func(context.Context, string) error { executed.Add(1); return nil }))
}

// reopened tells of a restart that took so long, and fails unless everything is there.
func reopened(ctx context.Context, s *scheduler.Scheduler, ready time.Duration, watch conditions.Watch, got, want int, err error) error {
	if err == nil && got != want {
		err = fmt.Errorf("%d are there, want %d", got, want)
	}
	fmt.Printf("  reopened: ready %.2fs after the process began, %v\n", ready.Seconds(), watch)
	printMemory("as opened")
	return settled(ctx, s, err)
}

// register makes schedules whose next ticks lie about half a year ahead, each at a time of its own.
func register(ctx context.Context, s *scheduler.Scheduler, m *meter.Meter) error {
	printMemory("empty")
	watch, began := conditions.Begin(), time.Now()
	from := began.UTC().AddDate(0, 6, 0)
	faults := make([]error, registering)
	var wg sync.WaitGroup
	for c := range registering {
		wg.Go(func() {
			for i := c; i < *schedules && faults[c] == nil; i += registering {
				expr := from.Add(time.Duration(i) * time.Second).Format("5 4 15 2 1 *") // second to month, in layout's words
				faults[c] = s.Schedule(ctx, fmt.Sprintf("schedule-%07d", i), scheduler.Cron(expr), task.With(input))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(faults...); err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Printf("  made by %d goroutines in %.2fs (%.0f a second), %v\n", registering, took.Seconds(), float64(*schedules)/took.Seconds(), watch)
	printMemory("at once")
	if err := settled(ctx, s, nil); err != nil {
		return err
	}
	printDisk(m)
	return nil
}

func fill(ctx context.Context, s *scheduler.Scheduler, m *meter.Meter) error {
	printMemory("empty")
	watch, began := conditions.Begin(), time.Now()
	refused, err := enqueue(ctx, s, *scheduled, scheduler.In(365*24*time.Hour))
	if err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Printf("  enqueued in %.2fs (%.0f a second, %d refused calls), %v\n", took.Seconds(), float64(*scheduled)/took.Seconds(), refused, watch)
	printMemory("at once")
	if err := settled(ctx, s, nil); err != nil {
		return err
	}
	printDisk(m)
	return nil
}

// enqueue asks for n runs in bulk. It returns how many calls were refused and made again.
func enqueue(ctx context.Context, s *scheduler.Scheduler, n int, opts ...scheduler.RunOption) (int64, error) {
	var next, refused atomic.Int64
	faults := make(chan error, callers) // one of each goroutine
	var wg sync.WaitGroup
	call := task.With(input, opts...)
	for range callers {
		wg.Go(func() {
			for {
				from := int(next.Add(perCall)) - perCall
				if from >= n {
					return
				}
				calls := make([]scheduler.Call, min(perCall, n-from))
				for i := range calls {
					calls[i] = call
				}
				_, again, err := program.EnqueueMany(ctx, s, calls)
				refused.Add(int64(again))
				if err != nil {
					faults <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-faults:
		return 0, err
	default:
		return refused.Load(), nil
	}
}

// settled waits until everything is in the database and a while more.
func settled(ctx context.Context, s *scheduler.Scheduler, err error) error {
	for began := time.Now(); err == nil; {
		var st scheduler.Stats
		if st, err = s.Stats(ctx); err != nil || st.Unflushed == 0 {
			fmt.Printf("  all rows are in the database %.2fs later\n", time.Since(began).Seconds())
			break
		}
		err = program.Pause(ctx, 20*time.Millisecond)
	}
	if err == nil {
		err = program.Pause(ctx, *settle)
	}
	if err != nil {
		return err
	}
	printMemory(fmt.Sprintf("%v later", *settle))
	runtime.GC() // one comes by itself within two minutes
	if err := program.Pause(ctx, *settle); err != nil {
		return err
	}
	printMemory("collected")
	return heapProfile()
}

func heapProfile() (err error) {
	if *profile == "" {
		return nil
	}
	f, err := os.Create(*profile + "." + *part + ".pprof")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return pprof.WriteHeapProfile(f)
}

// pass lets runs through in ten parts and tells after each what has become of memory, disk and flushes.
func pass(ctx context.Context, s *scheduler.Scheduler, m *meter.Meter, executed *atomic.Int64) error {
	const parts = 10
	for i := range parts {
		watch, began := conditions.Begin(), time.Now()
		for n := *finished / parts; n > 0; {
			more := min(n, int(*backlog))
			if _, err := enqueue(ctx, s, more); err != nil {
				return err
			}
			n -= more
			if _, err := program.Finished(ctx, s); err != nil {
				return err
			}
		}
		took := time.Since(began)
		st, err := s.Stats(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("  history %d, %.0f runs/s, %d rows unflushed, %v\n", st.History, float64(*finished/parts)/took.Seconds(), st.Unflushed, watch)
		printMemory("  ")
		printDisk(m)
		if want := int64(*finished / parts * (i + 1)); st.History != want || executed.Load() < want {
			return fmt.Errorf("%d runs in history and %d executed, want %d", st.History, executed.Load(), want)
		}
	}
	return settled(ctx, s, nil)
}

func printMemory(when string) {
	m := conditions.ReadMemory()
	fmt.Printf("    %-10s RSS %d MB (anonymous %d, mapped files %d), live heap %d MB\n",
		when, m.RSS>>20, m.Anon>>20, m.File>>20, m.Heap>>20)
}

// printDisk tells of the flushes since the last call and of the files.
func printDisk(m *meter.Meter) {
	var rows float64
	for _, n := range m.Take(meter.FlushRows) {
		rows += n
	}
	var sum time.Duration
	took := m.TakeTimes(meter.FlushTime)
	for _, d := range took {
		sum += d
	}
	fmt.Printf("    flushes: %v", took)
	if rows > 0 {
		fmt.Printf(", %.2f µs a row", sum.Seconds()*1e6/rows)
	}
	files, err := filepath.Glob(filepath.Join(*in, "*.db"))
	for _, path := range files {
		if info, err := os.Stat(path); err == nil {
			fmt.Printf("; %s %d MB", filepath.Base(path), info.Size()>>20)
		}
	}
	if err != nil {
		fmt.Printf("; %v", err)
	}
	fmt.Println()
}
