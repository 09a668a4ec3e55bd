package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/store"
)

// mintRunID makes a run's ID at the client, so that a call of unknown outcome
// can be asked about. Those of one node ascend, within a millisecond too: the
// newest run has the highest ID, and the rows of a bulk call are in order. Only
// a clock that is set back by more than a second makes lower ones.
func (s *Scheduler) mintRunID() RunID {
	const perMilli = 1 << 12
	now := uint64(max(s.cfg.clock.Now().UnixMilli(), 0)) * perMilli
	for {
		last := s.minted.Load()
		next := now
		if last >= now && last-now < 1000*perMilli {
			next = last + 1
		}
		if !s.minted.CompareAndSwap(last, next) {
			continue
		}
		return store.NewRunID(time.UnixMilli(int64(next/perMilli)), store.Entropy(uint16(next%perMilli), rand.Uint64()))
	}
}

// Enqueue asks for one run of a call and returns once it is durable.
//
// Errors: [ErrInvalid], [ErrPayloadTooLarge], [ErrUnknownTask], [*UniqueError],
// [ErrConflict] (the ID is in use), [ErrOverloaded], [ErrStorage], [ErrParked],
// [ErrNoLeader], [ErrClosed], that of ctx if nothing happened before it ended, and
// [ErrOutcomeUnknown] together with the run's ID.
func (s *Scheduler) Enqueue(ctx context.Context, call Call) (RunID, error) {
	ids, err := s.enqueue(ctx, []Call{call})
	if len(ids) == 0 {
		return RunID{}, err
	}
	return ids[0], err
}

// EnqueueMany asks for a run of each call, all or none, in one entry of the log:
// a thousand calls cost little more than one. The IDs are in the order of the
// calls. Errors: those of [Scheduler.Enqueue]. Together the calls may take 4 MiB of
// the log, where a call takes some 30 bytes besides its input; [*TooLargeError] has
// the size of calls that are over it.
func (s *Scheduler) EnqueueMany(ctx context.Context, calls []Call) ([]RunID, error) {
	if len(calls) == 0 {
		return nil, s.check()
	}
	return s.enqueue(ctx, calls)
}

func (s *Scheduler) enqueue(ctx context.Context, calls []Call) ([]RunID, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	for i := range calls {
		if err := calls[i].check(s.cfg.maxPayload); err != nil {
			return nil, err
		}
	}
	task := calls[0].Task()
	ctx, span := s.tel.StartEnqueue(ctx, task, len(calls))
	ids, err := s.propose(ctx, calls)
	span.End(err)
	if err == nil {
		return ids, nil
	}
	if errors.Is(err, ErrOutcomeUnknown) {
		return ids, fmt.Errorf("scheduler: enqueue %q: %w", task, err)
	}
	return nil, fmt.Errorf("scheduler: enqueue %q: %w", task, err)
}

func (s *Scheduler) propose(ctx context.Context, calls []Call) ([]RunID, error) {
	var given []RunID
	for i := range calls {
		if id := calls[i].settings.id; !id.IsZero() {
			given = append(given, id)
		}
	}
	if len(given) > 0 {
		end, err := s.named.ask(ctx, given)
		if err != nil {
			return nil, err
		}
		defer end()
	}
	e := &store.Enqueue{Runs: make([]store.NewRun, len(calls))}
	ids := make([]RunID, len(calls))
	trace := s.tel.Traceparent(ctx)
	var last *settings
	index := make(map[*settings]uint32)
	for i := range calls {
		set := calls[i].settings
		if set != last {
			if _, seen := index[set]; !seen {
				index[set] = uint32(len(e.Specs))
				e.Specs = append(e.Specs, set.raw)
			}
			last = set
		}
		n := &e.Runs[i]
		*n = store.NewRun{
			ID: set.id, Spec: index[set], Input: calls[i].input, Unique: set.unique,
			Meta: set.meta, Trace: trace, Due: int64(set.delay),
		}
		if !set.at.IsZero() {
			n.Clock, n.Due = store.Wall, set.at.UnixNano()
		}
		if n.ID.IsZero() {
			n.ID = s.mintRunID()
		} else if _, err := s.find(n.ID); err == nil {
			return nil, fmt.Errorf("run %v exists: %w", n.ID, ErrConflict)
		} else if !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		ids[i] = n.ID
	}
	err := s.call(ctx, store.Command{Kind: store.KindEnqueue, Enqueue: e})
	return ids, err
}

// call proposes a command of a client and makes an error of its result.
func (s *Scheduler) call(ctx context.Context, c store.Command) error {
	res, err := s.node.Call(ctx, c)
	if err != nil {
		return callError(err)
	}
	return resultError(res)
}

// callError makes the root's errors of the cluster's.
func callError(err error) error {
	switch {
	case errors.Is(err, cluster.ErrClosed):
		return fmt.Errorf("%w: %w", ErrClosed, err)
	case errors.Is(err, cluster.ErrNotLeader):
		return fmt.Errorf("%w: %w", ErrNoLeader, err)
	case errors.Is(err, cluster.ErrTooLarge):
		return fmt.Errorf("%w: %w", ErrPayloadTooLarge, err)
	}
	return err
}

// Await returns the run once it has ended; at once if it has already. ctx bounds
// the waiting. Errors: [ErrNotFound], [ErrClosed], the cause of ctx.
func (s *Scheduler) Await(ctx context.Context, id RunID) (Run, error) {
	if err := s.check(); err != nil {
		return Run{}, err
	}
	ch := s.waiters.add(id)
	run, err := s.Get(ctx, id)
	if err != nil || run.State.Final() {
		s.waiters.remove(id, ch)
		return run, err
	}
	select {
	case r, open := <-ch:
		if !open {
			return Run{}, fmt.Errorf("scheduler: run %v has not ended: %w", id, ErrClosed)
		}
		wall, elapsed := s.node.Now()
		return view(r, wall, elapsed), nil
	case <-ctx.Done():
		s.waiters.remove(id, ch)
		return Run{}, fmt.Errorf("scheduler: wait for run %v: %w", id, context.Cause(ctx))
	}
}

// Cancel ends a run for good: one that waits never starts, one that runs has its
// handler's context ended with [ErrCanceled], and whatever the handler still
// returns changes nothing. Side effects it had before stay.
//
// Errors: [ErrNotFound]; [ErrConflict] if the run has ended already.
func (s *Scheduler) Cancel(ctx context.Context, id RunID) error {
	return s.runCommand(ctx, "cancel", store.KindCancel, id)
}

func (s *Scheduler) runCommand(ctx context.Context, verb string, kind store.Kind, id RunID) error {
	for {
		c := store.RunCommand{ID: id}
		run, err := s.Get(ctx, id)
		switch {
		case err != nil:
			return err
		case run.State.Final() && (kind == store.KindCancel || run.State == Succeeded):
			return fmt.Errorf("scheduler: %s run %v: it is %v: %w", verb, id, run.State, ErrConflict)
		case run.State.Final():
			if c, err = s.finalRow(ctx, id); err != nil {
				return err
			}
		}
		err = s.call(ctx, store.Command{Kind: kind, Run: &c})
		if errors.Is(err, ErrNotFound) {
			continue // it has ended since it was looked at
		}
		if err != nil {
			return fmt.Errorf("scheduler: %s run %v: %w", verb, id, err)
		}
		return nil
	}
}

// finalRow reads the row that a command about an ended run carries.
func (s *Scheduler) finalRow(ctx context.Context, id RunID) (store.RunCommand, error) {
	c := store.RunCommand{ID: id}
	s.node.View(func(st *store.State) { c.AsOf = st.Meta().Index })
	err := callError(s.node.Flush(ctx))
	if err == nil {
		c.Row, c.Segment, err = s.storage.FinalRun(id)
	}
	if err == nil && c.Row == nil {
		err = ErrNotFound
	}
	if err != nil {
		return c, fmt.Errorf("scheduler: run %v: %w", id, storageError(err))
	}
	return c, nil
}

// RetryNow runs a waiting run at once, whatever delay it was waiting for, and
// takes up a failed, canceled or expired one again with fresh budgets.
//
// Errors: [ErrNotFound]; [ErrConflict] if the run has started or has succeeded.
func (s *Scheduler) RetryNow(ctx context.Context, id RunID) error {
	return s.runCommand(ctx, "retry", store.KindRetryNow, id)
}

// PauseQueue keeps the queue's runs from starting; those that have started go
// on. Calls are still accepted.
func (s *Scheduler) PauseQueue(ctx context.Context, name string) error {
	return s.pauseQueue(ctx, name, true)
}

// ResumeQueue ends a pause.
func (s *Scheduler) ResumeQueue(ctx context.Context, name string) error {
	return s.pauseQueue(ctx, name, false)
}

func (s *Scheduler) pauseQueue(ctx context.Context, name string, paused bool) error {
	if err := s.check(); err != nil {
		return err
	}
	if err := checkName("queue name", name); err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	if err := s.putQueue(ctx, store.Queue{Name: name, Paused: paused}, store.QueuePause); err != nil {
		return fmt.Errorf("scheduler: queue %q: %w", name, err)
	}
	return nil
}

func (s *Scheduler) putQueue(ctx context.Context, q store.Queue, part store.QueuePart) error {
	return s.call(ctx, store.Command{Kind: store.KindPutQueue, Queue: &q, QueuePart: part})
}
