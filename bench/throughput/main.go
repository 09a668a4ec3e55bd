// Command throughput measures how many runs a second one durable node takes from the call to the committed result: inputs
// of 256 bytes, a handler that does nothing, each run counted only when its result is in the log. Beside it, in the same
// run, the raw Raft log at equal bytes.
//
//	go run ./throughput [-n runs] [-d time] [-case many|single|both] [-repeat n] [-cpuprofile prefix]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/bench/internal/conditions"
	"github.com/escapement-go/scheduler/bench/internal/meter"
	"github.com/escapement-go/scheduler/bench/internal/program"
	"github.com/escapement-go/scheduler/bench/internal/rawlog"
	"github.com/escapement-go/scheduler/bench/internal/spread"
)

var (
	number   = flag.Int("n", 0, "runs of each pass (default 500,000 by EnqueueMany, 200,000 by Enqueue)")
	length   = flag.Duration("d", 0, "enqueue for this long instead of -n runs")
	which    = flag.String("case", "both", "many (EnqueueMany of 1,000), single (256 goroutines calling Enqueue), both")
	callers  = flag.Int("callers", 4, "goroutines that call EnqueueMany")
	slots    = flag.Int("slots", 0, "handlers at a time (default: the scheduler's)")
	repeat   = flag.Int("repeat", 3, "passes of each case; the median is reported")
	profiles = flag.String("cpuprofile", "", "write CPU profiles of the last passes to PREFIX.many.pprof and PREFIX.single.pprof")
)

const (
	inputBytes = 256 // as stored: JSON text with its quotes
	perCall    = 1000
	singles    = 256
	entryBytes = 64 << 10
	appliers   = 4
)

var (
	noop  = scheduler.NewJob[string]("noop")
	input = strings.Repeat("x", inputBytes-2)
)

func main() { program.Main(run) }

func run(ctx context.Context, p *program.Program) error {
	perRun, err := loggedBytes(ctx, p)
	if err != nil {
		return err
	}
	fmt.Printf("a run of %d B input is %.0f B in the log, from its call to its result\n", inputBytes, perRun)
	cases := []*kase{
		{"many", fmt.Sprintf("EnqueueMany of %d from %d goroutines", perCall, *callers), many, program.Pick(p, 500_000, 20_000)},
		{"single", fmt.Sprintf("%d goroutines calling Enqueue", singles), single, program.Pick(p, 200_000, 5_000)},
	}
	for _, k := range cases {
		if *which != "both" && *which != k.name {
			continue
		}
		if *number > 0 {
			k.n = *number
		}
		if err := k.run(ctx, p, perRun); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
	}
	return nil
}

// loggedBytes returns what a run takes in the log, measured apart so that the measuring costs the passes nothing.
func loggedBytes(ctx context.Context, p *program.Program) (float64, error) {
	m := meter.New(meter.EntryBytes)
	var sum float64
	const n = 20_000
	err := p.Node(ctx, func(s *scheduler.Scheduler) error {
		m.Take(meter.EntryBytes)
		if _, err := many(ctx, s, quota(n, 0)); err != nil {
			return err
		}
		if _, err := program.Finished(ctx, s); err != nil {
			return err
		}
		for _, bytes := range m.Take(meter.EntryBytes) {
			sum += bytes
		}
		return nil
	}, handler(new(atomic.Int64)), scheduler.WithMeterProvider(m))
	return sum / n, err
}

// kase is a way of enqueueing. Its runs are n, unless -d says how long.
type kase struct {
	name, title string
	enqueue     func(context.Context, *scheduler.Scheduler, *allowance) (*calls, error)
	n           int
}

func (k *kase) run(ctx context.Context, p *program.Program, perRun float64) error {
	fmt.Printf("\n%s\n", k.title)
	var rates, raws, shares []float64
	for i := range program.Pick(p, *repeat, 1) {
		raw, err := k.rawLog(p)
		if err != nil {
			return err
		}
		rate, err := k.pass(ctx, p, i == *repeat-1)
		if err != nil {
			return err
		}
		share := rate * perRun / raw.Bytes
		fmt.Printf("     raw log beside it: %.0f entries/s of 64 KiB = %.1f MB/s = %.0f runs/s of %.0f B; share %.0f %%\n",
			raw.Entries, raw.Bytes/1e6, raw.Bytes/perRun, perRun, 100*share)
		rates, raws, shares = append(rates, rate), append(raws, raw.Bytes), append(shares, share)
	}
	fmt.Printf("  median: %.0f runs/s; raw log %.1f MB/s (%.0f rows/s of the %d B input alone); share of it at equal bytes %.0f %%\n",
		spread.Median(rates), spread.Median(raws)/1e6, spread.Median(raws)/inputBytes, inputBytes, 100*spread.Median(shares))
	return nil
}

func (k *kase) rawLog(p *program.Program) (rate rawlog.Rate, err error) {
	dir, err := p.Folder("raw")
	if err != nil {
		return rate, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	log, err := rawlog.Open(dir, program.Nodes())
	if err != nil {
		return rate, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	return log.Measure(program.Pick(p, 2*time.Second, 200*time.Millisecond), appliers, entryBytes)
}

// pass is one fresh node from the first call to the last result. It returns runs/s.
func (k *kase) pass(ctx context.Context, p *program.Program, last bool) (rate float64, err error) {
	dir, err := p.Folder("node")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var executed atomic.Int64
	var made *calls
	err = program.NodeIn(ctx, dir, func(s *scheduler.Scheduler) error {
		stop, err := k.profile(last)
		if err != nil {
			return err
		}
		defer stop()
		watch, index, began := conditions.Begin(), s.Health(ctx).Applied, time.Now()
		if made, err = k.enqueue(ctx, s, quota(k.n, *length)); err != nil {
			return err
		}
		called, backlog := time.Since(began), int64(made.n())-executed.Load()
		st, err := program.Finished(ctx, s)
		if err != nil {
			return err
		}
		took := time.Since(began)
		rate = float64(made.n()) / took.Seconds()
		fmt.Printf("  %7.0f runs/s: %d in %.2fs (calls returned after %.2fs, %d not executed then), %v, %.1f µs of CPU a run, %.0f runs an entry, %d rows unflushed, %d refused calls\n",
			rate, made.n(), took.Seconds(), called.Seconds(), backlog, watch, float64(watch.CPU().Nanoseconds())/1e3/float64(made.n()),
			float64(made.n())/float64(s.Health(ctx).Applied-index), st.Unflushed, made.refused.Load())
		fmt.Printf("     calls: %v\n", spread.Of(made.took))
		return made.verify(ctx, s, executed.Load())
	}, options(&executed)...)
	if err != nil {
		return 0, err
	}
	// What was counted is there after a restart.
	return rate, program.NodeIn(ctx, dir, func(s *scheduler.Scheduler) error {
		return made.verify(ctx, s, executed.Load())
	}, options(&executed)...)
}

func (k *kase) profile(last bool) (stop func(), err error) {
	if *profiles == "" || !last {
		return func() {}, nil
	}
	f, err := os.Create(*profiles + "." + k.name + ".pprof")
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { pprof.StopCPUProfile(); f.Close() }, nil
}

func options(executed *atomic.Int64) []scheduler.Option {
	opts := []scheduler.Option{handler(executed)}
	if *slots > 0 {
		opts = append(opts, scheduler.WithConcurrency(*slots))
	}
	return opts
}

func handler(executed *atomic.Int64) scheduler.Option {
	return scheduler.WithFunc(noop, func(context.Context, string) error { executed.Add(1); return nil })
}

// allowance is how many runs may still be asked for.
type allowance struct {
	left atomic.Int64
	end  time.Time // zero: none
}

func quota(n int, d time.Duration) *allowance {
	a := new(allowance)
	a.left.Store(int64(n))
	if d > 0 {
		a.end = time.Now().Add(d)
	}
	return a
}

// take returns how many of n runs the caller may ask for.
func (a *allowance) take(n int) int {
	if !a.end.IsZero() {
		if time.Now().After(a.end) {
			return 0
		}
		return n
	}
	return max(0, min(n, n+int(a.left.Add(-int64(n)))))
}

// calls are those that a pass has made.
type calls struct {
	refused atomic.Int64

	mu   sync.Mutex // guards all below
	took []time.Duration
	ids  []scheduler.RunID
}

func (c *calls) n() int { return len(c.ids) }

// verify checks that each run has ended well and was executed.
func (c *calls) verify(ctx context.Context, s *scheduler.Scheduler, executed int64) error {
	st, err := s.Stats(ctx)
	if err != nil {
		return err
	}
	if n := int64(c.n()); st.Live != 0 || st.History != n || executed < n {
		return fmt.Errorf("%d runs enqueued: %d live, %d in history, %d executed", n, st.Live, st.History, executed)
	}
	for i := 0; i < c.n(); i += max(1, c.n()/500) {
		r, err := s.Get(ctx, c.ids[i])
		if err != nil {
			return err
		}
		if r.State != scheduler.Succeeded || len(r.Input) != inputBytes {
			return fmt.Errorf("run %v is %v with %d bytes", r.ID, r.State, len(r.Input))
		}
	}
	return nil
}

func (c *calls) callers(n int, call func(add func([]scheduler.RunID, time.Duration)) error) error {
	faults := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var took []time.Duration
			var ids []scheduler.RunID
			faults[i] = call(func(more []scheduler.RunID, d time.Duration) {
				took, ids = append(took, d), append(ids, more...)
			})
			c.mu.Lock()
			defer c.mu.Unlock()
			c.took, c.ids = append(c.took, took...), append(c.ids, ids...)
		})
	}
	wg.Wait()
	return errors.Join(faults...)
}

func many(ctx context.Context, s *scheduler.Scheduler, a *allowance) (*calls, error) {
	c := new(calls)
	return c, c.callers(*callers, func(add func([]scheduler.RunID, time.Duration)) error {
		for {
			batch := make([]scheduler.Call, a.take(perCall))
			if len(batch) == 0 {
				return nil
			}
			began := time.Now()
			for i := range batch {
				batch[i] = noop.With(input)
			}
			ids, refused, err := program.EnqueueMany(ctx, s, batch)
			if err != nil {
				return err
			}
			c.refused.Add(int64(refused))
			add(ids, time.Since(began))
		}
	})
}

func single(ctx context.Context, s *scheduler.Scheduler, a *allowance) (*calls, error) {
	c := new(calls)
	return c, c.callers(singles, func(add func([]scheduler.RunID, time.Duration)) error {
		for a.take(1) == 1 {
			began := time.Now()
			f, err := noop.Enqueue(ctx, s, input)
			if busy, is := errors.AsType[*scheduler.OverloadedError](err); is {
				c.refused.Add(1)
				if err := program.Pause(ctx, busy.RetryAfter); err != nil {
					return err
				}
				a.left.Add(1)
				continue
			}
			if err != nil {
				return err
			}
			add([]scheduler.RunID{f.ID()}, time.Since(began))
		}
		return nil
	})
}
