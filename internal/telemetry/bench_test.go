package telemetry_test

import (
	"fmt"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/escapement-go/scheduler/internal/telemetry"
	"github.com/escapement-go/scheduler/store"
)

// BenchmarkOff measures every call without a provider.
func BenchmarkOff(b *testing.B) {
	tel, err := telemetry.New(nil, nil)
	tel = mustNew(b, tel, err)
	run(b, tel, counting)
	run(b, tel, tracing)
}

// BenchmarkSDK measures every call with OpenTelemetry's SDK; the spans are sampled and thrown away.
func BenchmarkSDK(b *testing.B) {
	mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	tel, err := telemetry.New(mp, sdktrace.NewTracerProvider())
	tel = mustNew(b, tel, err)
	run(b, tel, counting)
	run(b, tel, tracing)
}

// BenchmarkSDK_unsampled measures the spans that a sampler drops.
func BenchmarkSDK_unsampled(b *testing.B) {
	tel, err := telemetry.New(nil, sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())))
	run(b, mustNew(b, tel, err), tracing)
}

func run(b *testing.B, tel *telemetry.Telemetry, calls []call) {
	b.Helper()
	for _, c := range calls {
		b.Run(c.name, func(b *testing.B) {
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				c.do(ctx, tel)
			}
		})
	}
}

// BenchmarkEnqueued_parallel measures one task's counter under contention.
func BenchmarkEnqueued_parallel(b *testing.B) {
	tel, _ := newMetrics(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			tel.Enqueued("mail", 1)
		}
	})
}

// BenchmarkCollect measures a collection with many tasks.
func BenchmarkCollect(b *testing.B) {
	for _, tasks := range []int{10, 1000} {
		b.Run(fmt.Sprint("tasks=", tasks), func(b *testing.B) {
			tel, reader := newMetrics(b, sdkmetric.WithCardinalityLimit(0))
			for i := range tasks {
				task := fmt.Sprint("task", i)
				tel.Enqueued(task, 1)
				tel.Finished(task, store.OutcomeSucceeded, store.Succeeded, 1)
			}
			b.ReportAllocs()
			var rm metricdata.ResourceMetrics
			for b.Loop() {
				if err := reader.Collect(b.Context(), &rm); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
