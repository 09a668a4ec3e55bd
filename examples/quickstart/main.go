// Command quickstart runs tasks now, later and on a schedule, and keeps them in a
// folder: kill it at any moment, with kill -9 if you like, and start it again.
//
//	go run ./examples/quickstart
//
// With -once it ends by itself after all three kinds were seen.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/escapement-go/scheduler"
)

// Email is the input of the task.
type Email struct{ To, Subject string }

// SendEmail is declared once, shared by those who ask for it and those who do it.
var SendEmail = scheduler.NewTask[Email, string]("email.send",
	scheduler.Timeout(30*time.Second),
	scheduler.Retry(scheduler.Backoff{Initial: time.Second, Max: time.Minute, Attempts: 5}),
)

func main() {
	dir := flag.String("dir", "quickstart-data", "folder that keeps everything")
	once := flag.Bool("once", false, "end after each kind of run was seen")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *dir, *once); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dir string, once bool) error {
	var failed atomic.Bool
	digests := make(chan struct{}, 1)
	send := func(ctx context.Context, e Email) (string, error) {
		x := scheduler.Current(ctx)
		fmt.Printf("%s  attempt %d: %q to %s\n", time.Now().Format("15:04:05.000"), x.Attempt(), e.Subject, e.To)
		if e.Subject == "flaky" && !failed.Swap(true) {
			return "", errors.New("the mail server hung up") // retried after the backoff
		}
		if e.Subject == "digest" {
			select {
			case digests <- struct{}{}:
			default:
			}
		}
		return "sent to " + e.To, nil
	}
	s, err := scheduler.New(
		scheduler.WithDataDir(dir),
		scheduler.WithHandler(SendEmail, send),
		scheduler.WithSchedule("digest", scheduler.Cron("*/2 * * * * *"), // each second second
			SendEmail.With(Email{To: "team@example.com", Subject: "digest"})),
	)
	if err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	defer func() {
		// ctx has ended by now; what runs may finish.
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(drain); err != nil {
			log.Print(err)
		}
	}()
	if err := leftovers(ctx, s); err != nil {
		return err
	}

	now, err := SendEmail.Enqueue(ctx, s, Email{To: "ada@example.com", Subject: "welcome"})
	if err != nil {
		return err
	}
	later, err := SendEmail.Enqueue(ctx, s, Email{To: "bob@example.com", Subject: "how was it?"}, scheduler.In(3*time.Second))
	if err != nil {
		return err
	}
	flaky, err := SendEmail.Enqueue(ctx, s, Email{To: "eve@example.com", Subject: "flaky"})
	if err != nil {
		return err
	}
	why, err := s.Explain(ctx, later.ID())
	if err != nil {
		return err
	}
	fmt.Printf("run %v is %v: %s\n", later.ID(), why.Run.State, why.Reason)
	for _, f := range []scheduler.Future[string]{now, flaky, later} {
		result, err := f.Wait(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("run %v: %s\n", f.ID(), result)
	}
	if once {
		<-digests
		return nil
	}
	fmt.Println("the digest goes on every two seconds; ctrl-C stops, kill -9 does no harm either")
	<-ctx.Done()
	return nil
}

// leftovers tells what an earlier process left behind.
func leftovers(ctx context.Context, s *scheduler.Scheduler) error {
	stats, err := s.Stats(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("folder holds %d runs that have not ended and %d that have\n", stats.Live, stats.History)
	to := time.Now()
	for tick, err := range s.Ticks(ctx, "digest", to.Add(-time.Hour), to) {
		if err != nil {
			return err
		}
		if tick.Outcome != scheduler.TickRan {
			fmt.Printf("tick %s of the digest: %v, %s\n", tick.Nominal.Format("15:04:05"), tick.Outcome, tick.Reason)
		}
	}
	return nil
}
