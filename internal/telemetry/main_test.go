package telemetry_test

import (
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"

	"github.com/escapement-go/scheduler/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newMetrics returns a Telemetry with metrics alone, and the reader that collects them.
func newMetrics(tb testing.TB, opts ...sdkmetric.Option) (*telemetry.Telemetry, *sdkmetric.ManualReader) {
	tb.Helper()
	reader := sdkmetric.NewManualReader()
	mp := sdkmetric.NewMeterProvider(append(opts, sdkmetric.WithReader(reader))...)
	return newOn(tb, mp), reader
}

// newOn returns a Telemetry on a provider that may have others.
func newOn(tb testing.TB, mp metric.MeterProvider) *telemetry.Telemetry {
	tb.Helper()
	tel, err := telemetry.New(mp, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := tel.Close(); err != nil {
			tb.Error(err)
		}
	})
	return tel
}

// collect returns what the reader has, by name without the prefix they all bear.
func collect(tb testing.TB, reader sdkmetric.Reader) map[string]metricdata.Metrics {
	tb.Helper()
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(tb.Context(), &rm); err != nil {
		tb.Fatal(err)
	}
	got := make(map[string]metricdata.Metrics)
	for _, scope := range rm.ScopeMetrics {
		if scope.Scope.Name != telemetry.Scope {
			tb.Errorf("metrics in scope %q, want %q", scope.Scope.Name, telemetry.Scope)
		}
		for _, m := range scope.Metrics {
			name, ok := strings.CutPrefix(m.Name, "escapement.")
			if !ok {
				tb.Errorf("metric %q has no prefix", m.Name)
			}
			got[name] = m
		}
	}
	return got
}

// values returns the numbers of a metric, or the counts of a histogram, by attributes: "task=mail outcome=failed".
func values(tb testing.TB, m metricdata.Metrics) map[string]float64 {
	tb.Helper()
	got := make(map[string]float64)
	switch data := m.Data.(type) {
	case nil: // not collected
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			got[text(p.Attributes)] = float64(p.Value)
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			got[text(p.Attributes)] = p.Value
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			got[text(p.Attributes)] = float64(p.Count)
		}
	case metricdata.Histogram[int64]:
		for _, p := range data.DataPoints {
			got[text(p.Attributes)] = float64(p.Count)
		}
	default:
		tb.Fatalf("%s: unexpected data %T", m.Name, data)
	}
	return got
}

func text(set attribute.Set) string {
	var words []string
	for _, kv := range set.ToSlice() {
		words = append(words, string(kv.Key)+"="+kv.Value.String())
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// nonzero drops what is 0, which the metrics that exist from the start are mostly made of.
func nonzero(values map[string]float64) map[string]float64 {
	for k, v := range values {
		if v == 0 {
			delete(values, k)
		}
	}
	return values
}
