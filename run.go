package scheduler

import (
	"context"
	"math"
	"time"

	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/worker"
)

// RunState is where a run is in its life.
type RunState = store.RunState

// The run states. The last four are final.
const (
	Scheduled = store.Scheduled // due later
	Ready     = store.Ready     // due, waits for a worker
	Assigned  = store.Assigned  // a worker has it and waits for its due time
	Running   = store.Running   // a worker has it and it is due
	Succeeded = store.Succeeded
	Failed    = store.Failed
	Canceled  = store.Canceled
	Expired   = store.Expired
)

// A Run is one execution of a task, as it was when it was read.
type Run struct {
	ID       RunID
	Task     string
	Queue    string
	Tenant   string
	Priority PriorityClass
	State    RunState

	Due      time.Time // by the present offset between the clocks, for delays and retries
	Created  time.Time
	Started  time.Time // of the last attempt that reported; zero if none has
	Finished time.Time // zero until the state is final

	Attempt    int    // leases granted so far
	Fence      uint64 // of the current or last lease
	Failures   int    // handler errors
	Crashes    int    // lost leases
	Interrupts int    // attempts stopped by deploys
	Snoozes    int

	Schedule string    // the schedule that made it, if one did
	Nominal  time.Time // the tick's nominal time

	UniqueKey string
	Meta      map[string]string
	Input     []byte // JSON; read-only
	Result    []byte // JSON; read-only
	Error     string // of the last failed attempt, or why the run ended
	Panicked  bool   // Error is a panic with its stack
	Attempts  []Attempt

	workerLost bool
}

// An Attempt is a try that did not succeed. The last ten are kept.
type Attempt struct {
	Number   int
	Fence    uint64
	Started  time.Time
	Finished time.Time
	Outcome  string // failed, permanent, retry_after, interrupted, crashed
	Error    string
}

// view makes the public form of a record. wall and elapsed are the present
// clocks.
func view(r *store.Run, wall, elapsed int64) Run {
	v := Run{
		ID: r.ID, Task: r.Spec.Task, Queue: r.Spec.Queue, Tenant: r.Spec.Tenant, Priority: r.Spec.Priority,
		State: r.Phase(wall, elapsed), Due: instant(r.Due), Created: instant(r.Created),
		Started: instant(r.Started), Finished: instant(r.Finished),
		Attempt: int(r.Attempt), Fence: r.Fence, Failures: int(r.Failures), Crashes: int(r.Crashes),
		Interrupts: int(r.Interrupts), Snoozes: int(r.Snoozes), Input: r.Input,
	}
	if r.Clock == store.Elapsed {
		v.Due = instant(r.Due + min(wall-elapsed, math.MaxInt64-r.Due)) // a delay may have no end
	}
	m := r.More
	if m == nil {
		return v
	}
	v.Schedule, v.Nominal = m.Schedule, instant(m.Nominal)
	v.UniqueKey, v.Result, v.Error, v.Panicked = m.Unique, m.Result, m.Error, m.Panicked
	if len(m.Meta) > 0 {
		v.Meta = make(map[string]string, len(m.Meta))
		for _, p := range m.Meta {
			v.Meta[p.Key] = p.Value
		}
	}
	for _, a := range m.Attempts {
		v.Attempts = append(v.Attempts, Attempt{
			Number: int(a.Number), Fence: a.Fence, Started: instant(a.Started), Finished: instant(a.Finished),
			Outcome: a.Outcome.String(), Error: a.Error,
		})
	}
	if n := len(m.Attempts); r.State == store.Failed && n > 0 {
		v.workerLost = m.Attempts[n-1].Outcome == store.OutcomeCrashed
	}
	return v
}

// instant turns stored nanoseconds into a time; 0 is the zero time.
func instant(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// Execution is an attempt as its handler sees it: ID, Task, Attempt, Fence,
// Schedule and ScheduledAt (the nominal time) say what it is; Progress tells how
// far it is, to be seen by [Scheduler.Explain]; Checkpoint keeps what Resume finds
// in the next attempt, and forgives the crashes so far; Logger logs with its
// name; Yield gives its slot back while it waits.
type Execution = worker.Execution

// Current returns the attempt that the context belongs to, nil outside a
// handler.
func Current(ctx context.Context) *Execution { return worker.Current(ctx) }
