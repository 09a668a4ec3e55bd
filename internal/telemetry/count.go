package telemetry

import (
	"time"

	"github.com/escapement-go/scheduler/store"
)

// Each exported method is a check that the compiler can put into its caller, and
// a call for those who have a provider.

// Enqueued counts n runs that were added.
func (t *Telemetry) Enqueued(task string, n int) {
	if t == nil || t.meters == nil {
		return
	}
	t.meters.runsEnqueued(task, n)
}

func (m *meters) runsEnqueued(task string, n int) { m.tasks.get(task).enqueued.n.Add(int64(n)) }

// Started counts an attempt whose handler was started, lateness after the run was
// due. A negative lateness counts as none.
func (t *Telemetry) Started(task string, lateness time.Duration) {
	if t == nil || t.meters == nil {
		return
	}
	t.meters.runStarted(task, lateness)
}

func (m *meters) runStarted(task string, lateness time.Duration) {
	s := m.tasks.get(task).started
	s.n.Add(1)
	m.lateness.Record(noSpan, max(lateness, 0).Seconds(), s.record...)
}

// Finished counts the end of an attempt, and of its run if state, the run's state
// from then on, is final. An outcome of 0 says that the run ended without an
// attempt: it was canceled, or it expired. A took of 0 or less is not known, for
// example because the worker was lost, and goes into no histogram.
func (t *Telemetry) Finished(task string, outcome store.Outcome, state store.RunState, took time.Duration) {
	if t == nil || t.meters == nil {
		return
	}
	t.meters.attemptFinished(task, outcome, state, took)
}

func (m *meters) attemptFinished(task string, outcome store.Outcome, state store.RunState, took time.Duration) {
	s := m.tasks.get(task)
	if state.Final() {
		s.finished.at(state).n.Add(1)
	}
	if outcome == 0 {
		return
	}
	a := s.attempts.at(outcome)
	a.n.Add(1)
	if took > 0 {
		m.attemptTime.Record(noSpan, took.Seconds(), a.record...)
	}
}

// LeaseEnded counts a lease that ended. An outcome of 0 is none and not counted.
func (t *Telemetry) LeaseEnded(outcome store.Outcome) {
	if t == nil || t.meters == nil || outcome == 0 {
		return
	}
	t.meters.leaseEnded(outcome)
}

func (m *meters) leaseEnded(outcome store.Outcome) { m.leases.at(outcome).n.Add(1) }

// Tick counts a row of the tick ledger. An outcome of 0 is none and not counted.
func (t *Telemetry) Tick(outcome store.TickOutcome) {
	if t == nil || t.meters == nil || outcome == 0 {
		return
	}
	t.meters.ticked(outcome)
}

func (m *meters) ticked(outcome store.TickOutcome) { m.ticks.at(outcome).n.Add(1) }

// Committed records a batch of commands that took so long from being encoded
// until its callers had their answers, and whose log entry has so many bytes.
func (t *Telemetry) Committed(commands, bytes int, took time.Duration) {
	if t == nil || t.meters == nil {
		return
	}
	t.meters.committed(commands, bytes, took)
}

func (m *meters) committed(commands, bytes int, took time.Duration) {
	m.commitTime.Record(noSpan, max(took, 0).Seconds())
	m.batchSize.Record(noSpan, int64(commands))
	m.entrySize.Record(noSpan, int64(bytes))
}

// Flushed records a flush of rows to disk. One that failed is counted as an
// error, and neither its rows nor its duration are recorded.
func (t *Telemetry) Flushed(rows int, took time.Duration, err error) {
	if t == nil || t.meters == nil {
		return
	}
	t.meters.flushed(rows, took, err)
}

func (m *meters) flushed(rows int, took time.Duration, err error) {
	if err != nil {
		m.flushErrors.n.Add(1)
		return
	}
	m.flushTime.Record(noSpan, max(took, 0).Seconds())
	m.flushRows.Record(noSpan, int64(rows))
}

// Leader says whether this process leads. Saying the same again changes nothing.
func (t *Telemetry) Leader(leading bool) {
	if t == nil || t.meters == nil {
		return
	}
	t.meters.lead(leading)
}

func (m *meters) lead(leading bool) {
	if m.leading.Swap(leading) != leading {
		m.leadChanges.n.Add(1)
	}
}
