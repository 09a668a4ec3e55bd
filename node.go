package scheduler

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/internal/precise"
	"github.com/escapement-go/scheduler/internal/telemetry"
	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/store/boltstore"
	"github.com/escapement-go/scheduler/store/memstore"
	"github.com/escapement-go/scheduler/worker"
)

// storage is what a node keeps its state in and reads its history from.
type storage interface {
	cluster.Storage
	FinalRun(id store.RunID) (*store.Run, store.SegmentKey, error)
	FinalRuns(from, to int64, newestFirst bool) iter.Seq2[*store.Run, error]
	Ticks(schedule uint64, from, to int64) iter.Seq2[*store.Tick, error]
	Versions(schedule uint64) iter.Seq2[*store.ScheduleVersion, error]
	Events(fromIndex uint64) iter.Seq2[store.PackedEvents, error]
}

// disk is what a node without a folder keeps everything on; its zero value is
// memory.
type disk struct {
	log      func() (cluster.LogStore, error)
	storage  func() (storage, error)
	trailing int64 // of several nodes: how much of the log is kept; 0: as usual
}

// openStorage opens the folder and settles the node's ID.
func openStorage(cfg *config) (storage, error) {
	if cfg.dir == "" {
		if cfg.nodeID == "" {
			cfg.nodeID = newNodeID()
		}
		if cfg.disk.storage != nil {
			return cfg.disk.storage()
		}
		return memstore.New(memstore.Options{}), nil
	}
	if err := os.MkdirAll(cfg.dir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	st, err := boltstore.Open(cfg.dir, boltstore.Options{})
	if err != nil {
		return nil, storageError(err)
	}
	if err := settleNodeID(cfg, st.Configuration() != nil); err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return st, nil
}

// storageError makes the root's errors of the backend's.
func storageError(err error) error {
	for _, known := range [...]struct{ is, becomes error }{
		{boltstore.ErrInUse, ErrInUse},
		{boltstore.ErrNewer, ErrNewer},
		{boltstore.ErrCorrupt, ErrCorrupt},
		{cluster.ErrFolderInUse, ErrInUse},
		{cluster.ErrDamaged, ErrCorrupt},
		{store.ErrFormat, ErrCorrupt},
	} {
		if errors.Is(err, known.is) {
			return fmt.Errorf("%w: %w", known.becomes, err)
		}
	}
	return err
}

func newNodeID() string { return "node-" + uuid.NewString()[:8] }

// settleNodeID reads the folder's node ID, or writes it if there is none yet. A
// folder that is in use already has one.
func settleNodeID(cfg *config, used bool) error {
	path := filepath.Join(cfg.dir, nodeIDFile)
	kept, err := os.ReadFile(path)
	switch {
	case err == nil && strings.TrimSpace(string(kept)) != "":
		id := strings.TrimSpace(string(kept))
		if cfg.nodeID != "" && cfg.nodeID != id {
			return fmt.Errorf("data folder belongs to node %q, not %q: %w", id, cfg.nodeID, ErrInvalid)
		}
		cfg.nodeID = id
		return nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("data folder: %w", err)
	}
	if cfg.nodeID == "" && used {
		return fmt.Errorf("%w: file %s is missing", ErrCorrupt, path)
	}
	if cfg.nodeID == "" {
		cfg.nodeID = newNodeID()
	}
	if err := writeNodeID(path, cfg.nodeID); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	return nil
}

// nodeIDFile is the file of a folder that keeps the ID of its node.
const nodeIDFile = "node-id"

// writeNodeID writes the file whole or not at all. Opening the log makes its name
// durable.
func writeNodeID(path, id string) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(id + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// trailingBytes is how much of the log is kept behind the folder's database: one
// large segment, so that space comes back soon.
const trailingBytes = 64 << 20

func (s *Scheduler) clusterConfig() cluster.Setup {
	setup := cluster.Setup{
		ID:  s.cfg.nodeID,
		Dir: s.cfg.dir,
		Log: s.cfg.log,

		OpenLog:   s.cfg.disk.log,
		Storage:   s.storage,
		Clock:     s.cfg.clock,
		Logger:    s.cfg.logger,
		Opened:    func(n *cluster.Node) { s.node = n },
		Prepare:   s.dispatch.Prepare,
		OnApply:   s.applied,
		OnLead:    s.lead,
		OnDrop:    s.dispatch.Dropped,
		OnAsk:     s.answer,
		OnReplace: s.waiters.suspect,
		Observe: cluster.Observe{
			Batch: func(commands, bytes int, took time.Duration) {
				s.tel.Committed(commands, bytes, took)
			},
			Flush: s.tel.Flushed,
			Leader: func(id string, _ uint64) {
				s.tel.Leader(id == s.cfg.nodeID)
				if s.contact != nil {
					s.contact.turn()
				}
			},
		},
	}
	if s.cfg.cluster == nil {
		setup.TrailingBytes = trailingBytes // no follower will ask for what Storage has
		return setup
	}
	setup.Cluster, setup.OnSession, setup.TrailingBytes = s.cfg.cluster, s.contact.serve, s.cfg.disk.trailing
	return setup
}

// lead follows this node's leadership, under the state's lock.
func (s *Scheduler) lead(st *store.State, leading bool) {
	s.dispatch.Lead(st, leading)
	if s.contact == nil {
		return
	}
	term := uint64(0)
	if leading {
		term = s.node.Term()
	}
	s.contact.lead(term)
}

// applied follows an applied entry, under the state's lock.
func (s *Scheduler) applied(st *store.State, _ uint64, b *store.Batch, results []store.Result, events []store.Event) {
	s.dispatch.Applied(st, b, results, events)
	s.waiters.tell(events)
	if !s.node.Leading() { // each event is counted once in the cluster
		return
	}
	for i := range events {
		switch e := &events[i]; e.Kind {
		case store.EventEnqueued:
			s.tel.Enqueued(e.Run.Spec.Task, 1)
		case store.EventTick:
			s.tel.Tick(e.Tick.Outcome)
		case store.EventRescheduled, store.EventFinished:
			s.logEnd(e)
			if e.Fence != 0 {
				s.tel.LeaseEnded(e.Outcome)
				s.tel.Finished(e.Run.Spec.Task, e.Outcome, e.Run.State, s.took(st, e.Run))
			} else if e.Kind == store.EventFinished {
				s.tel.Finished(e.Run.Spec.Task, 0, e.Run.State, 0)
			}
		default: // is not counted
		}
	}
}

// logEnd logs what a person may want to know of a run: that it has failed, or
// that its worker was lost. Errors' texts may hold data and are not logged.
func (s *Scheduler) logEnd(e *store.Event) {
	attrs := func() []any {
		return []any{"run_id", e.Run.ID, "task", e.Run.Spec.Task, "attempt", e.Run.Attempt, "outcome", e.Outcome}
	}
	switch {
	case e.Run.State == store.Failed:
		s.cfg.logger.Error("run failed for good", attrs()...)
	case e.Outcome == store.OutcomeCrashed:
		s.cfg.logger.Warn("worker of a run was lost", attrs()...)
	case e.Outcome == store.OutcomeFailed || e.Outcome == store.OutcomeRetryAfter:
		s.cfg.logger.Debug("attempt failed and will be retried", attrs()...)
	}
}

// took returns how long the attempt that an event tells of lasted, by its own
// report of when it started.
func (s *Scheduler) took(st *store.State, r *store.Run) time.Duration {
	if r.Started == 0 {
		return 0
	}
	return time.Duration(max(st.Meta().Wall-r.Started, 0))
}

// openPool makes the pool, which gets nothing to execute before attachPool.
func (s *Scheduler) openPool(ctx context.Context) error {
	if s.cfg.slots == 0 || len(s.cfg.handlers) == 0 {
		return nil
	}
	handlers := s.cfg.handlers
	if s.cfg.tracers != nil {
		handlers = make(map[string]worker.Handler, len(s.cfg.handlers))
		for name, h := range s.cfg.handlers {
			handlers[name] = s.traced(h)
		}
	}
	pool, err := worker.New(worker.Config{
		Slots:      s.cfg.slots,
		Handlers:   handlers,
		Report:     s.report,
		Checkpoint: s.checkpoint,
		OnCapacity: func(int) { s.offer() },
		Logger:     s.cfg.logger,
		Now:        s.cfg.clock.Now,
		NewAlarm:   func() worker.Alarm { return s.newAlarm() },
		MaxResult:  s.cfg.maxPayload,
		Observer: worker.Observer{
			Started: func(r *store.Run, late time.Duration) { s.tel.Started(r.Spec.Task, late) }, //nolint:contextcheck // the callbacks have no call to be part of
		},
	})
	if err != nil {
		return err
	}
	s.pool = pool
	if s.contact != nil {
		s.openContact()
	}
	s.loops.Go(func() { _ = pool.Run(ctx) }) // ended by Drain, which returns its error too, and awaited by close
	return nil
}

// attachPool lets the pool have runs.
func (s *Scheduler) attachPool() {
	if s.pool == nil {
		return
	}
	s.dispatch.Attach(s.session, poolWorker{s.pool}, slices.Collect(maps.Keys(s.cfg.handlers)), s.cfg.slots-s.pool.Reserved())
	s.offer()
}

// offer tells the dispatcher, this node's or the leader's, how much the pool wants.
func (s *Scheduler) offer() {
	if s.contact != nil {
		s.contact.client.Offer()
	}
	s.dispatch.SetCapacity(s.session, s.pool.Capacity(), s.pool.Reserved())
}

// traced makes an attempt of the handler a span, linked to the call that asked
// for the run.
func (s *Scheduler) traced(h worker.Handler) worker.Handler {
	return func(ctx context.Context, x *worker.Execution) ([]byte, error) {
		r := x.Run()
		from := ""
		if r.More != nil {
			from = r.More.Trace
		}
		ctx, span := s.tel.StartAttempt(ctx, r.Spec.Task, from, r.ID, r.Attempt)
		failure := worker.ErrPanic // unless the handler returns
		defer func() { span.End(failure) }()
		result, err := h(ctx, x)
		failure = err
		if worker.IsSnooze(err) || ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrTimeout) {
			failure = nil // it did not fail: it waits, or was stopped
		}
		return result, err
	}
}

// poolWorker is the in-process pool as the dispatcher sees it.
type poolWorker struct{ pool *worker.Pool }

func (w poolWorker) Assign(grants []dispatch.Grant) {
	list := make([]worker.Assignment, len(grants))
	for i, g := range grants {
		list[i] = worker.Assignment{Run: g.Run, Fence: g.Run.Fence, In: g.In}
	}
	w.pool.Assign(list)
}

func (w poolWorker) Cancel(run *store.Run, fence uint64) {
	cause := ErrCanceled
	if run.State != store.Canceled {
		cause = ErrLeaseLost
	}
	w.pool.Cancel(run.ID, fence, cause)
}

// report commits how attempts ended.
func (s *Scheduler) report(ctx context.Context, reports []store.Report) error {
	_, err := s.node.Repeat(ctx, store.Command{
		Kind:     store.KindComplete,
		Complete: &store.Complete{Session: s.session, Reports: reports},
	})
	return err
}

func (s *Scheduler) checkpoint(ctx context.Context, c store.Checkpoint) error {
	res, err := s.node.Call(ctx, store.Command{Kind: store.KindCheckpoint, Checkpoint: &c})
	if err != nil {
		return callError(err)
	}
	if res.Code != store.OK {
		return ErrLeaseLost
	}
	return nil
}

// queueGauges tells what is in the queues, on the leader.
func (s *Scheduler) queueGauges() []telemetry.QueueGauge {
	if !s.node.Leading() {
		return nil
	}
	ready := s.dispatch.Ready()
	var gauges []telemetry.QueueGauge
	s.node.View(func(st *store.State) {
		for _, q := range st.Queues() {
			r := ready[q.Name]
			gauges = append(gauges, telemetry.QueueGauge{
				Queue: q.Name, Scheduled: max(q.Waiting-r.Runs, 0), Ready: r.Runs, Running: q.Leased, OldestAge: r.Oldest,
			})
		}
	})
	return gauges
}

var _ worker.Alarm = (*precise.Timer)(nil)
