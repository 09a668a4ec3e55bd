package telemetry

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

// Scope is the name of the meter and of the tracer that report for the
// scheduler.
const Scope = "github.com/escapement-go/scheduler"

// Other is the task or queue under which everything is counted that comes after
// the first 1,000 names.
const Other = "_OTHER"

// maxNames bounds the tasks, and the queues, that are told apart in metrics.
const maxNames = 1000

// noSpan is the context of measurements. They are made where a run is an entry
// in the log and no span is at hand, so there is nothing in it.
var noSpan = context.Background() //nolint:forbidigo // see above; nothing waits on it

// Telemetry reports what the scheduler does. All its methods are safe for
// concurrent use and none of them blocks on I/O. A nil Telemetry is valid and
// reports nothing.
type Telemetry struct {
	meters *meters      // nil: no metrics
	tracer trace.Tracer // nil: no traces

	closing  sync.Once
	closeErr error
}

// New returns a Telemetry that reports through the given providers. A provider
// that is nil or the no-op one turns its half off, at no cost per call. New
// starts no goroutine; the callbacks it registers run when the provider
// collects.
//
// Errors: all that the provider found wrong with an instrument, joined.
func New(mp metric.MeterProvider, tp trace.TracerProvider) (*Telemetry, error) {
	t := new(Telemetry)
	switch mp.(type) {
	case nil, metricnoop.MeterProvider:
	default:
		m, err := newMeters(mp.Meter(Scope))
		if err != nil {
			return nil, fmt.Errorf("telemetry: %w", err)
		}
		t.meters = m
	}
	switch tp.(type) {
	case nil, tracenoop.TracerProvider:
	default:
		t.tracer = tp.Tracer(Scope)
	}
	return t, nil
}

// Close lets go of the scheduler: the gauges end, and the function given to
// [Telemetry.ObserveQueues] is not called again once Close has returned. It must
// not be called from within that function.
//
// The counters stay with the provider, so that its last collection, which
// usually comes after the scheduler's end, still has what happened since the one
// before, and a sum over several schedulers never falls. They refer to nothing
// of the scheduler's. Close may be called more than once and returns the same
// each time.
//
// Errors: the provider's, from unregistering the gauges.
func (t *Telemetry) Close() error {
	if t == nil || t.meters == nil {
		return nil
	}
	t.closing.Do(func() {
		if err := t.meters.close(); err != nil {
			t.closeErr = fmt.Errorf("telemetry: close: %w", err)
		}
	})
	return t.closeErr
}

// utf8 returns text as the wire format of OpenTelemetry demands it: one malformed
// string would have a whole export refused.
func utf8(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
