package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/escapement-go/scheduler/store"
)

// A RunOption changes how one run, or the runs of a task, are handled.
type RunOption interface {
	applyRun(*settings)
}

type runOption func(*settings)

func (f runOption) applyRun(s *settings) { f(s) }

// settings are a run's options, resolved. They are shared and never changed once
// encode was called.
type settings struct {
	spec   store.Spec
	raw    []byte // spec, encoded
	unique string
	meta   []store.Pair
	id     RunID
	delay  time.Duration
	at     time.Time
	err    error
}

// DefaultQueue is the queue of runs that name none.
const DefaultQueue = "default"

// The defaults of retrying.
const (
	DefaultAttempts = 25
	defaultInitial  = time.Second
	defaultMax      = time.Hour
	defaultFactor   = 2
)

func newSettings(task string) *settings {
	s := &settings{spec: store.Spec{
		Task: task, Queue: DefaultQueue, Priority: store.Normal,
		Retry: Backoff{}.retry(),
	}}
	s.check(checkName("task name", task))
	return s
}

func (s *settings) check(err error) {
	if s.err == nil {
		s.err = err
	}
}

func (s *settings) apply(opts []RunOption) {
	for _, o := range opts {
		if o == nil {
			s.check(fmt.Errorf("nil option: %w", ErrInvalid))
			continue
		}
		o.applyRun(s)
	}
}

func (s *settings) encode() { s.raw = s.spec.Encode() }

// with returns a copy of s with more options applied.
func (s *settings) with(opts []RunOption) *settings {
	n := *s
	n.spec.Labels = slices.Clone(s.spec.Labels)
	n.meta = slices.Clone(s.meta)
	n.apply(opts)
	n.encode()
	return &n
}

// maxName bounds the names of tasks, queues, tenants and schedules, in bytes.
const maxName = 255

// checkName accepts any text that can be shown and found again: valid UTF-8
// without control characters, of 1 to 255 bytes.
func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is empty: %w", what, ErrInvalid)
	case len(name) > maxName:
		return fmt.Errorf("%s of %d bytes is longer than %d: %w", what, len(name), maxName, ErrInvalid)
	case !utf8.ValidString(name):
		return fmt.Errorf("%s %q is not valid UTF-8: %w", what, name, ErrInvalid)
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return fmt.Errorf("%s %q has a control character: %w", what, name, ErrInvalid)
		}
	}
	return nil
}

// In delays the run, counted on the elapsed clock: no step of the time of day
// moves it.
func In(d time.Duration) RunOption {
	return runOption(func(s *settings) { s.delay, s.at = max(d, 0), time.Time{} })
}

// At makes the run due at a time of day. A time that has passed is due at once.
func At(t time.Time) RunOption {
	return runOption(func(s *settings) {
		if err := checkTime(t); err != nil {
			s.check(err)
			return
		}
		if epoch := time.Unix(0, 1); t.Before(epoch) {
			t = epoch // so that the time until then fits into 64 bits
		}
		s.at, s.delay = t, 0
	})
}

// InQueue names the queue in which the run waits. Default: [DefaultQueue].
func InQueue(name string) RunOption {
	return runOption(func(s *settings) {
		s.check(checkName("queue name", name))
		s.spec.Queue = name
	})
}

// PriorityClass is the class of a run; a higher one is served first.
type PriorityClass = store.Priority

// The priority classes. The default is Normal.
const (
	Low      = store.Low
	Normal   = store.Normal
	High     = store.High
	Critical = store.Critical
)

// Priority sets the run's class. Waiting raises a run's class step by step, so
// that a stream of higher ones does not starve it.
func Priority(class PriorityClass) RunOption {
	return runOption(func(s *settings) {
		if class > Critical {
			s.check(fmt.Errorf("priority class %d: %w", class, ErrInvalid))
		}
		s.spec.Priority = class
	})
}

// ForTenant says whose run it is.
func ForTenant(name string) RunOption {
	return runOption(func(s *settings) {
		s.check(checkName("tenant name", name))
		s.spec.Tenant = name
	})
}

// Timeout ends an attempt's context after d with cause [ErrTimeout]. Default: no
// limit.
func Timeout(d time.Duration) RunOption {
	return runOption(func(s *settings) {
		if d <= 0 {
			s.check(fmt.Errorf("timeout %v is not positive: %w", d, ErrInvalid))
		}
		s.spec.Timeout = int64(d)
	})
}

// ExpireAfter ends the run as [Expired] if it has not started d after it was
// asked for (a scheduled one: after its nominal time). Default: it never
// expires.
func ExpireAfter(d time.Duration) RunOption {
	return runOption(func(s *settings) {
		if d <= 0 {
			s.check(fmt.Errorf("expiry %v is not positive: %w", d, ErrInvalid))
		}
		s.spec.ExpireAfter = int64(d)
	})
}

// Unlimited as Backoff.Attempts retries for ever.
const Unlimited = store.Unlimited

// NoJitter as Backoff.Jitter makes every delay exactly the computed one.
const NoJitter = 1e-300

// Backoff says how handler errors are retried: retry n waits Initial × Factorⁿ⁻¹,
// at most Max, less a random share of up to Jitter. A zero field has its default.
type Backoff struct {
	Initial  time.Duration // default 1 s
	Max      time.Duration // default 1 h
	Factor   float64       // default 2; at least 1
	Jitter   float64       // default 1, which is full jitter; [NoJitter] is none
	Attempts uint32        // default 25, the first one included; [Unlimited] is no bound
}

func (b Backoff) retry() store.Retry {
	initial := cmp.Or(b.Initial, defaultInitial)
	return store.Retry{
		Initial:  int64(initial),
		Max:      int64(max(cmp.Or(b.Max, defaultMax), initial)),
		Factor:   cmp.Or(b.Factor, defaultFactor),
		Jitter:   cmp.Or(b.Jitter, 1),
		Attempts: cmp.Or(b.Attempts, DefaultAttempts),
	}
}

// Retry sets how handler errors are retried.
func Retry(b Backoff) RunOption {
	return runOption(func(s *settings) {
		if b.Initial < 0 || b.Max < 0 || b.Factor != 0 && !(b.Factor >= 1) || b.Jitter < 0 || !(b.Jitter <= 1) {
			s.check(fmt.Errorf("backoff %+v: durations and jitter must not be negative, jitter at most 1, factor at least 1: %w", b, ErrInvalid))
		}
		s.spec.Retry = b.retry()
	})
}

// Unique lets only one run of the task with this key be live at a time; another
// is refused with a [*UniqueError] that names the holder. The key is free the
// moment its holder has ended, or is held longer by [UniqueFor].
func Unique(key string) RunOption {
	return runOption(func(s *settings) {
		s.check(checkName("unique key", key))
		s.unique = key
	})
}

// UniqueFor holds the run's unique key for at least d from when it was asked
// for, even if the run ends sooner.
func UniqueFor(d time.Duration) RunOption {
	return runOption(func(s *settings) {
		if d <= 0 {
			s.check(fmt.Errorf("unique window %v is not positive: %w", d, ErrInvalid))
		}
		s.spec.UniqueFor = int64(d)
	})
}

// Meta attaches a key with a value to the run, to be found again on it.
func Meta(key, value string) RunOption {
	return runOption(func(s *settings) {
		s.check(checkName("meta key", key))
		at, found := slices.BinarySearchFunc(s.meta, key, func(p store.Pair, k string) int { return cmp.Compare(p.Key, k) })
		if found {
			s.meta[at].Value = value
			return
		}
		s.meta = slices.Insert(s.meta, at, store.Pair{Key: key, Value: value})
	})
}

// WithID gives the run an ID of the caller's making, a UUID of version 7.
// Asking twice for the same ID is refused with [ErrConflict], which makes a call
// safe to repeat across processes, for as long as the history has the first run.
func WithID(id RunID) RunOption {
	return runOption(func(s *settings) {
		if !id.Valid() {
			s.check(fmt.Errorf("run ID %v is not a UUIDv7: %w", id, ErrInvalid))
		}
		s.id = id
	})
}
