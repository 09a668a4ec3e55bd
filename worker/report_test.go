package worker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/worker"
)

// A slowDisk commits reports, each batch in its time, and notes when it was asked and for how many.
type slowDisk struct {
	take time.Duration

	mu      sync.Mutex
	begin   time.Time
	fail    int // calls that are to fail yet
	at      []time.Duration
	batches []int
	order   []uint64
}

func (d *slowDisk) report(_ context.Context, reports []store.Report) error {
	d.mu.Lock()
	d.at = append(d.at, time.Since(d.begin))
	d.batches = append(d.batches, len(reports))
	fail := d.fail > 0
	if fail {
		d.fail--
	} else {
		for _, r := range reports {
			d.order = append(d.order, r.Fence)
		}
	}
	d.mu.Unlock()
	time.Sleep(d.take)
	if fail {
		return errors.New("disk on fire")
	}
	return nil
}

func TestPool_reports(t *testing.T) {
	setup := func(t *testing.T, d *slowDisk, change ...func(*worker.Config)) *rig {
		t.Helper()
		d.begin = time.Now()
		return start(t, 8, handlers{
			"ok":  ok,
			"big": func(context.Context, *worker.Execution) ([]byte, error) { return make([]byte, 200<<10), nil },
		}, append(change, func(c *worker.Config) { c.Report = d.report })...)
	}

	t.Run("one at once, and meanwhile the next batch gathers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := &slowDisk{take: 10 * time.Millisecond}
			r := setup(t, d)
			r.assign("ok")
			time.Sleep(time.Millisecond)
			for range 5 {
				r.assign("ok")
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Second)
			d.mu.Lock()
			defer d.mu.Unlock()
			if want := []int{1, 5}; !slices.Equal(d.batches, want) {
				t.Errorf("batches: got %v, want %v", d.batches, want)
			}
			if want := []time.Duration{0, 10 * time.Millisecond}; !slices.Equal(d.at, want) {
				t.Errorf("at: got %v, want %v", d.at, want)
			}
		})
	})

	t.Run("again after errors, ever later, in order", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			sink := new(logSink)
			d := &slowDisk{fail: 9}
			r := setup(t, d, sink.into)
			for range 3 { // one after the other: they end in the order they began
				r.assign("ok")
				synctest.Wait()
			}
			time.Sleep(time.Minute)
			d.mu.Lock()
			defer d.mu.Unlock()
			var waits []time.Duration
			for i := range 9 {
				waits = append(waits, d.at[i+1]-d.at[i])
			}
			const ms = time.Millisecond
			want := []time.Duration{10 * ms, 20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 640 * ms, time.Second, time.Second}
			if !slices.Equal(waits, want) {
				t.Errorf("waits: got %v, want %v", waits, want)
			}
			if want := []uint64{1, 2, 3}; !slices.Equal(d.order, want) {
				t.Errorf("order: got %v, want %v", d.order, want)
			}
			log := sink.String()
			if strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, "disk on fire") || strings.Count(log, "level=INFO") != 1 {
				t.Errorf("log: want one warning and one all-clear, got\n%s", log)
			}
		})
	})

	t.Run("a batch is bounded in bytes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := &slowDisk{take: time.Second}
			r := setup(t, d)
			r.assign("ok")
			synctest.Wait()
			for range 12 {
				r.assign("big")
			}
			time.Sleep(time.Minute)
			d.mu.Lock()
			defer d.mu.Unlock()
			if want := []int{1, 5, 5, 2}; !slices.Equal(d.batches, want) {
				t.Errorf("batches: got %v, want %v", d.batches, want)
			}
		})
	})
}

func TestPool_Drain(t *testing.T) {
	t.Run("before Run", func(t *testing.T) {
		l := new(leader)
		p, err := worker.New(worker.Config{Slots: 1, Report: l.report, Checkpoint: l.checkpoint})
		if err != nil {
			t.Fatal(err)
		}
		p.Assign([]worker.Assignment{l.grant("ok", 0)})
		err = p.Drain(t.Context())
		var lost *worker.DrainError
		if !errors.As(err, &lost) || len(lost.Unreported) != 1 || lost.Unreported[0].Outcome != store.OutcomeReleased {
			t.Errorf("got %v, want one report not delivered", err)
		}
		if got := p.Run(t.Context()); !errors.Is(got, worker.ErrNotDrained) {
			t.Errorf("Run: got %v, want the same", got)
		}
	})

	t.Run("says what it could not report", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, 2, handlers{"ok": ok})
			r.setCut(true)
			a := r.assign("ok")
			synctest.Wait()
			b := r.assign("ok")
			begin := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := r.Drain(ctx)
			var lost *worker.DrainError
			if !errors.As(err, &lost) || len(lost.Running) != 0 || len(lost.Unreported) != 2 ||
				lost.Unreported[0].Fence != a.Fence || lost.Unreported[1].Fence != b.Fence {
				t.Errorf("got %+v, want the reports of two runs", err)
			}
			if want := "2 reports not delivered, first of run " + a.Run.ID.String() + " (succeeded)"; !strings.Contains(err.Error(), want) {
				t.Errorf("got %q, want it to contain %q", err, want)
			}
			if took := time.Since(begin); took != time.Minute+5*time.Second {
				t.Errorf("took %v, want the minute and the grace", took)
			}
			if r.Capacity() != 0 || r.Reserved() != 0 {
				t.Errorf("capacity: got %d and %d, want 0", r.Capacity(), r.Reserved())
			}
			r.Assign([]worker.Assignment{r.grant("ok", 0)}) // nothing comes of it
		})
	})

	t.Run("of several calls the most urgent has its way", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, 2, handlers{"job": func(ctx context.Context, _ *worker.Execution) ([]byte, error) {
				<-ctx.Done()
				time.Sleep(time.Second) // puts its things away
				return nil, ctx.Err()
			}})
			a := r.assign("job")
			synctest.Wait()
			begin := time.Now()
			var wg sync.WaitGroup
			for _, d := range []time.Duration{time.Hour, time.Minute, 2 * time.Hour} {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), d)
					defer cancel()
					if err := r.Drain(ctx); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if took := time.Since(begin); took != time.Minute+time.Second {
				t.Errorf("took %v", took)
			}
			if got := r.outcome(t, a); got.Outcome != store.OutcomeInterrupted || got.Error != "worker: shutting down: context canceled" {
				t.Errorf("got %v %q", got.Outcome, got.Error)
			}
			<-r.stopped
			if r.runErr != nil {
				t.Errorf("Run: got %v", r.runErr)
			}
		})
	})

	t.Run("names handlers that do not return, with their stacks", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			sink := new(logSink)
			r := start(t, 2, handlers{"deaf": deaf}, sink.into)
			r.assign("deaf")
			synctest.Wait()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			err := r.Drain(ctx)
			if err == nil || !strings.Contains(err.Error(), `1 handlers still running`) || !strings.Contains(err.Error(), `"deaf"`) {
				t.Errorf("got %v", err)
			}
			if got := sink.String(); !strings.Contains(got, "worker_test.deaf") {
				t.Errorf("log: got\n%s", got)
			}
			time.Sleep(3 * time.Hour)
		})
	})
}
