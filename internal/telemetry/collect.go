package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/escapement-go/scheduler/store"
)

// A QueueGauge is what a queue holds at one moment.
type QueueGauge struct {
	Queue string

	// Live runs by state.
	Scheduled, Ready, Assigned, Running int

	OldestAge time.Duration // since the oldest ready run was due; 0 if none is ready
}

// ObserveQueues has the queues reported as queues returns them, one element per
// queue, in place of any function given before. A process that does not lead
// returns none. The slice is not kept.
//
// The function is called when the provider collects, by goroutines of the
// provider's, several of them at once if it has several readers; others that
// collect wait for it. It may take locks under which others count, for no counting
// method waits for a collection. After [Telemetry.Close] it is not called.
func (t *Telemetry) ObserveQueues(queues func() []QueueGauge) {
	if t == nil || t.meters == nil {
		return
	}
	t.meters.observeQueues(queues)
}

func (m *meters) observeQueues(queues func() []QueueGauge) { m.observe.Store(&queues) }

// NodeGauge is what the leader knows of another node.
type NodeGauge struct {
	Node    string
	Contact time.Duration // since it was last heard of
	Offset  time.Duration // of its wall clock to the leader's
	Drift   float64       // of Offset, s a s
	Clock   bool          // Offset and Drift are known
}

// ObserveNodes is [Telemetry.ObserveQueues] for the other nodes of the cluster.
func (t *Telemetry) ObserveNodes(nodes func() []NodeGauge) {
	if t == nil || t.meters == nil {
		return
	}
	t.meters.peers.Store(&nodes)
}

// queueSeries are the attributes of one queue.
type queueSeries struct {
	depth [store.Running + 1][]metric.ObserveOption // by live state
	age   []metric.ObserveOption
}

func newQueueSeries(name string) *queueSeries {
	queue := attribute.String("queue", name)
	q := &queueSeries{age: newSeries(queue).observe}
	for state := range q.depth {
		q.depth[state] = newSeries(queue, attribute.String("state", store.RunState(state).String())).observe
	}
	return q
}

// reportCounters is the callback of the counters.
func (m *meters) reportCounters(_ context.Context, o metric.Observer) error {
	for _, t := range m.tasks.all() {
		t.enqueued.report(o, m.enqueued)
		t.started.report(o, m.started)
		t.attempts.report(o, m.attempts)
		t.finished.report(o, m.finished)
	}
	m.leases.report(o, m.leaseEnds)
	m.ticks.report(o, m.tickRows)
	m.flushErrors.report(o, m.flushFaults)
	m.leadChanges.report(o, m.leaderChanges)
	return nil
}

// reportGauges is the callback of what has a present value.
func (m *meters) reportGauges(_ context.Context, o metric.Observer) error {
	var leading int64
	if m.leading.Load() {
		leading = 1
	}
	o.ObserveInt64(m.leader, leading)
	m.reportNodes(o)

	queues := m.observe.Load()
	if queues == nil || *queues == nil {
		return nil
	}
	var rest QueueGauge
	spilled := false
	for _, q := range (*queues)() {
		s := m.queues.get(q.Queue)
		if s != m.queues.other {
			m.reportQueue(o, s, &q)
			continue
		}
		// A gauge takes the last of several values, so the others are added up first.
		spilled = true
		rest.Scheduled += q.Scheduled
		rest.Ready += q.Ready
		rest.Assigned += q.Assigned
		rest.Running += q.Running
		rest.OldestAge = max(rest.OldestAge, q.OldestAge)
	}
	if spilled {
		m.reportQueue(o, m.queues.other, &rest)
	}
	return nil
}

func (m *meters) reportNodes(o metric.Observer) {
	peers := m.peers.Load()
	if peers == nil || *peers == nil {
		return
	}
	for _, n := range (*peers)() {
		s := m.nodes.get(n.Node)
		o.ObserveFloat64(m.contact, n.Contact.Seconds(), s.observe...)
		if n.Clock {
			o.ObserveFloat64(m.clockOffset, n.Offset.Seconds(), s.observe...)
			o.ObserveFloat64(m.clockDrift, n.Drift, s.observe...)
		}
	}
}

func (m *meters) reportQueue(o metric.Observer, s *queueSeries, q *QueueGauge) {
	for state, n := range [...]int{q.Scheduled, q.Ready, q.Assigned, q.Running} {
		o.ObserveInt64(m.depth, int64(n), s.depth[state]...)
	}
	o.ObserveFloat64(m.oldest, max(q.OldestAge, 0).Seconds(), s.age...)
}
