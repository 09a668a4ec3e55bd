package worker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/worker"
)

// ExamplePool runs two attempts, one of which fails, and drains.
func ExamplePool() {
	pool, err := worker.New(worker.Config{
		Slots: 4,
		Handlers: map[string]worker.Handler{
			"greet": func(_ context.Context, x *worker.Execution) ([]byte, error) {
				return []byte("hello from attempt " + fmt.Sprint(x.Attempt())), nil
			},
			"fail": func(context.Context, *worker.Execution) ([]byte, error) {
				return nil, worker.Permanent(errors.New("no such address"))
			},
		},
		Report: func(_ context.Context, reports []store.Report) error { // to the scheduler
			for _, r := range reports {
				fmt.Printf("%d: %v %q\n", r.Fence, r.Outcome, string(r.Result)+r.Error)
			}
			return nil
		},
		Checkpoint: func(context.Context, store.Checkpoint) error { return nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	done := make(chan error)
	go func() { done <- pool.Run(ctx) }()

	lease := func(task string, fence uint64, in time.Duration) worker.Assignment {
		id := store.NewRunID(time.Now(), [10]byte{9: byte(fence)})
		run := &store.Run{ID: id, Spec: &store.Spec{Task: task}, Fence: fence, Attempt: 1}
		return worker.Assignment{Run: run, Fence: fence, In: in}
	}
	// Assigned a little ahead, each starts when it is due. The third is not due when the pool is drained.
	pool.Assign([]worker.Assignment{
		lease("greet", 1, time.Millisecond), lease("fail", 2, 20*time.Millisecond), lease("greet", 3, time.Hour),
	})
	for pool.Snapshot().Started < 2 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println(pool.Drain(ctx), <-done)
	// Unordered output:
	// 1: succeeded "hello from attempt 1"
	// 2: permanent "no such address"
	// 3: released ""
	// <nil> <nil>
}

// ExampleExecution_Checkpoint is a handler that goes on where an attempt before it, or its process, has ended.
func ExampleExecution_Checkpoint() {
	handler := func(ctx context.Context, x *worker.Execution) ([]byte, error) {
		var at struct{ Page int }
		x.Resume(&at) // leaves it at the first page if there is no checkpoint
		for ; at.Page < 1000; at.Page++ {
			if err := context.Cause(ctx); err != nil {
				return nil, err // worker.ErrShutdown, say
			}
			x.Progress(float64(at.Page)/1000, "copying")
			if at.Page%100 == 99 {
				if err := x.Checkpoint(at); err != nil {
					return nil, err
				}
			}
		}
		return nil, nil
	}
	execute(handler, &store.RunMore{Checkpoint: []byte(`{"Page":750}`)})
	// Output:
	// checkpoint {"Page":799}
	// checkpoint {"Page":899}
	// checkpoint {"Page":999}
	// succeeded
}

// ExampleExecution_Yield is a handler that waits for something that needs a slot itself.
func ExampleExecution_Yield() {
	execute(func(ctx context.Context, x *worker.Execution) ([]byte, error) {
		resume := x.Yield()
		fmt.Println("waiting for something else, with no slot in use")
		if err := resume(ctx); err != nil {
			return nil, err
		}
		return nil, nil
	}, nil)
	// Output:
	// waiting for something else, with no slot in use
	// succeeded
}

// ExampleSnooze is a handler that finds that it is not time for it yet.
func ExampleSnooze() {
	execute(func(context.Context, *worker.Execution) ([]byte, error) {
		return nil, worker.Snooze(time.Minute)
	}, nil)
	// Output: snoozed, again in 1m0s
}

// execute runs a single attempt and prints what is committed for it.
func execute(h worker.Handler, more *store.RunMore) {
	pool, err := worker.New(worker.Config{
		Slots: 1, Handlers: map[string]worker.Handler{"job": h},
		Report: func(_ context.Context, reports []store.Report) error {
			fmt.Print(reports[0].Outcome)
			if d := time.Duration(reports[0].Delay); d > 0 {
				fmt.Print(", again in ", d)
			}
			fmt.Println()
			return nil
		},
		Checkpoint: func(_ context.Context, c store.Checkpoint) error {
			fmt.Printf("checkpoint %s\n", c.Data)
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	done := make(chan error)
	go func() { done <- pool.Run(ctx) }()
	run := &store.Run{ID: store.NewRunID(time.Now(), [10]byte{}), Spec: &store.Spec{Task: "job"}, Attempt: 1, More: more}
	pool.Assign([]worker.Assignment{{Run: run, Fence: 1}})
	for pool.Snapshot().Started == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := errors.Join(pool.Drain(ctx), <-done); err != nil {
		fmt.Println(err)
	}
}
