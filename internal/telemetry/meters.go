package telemetry

import (
	"errors"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/escapement-go/scheduler/store"
)

// meters is the half of a Telemetry that has a MeterProvider: its instruments,
// and the counts behind those that are observed.
type meters struct {
	instruments

	tasks  *table[*taskSeries]
	leases *family[store.Outcome]
	ticks  *family[store.TickOutcome]

	flushErrors *series
	leadChanges *series
	leading     atomic.Bool

	queues  *table[*queueSeries]
	observe atomic.Pointer[func() []QueueGauge] // nil: no queues to look at
	nodes   *table[*series]
	peers   atomic.Pointer[func() []NodeGauge] // nil: no nodes to look at
	gauges  metric.Registration
}

// taskSeries is what is counted for one task.
type taskSeries struct {
	enqueued, started *series
	attempts          *family[store.Outcome]
	finished          *family[store.RunState]
}

func newTaskSeries(name string) *taskSeries {
	task := attribute.String("task", name)
	return &taskSeries{
		enqueued: newSeries(task),
		started:  newSeries(task),
		attempts: newFamily[store.Outcome](outcomePlaces, "outcome", task),
		finished: newFamily[store.RunState](statePlaces, "state", task),
	}
}

// newMeters makes the instruments and registers the callbacks.
func newMeters(meter metric.Meter) (*meters, error) {
	m := &meters{
		tasks:       newTable(maxNames, newTaskSeries),
		leases:      newFamily[store.Outcome](outcomePlaces, "outcome"),
		ticks:       newFamily[store.TickOutcome](tickPlaces, "outcome"),
		flushErrors: newSeries(),
		leadChanges: newSeries(),
		queues:      newTable(maxNames, newQueueSeries),
		nodes:       newTable(maxNames, func(id string) *series { return newSeries(attribute.String("node", id)) }),
	}
	// These few exist from the start, so that the first lost lease is a step up from zero.
	for o := store.OutcomeSucceeded; o <= store.OutcomeCanceled; o++ {
		m.leases.at(o)
	}
	for o := store.TickRan; o <= store.TickBlocked; o++ {
		m.ticks.at(o)
	}
	if err := m.make(meter); err != nil {
		return nil, err
	}
	// Two callbacks, because the gauges end before the counters do: see [Telemetry.Close].
	counters, err := meter.RegisterCallback(m.reportCounters, m.counters()...)
	if err != nil {
		return nil, err
	}
	if m.gauges, err = meter.RegisterCallback(m.reportGauges, m.leader, m.depth, m.oldest, m.contact, m.clockOffset, m.clockDrift); err != nil {
		return nil, errors.Join(err, counters.Unregister())
	}
	return m, nil
}

func (m *meters) close() error {
	m.observe.Store(nil)
	m.peers.Store(nil)
	return m.gauges.Unregister()
}
