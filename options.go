package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/internal/clock"
	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/worker"
)

// An Option configures a [Scheduler].
type Option interface {
	applyScheduler(*config)
}

type option func(*config)

func (f option) applyScheduler(c *config) { f(c) }

// A Declaration is an [Option] that declares schedules, [WithSchedule] or
// [WithScheduleFile]; [Scheduler.Lint] looks at it without applying it.
type Declaration interface {
	Option
	declares()
}

type declaration struct{ option }

func (declaration) declares() {}

// config is what the options of New add up to.
type config struct {
	dir          string
	log          LogKind
	nodeID       string
	cluster      *cluster.Config
	handlers     map[string]worker.Handler
	tasks        []string
	calendars    map[string]Calendar
	queues       map[string]store.Queue
	schedules    []*scheduleDef
	triggers     map[string]TriggerFunc
	scheduleFile string
	bases        map[string]*settings                // the defaults of the tasks that have handlers here
	decodes      map[string]func(input []byte) error // whether their handlers can read an input
	app          string
	generation   uint64
	slots        int
	maxPayload   int
	drainTimeout time.Duration
	retention    dispatch.Retention
	logger       *slog.Logger
	tracers      trace.TracerProvider
	meters       metric.MeterProvider

	clock       clock.Clock
	plainTimers bool // no file descriptors: inside a testing/synctest bubble
	disk        disk // in the place of dir: the simulator has disks of its own

	faults []error
}

// The defaults of [New].
const (
	DefaultMaxPayload   = 256 << 10
	DefaultDrainTimeout = 30 * time.Second
)

// Retention bounds how much history of ended runs and decided ticks is kept. A
// bound of zero is none. Bounds are lower ones too: what is within them is kept,
// and history goes in whole segments of up to a million rows.
type Retention struct {
	MaxAge   time.Duration
	MaxRuns  int64
	MaxTicks int64 // rows of the ledger; a span of ticks that fared alike is one
	MaxBytes int64
}

var defaultRetention = Retention{MaxAge: 7 * 24 * time.Hour, MaxRuns: 10_000_000, MaxTicks: 20_000_000, MaxBytes: 8 << 30}

func newConfig(opts []Option) (*config, error) {
	c := &config{
		handlers:     make(map[string]worker.Handler),
		bases:        make(map[string]*settings),
		decodes:      make(map[string]func([]byte) error),
		queues:       make(map[string]store.Queue),
		slots:        4 * runtime.GOMAXPROCS(0),
		maxPayload:   DefaultMaxPayload,
		drainTimeout: DefaultDrainTimeout,
		retention:    dispatch.Retention(defaultRetention),
		logger:       slog.New(slog.DiscardHandler),
		clock:        clock.System,
	}
	for _, o := range opts {
		if o == nil {
			c.fault(fmt.Errorf("scheduler: nil option: %w", ErrInvalid))
			continue
		}
		o.applyScheduler(c)
	}
	c.settle(c.schedules) // options come in any order
	c.checkCluster()
	return c, errors.Join(c.faults...)
}

// settle checks declared schedules against the other options.
func (c *config) settle(defs []*scheduleDef) {
	for _, def := range defs {
		def.app, def.generation = c.app, c.generation
		if !def.refused {
			c.fault(def.call.check(c.maxPayload))
		}
	}
}

func (c *config) fault(err error) {
	if err != nil {
		c.faults = append(c.faults, err)
	}
}

// WithDataDir keeps everything in a folder, which is made if it does not exist
// and belongs to one Scheduler at a time. Without this option everything is in
// memory and gone with the process, which suits tests: in a testing/synctest bubble
// days pass in no time.
func WithDataDir(dir string) Option {
	return option(func(c *config) {
		if dir == "" {
			c.fault(fmt.Errorf("scheduler: data folder: empty path: %w", ErrInvalid))
		}
		c.dir = dir
	})
}

// LogKind names how the log is kept in the data folder.
type LogKind = cluster.LogKind

// The kinds of logs.
const (
	LogSegments = cluster.LogSegments // preallocated segments: one write and one fsync an entry; the default
	LogBolt     = cluster.LogBolt     // raft-boltdb
)

// WithLog chooses how the log is kept. A folder stays with the kind that it began
// with; [Restore] makes segments. Nodes of a cluster may differ.
func WithLog(kind LogKind) Option {
	return option(func(c *config) {
		if kind > LogBolt {
			c.fault(fmt.Errorf("scheduler: log kind %d: %w", kind, ErrInvalid))
		}
		c.log = kind
	})
}

// WithNodeID names this node. Default: a random name that is kept in the data
// folder. It must differ between nodes.
func WithNodeID(id string) Option {
	return option(func(c *config) {
		c.fault(checkName("scheduler: node ID", id))
		c.nodeID = id
	})
}

// WithHandler registers the function that does a task's work. It is called
// concurrently, up to [WithConcurrency] times at once, from before Start returns:
// runs of an earlier process may be waiting. A handler that asks for runs itself
// uses a variable that is set to what New returns, before Start.
func WithHandler[In, Out any](task Task[In, Out], f func(ctx context.Context, in In) (Out, error)) Option {
	return option(func(c *config) {
		if f == nil {
			c.fault(fmt.Errorf("scheduler: handler of task %q is nil: %w", task.name, ErrInvalid))
			return
		}
		c.addHandler(task.name, task.base, handler(f), decodes[In])
	})
}

// WithFunc registers a handler of a task without a result; see [NewJob].
func WithFunc[In any](task Task[In, None], f func(ctx context.Context, in In) error) Option {
	if f == nil {
		return WithHandler[In, None](task, nil)
	}
	return WithHandler(task, func(ctx context.Context, in In) (None, error) { return None{}, f(ctx, in) })
}

func (c *config) addHandler(name string, base *settings, h worker.Handler, decodes func(input []byte) error) {
	switch {
	case base == nil:
		c.fault(fmt.Errorf("scheduler: handler of a zero Task: %w", ErrInvalid))
	case base.err != nil:
		c.fault(fmt.Errorf("scheduler: task %q: %w", name, base.err))
	case c.handlers[name] != nil:
		c.fault(fmt.Errorf("scheduler: task %q: %w", name, ErrDuplicate))
	default:
		c.handlers[name] = h
		c.bases[name] = base
		c.decodes[name] = decodes
	}
}

// WithTasks declares tasks that this process asks for without having handlers
// of them.
func WithTasks(names ...string) Option {
	return option(func(c *config) {
		for _, name := range names {
			c.fault(checkName("scheduler: task name", name))
		}
		c.tasks = append(c.tasks, names...)
	})
}

// WithSchedule declares a schedule in code: it is created, or changed to this
// definition, when the scheduler starts; see [Scheduler.Schedule]. A declaration counts
// when it is new or another one than the last time: what was changed by hand since, by
// [Scheduler.Schedule], [Scheduler.RollbackSchedule] or the end of a trial, is not undone
// because a process starts again; the log tells of it. A schedule that is no longer
// declared is not deleted, one that was deleted is made again.
func WithSchedule(id string, trigger Trigger, call Call, opts ...ScheduleOption) Declaration {
	return declaration{func(c *config) {
		for _, def := range c.schedules {
			if def.id == id {
				c.fault(fmt.Errorf("scheduler: schedule %q: %w", id, ErrDuplicate))
				return
			}
		}
		def, err := newScheduleDef(id, trigger, call, opts)
		c.fault(err)
		def.refused = err != nil
		c.schedules = append(c.schedules, def)
	}}
}

// WithApp names the application that declares schedules in code, and its
// generation, which grows with every release: an older generation that restarts
// during a rollout does not take a schedule back to its older definition.
func WithApp(name string, generation uint64) Option {
	return option(func(c *config) {
		c.fault(checkName("scheduler: application name", name))
		c.app, c.generation = name, generation
	})
}

// NoWorkers as the argument of [WithConcurrency] makes a node that asks for runs
// and executes none.
const NoWorkers = 0

// WithConcurrency sets how many handlers run at a time on this node. Default:
// four times GOMAXPROCS.
func WithConcurrency(n int) Option {
	return option(func(c *config) {
		if n < 0 {
			c.fault(fmt.Errorf("scheduler: concurrency %d: %w", n, ErrInvalid))
		}
		c.slots = n
	})
}

// A QueueOption configures a queue.
type QueueOption interface {
	applyQueue(*store.Queue)
}

type queueOption func(*store.Queue)

func (f queueOption) applyQueue(q *store.Queue) { f(q) }

// QueueLimit lets at most n runs of the queue be executed at a time, over all
// nodes. Default: 0, which is no limit.
func QueueLimit(n uint32) QueueOption {
	return queueOption(func(q *store.Queue) { q.Limit = n })
}

// WithQueue configures a queue when the scheduler starts. A pause that is in
// force stays. Queues need not be declared: one that is not has no limit.
func WithQueue(name string, opts ...QueueOption) Option {
	return option(func(c *config) {
		c.fault(checkName("scheduler: queue name", name))
		if _, twice := c.queues[name]; twice {
			c.fault(fmt.Errorf("scheduler: queue %q: %w", name, ErrDuplicate))
		}
		q := store.Queue{Name: name}
		for _, o := range opts {
			if o == nil {
				c.fault(fmt.Errorf("scheduler: queue %q: nil option: %w", name, ErrInvalid))
				continue
			}
			o.applyQueue(&q)
		}
		c.queues[name] = q
	})
}

// WithLogger sets where the scheduler logs. Default: nowhere. Inputs and results
// are never logged.
func WithLogger(l *slog.Logger) Option {
	return option(func(c *config) {
		if l == nil {
			c.fault(fmt.Errorf("scheduler: nil logger: %w", ErrInvalid))
			return
		}
		c.logger = l
	})
}

// WithTracerProvider makes the scheduler trace calls and attempts, each attempt
// linked to the call that asked for it. Default: no traces.
func WithTracerProvider(p trace.TracerProvider) Option {
	return option(func(c *config) { c.tracers = p })
}

// WithMeterProvider makes the scheduler measure itself. Default: no metrics.
func WithMeterProvider(p metric.MeterProvider) Option {
	return option(func(c *config) { c.meters = p })
}

// WithDrainTimeout sets how long [Scheduler.Run] lets handlers finish. Default:
// 30 s.
func WithDrainTimeout(d time.Duration) Option {
	return option(func(c *config) {
		if d < 0 {
			c.fault(fmt.Errorf("scheduler: drain timeout %v: %w", d, ErrInvalid))
		}
		c.drainTimeout = d
	})
}

// WithRetention bounds the history. Default: seven days, ten million runs, twenty
// million rows of the ledger and 8 GiB, whichever is reached first.
func WithRetention(r Retention) Option {
	return option(func(c *config) {
		if r.MaxAge < 0 || r.MaxRuns < 0 || r.MaxTicks < 0 || r.MaxBytes < 0 {
			c.fault(fmt.Errorf("scheduler: retention %+v: %w", r, ErrInvalid))
		}
		c.retention = dispatch.Retention(r)
	})
}

// WithMaxPayload bounds the encoded size of inputs and results, in bytes. An
// input over it is refused with [ErrPayloadTooLarge]; a result over it fails its
// attempt for good. Default: 256 KiB; at most 1 MiB.
func WithMaxPayload(n int) Option {
	return option(func(c *config) {
		if n < 1 || n > 1<<20 {
			c.fault(fmt.Errorf("scheduler: payload limit %d is not within 1 … 1048576: %w", n, ErrInvalid))
		}
		c.maxPayload = n
	})
}
