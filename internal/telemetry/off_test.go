package telemetry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/escapement-go/scheduler/internal/telemetry"
	"github.com/escapement-go/scheduler/store"
)

// A call is one call of a method, by the method's name.
type call struct {
	name string
	do   func(ctx context.Context, t *telemetry.Telemetry)
}

var errDisk = errors.New("disk full")

func noQueues() []telemetry.QueueGauge { return nil }

// counting are the calls made for every run or commit.
var counting = []call{
	{"Enqueued", func(_ context.Context, t *telemetry.Telemetry) { t.Enqueued("mail", 1) }},
	{"Started", func(_ context.Context, t *telemetry.Telemetry) { t.Started("mail", time.Millisecond) }},
	{"Finished", func(_ context.Context, t *telemetry.Telemetry) {
		t.Finished("mail", store.OutcomeSucceeded, store.Succeeded, time.Second)
	}},
	{"LeaseEnded", func(_ context.Context, t *telemetry.Telemetry) { t.LeaseEnded(store.OutcomeSucceeded) }},
	{"Committed", func(_ context.Context, t *telemetry.Telemetry) { t.Committed(7, 900, time.Millisecond) }},
	{"Flushed", func(_ context.Context, t *telemetry.Telemetry) { t.Flushed(10, time.Millisecond, nil) }},
	{"Flushed failed", func(_ context.Context, t *telemetry.Telemetry) { t.Flushed(10, time.Millisecond, errDisk) }},
	{"Tick", func(_ context.Context, t *telemetry.Telemetry) { t.Tick(store.TickRan) }},
	{"Leader", func(_ context.Context, t *telemetry.Telemetry) { t.Leader(true) }},
}

// tracing are the calls that make spans.
var tracing = []call{
	{"StartEnqueue", func(ctx context.Context, t *telemetry.Telemetry) {
		ctx, span := t.StartEnqueue(ctx, "mail", 1)
		_ = t.Traceparent(ctx)
		span.End(nil)
	}},
	{"StartAttempt", func(ctx context.Context, t *telemetry.Telemetry) {
		const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		_, span := t.StartAttempt(ctx, "mail", parent, runID, 1)
		span.EndAttempt(store.OutcomeFailed, errDisk)
	}},
}

// rest are the calls that are made once.
var rest = []call{
	{"ObserveQueues", func(_ context.Context, t *telemetry.Telemetry) { t.ObserveQueues(noQueues) }},
	{"Close", func(_ context.Context, t *telemetry.Telemetry) { _ = t.Close() }},
}

func mustNew(tb testing.TB, t *telemetry.Telemetry, err error) *telemetry.Telemetry {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func TestTelemetry_without_providers_allocates_nothing(t *testing.T) {
	none, err := telemetry.New(nil, nil)
	none = mustNew(t, none, err)
	noop, err := telemetry.New(metricnoop.NewMeterProvider(), tracenoop.NewTracerProvider())
	noop = mustNew(t, noop, err)
	ctx := t.Context()
	for name, tel := range map[string]*telemetry.Telemetry{"nil": nil, "nil providers": none, "no-op providers": noop} {
		for _, calls := range [][]call{counting, tracing, rest} {
			for _, c := range calls {
				if got := testing.AllocsPerRun(100, func() { c.do(ctx, tel) }); got != 0 {
					t.Errorf("%s: %s allocates %v times", name, c.name, got)
				}
			}
		}
	}
}

func TestTelemetry_counts_without_allocating(t *testing.T) {
	tel, _ := newMetrics(t)
	ctx := t.Context()
	for _, c := range counting {
		if got := testing.AllocsPerRun(100, func() { c.do(ctx, tel) }); got != 0 {
			t.Errorf("%s allocates %v times", c.name, got)
		}
	}
}

func TestTelemetry_without_traces_hands_back_the_context(t *testing.T) {
	tel, _ := newMetrics(t)
	ctx, span := tel.StartEnqueue(t.Context(), "mail", 1)
	span.End(errDisk)
	if ctx != t.Context() {
		t.Error("StartEnqueue changed the context")
	}
	ctx, span = tel.StartAttempt(t.Context(), "mail", "", runID, 1)
	span.EndAttempt(store.OutcomeFailed, errDisk)
	if ctx != t.Context() {
		t.Error("StartAttempt changed the context")
	}
	// The application's own span is none of ours to keep while its provider was not given to us.
	tp := sdktrace.NewTracerProvider()
	ctx, theirs := tp.Tracer("application").Start(t.Context(), "request")
	defer theirs.End()
	if got := tel.Traceparent(ctx); got != "" {
		t.Errorf("traceparent %q, want none", got)
	}
}

// A refusing provider's meters refuse some instruments.
type refusing struct{ sdkmetric.MeterProvider }

type refusingMeter struct{ metric.Meter }

var (
	errCounter   = errors.New("no counters today")
	errHistogram = errors.New("no histograms today")
)

func (r *refusing) Meter(name string, opts ...metric.MeterOption) metric.Meter {
	return refusingMeter{r.MeterProvider.Meter(name, opts...)}
}

func (refusingMeter) Int64ObservableCounter(string, ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	return nil, errCounter
}

func (refusingMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return nil, errHistogram
}

func TestNew_returns_all_that_the_provider_found_wrong(t *testing.T) {
	tel, err := telemetry.New(&refusing{}, nil)
	got := []bool{tel == nil, errors.Is(err, errCounter), errors.Is(err, errHistogram)}
	if diff := cmp.Diff([]bool{true, true, true}, got); diff != "" {
		t.Errorf("nothing made, both errors (-want +got):\n%s\n%v", diff, err)
	}
}
