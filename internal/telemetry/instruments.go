package telemetry

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// instruments are what doc.go lists, and the table there is kept by a test.
type instruments struct {
	enqueued, started, finished, attempts metric.Int64ObservableCounter
	leaseEnds, tickRows                   metric.Int64ObservableCounter
	flushFaults, leaderChanges            metric.Int64ObservableCounter

	leader metric.Int64ObservableUpDownCounter
	depth  metric.Int64ObservableUpDownCounter
	oldest metric.Float64ObservableGauge

	contact, clockOffset, clockDrift metric.Float64ObservableGauge

	lateness, attemptTime, commitTime, flushTime metric.Float64Histogram
	batchSize, entrySize, flushRows              metric.Int64Histogram
}

// The bounds of the histograms. Those that OpenTelemetry falls back to are made
// for milliseconds and would put every duration of ours into the first bucket.
var (
	latenessBounds = []float64{
		10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6,
		1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3,
		1, 2.5, 5, 10, 30, 60,
	}
	attemptBounds = []float64{
		1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3,
		1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600,
	}
	commitBounds = []float64{
		50e-6, 100e-6, 250e-6, 500e-6,
		1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10,
	}
	flushBounds = []float64{
		1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10, 30, 60,
	}
	batchBounds = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096}
	sizeBounds  = []float64{256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20}
	rowsBounds  = []float64{1, 4, 16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}
)

// counters are the instruments that [meters.reportCounters] observes.
func (i *instruments) counters() []metric.Observable {
	return []metric.Observable{
		i.enqueued, i.started, i.finished, i.attempts, i.leaseEnds, i.tickRows, i.flushFaults, i.leaderChanges,
	}
}

// make fills in the instruments.
func (i *instruments) make(m metric.Meter) error {
	k := maker{m: m}
	i.enqueued = k.counter("runs.enqueued", "{run}", "Runs added, by a call or by a schedule.")
	i.started = k.counter("runs.started", "{run}", "Attempts whose handler was started.")
	i.finished = k.counter("runs.finished", "{run}", "Runs that reached a final state.")
	i.attempts = k.counter("attempts.finished", "{attempt}", "Attempts that ended, by outcome.")
	i.leaseEnds = k.counter("leases.ended", "{lease}", "Leases that ended, by outcome.")
	i.tickRows = k.counter("ticks", "{tick}", "Rows of the tick ledger, by outcome.")
	i.flushFaults = k.counter("flush.errors", "{error}", "Flushes to disk that failed.")
	i.leaderChanges = k.counter("leader.changes", "{change}", "Times this process won or lost leadership.")

	i.leader = k.upDown("leader", "{leader}", "1 while this process leads, else 0.")
	i.depth = k.upDown("queue.depth", "{run}", "Live runs of a queue, by state.")
	i.oldest = k.gauge("queue.oldest_age", "s", "Wait of a queue's oldest ready run.")
	i.contact = k.gauge("node.contact_age", "s", "Since another node was last heard of.")
	i.clockOffset = k.gauge("node.clock_offset", "s", "Another node's wall clock less the leader's.")
	i.clockDrift = k.gauge("node.clock_drift", "s/s", "How fast that difference grows.")

	i.lateness = k.seconds("run.start_lateness", "From a run's due time to its start.", latenessBounds)
	i.attemptTime = k.seconds("attempt.duration", "From start to end of an attempt.", attemptBounds)
	i.commitTime = k.seconds("commit.duration", "From a batch's encoding to its callers' answers.", commitBounds)
	i.flushTime = k.seconds("flush.duration", "Writing a flush to disk.", flushBounds)
	i.batchSize = k.sizes("commit.batch_size", "{command}", "Commands in a batch.", batchBounds)
	i.entrySize = k.sizes("commit.entry_size", "By", "Encoded size of a batch.", sizeBounds)
	i.flushRows = k.sizes("flush.rows", "{row}", "Rows written by a flush.", rowsBounds)
	return k.err
}

// A maker makes instruments under the module's prefix, and joins the errors.
type maker struct {
	m   metric.Meter
	err error
}

const prefix = "escapement."

func (k *maker) counter(name, unit, what string) metric.Int64ObservableCounter {
	c, err := k.m.Int64ObservableCounter(prefix+name, metric.WithUnit(unit), metric.WithDescription(what))
	k.err = errors.Join(k.err, err)
	return c
}

func (k *maker) upDown(name, unit, what string) metric.Int64ObservableUpDownCounter {
	c, err := k.m.Int64ObservableUpDownCounter(prefix+name, metric.WithUnit(unit), metric.WithDescription(what))
	k.err = errors.Join(k.err, err)
	return c
}

func (k *maker) gauge(name, unit, what string) metric.Float64ObservableGauge {
	g, err := k.m.Float64ObservableGauge(prefix+name, metric.WithUnit(unit), metric.WithDescription(what))
	k.err = errors.Join(k.err, err)
	return g
}

func (k *maker) seconds(name, what string, bounds []float64) metric.Float64Histogram {
	h, err := k.m.Float64Histogram(prefix+name, metric.WithUnit("s"), metric.WithDescription(what),
		metric.WithExplicitBucketBoundaries(bounds...))
	k.err = errors.Join(k.err, err)
	return h
}

func (k *maker) sizes(name, unit, what string, bounds []float64) metric.Int64Histogram {
	h, err := k.m.Int64Histogram(prefix+name, metric.WithUnit(unit), metric.WithDescription(what),
		metric.WithExplicitBucketBoundaries(bounds...))
	k.err = errors.Join(k.err, err)
	return h
}
