package scheduler

import (
	"context"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// Get returns a run as it is now. Errors: [ErrNotFound], also when retention has
// dropped it; [ErrCorrupt] if its row is damaged.
func (s *Scheduler) Get(ctx context.Context, id RunID) (Run, error) {
	if err := s.reading(ctx); err != nil {
		return Run{}, err
	}
	r, err := s.find(id)
	if err != nil {
		return Run{}, err
	}
	wall, elapsed := s.node.Now()
	return view(r, wall, elapsed), nil
}

// find returns a run's newest record, from memory or from the history.
func (s *Scheduler) find(id RunID) (*store.Run, error) {
	var r *store.Run
	s.node.View(func(st *store.State) { r = st.Run(id) })
	if r != nil {
		return r, nil
	}
	r, _, err := s.storage.FinalRun(id)
	switch {
	case err != nil:
		return nil, fmt.Errorf("scheduler: run %v: %w", id, storageError(err))
	case r == nil:
		return nil, fmt.Errorf("scheduler: run %v: %w", id, ErrNotFound)
	}
	return r, nil
}

// RunFilter chooses runs. An empty field does not choose.
type RunFilter struct {
	Tasks    []string
	Queues   []string
	States   []RunState
	Schedule string
	From, To time.Time // of the time in the run's ID; to the millisecond, From included, To not
}

func (f *RunFilter) matches(r *store.Run, wall, elapsed int64) bool {
	switch {
	case len(f.Tasks) > 0 && !slices.Contains(f.Tasks, r.Spec.Task),
		len(f.Queues) > 0 && !slices.Contains(f.Queues, r.Spec.Queue),
		len(f.States) > 0 && !slices.Contains(f.States, r.Phase(wall, elapsed)),
		f.Schedule != "" && (r.More == nil || r.More.Schedule != f.Schedule):
		return false
	}
	at := r.ID.Time()
	return !at.Before(f.From) && (f.To.IsZero() || at.Before(f.To))
}

// wantsFinal reports whether runs of the history can match.
func (f *RunFilter) wantsFinal() bool {
	return len(f.States) == 0 || slices.ContainsFunc(f.States, RunState.Final)
}

// Runs yields the runs that match, the newest ID first. Those that end while it
// runs may be missed or be seen as they were. The cost is that of reading the
// history from the newest run back to where the loop is left.
func (s *Scheduler) Runs(ctx context.Context, f RunFilter) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		if err := s.reading(ctx); err != nil {
			yield(Run{}, err)
			return
		}
		wall, elapsed := s.node.Now()
		memory := s.runsInMemory(&f, wall, elapsed)
		seen := make(map[RunID]bool, len(memory))
		for _, r := range memory {
			seen[r.ID] = true
		}
		give := func(r *store.Run) bool { return yield(view(r, wall, elapsed), nil) }
		for r, err := range s.history(&f) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(Run{}, fmt.Errorf("scheduler: runs: %w", storageError(err)))
				return
			}
			for len(memory) > 0 && memory[0].ID.Compare(r.ID) > 0 {
				if !give(memory[0]) {
					return
				}
				memory = memory[1:]
			}
			if !seen[r.ID] && f.matches(r, wall, elapsed) && !s.live(r.ID) && !give(r) {
				return
			}
		}
		for _, r := range memory {
			if !give(r) {
				return
			}
		}
	}
}

// live reports whether a run of the history was taken up again.
func (s *Scheduler) live(id RunID) (is bool) {
	s.node.View(func(st *store.State) { is = st.LiveRun(id) != nil })
	return is
}

func (s *Scheduler) runsInMemory(f *RunFilter, wall, elapsed int64) []*store.Run {
	var found []*store.Run
	s.node.View(func(st *store.State) {
		for r := range st.LiveRuns() {
			if f.matches(r, wall, elapsed) {
				found = append(found, r)
			}
		}
		for r := range st.FinalRuns() {
			if f.matches(r, wall, elapsed) {
				found = append(found, r)
			}
		}
	})
	slices.SortFunc(found, func(a, b *store.Run) int { return b.ID.Compare(a.ID) })
	return found
}

func (s *Scheduler) history(f *RunFilter) iter.Seq2[*store.Run, error] {
	if !f.wantsFinal() {
		return func(func(*store.Run, error) bool) {}
	}
	from, to := int64(0), int64(math.MaxInt64)
	if !f.From.IsZero() {
		from = f.From.UnixMilli()
	}
	if !f.To.IsZero() {
		to = f.To.UnixMilli() + 1
	}
	return s.storage.FinalRuns(from, to, true)
}

// An Explanation says why a run is where it is.
type Explanation struct {
	Run    Run
	Gate   string    // what holds a waiting run: paused, queue_limit, handler, due, worker; "" if nothing does
	Reason string    // a sentence
	Until  time.Time // when time alone opens the gate; zero if it does not
}

// Explain tells why a run has not started, or what became of it. For a waiting
// run it asks the very gates that the run has to pass. Errors: [ErrNotFound];
// [ErrNoLeader] for a waiting run if no leader answers before ctx ends.
func (s *Scheduler) Explain(ctx context.Context, id RunID) (Explanation, error) {
	run, err := s.Get(ctx, id)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{Run: run}
	switch {
	case run.State.Final():
		e.Reason = finalWords[run.State]
		if run.Error != "" && run.State == Failed {
			e.Reason += ": " + firstLine(run.Error)
		}
		return e, nil
	case run.State == Running:
		e.Reason = s.runningReason(run)
		return e, nil
	case run.State == Assigned:
		e.Gate, e.Reason, e.Until = "due", "a worker has it and starts it when it is due", run.Due
		return e, nil
	}
	r, err := s.find(id)
	if err != nil {
		return Explanation{}, err
	}
	v, err := s.verdict(ctx, r)
	if err != nil {
		return Explanation{}, fmt.Errorf("scheduler: explain run %v: %w", id, err)
	}
	e.Gate, e.Reason = v.Gate, v.Reason
	if v.Until != 0 {
		e.Until = run.Due
	}
	if run.Failures+run.Crashes > 0 && v.Gate == "due" {
		e.Reason = fmt.Sprintf("it waits for its next attempt after: %s", firstLine(run.Error))
	}
	return e, nil
}

// runningReason tells of a run that a worker has and that is due.
func (s *Scheduler) runningReason(run Run) string {
	if s.pool != nil {
		if at, ok := s.pool.Find(run.ID); ok {
			text := fmt.Sprintf("attempt %d runs since %s", at.Attempt, at.Since.UTC().Format(time.RFC3339Nano))
			if at.Progress > 0 || at.Note != "" {
				text += fmt.Sprintf(", %.0f %% done", 100*at.Progress)
			}
			if at.Note != "" {
				text += ": " + at.Note
			}
			return text
		}
	}
	return fmt.Sprintf("a worker has attempt %d", run.Attempt)
}

// finalWords say what became of a run.
var finalWords = map[RunState]string{
	Succeeded: "it has succeeded", Failed: "it has failed", Canceled: "it was canceled", Expired: "it expired before it started",
}

func firstLine(text string) string {
	for i, c := range text {
		if c == '\n' {
			return text[:i]
		}
	}
	return text
}

// An Event is something that happened to a run, a schedule, a queue or a node.
type Event struct {
	Index    uint64 // of the log entry; several events may share one
	Time     time.Time
	Kind     string // enqueued, leased, rescheduled, finished, checkpointed, schedule_set, schedule_gone, tick, queue_set, session_opened, session_ended, pruned, cluster_set
	Run      RunID
	State    RunState // of the run, after the event
	Attempt  int
	Fence    uint64
	Outcome  string // how an attempt ended, or what became of a tick
	Schedule string
	Nominal  time.Time // of a tick
	Queue    string
}

// EventFilter chooses events. An empty field does not choose.
type EventFilter struct {
	After    uint64 // events of later log entries only
	Run      RunID
	Schedule string
}

// Events yields what has happened, oldest first, as far back as the journal's
// byte bound reaches. It ends with the newest event.
func (s *Scheduler) Events(ctx context.Context, f EventFilter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := s.reading(ctx); err != nil {
			yield(Event{}, err)
			return
		}
		var recent []store.PackedEvents
		s.node.View(func(st *store.State) { recent = slices.Collect(st.UnflushedEvents()) })
		last := f.After
		row := func(p store.PackedEvents) bool {
			if p.Index <= last {
				return true
			}
			last = p.Index
			return yieldEvents(ctx, p, &f, yield)
		}
		for p, err := range s.storage.Events(f.After + 1) {
			if err != nil {
				yield(Event{}, fmt.Errorf("scheduler: events: %w", storageError(err)))
				return
			}
			if !row(p) {
				return
			}
		}
		for _, p := range recent {
			if !row(p) {
				return
			}
		}
	}
}

func yieldEvents(ctx context.Context, p store.PackedEvents, f *EventFilter, yield func(Event, error) bool) bool {
	for e, err := range store.UnpackEvents(p) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			yield(Event{}, fmt.Errorf("scheduler: events: %w", err))
			return false
		}
		if !f.Run.IsZero() && e.Run != f.Run || f.Schedule != "" && e.Schedule != f.Schedule {
			continue
		}
		if !yield(viewEvent(&e), nil) {
			return false
		}
	}
	return true
}

func viewEvent(e *store.EventRecord) Event {
	v := Event{
		Index: e.Index, Time: instant(e.Wall), Kind: e.Kind.String(), Run: e.Run, State: e.State, Attempt: int(e.Attempt),
		Fence: e.Fence, Outcome: e.Outcome.String(), Schedule: e.Schedule, Nominal: instant(e.Nominal), Queue: e.Queue,
	}
	if e.Kind == store.EventTick {
		v.Outcome = e.Tick.String()
	}
	return v
}

// Stats counts what there is.
type Stats struct {
	Live      int // runs that have not ended
	Schedules int
	Queues    []QueueStats // by name
	History   int64        // ended runs kept
	Unflushed int          // rows that are in the log and not yet in the folder's database
}

// QueueStats is a queue's configuration and what is in it.
type QueueStats struct {
	Name    string
	Limit   int // runs executed at a time; 0 is no limit
	Paused  bool
	Waiting int
	Leased  int
}

// Stats returns counts as of now.
func (s *Scheduler) Stats(ctx context.Context) (Stats, error) {
	if err := s.reading(ctx); err != nil {
		return Stats{}, err
	}
	var stats Stats
	s.node.View(func(st *store.State) {
		stats.Live, stats.Unflushed = st.Live(), st.Unflushed()
		stats.Schedules = st.NumSchedules()
		for _, q := range st.Queues() {
			stats.Queues = append(stats.Queues, QueueStats{
				Name: q.Name, Limit: int(q.Limit), Paused: q.Paused, Waiting: q.Waiting, Leased: q.Leased,
			})
		}
		for _, seg := range st.Segments() {
			if seg.Kind == store.RunSegment {
				stats.History += seg.Rows
			}
		}
	})
	return stats, nil
}

// Backup writes a consistent copy of everything that was acknowledged by this node
// before the call (by any node, if ctx is [Linearizable]), while the scheduler
// works. [Restore] fills a folder from it.
func (s *Scheduler) Backup(ctx context.Context, w io.Writer) error {
	if err := s.reading(ctx); err != nil {
		return err
	}
	if err := s.node.Flush(ctx); err != nil {
		return fmt.Errorf("scheduler: backup: %w", callError(err))
	}
	if _, _, err := s.storage.Backup(w); err != nil {
		return fmt.Errorf("scheduler: backup: %w", err)
	}
	return nil
}

// Health says how the node is.
type Health struct {
	Node     string
	Role     string // leader, follower, candidate, stopped
	Leader   string // node ID; "" if none is known
	OK       bool   // calls are accepted and runs are executed; after a fault of the disk, for 5 s already
	Volatile bool   // everything is in memory and gone with the process
	Applied  uint64 // log index of the state
	Level    int    // format level of the log: the newest that all nodes can read
	Reasons  []string
}

// Health reports how the node is, in words where something is wrong.
func (s *Scheduler) Health(context.Context) Health {
	if err := s.check(); err != nil {
		return Health{Node: s.cfg.nodeID, Role: "stopped", Reasons: []string{err.Error()}}
	}
	st := s.node.Status()
	h := Health{
		Node: s.cfg.nodeID, Role: st.Role.String(), Leader: st.LeaderID, Applied: st.Applied, Volatile: s.cfg.dir == "",
	}
	s.node.View(func(st *store.State) { h.Level = int(st.Meta().Level) })
	if st.Parked != nil {
		h.Reasons = append(h.Reasons, "the node has stopped applying: "+st.Parked.Error())
	}
	if st.Fault != nil {
		h.Reasons = append(h.Reasons, "the disk refuses writes: "+st.Fault.Error())
	} else if st.LeaderID == "" { // what fails is opened anew meanwhile, and has none
		h.Reasons = append(h.Reasons, "no leader is known: calls wait and nothing new starts")
	}
	if st.Waits != "" {
		h.Reasons = append(h.Reasons, "the node is in no cluster yet, or is not let in: "+st.Waits)
	}
	if st.Skewed {
		h.Reasons = append(h.Reasons, "this machine's clock is off those of the other nodes")
	}
	h.OK = len(h.Reasons) == 0
	if fault := s.fileFault.Load(); fault != nil {
		h.Reasons = append(h.Reasons, "the schedule files are not in force: "+(*fault).Error())
	}
	for _, held := range []*atomic.Pointer[error]{&s.codeHeld, &s.filesHeld} {
		if fault := held.Load(); fault != nil {
			h.Reasons = append(h.Reasons, "not in force yet: "+(*fault).Error())
		}
	}
	h.Reasons = append(h.Reasons, s.waiting()...)
	return h
}
