package scheduler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/escapement-go/scheduler"
)

func ExampleScheduler_Get() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send))
	defer s.Shutdown(ctx)
	f, err := SendEmail.Enqueue(ctx, s, Email{To: "a@example.com", Subject: "hello"}, scheduler.In(time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	run, err := s.Get(ctx, f.ID())
	fmt.Println(run.Task, run.State, string(run.Input), err)

	_, err = s.Get(ctx, scheduler.RunID{})
	fmt.Println(errors.Is(err, scheduler.ErrNotFound))
	// Output:
	// email.send scheduled {"To":"a@example.com","Subject":"hello"} <nil>
	// true
}

func ExampleScheduler_Await() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send))
	defer s.Shutdown(ctx)
	id, err := s.Enqueue(ctx, SendEmail.With(Email{To: "a@example.com"}))
	if err != nil {
		log.Fatal(err)
	}
	run, err := s.Await(ctx, id)
	fmt.Println(run.State, string(run.Result), err)
	// Output: succeeded "sent to a@example.com" <nil>
}

func ExampleScheduler_Runs() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send))
	defer s.Shutdown(ctx)
	for i := range 3 {
		if _, err := SendEmail.Enqueue(ctx, s, Email{Subject: fmt.Sprint(i)}, scheduler.In(time.Hour)); err != nil {
			log.Fatal(err)
		}
	}
	waiting := scheduler.RunFilter{Tasks: []string{"email.send"}, States: []scheduler.RunState{scheduler.Scheduled, scheduler.Ready}}
	for run, err := range s.Runs(ctx, waiting) { // the newest first
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(run.Input))
	}
	// Output:
	// {"To":"","Subject":"2"}
	// {"To":"","Subject":"1"}
	// {"To":"","Subject":"0"}
}

func ExampleScheduler_RetryNow() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send))
	defer s.Shutdown(ctx)
	f, err := SendEmail.Enqueue(ctx, s, Email{To: "a@example.com"}, scheduler.In(time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	if err := s.RetryNow(ctx, f.ID()); err != nil { // not in an hour
		log.Fatal(err)
	}
	fmt.Println(f.Wait(ctx))
	// Output: sent to a@example.com <nil>
}

func ExampleScheduler_Explain() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send), scheduler.WithQueue("mail", scheduler.QueueLimit(10)))
	defer s.Shutdown(ctx)
	if err := s.PauseQueue(ctx, "mail"); err != nil {
		log.Fatal(err)
	}
	f, err := SendEmail.Enqueue(ctx, s, Email{To: "a@example.com"}, scheduler.InQueue("mail"))
	if err != nil {
		log.Fatal(err)
	}
	why, err := s.Explain(ctx, f.ID())
	fmt.Println(why.Run.State, why.Gate, why.Reason, err)
	if err := s.ResumeQueue(ctx, "mail"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Wait(ctx))
	// Output:
	// ready paused queue "mail" is paused <nil>
	// sent to a@example.com <nil>
}

func ExampleScheduler_Events() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send))
	defer s.Shutdown(ctx)
	f, err := SendEmail.Enqueue(ctx, s, Email{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := f.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	for e, err := range s.Events(ctx, scheduler.EventFilter{Run: f.ID()}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Kind, e.State, e.Attempt)
	}
	// Output:
	// enqueued scheduled 0
	// leased running 1
	// finished succeeded 1
}

func ExampleScheduler_Stats() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send), scheduler.WithQueue("mail", scheduler.QueueLimit(10)))
	defer s.Shutdown(ctx)
	if _, err := SendEmail.Enqueue(ctx, s, Email{}, scheduler.InQueue("mail"), scheduler.In(time.Hour)); err != nil {
		log.Fatal(err)
	}
	stats, err := s.Stats(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.Live)
	for _, q := range stats.Queues {
		fmt.Printf("%s: limit %d, waiting %d, leased %d\n", q.Name, q.Limit, q.Waiting, q.Leased)
	}
	// Output:
	// 1
	// mail: limit 10, waiting 1, leased 0
}

func ExampleScheduler_Backup() {
	ctx := context.Background()
	s := begin(scheduler.WithHandler(SendEmail, send))
	defer s.Shutdown(ctx)
	var file bytes.Buffer // an os.File, say
	fmt.Println(s.Backup(ctx, &file), file.Len() > 0)
	// Output: <nil> true
}
