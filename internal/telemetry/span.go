package telemetry

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/escapement-go/scheduler/store"
)

// maxStatus bounds the error text on a span, in bytes: an error may carry a stack
// or a response body.
const maxStatus = 4 << 10

// What is the same for every span of a kind.
var (
	producer = trace.WithSpanKind(trace.SpanKindProducer)
	consumer = trace.WithSpanKind(trace.SpanKindConsumer)
	newRoot  = trace.WithNewRoot()
)

// StartEnqueue starts the span of a call that adds n runs of a task, as a child
// of the span in ctx. The returned context holds it, for [Telemetry.Traceparent];
// the caller ends it.
func (t *Telemetry) StartEnqueue(ctx context.Context, task string, n int) (context.Context, Span) {
	if t == nil || t.tracer == nil {
		return ctx, Span{}
	}
	return startEnqueue(ctx, t.tracer, task, n)
}

func startEnqueue(ctx context.Context, tracer trace.Tracer, task string, n int) (context.Context, Span) {
	task = utf8(task)
	ctx, span := tracer.Start(ctx, "enqueue "+task,
		producer,
		trace.WithAttributes(attribute.String("escapement.task", task), attribute.Int("escapement.enqueue.runs", n)))
	return ctx, Span{span}
}

// Traceparent returns the span of ctx as a W3C traceparent, to be kept with the
// run. It returns "" if there is none, and if it is not sampled: a link to a span
// that nobody has recorded is not worth its place in the log.
func (t *Telemetry) Traceparent(ctx context.Context) string {
	if t == nil || t.tracer == nil {
		return ""
	}
	return traceparent(ctx)
}

func traceparent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	var c carrier
	propagation.TraceContext{}.Inject(ctx, &c)
	return string(c)
}

// StartAttempt starts the span of an attempt: the root of a trace of its own,
// whatever span ctx holds, with a link to the span that traceparent names. A
// traceparent that is empty or malformed gives no link. The returned context is
// the handler's; the caller ends the span with [Span.EndAttempt].
//
// A sampler sees the task and the link; the other attributes are set on spans
// that are recorded.
func (t *Telemetry) StartAttempt(
	ctx context.Context, task, traceparent string, run store.RunID, attempt uint32,
) (context.Context, Span) {
	if t == nil || t.tracer == nil {
		return ctx, Span{}
	}
	return startAttempt(ctx, t.tracer, task, traceparent, run, attempt)
}

func startAttempt(
	ctx context.Context, tracer trace.Tracer, task, traceparent string, run store.RunID, attempt uint32,
) (context.Context, Span) {
	task = utf8(task)
	opts := make([]trace.SpanStartOption, 0, 4)
	opts = append(opts, newRoot, consumer, trace.WithAttributes(attribute.String("escapement.task", task)))
	if from := parse(ctx, traceparent); from.IsValid() {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: from}))
	}
	ctx, span := tracer.Start(ctx, "run "+task, opts...)
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("escapement.run.id", run.String()),
			attribute.Int64("escapement.attempt", int64(attempt)))
	}
	return ctx, Span{span}
}

// parse returns the span context that traceparent names, or an invalid one.
func parse(ctx context.Context, traceparent string) trace.SpanContext {
	if traceparent == "" {
		return trace.SpanContext{}
	}
	// Extract leaves the context as it is if it finds nothing, so it starts from one without a span.
	bare := trace.ContextWithSpanContext(ctx, trace.SpanContext{})
	c := carrier(traceparent)
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(bare, &c))
}

// A Span is one that this package started. The zero Span does nothing.
type Span struct{ span trace.Span }

// End ends the span; err is what the call returned.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil && s.span.IsRecording() {
		s.fail(err.Error(), err)
	}
	s.span.End()
}

// EndAttempt ends the span of an attempt with its outcome. The span has the
// status Error if the attempt failed or its worker was lost; one that was
// snoozed, released, interrupted or canceled did not fail, whatever its err. err
// is what the handler returned, and may be nil in any case.
func (s Span) EndAttempt(outcome store.Outcome, err error) {
	if s.span == nil {
		return
	}
	s.endAttempt(outcome, err)
}

func (s Span) endAttempt(outcome store.Outcome, err error) {
	word := outcome.String()
	if s.span.IsRecording() {
		s.span.SetAttributes(attribute.String("escapement.outcome", word))
		switch outcome {
		case store.OutcomeFailed, store.OutcomePermanent, store.OutcomeRetryAfter, store.OutcomeCrashed:
			if err != nil {
				word = err.Error()
			}
			s.fail(word, err)
		default:
		}
	}
	s.span.End()
}

// fail sets the status Error, and err's type if there is an err.
func (s Span) fail(text string, err error) {
	if len(text) > maxStatus {
		text = text[:maxStatus]
	}
	s.span.SetStatus(codes.Error, utf8(text))
	if err != nil {
		s.span.SetAttributes(attribute.String("error.type", fmt.Sprintf("%T", err)))
	}
}

// A carrier is a traceparent in the form the propagator reads and writes.
type carrier string

// Get returns the value of a header.
func (c *carrier) Get(key string) string {
	if key == "traceparent" {
		return string(*c)
	}
	return ""
}

// Set keeps the traceparent; there is no place for a tracestate.
func (c *carrier) Set(key, value string) {
	if key == "traceparent" {
		*c = carrier(value)
	}
}

// Keys lists the headers.
func (*carrier) Keys() []string { return []string{"traceparent"} }
