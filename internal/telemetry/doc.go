// Package telemetry knows how the scheduler looks from outside: the names,
// units, attributes and buckets of its OpenTelemetry metrics, and the shape of
// its traces.
//
// It works through the providers it is handed and never touches the globals of
// OpenTelemetry. Without a provider every call returns at once.
//
// # Metrics
//
// Counters are sums since [New]. Everything but the histograms is exported by
// callbacks, which run at collection only.
//
//	name                            kind       unit       attributes      meaning
//	escapement.runs.enqueued        counter    {run}      task            runs added, by a call or by a schedule
//	escapement.runs.started         counter    {run}      task            attempts whose handler was started
//	escapement.runs.finished        counter    {run}      task, state     runs that reached a final state
//	escapement.run.start_lateness   histogram  s          task            from a run's due time to its start
//	escapement.attempts.finished    counter    {attempt}  task, outcome   attempts that ended
//	escapement.attempt.duration     histogram  s          task, outcome   from start to end of an attempt
//	escapement.leases.ended         counter    {lease}    outcome         leases that ended, by how
//	escapement.ticks                counter    {tick}     outcome         rows of the tick ledger
//	escapement.commit.duration      histogram  s                          from a batch's encoding to its callers' answers
//	escapement.commit.batch_size    histogram  {command}                  commands in a batch
//	escapement.commit.entry_size    histogram  By                         encoded size of a batch
//	escapement.flush.duration       histogram  s                          writing a flush to disk
//	escapement.flush.rows           histogram  {row}                      rows written by a flush
//	escapement.flush.errors         counter    {error}                    flushes that failed
//	escapement.leader               updown     {leader}                   1 while this process leads, else 0
//	escapement.leader.changes       counter    {change}                   times this process won or lost leadership
//	escapement.queue.depth          updown     {run}      queue, state    live runs of a queue; from the leader
//	escapement.queue.oldest_age     gauge      s          queue           wait of a queue's oldest ready run; from the leader
//	escapement.node.contact_age     gauge      s          node            since another node was last heard of; from the leader
//	escapement.node.clock_offset    gauge      s          node            another node's wall clock less the leader's; from the leader
//	escapement.node.clock_drift     gauge      s/s        node            how fast that difference grows; from the leader
//
// The words of task, queue, state and outcome are those of package store. They
// bear no prefix, since the name of their metric has one. No ID is ever an
// attribute of a metric, and the first 1,000 tasks and the first 1,000 queues
// that a process sees are told apart; what comes after them is counted under
// the name [Other]. The SDK has a limit of its own (2,000 attribute sets per
// instrument unless its provider says otherwise): with more than a few hundred
// tasks, raise it with the SDK's WithCardinalityLimit.
//
// What can be added up is a counter or an updown counter, so that several
// schedulers of one process and one provider report their sum.
//
// # Traces
//
//	span             kind       parent         attributes
//	enqueue <task>   producer   the caller's   escapement.task, escapement.enqueue.runs
//	run <task>       consumer   none           escapement.task, escapement.run.id, escapement.attempt, escapement.outcome
//
// Days may lie between the two, so an attempt begins a trace of its own and is
// joined to the span that enqueued its run by a link. A span that ends in an
// error has the status Error with the error's text, and its Go type as
// error.type.
package telemetry
