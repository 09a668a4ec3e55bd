package telemetry_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/escapement-go/scheduler/internal/telemetry"
	"github.com/escapement-go/scheduler/store"
)

func TestTelemetry_tells_1000_tasks_apart(t *testing.T) {
	tel, reader := newMetrics(t, sdkmetric.WithCardinalityLimit(0))
	for round := range 2 {
		for i := range 1000 {
			tel.Enqueued(fmt.Sprint("task", i), 1)
		}
		got := values(t, collect(t, reader)["runs.enqueued"])
		if _, ok := got["task="+telemetry.Other]; ok || len(got) != 1000 {
			t.Fatalf("round %d: %d tasks, other: %v; want 1000 and no other", round, len(got), ok)
		}
	}
	for i := 990; i < 1010; i++ {
		task := fmt.Sprint("task", i)
		tel.Enqueued(task, 1)
		tel.Started(task, 0)
		tel.Finished(task, store.OutcomeSucceeded, store.Succeeded, time.Second)
	}
	got := collect(t, reader)
	for name, set := range map[string]string{
		"runs.enqueued":      "task=_OTHER",
		"runs.started":       "task=_OTHER",
		"run.start_lateness": "task=_OTHER",
		"attempts.finished":  "outcome=succeeded task=_OTHER",
		"attempt.duration":   "outcome=succeeded task=_OTHER",
		"runs.finished":      "state=succeeded task=_OTHER",
	} {
		if got, want := values(t, got[name])[set], 10.0; got != want {
			t.Errorf("%s{%s} = %v, want %v", name, set, got, want)
		}
	}
	enqueued := values(t, got["runs.enqueued"])
	if got, want := enqueued["task=task999"], 3.0; got != want {
		t.Errorf("a task known before has %v, want %v", got, want)
	}
	if got, want := len(enqueued), 1001; got != want {
		t.Errorf("%d attribute sets, want %d", got, want)
	}
}

func TestTelemetry_counts_each_call_once_however_many_make_it(t *testing.T) {
	const callers, names, rounds = 4, 1100, 3
	tel, reader := newMetrics(t, sdkmetric.WithCardinalityLimit(0))
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range rounds {
				for i := range names {
					tel.Enqueued(fmt.Sprint("task", i), 1)
					tel.Finished(fmt.Sprint("task", i), store.OutcomeSucceeded, store.Succeeded, time.Second)
				}
			}
		})
	}
	wg.Go(func() { // a collection at any moment sees a sum that may only grow
		before := 0.0
		for range 5 {
			now := total(values(t, collect(t, reader)["runs.enqueued"]))
			if now < before {
				t.Errorf("the sum fell from %v to %v", before, now)
			}
			before = now
		}
	})
	wg.Wait()
	got := collect(t, reader)
	for _, name := range []string{"runs.enqueued", "attempts.finished", "attempt.duration", "runs.finished"} {
		if got, want := total(values(t, got[name])), float64(callers*names*rounds); got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
}

func total(values map[string]float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum
}

func TestTelemetry_makes_malformed_names_valid(t *testing.T) {
	tel, reader := newMetrics(t)
	tel.Enqueued("ma\xffil", 1)
	got := values(t, collect(t, reader)["runs.enqueued"])
	if want := "task=ma\uFFFDil"; got[want] != 1 {
		t.Errorf("got %v, want 1 for %q", got, want)
	}
}
