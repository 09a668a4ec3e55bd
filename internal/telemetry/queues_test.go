package telemetry_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/escapement-go/scheduler/internal/telemetry"
	"github.com/escapement-go/scheduler/store"
)

func TestTelemetry_ObserveNodes(t *testing.T) {
	tel, reader := newMetrics(t)
	tel.ObserveNodes(func() []telemetry.NodeGauge {
		return []telemetry.NodeGauge{
			{Node: "b", Contact: 500 * time.Millisecond, Offset: -2 * time.Millisecond, Drift: 1e-6, Clock: true},
			{Node: "c", Contact: time.Minute},
		}
	})
	got := collect(t, reader)
	for name, want := range map[string]map[string]float64{
		"node.contact_age":  {"node=b": 0.5, "node=c": 60},
		"node.clock_offset": {"node=b": -0.002},
		"node.clock_drift":  {"node=b": 1e-6},
	} {
		if diff := cmp.Diff(want, values(t, got[name])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTelemetry_ObserveQueues(t *testing.T) {
	t.Run("reports live runs by state and the oldest wait", func(t *testing.T) {
		tel, reader := newMetrics(t)
		tel.ObserveQueues(func() []telemetry.QueueGauge {
			return []telemetry.QueueGauge{
				{Queue: "mail", Scheduled: 4, Ready: 3, Assigned: 2, Running: 1, OldestAge: 1500 * time.Millisecond},
				{Queue: "pdf", OldestAge: -time.Second},
			}
		})
		got := collect(t, reader)
		wantDepth := map[string]float64{
			"queue=mail state=scheduled": 4, "queue=mail state=ready": 3, "queue=mail state=assigned": 2,
			"queue=mail state=running":  1,
			"queue=pdf state=scheduled": 0, "queue=pdf state=ready": 0, "queue=pdf state=assigned": 0,
			"queue=pdf state=running": 0,
		}
		if diff := cmp.Diff(wantDepth, values(t, got["queue.depth"])); diff != "" {
			t.Errorf("queue.depth (-want +got):\n%s", diff)
		}
		wantAge := map[string]float64{"queue=mail": 1.5, "queue=pdf": 0}
		if diff := cmp.Diff(wantAge, values(t, got["queue.oldest_age"])); diff != "" {
			t.Errorf("queue.oldest_age (-want +got):\n%s", diff)
		}
	})

	t.Run("asks once per collection and never in between", func(t *testing.T) {
		tel, reader := newMetrics(t)
		asked := 0
		tel.ObserveQueues(func() []telemetry.QueueGauge { asked++; return nil })
		touchCounters(tel)
		if asked != 0 {
			t.Errorf("asked %d times before any collection", asked)
		}
		for range 3 {
			collect(t, reader)
		}
		if asked != 3 {
			t.Errorf("asked %d times in 3 collections", asked)
		}
	})

	t.Run("a process that no longer leads reports no queues", func(t *testing.T) {
		tel, reader := newMetrics(t)
		queues := []telemetry.QueueGauge{{Queue: "mail", Ready: 1}}
		tel.ObserveQueues(func() []telemetry.QueueGauge { return queues })
		collect(t, reader)
		queues = nil
		if _, ok := collect(t, reader)["queue.depth"]; ok {
			t.Error("queue.depth is still reported")
		}
		tel.ObserveQueues(nil)
		collect(t, reader)
	})

	t.Run("may wait for others that count", func(t *testing.T) {
		tel, reader := newMetrics(t)
		tel.ObserveQueues(func() []telemetry.QueueGauge {
			done := make(chan struct{})
			go func() { defer close(done); touchCounters(tel) }() // awaited on the next line
			<-done
			return nil
		})
		collect(t, reader)
		tel.ObserveQueues(nil)
		if got, want := values(t, collect(t, reader)["runs.enqueued"])["task=mail"], 1.0; got != want {
			t.Errorf("runs.enqueued = %v, want %v", got, want)
		}
	})

	t.Run("the queues beyond the first 1000 are one", func(t *testing.T) {
		tel, reader := newMetrics(t, sdkmetric.WithCardinalityLimit(0))
		var queues []telemetry.QueueGauge
		for i := range 1003 {
			queues = append(queues, telemetry.QueueGauge{
				Queue: fmt.Sprint("q", i), Ready: 2, OldestAge: time.Duration(2000-i) * time.Second,
			})
		}
		tel.ObserveQueues(func() []telemetry.QueueGauge { return queues })
		got := collect(t, reader)
		if got, want := values(t, got["queue.depth"])["queue=_OTHER state=ready"], 6.0; got != want {
			t.Errorf("other queues have %v ready runs, want %v", got, want)
		}
		if got, want := values(t, got["queue.oldest_age"])["queue=_OTHER"], 1000.0; got != want {
			t.Errorf("oldest of the other queues = %v s, want %v", got, want)
		}
		if got, want := len(values(t, got["queue.oldest_age"])), 1001; got != want {
			t.Errorf("%d queues, want %d", got, want)
		}
	})
}

// touchCounters calls everything that counts.
func touchCounters(tel *telemetry.Telemetry) {
	tel.Enqueued("mail", 1)
	tel.Started("mail", 20*time.Microsecond)
	tel.Finished("mail", store.OutcomeSucceeded, store.Succeeded, 3*time.Second)
	tel.LeaseEnded(store.OutcomeSucceeded)
	tel.Committed(7, 900, time.Millisecond)
	tel.Flushed(10, time.Millisecond, nil)
	tel.Tick(store.TickRan)
	tel.Leader(true)
}

func TestTelemetry_Close(t *testing.T) {
	t.Run("ends the gauges and keeps the counters", func(t *testing.T) {
		tel, reader := newMetrics(t)
		asked := false
		tel.ObserveQueues(func() []telemetry.QueueGauge { asked = true; return nil })
		touchCounters(tel)
		for range 2 {
			if err := tel.Close(); err != nil {
				t.Fatal(err)
			}
		}
		got := collect(t, reader)
		if asked {
			t.Error("the queues were asked for after Close")
		}
		if _, ok := got["leader"]; ok {
			t.Error("leader is still reported after Close")
		}
		if got, want := values(t, got["runs.started"])["task=mail"], 1.0; got != want {
			t.Errorf("runs.started = %v after Close, want %v", got, want)
		}
	})

	t.Run("waits for a collection that is under way", func(t *testing.T) {
		tel, reader := newMetrics(t)
		asking, answer := make(chan struct{}), make(chan struct{})
		var answered bool // written before Close may return, or the race detector says so
		tel.ObserveQueues(func() []telemetry.QueueGauge {
			close(asking)
			<-answer
			answered = true
			return nil
		})
		var wg sync.WaitGroup
		wg.Go(func() { collect(t, reader) })
		<-asking
		wg.Go(func() { close(answer) })
		if err := tel.Close(); err != nil {
			t.Error(err)
		}
		if !answered {
			t.Error("Close returned while the queues were being looked at")
		}
		wg.Wait()
	})

	t.Run("leaves a sum over schedulers as it was", func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
		one, two := newOn(t, mp), newOn(t, mp)
		one.Enqueued("mail", 2)
		two.Enqueued("mail", 3)
		two.Leader(true)
		got := collect(t, reader)
		if got, want := values(t, got["runs.enqueued"])["task=mail"], 5.0; got != want {
			t.Errorf("runs.enqueued of two = %v, want %v", got, want)
		}
		if got, want := values(t, got["leader"])[""], 1.0; got != want {
			t.Errorf("leader of two = %v, want %v", got, want)
		}
		if err := two.Close(); err != nil {
			t.Fatal(err)
		}
		if got, want := values(t, collect(t, reader)["runs.enqueued"])["task=mail"], 5.0; got != want {
			t.Errorf("runs.enqueued after one closed = %v, want %v", got, want)
		}
	})
}
