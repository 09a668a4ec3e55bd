// Package meter reads what a node measures of itself, at next to no cost: a metric provider that keeps the raw values of
// a few histograms and drops everything else.
package meter

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/embedded"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/escapement-go/scheduler/bench/internal/spread"
)

// The histograms that can be kept.
const (
	EntryBytes   = "escapement.commit.entry_size"
	Commands     = "escapement.commit.batch_size"
	Commit       = "escapement.commit.duration"
	FlushTime    = "escapement.flush.duration"
	FlushRows    = "escapement.flush.rows"
	StartLatency = "escapement.run.start_lateness"
)

// A Meter is a provider for scheduler.WithMeterProvider.
type Meter struct {
	noop.MeterProvider
	keep map[string]bool

	mu     sync.Mutex // guards values
	values map[string][]float64
}

// New returns a Meter that keeps the named histograms.
func New(keep ...string) *Meter {
	m := &Meter{keep: make(map[string]bool), values: make(map[string][]float64)}
	for _, name := range keep {
		m.keep[name] = true
	}
	return m
}

// Meter implements [metric.MeterProvider].
func (m *Meter) Meter(string, ...metric.MeterOption) metric.Meter { return instruments{of: m} }

// Take returns the values since the last Take of a histogram.
func (m *Meter) Take(name string) []float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.values[name]
	m.values[name] = nil
	return v
}

// TakeTimes is Take for a histogram of seconds.
func (m *Meter) TakeTimes(name string) spread.Sample {
	values := m.Take(name)
	ds := make([]time.Duration, len(values))
	for i, v := range values {
		ds[i] = time.Duration(v * float64(time.Second))
	}
	return spread.Of(ds)
}

func (m *Meter) add(name string, v float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[name] = append(m.values[name], v)
}

type instruments struct {
	noop.Meter
	of *Meter
}

// Float64Histogram implements [metric.Meter].
func (i instruments) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	if !i.of.keep[name] {
		return noop.Float64Histogram{}, nil
	}
	return floats{of: i.of, name: name}, nil
}

// Int64Histogram implements [metric.Meter].
func (i instruments) Int64Histogram(name string, _ ...metric.Int64HistogramOption) (metric.Int64Histogram, error) {
	if !i.of.keep[name] {
		return noop.Int64Histogram{}, nil
	}
	return ints{of: i.of, name: name}, nil
}

type floats struct {
	embedded.Float64Histogram
	of   *Meter
	name string
}

func (f floats) Record(_ context.Context, v float64, _ ...metric.RecordOption) { f.of.add(f.name, v) }
func (f floats) Enabled(context.Context) bool                                  { return true }

type ints struct {
	embedded.Int64Histogram
	of   *Meter
	name string
}

func (i ints) Record(_ context.Context, v int64, _ ...metric.RecordOption) {
	i.of.add(i.name, float64(v))
}
func (i ints) Enabled(context.Context) bool { return true }
