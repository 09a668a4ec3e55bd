package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/escapement-go/scheduler"
)

// Email is the input of the task of most examples.
type Email struct{ To, Subject string }

// SendEmail is declared once, shared by those who ask for it and those who do it.
var SendEmail = scheduler.NewTask[Email, string]("email.send",
	scheduler.Timeout(30*time.Second),
	scheduler.Retry(scheduler.Backoff{Initial: time.Second, Max: time.Minute, Attempts: 5}),
)

// send is the handler of SendEmail.
func send(_ context.Context, e Email) (string, error) { return "sent to " + e.To, nil }

// begin makes and starts the scheduler of an example.
func begin(opts ...scheduler.Option) *scheduler.Scheduler {
	s, err := scheduler.New(opts...)
	if err != nil {
		log.Fatal(err)
	}
	if err := s.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
	return s
}

func Example() {
	ctx := context.Background()
	s, err := scheduler.New(
		// scheduler.WithDataDir("data") keeps everything in a folder; without it, it is in memory.
		scheduler.WithHandler(SendEmail, func(ctx context.Context, e Email) (string, error) {
			return "sent to " + e.To, nil
		}),
		scheduler.WithSchedule("digest", scheduler.Cron("0 9 * * MON-FRI", scheduler.Zone("Asia/Shanghai")),
			SendEmail.With(Email{To: "team@example.com", Subject: "digest"})),
	)
	if err != nil {
		log.Fatal(err)
	}
	if err := s.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(ctx)

	now, err := SendEmail.Enqueue(ctx, s, Email{To: "a@example.com"})
	if err != nil {
		log.Fatal(err)
	}
	later, err := SendEmail.Enqueue(ctx, s, Email{To: "b@example.com"}, scheduler.In(5*time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	out, err := now.Wait(ctx)
	fmt.Println(out, err)
	fmt.Println(later.Cancel(ctx))
	// Output:
	// sent to a@example.com <nil>
	// <nil>
}

func ExampleNew_faults() {
	_, err := scheduler.New(
		scheduler.WithConcurrency(-1),
		scheduler.WithHandler(SendEmail, send),
		scheduler.WithHandler(SendEmail, send),
	)
	fmt.Println(err)
	fmt.Println(errors.Is(err, scheduler.ErrDuplicate))
	// Output:
	// scheduler: concurrency -1: invalid
	// scheduler: task "email.send": declared twice
	// true
}

func ExampleScheduler_Run() {
	s, err := scheduler.New(scheduler.WithHandler(SendEmail, send), scheduler.WithDrainTimeout(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	// A program would take the context from signal.NotifyContext.
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		<-s.Ready()
		fmt.Println("ready")
		stop()
	}()
	fmt.Println(s.Run(ctx))
	// Output:
	// ready
	// <nil>
}

func ExampleScheduler_Shutdown() {
	var s *scheduler.Scheduler
	started := make(chan struct{})
	s = begin(scheduler.WithHandler(SendEmail, func(ctx context.Context, e Email) (string, error) {
		close(started)
		<-ctx.Done() // ends when the time to drain is over
		fmt.Println(errors.Is(context.Cause(ctx), scheduler.ErrShutdown))
		return "", ctx.Err() // the run is given back, without spending a retry
	}))
	if _, err := SendEmail.Enqueue(context.Background(), s, Email{}); err != nil {
		log.Fatal(err)
	}
	<-started
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	fmt.Println(s.Shutdown(ctx))

	_, err := SendEmail.Enqueue(context.Background(), s, Email{})
	fmt.Println(errors.Is(err, scheduler.ErrClosed))
	// Output:
	// true
	// <nil>
	// true
}

func ExampleScheduler_Health() {
	ctx := context.Background()
	s, err := scheduler.New(scheduler.WithNodeID("node-1"))
	if err != nil {
		log.Fatal(err)
	}
	h := s.Health(ctx)
	fmt.Println(h.OK, h.Role, h.Reasons)
	if err := s.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(ctx)
	h = s.Health(ctx)
	fmt.Println(h.OK, h.Role, h.Leader, h.Volatile)
	// Output:
	// false stopped [scheduler: not started: scheduler is closed]
	// true leader node-1 true
}

func ExampleWithDataDir() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "scheduler-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	s := begin(scheduler.WithDataDir(dir), scheduler.WithTasks(SendEmail.Name()))
	f, err := SendEmail.Enqueue(ctx, s, Email{To: "a@example.com"})
	if err != nil {
		log.Fatal(err)
	}
	if err := s.Shutdown(ctx); err != nil { // kill -9 would do no harm either
		log.Fatal(err)
	}

	s = begin(scheduler.WithDataDir(dir), scheduler.WithHandler(SendEmail, send))
	defer s.Shutdown(ctx)
	fmt.Println(SendEmail.Future(s, f.ID()).Wait(ctx))
	// Output: sent to a@example.com <nil>
}

func ExampleWithFunc() {
	ctx := context.Background()
	purge := scheduler.NewJob[int]("cache.purge") // no result
	s := begin(scheduler.WithFunc(purge, func(_ context.Context, days int) error {
		fmt.Println("purging what is older than", days, "days")
		return nil
	}))
	defer s.Shutdown(ctx)
	f, err := purge.Enqueue(ctx, s, 30)
	if err != nil {
		log.Fatal(err)
	}
	_, err = f.Wait(ctx)
	fmt.Println(err)
	// Output:
	// purging what is older than 30 days
	// <nil>
}

func ExampleWithTasks() {
	ctx := context.Background()
	// This process asks for mails that another one sends.
	s := begin(scheduler.WithTasks(SendEmail.Name()), scheduler.WithConcurrency(scheduler.NoWorkers))
	defer s.Shutdown(ctx)
	f, err := SendEmail.Enqueue(ctx, s, Email{})
	if err != nil {
		log.Fatal(err)
	}
	why, err := s.Explain(ctx, f.ID())
	fmt.Println(why.Reason, err)

	_, err = scheduler.NewTask[int, int]("email.sned").Enqueue(ctx, s, 1)
	fmt.Println(errors.Is(err, scheduler.ErrUnknownTask))
	// Output:
	// no live worker has a handler for task "email.send" <nil>
	// true
}

func ExampleWithMaxPayload() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send), scheduler.WithMaxPayload(1000))
	defer s.Shutdown(ctx)
	_, err := SendEmail.Enqueue(ctx, s, Email{Subject: strings.Repeat("x", 2000)})
	fmt.Println(errors.Is(err, scheduler.ErrPayloadTooLarge))
	// Output: true
}

func ExampleWithRetention() {
	s := begin(scheduler.WithRetention(scheduler.Retention{MaxAge: 30 * 24 * time.Hour, MaxRuns: 1_000_000}))
	defer s.Shutdown(context.Background())
	// Output:
}
