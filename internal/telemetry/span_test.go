package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/escapement-go/scheduler/internal/telemetry"
	"github.com/escapement-go/scheduler/store"
)

var runID = store.NewRunID(time.UnixMilli(1_700_000_000_000), [10]byte{1, 2, 3})

// newTraces returns a Telemetry with traces alone, and what records its spans.
func newTraces(t *testing.T, sampler sdktrace.Sampler) (*telemetry.Telemetry, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithSampler(sampler))
	t.Cleanup(func() {
		if err := tp.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	tel, err := telemetry.New(nil, tp)
	if err != nil {
		t.Fatal(err)
	}
	return tel, spans
}

// facts returns a span's attributes as one string.
func facts(span sdktrace.ReadOnlySpan) string {
	var words []string
	for _, kv := range span.Attributes() {
		words = append(words, string(kv.Key)+"="+kv.Value.String())
	}
	return strings.Join(words, " ")
}

func TestTelemetry_StartAttempt(t *testing.T) {
	t.Run("begins a trace of its own that links to the enqueuing span", func(t *testing.T) {
		tel, spans := newTraces(t, sdktrace.AlwaysSample())
		ctx, enqueue := tel.StartEnqueue(t.Context(), "mail", 2)
		parent := tel.Traceparent(ctx)
		enqueue.End(nil)
		attemptCtx, attempt := tel.StartAttempt(ctx, "mail", parent, runID, 3)
		attempt.EndAttempt(store.OutcomeSucceeded, nil)

		ended := spans.Ended()
		if len(ended) != 2 {
			t.Fatalf("%d spans, want 2", len(ended))
		}
		from, to := ended[0], ended[1]
		type shape struct {
			Name, Facts string
			Kind        trace.SpanKind
			Status      codes.Code
			Root        bool
		}
		of := func(s sdktrace.ReadOnlySpan) shape {
			return shape{s.Name(), facts(s), s.SpanKind(), s.Status().Code, !s.Parent().IsValid()}
		}
		want := []shape{
			{
				"enqueue mail", "escapement.task=mail escapement.enqueue.runs=2",
				trace.SpanKindProducer, codes.Unset, true,
			},
			{
				"run mail", "escapement.task=mail escapement.run.id=" + runID.String() +
					" escapement.attempt=3 escapement.outcome=succeeded",
				trace.SpanKindConsumer, codes.Unset, true,
			},
		}
		if diff := cmp.Diff(want, []shape{of(from), of(to)}); diff != "" {
			t.Errorf("spans (-want +got):\n%s", diff)
		}
		if to.SpanContext().TraceID() == from.SpanContext().TraceID() {
			t.Error("the attempt is in the trace of the enqueuing call")
		}
		if got, want := trace.SpanContextFromContext(attemptCtx), to.SpanContext(); !got.Equal(want) {
			t.Errorf("the handler's context has span %v, want %v", got, want)
		}
		links := to.Links()
		if len(links) != 1 {
			t.Fatalf("%d links, want 1", len(links))
		}
		got := links[0].SpanContext
		if got.TraceID() != from.SpanContext().TraceID() || got.SpanID() != from.SpanContext().SpanID() ||
			!got.IsSampled() || !got.IsRemote() {
			t.Errorf("link to %+v, want to %+v", got, from.SpanContext())
		}
	})

	t.Run("a traceparent that names nothing gives no link", func(t *testing.T) {
		tel, spans := newTraces(t, sdktrace.AlwaysSample())
		ctx, outer := tel.StartEnqueue(t.Context(), "mail", 1) // must not be taken for what was named
		for _, parent := range []string{
			"", "nonsense", "00-00000000000000000000000000000000-0000000000000000-01",
			"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
		} {
			_, attempt := tel.StartAttempt(ctx, "mail", parent, runID, 1)
			attempt.EndAttempt(store.OutcomeSucceeded, nil)
			ended := spans.Ended()
			if got := ended[len(ended)-1].Links(); len(got) != 0 {
				t.Errorf("traceparent %q gives links %v", parent, got)
			}
		}
		outer.End(nil)
	})

	t.Run("a sampler sees the task and the link", func(t *testing.T) {
		const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		seen := &seeing{}
		tel, spans := newTraces(t, seen)
		ctx, attempt := tel.StartAttempt(t.Context(), "mail", parent, runID, 1)
		attempt.EndAttempt(store.OutcomeFailed, errors.New("boom"))
		if got, want := seen.got, "run mail consumer escapement.task=mail links=1"; got != want {
			t.Errorf("the sampler saw %q, want %q", got, want)
		}
		if got := tel.Traceparent(ctx); got != "" {
			t.Errorf("a dropped span has traceparent %q", got)
		}
		if n := len(spans.Ended()); n != 0 {
			t.Errorf("%d spans were recorded of those that are dropped", n)
		}
	})
}

// seeing is a sampler that drops every span and notes what it was asked.
type seeing struct{ got string }

func (s *seeing) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	s.got = fmt.Sprintf("%s %s %s=%s links=%d", p.Name, p.Kind, p.Attributes[0].Key, p.Attributes[0].Value.String(), len(p.Links))
	return sdktrace.SamplingResult{Decision: sdktrace.Drop}
}

func (*seeing) Description() string { return "drops all" }

func TestTelemetry_Traceparent(t *testing.T) {
	tel, spans := newTraces(t, sdktrace.AlwaysSample())
	if got := tel.Traceparent(t.Context()); got != "" {
		t.Errorf("without a span: %q, want none", got)
	}
	ctx, span := tel.StartEnqueue(t.Context(), "mail", 1)
	span.End(nil)
	sc := spans.Ended()[0].SpanContext()
	want := fmt.Sprintf("00-%s-%s-%s", sc.TraceID(), sc.SpanID(), sc.TraceFlags())
	if got := tel.Traceparent(ctx); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	child, inner := tel.StartEnqueue(ctx, "pdf", 1)
	inner.End(nil)
	if got := spans.Ended()[1].Parent().SpanID(); got != sc.SpanID() {
		t.Errorf("parent of an inner span is %v, want %v", got, sc.SpanID())
	}
	if tel.Traceparent(child) == want {
		t.Error("the inner span has the traceparent of the outer one")
	}
}

type quotaError struct{ error }

func TestSpan_End(t *testing.T) {
	type end struct {
		Status codes.Code
		Text   string
		Type   string
	}
	boom := quotaError{errors.New("boom")}
	for _, test := range []struct {
		name string
		end  func(telemetry.Span)
		want end
	}{
		{"no error leaves the status unset", func(s telemetry.Span) { s.End(nil) }, end{}},
		{
			"an error is the status", func(s telemetry.Span) { s.End(boom) },
			end{codes.Error, "boom", "telemetry_test.quotaError"},
		},
		{
			"a failed attempt has its error", func(s telemetry.Span) { s.EndAttempt(store.OutcomeFailed, boom) },
			end{codes.Error, "boom", "telemetry_test.quotaError"},
		},
		{
			"so has one to be retried later", func(s telemetry.Span) { s.EndAttempt(store.OutcomeRetryAfter, boom) },
			end{codes.Error, "boom", "telemetry_test.quotaError"},
		},
		{
			"and one that is final", func(s telemetry.Span) { s.EndAttempt(store.OutcomePermanent, boom) },
			end{codes.Error, "boom", "telemetry_test.quotaError"},
		},
		{
			"a crash without an error has its outcome", func(s telemetry.Span) { s.EndAttempt(store.OutcomeCrashed, nil) },
			end{codes.Error, "crashed", ""},
		},
		{"a snooze is no failure", func(s telemetry.Span) { s.EndAttempt(store.OutcomeSnoozed, boom) }, end{}},
		{"nor is a deploy", func(s telemetry.Span) { s.EndAttempt(store.OutcomeInterrupted, boom) }, end{}},
		{"nor is a cancel", func(s telemetry.Span) { s.EndAttempt(store.OutcomeCanceled, boom) }, end{}},
		{"a second end changes nothing", func(s telemetry.Span) { s.End(nil); s.EndAttempt(store.OutcomeFailed, boom) }, end{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			tel, spans := newTraces(t, sdktrace.AlwaysSample())
			_, span := tel.StartAttempt(t.Context(), "mail", "", runID, 1)
			test.end(span)
			ended := spans.Ended()
			if len(ended) != 1 {
				t.Fatalf("%d spans ended, want 1", len(ended))
			}
			got := end{Status: ended[0].Status().Code, Text: ended[0].Status().Description}
			for _, kv := range ended[0].Attributes() {
				if kv.Key == "error.type" {
					got.Type = kv.Value.AsString()
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("end (-want +got):\n%s", diff)
			}
		})
	}

	t.Run("a long text is cut and stays valid", func(t *testing.T) {
		tel, spans := newTraces(t, sdktrace.AlwaysSample())
		_, span := tel.StartEnqueue(t.Context(), "ma\xffil", 1)
		span.End(errors.New("x" + strings.Repeat("é", 100_000)))
		got := spans.Ended()[0]
		if text := got.Status().Description; len(text) > 5000 || !utf8.ValidString(text) {
			t.Errorf("status of %d bytes, valid: %v", len(text), utf8.ValidString(text))
		}
		if want := "enqueue ma\uFFFDil"; got.Name() != want {
			t.Errorf("name %q, want %q", got.Name(), want)
		}
	})
}
