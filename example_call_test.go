package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/escapement-go/scheduler"
)

func ExampleTask_Enqueue() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send))
	defer s.Shutdown(ctx)
	f, err := SendEmail.Enqueue(ctx, s, Email{To: "a@example.com"})
	if err != nil {
		log.Fatal(err) // nothing was asked for, unless it is ErrOutcomeUnknown
	}
	fmt.Println(f.Wait(ctx))
	// Output: sent to a@example.com <nil>
}

func ExampleTask_EnqueueMany() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send))
	defer s.Shutdown(ctx)
	// All or none, in one entry of the log.
	futures, err := SendEmail.EnqueueMany(ctx, s, []Email{{To: "a@example.com"}, {To: "b@example.com"}}, scheduler.Priority(scheduler.Low))
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range futures {
		fmt.Println(f.Wait(ctx))
	}
	// Output:
	// sent to a@example.com <nil>
	// sent to b@example.com <nil>
}

func ExampleScheduler_EnqueueMany() {
	ctx := context.Background()
	count := scheduler.NewJob[int]("count")
	s := begin(scheduler.WithHandler(SendEmail, send), scheduler.WithTasks(count.Name()))
	defer s.Shutdown(ctx)
	ids, err := s.EnqueueMany(ctx, []scheduler.Call{ // of several tasks
		SendEmail.With(Email{To: "a@example.com"}),
		count.With(7, scheduler.In(time.Hour)),
	})
	if err != nil {
		log.Fatal(err)
	}
	run, err := s.Await(ctx, ids[0])
	fmt.Println(run.State, err)
	run, err = s.Get(ctx, ids[1])
	fmt.Println(run.State, err)
	// Output:
	// succeeded <nil>
	// scheduled <nil>
}

func ExampleTask_Future() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send))
	defer s.Shutdown(ctx)
	f, err := SendEmail.Enqueue(ctx, s, Email{To: "a@example.com"})
	if err != nil {
		log.Fatal(err)
	}
	kept := f.ID().String() // in a database, say

	id, err := scheduler.ParseRunID(kept)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(SendEmail.Future(s, id).Wait(ctx))
	// Output: sent to a@example.com <nil>
}

func ExampleFuture_Cancel() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send))
	defer s.Shutdown(ctx)
	f, err := SendEmail.Enqueue(ctx, s, Email{}, scheduler.In(time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Cancel(ctx))
	_, err = f.Wait(ctx)
	fmt.Println(errors.Is(err, scheduler.ErrCanceled))
	fmt.Println(errors.Is(f.Cancel(ctx), scheduler.ErrConflict)) // it has ended
	// Output:
	// <nil>
	// true
	// true
}

func ExampleIn() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send))
	defer s.Shutdown(ctx)
	began := time.Now()
	f, err := SendEmail.Enqueue(ctx, s, Email{To: "a@example.com"}, scheduler.In(20*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	out, err := f.Wait(ctx)
	fmt.Println(out, err, time.Since(began) >= 20*time.Millisecond)
	// Output: sent to a@example.com <nil> true
}

func ExampleAt() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send))
	defer s.Shutdown(ctx)
	launch := time.Date(2100, 1, 1, 9, 0, 0, 0, time.UTC)
	f, err := SendEmail.Enqueue(ctx, s, Email{}, scheduler.At(launch))
	if err != nil {
		log.Fatal(err)
	}
	run, err := s.Get(ctx, f.ID())
	fmt.Println(run.State, run.Due, err)
	// Output: scheduled 2100-01-01 09:00:00 +0000 UTC <nil>
}

func ExampleUnique() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send))
	defer s.Shutdown(ctx)
	welcome := scheduler.Unique("welcome/7")
	first, err := SendEmail.Enqueue(ctx, s, Email{}, welcome, scheduler.In(time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	_, err = SendEmail.Enqueue(ctx, s, Email{}, welcome)
	if held, ok := errors.AsType[*scheduler.UniqueError](err); ok {
		fmt.Println(held.Key, held.Holder == first.ID())
	}
	// Output: welcome/7 true
}

func ExampleUniqueFor() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send))
	defer s.Shutdown(ctx)
	once := []scheduler.RunOption{scheduler.Unique("alert/disk"), scheduler.UniqueFor(time.Hour)}
	f, err := SendEmail.Enqueue(ctx, s, Email{To: "a@example.com"}, once...)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Wait(ctx))
	_, err = SendEmail.Enqueue(ctx, s, Email{To: "a@example.com"}, once...) // within the hour
	fmt.Println(errors.Is(err, scheduler.ErrConflict))
	// Output:
	// sent to a@example.com <nil>
	// true
}

func ExampleWithID() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send))
	defer s.Shutdown(ctx)
	id, err := scheduler.ParseRunID("01890a5d-ac96-774b-bcce-b302099a8057") // of an order, say
	if err != nil {
		log.Fatal(err)
	}
	for range 2 { // the second time is a repetition
		_, err := SendEmail.Enqueue(ctx, s, Email{}, scheduler.WithID(id))
		fmt.Println(errors.Is(err, scheduler.ErrConflict))
	}
	// Output:
	// false
	// true
}

func ExampleMeta() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send))
	defer s.Shutdown(ctx)
	f, err := SendEmail.Enqueue(ctx, s, Email{}, scheduler.Meta("order", "4711"), scheduler.ForTenant("acme"),
		scheduler.InQueue("mail"), scheduler.Priority(scheduler.High))
	if err != nil {
		log.Fatal(err)
	}
	run, err := s.Get(ctx, f.ID())
	fmt.Println(run.Meta["order"], run.Tenant, run.Queue, run.Priority == scheduler.High, err)
	// Output: 4711 acme mail true <nil>
}

func ExampleExpireAfter() {
	ctx := context.Background()
	s := begin(scheduler.WithTasks(SendEmail.Name())) // nobody does it
	defer s.Shutdown(ctx)
	f, err := SendEmail.Enqueue(ctx, s, Email{}, scheduler.ExpireAfter(10*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	_, err = f.Wait(ctx)
	fmt.Println(errors.Is(err, scheduler.ErrExpired))
	// Output: true
}

func ExampleTimeout() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, func(ctx context.Context, e Email) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}))
	defer s.Shutdown(ctx)
	f, err := SendEmail.Enqueue(ctx, s, Email{}, scheduler.Timeout(10*time.Millisecond), scheduler.Retry(scheduler.Backoff{Attempts: 1}))
	if err != nil {
		log.Fatal(err)
	}
	_, err = f.Wait(ctx)
	if failed, ok := errors.AsType[*scheduler.RunError](err); ok {
		fmt.Println(failed.Attempt, failed.Err)
	}
	// Output: 1 worker: run timed out
}

func ExampleRetry() {
	ctx := context.Background()
	fetch := scheduler.NewTask[string, int]("fetch", scheduler.Retry(scheduler.Backoff{
		Initial: time.Millisecond, Max: 10 * time.Millisecond, Attempts: 3,
	}))
	s := begin(scheduler.WithHandler(fetch, func(ctx context.Context, url string) (int, error) {
		n := scheduler.Current(ctx).Attempt()
		if n < 3 {
			return 0, errors.New("connection refused")
		}
		return n, nil
	}))
	defer s.Shutdown(ctx)
	f, err := fetch.Enqueue(ctx, s, "https://example.com")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Wait(ctx))
	run, err := s.Get(ctx, f.ID())
	fmt.Println(run.Failures, run.Attempts[0].Error, err)
	// Output:
	// 3 <nil>
	// 2 connection refused <nil>
}

func ExamplePermanent() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, func(ctx context.Context, e Email) (string, error) {
		return "", scheduler.Permanent(fmt.Errorf("no such address: %q", e.To))
	}))
	defer s.Shutdown(ctx)
	f, err := SendEmail.Enqueue(ctx, s, Email{To: "nobody"})
	if err != nil {
		log.Fatal(err)
	}
	_, err = f.Wait(ctx)
	if failed, ok := errors.AsType[*scheduler.RunError](err); ok {
		fmt.Println(failed.Attempt, failed.Err)
	}
	// Output: 1 no such address: "nobody"
}

func ExampleRetryAfter() {
	ctx := context.Background()
	var calls atomic.Int64
	s := begin(scheduler.WithHandler(SendEmail, func(ctx context.Context, e Email) (string, error) {
		if calls.Add(1) == 1 {
			return "", scheduler.RetryAfter(errors.New("too many mails"), 10*time.Millisecond) // as the server says
		}
		return "sent", nil
	}))
	defer s.Shutdown(ctx)
	f, err := SendEmail.Enqueue(ctx, s, Email{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Wait(ctx))
	// Output: sent <nil>
}

func ExampleSnooze() {
	ctx := context.Background()
	var calls atomic.Int64
	s := begin(scheduler.WithHandler(SendEmail, func(ctx context.Context, e Email) (string, error) {
		if calls.Add(1) < 3 { // what it needs is not there yet
			return "", scheduler.Snooze(time.Millisecond)
		}
		return "sent", nil
	}))
	defer s.Shutdown(ctx)
	f, err := SendEmail.Enqueue(ctx, s, Email{}, scheduler.Retry(scheduler.Backoff{Attempts: 1})) // a snooze spends none
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Wait(ctx))
	run, err := s.Get(ctx, f.ID())
	fmt.Println(run.Snoozes, run.Failures, err)
	// Output:
	// sent <nil>
	// 2 0 <nil>
}

func ExampleRun_panicked() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, func(context.Context, Email) (string, error) {
		panic("out of paper")
	}))
	defer s.Shutdown(ctx)
	f, err := SendEmail.Enqueue(ctx, s, Email{}, scheduler.Retry(scheduler.Backoff{Attempts: 1}))
	if err != nil {
		log.Fatal(err)
	}
	run, err := s.Await(ctx, f.ID())
	fmt.Println(run.State, run.Panicked, err) // run.Error has the stack
	// Output: failed true <nil>
}

func ExampleCurrent() {
	ctx := context.Background()
	type state struct{ Done int }
	imports := scheduler.NewTask[int, int]("import", scheduler.Retry(scheduler.Backoff{Initial: time.Millisecond, Attempts: 2}))
	s := begin(scheduler.WithHandler(imports, func(ctx context.Context, rows int) (int, error) {
		x := scheduler.Current(ctx)
		var at state
		fmt.Printf("attempt %d: resumes: %v, from row %d\n", x.Attempt(), x.Resume(&at), at.Done)
		for ; at.Done < rows; at.Done++ {
			if at.Done == 2 && x.Attempt() == 1 {
				return 0, errors.New("connection lost")
			}
			x.Progress(float64(at.Done)/float64(rows), "importing")
			if err := x.Checkpoint(state{at.Done + 1}); err != nil {
				return 0, err
			}
		}
		return at.Done, nil
	}))
	defer s.Shutdown(ctx)
	f, err := imports.Enqueue(ctx, s, 4)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Wait(ctx))
	// Output:
	// attempt 1: resumes: false, from row 0
	// attempt 2: resumes: true, from row 2
	// 4 <nil>
}

func ExampleFuture_Wait_inHandler() {
	ctx := context.Background()
	var s *scheduler.Scheduler
	report := scheduler.NewTask[string, string]("report")
	s = begin(scheduler.WithConcurrency(1), scheduler.WithHandler(SendEmail, send),
		scheduler.WithHandler(report, func(ctx context.Context, to string) (string, error) {
			f, err := SendEmail.Enqueue(ctx, s, Email{To: to})
			if err != nil {
				return "", err
			}
			return f.Wait(ctx) // gives the only slot to the run it waits for
		}))
	defer s.Shutdown(ctx)
	f, err := report.Enqueue(ctx, s, "boss@example.com")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Wait(ctx))
	// Output: sent to boss@example.com <nil>
}
