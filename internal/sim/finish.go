package sim

import (
	"bytes"
	"context"
	"errors"
	"math"
	"time"

	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/store"
)

// restWithin is how long the runs that are left may take to end, and
// shutdownWithin how long a shutdown may take once nothing is left to do.
const (
	restWithin     = 2 * time.Minute
	shutdownWithin = 5 * time.Second
)

// finish brings the cluster to rest, shuts it down and takes down its history.
func (w *world) finish(ctx context.Context, calm, end time.Time) {
	for _, n := range w.nodes {
		l := n.current()
		if l == nil {
			w.rec.wrong(n.id, "is not up though nothing fails any more")
			continue
		}
		w.dismiss(l)
	}
	if leader := w.leader(); leader == nil {
		w.rec.wrong("", "nobody leads though nothing fails any more")
	} else {
		w.rest(ctx, leader.current())
	}
	for _, n := range w.nodes {
		if w.sick(n) || len(w.nodes) > 1 && !w.votes(n) {
			w.rec.wrong(n.id, "does not vote though nothing fails any more")
		}
	}
	index := w.settle(ctx)
	w.look()
	for _, n := range w.nodes {
		took, err := w.shutdown(n, time.Minute) //nolint:contextcheck // a process has a context of its own
		if took > shutdownWithin {
			w.rec.wrong(n.id, "took %v to shut down", took)
		}
		if err != nil {
			w.rec.wrong(n.id, "shutdown at rest: %v", err)
		}
	}
	w.history = w.collect(index, calm, end)
}

// rest ends all that goes on by itself and waits until every run has ended.
func (w *world) rest(ctx context.Context, l *life) {
	within, cancel := context.WithTimeout(ctx, restWithin)
	defer cancel()
	for sc, err := range l.s.Schedules(within) {
		if err == nil && !sc.Paused {
			err = l.s.PauseSchedule(within, sc.ID)
		}
		if err != nil && !errors.Is(err, scheduler.ErrNotFound) { // a client may have let it be deleted before it went
			w.rec.wrong(l.node.id, "pause schedule: %v", err)
		}
	}
	if err := l.s.ResumeQueue(within, narrow); err != nil {
		w.rec.wrong(l.node.id, "resume queue: %v", err)
	}
	w.forget(within, l)
	for {
		stats, err := l.s.Stats(within)
		if err != nil {
			w.rec.wrong(l.node.id, "stats: %v", err)
			return
		}
		if stats.Live == 0 {
			return
		}
		if !sleep(within, 100*time.Millisecond) {
			break
		}
	}
	live := scheduler.RunFilter{States: []scheduler.RunState{scheduler.Scheduled, scheduler.Ready, scheduler.Assigned, scheduler.Running}}
	for r, err := range l.s.Runs(ctx, live) {
		if err != nil {
			break
		}
		e, err := l.s.Explain(ctx, r.ID)
		w.rec.wrong(l.node.id, "run %v has not ended: %s (%v)", r.ID, e.Reason, err)
	}
}

// forget cancels the runs that a clock which was set back has left far in its
// future: they were made ahead of their time, and their time is the time of day.
func (w *world) forget(ctx context.Context, l *life) {
	c := &client{life: l}
	for r, err := range l.s.Runs(ctx, scheduler.RunFilter{States: []scheduler.RunState{scheduler.Scheduled, scheduler.Assigned}}) {
		if err == nil && time.Until(r.Due) > restWithin/2 {
			c.do(Call{Op: OpCancel, Runs: []store.RunID{r.ID}}, func() error { return l.s.Cancel(ctx, r.ID) })
		}
	}
}

// settle waits until all nodes are at the same index, and returns it.
func (w *world) settle(ctx context.Context) (index uint64) {
	for range 100 {
		low, high := uint64(math.MaxUint64), uint64(0)
		for _, n := range w.nodes {
			if l := n.current(); l != nil {
				at := w.o.Inside(l.s).Status().Applied
				low, high = min(low, at), max(high, at)
			}
		}
		if index = high; low == high {
			return index
		}
		sleep(ctx, 100*time.Millisecond)
	}
	w.rec.wrong("", "the nodes do not get to one index, the highest is %d", index)
	return index
}

// collect makes a history of what was recorded and of what the disks have.
func (w *world) collect(index uint64, calm, end time.Time) *History {
	h := &History{
		Calls: w.rec.calls, Facts: w.rec.facts, Samples: w.rec.samples, Plans: plans(), Calm: calm, End: end,
		Clocks: make(map[string][]Setting), Stores: make(map[string]Stores),
	}
	archives := make(map[string]map[uint64]raft.Log)
	for _, n := range w.nodes {
		h.Nodes = append(h.Nodes, n.id)
		h.Clocks[n.id] = n.clock.Settings()
		archives[n.id] = n.disk.Archive()
		st, err := n.disk.stores()
		if err != nil {
			w.rec.wrong(n.id, "%v", err)
		}
		h.Stores[n.id] = st
		index = max(index, st.Index) // a shutdown adds entries too
	}
	for i := uint64(1); i <= index; i++ {
		e, ok := w.entry(i, archives)
		if !ok {
			w.rec.wrong("", "nobody has entry %d any more", i)
			return nil
		}
		h.Log = append(h.Log, e)
	}
	return h
}

// entry returns an entry that all who have it must have alike.
func (w *world) entry(index uint64, archives map[string]map[uint64]raft.Log) (e Entry, found bool) {
	var first raft.Log
	for _, n := range w.nodes {
		s, ok := archives[n.id][index]
		if !ok {
			continue
		}
		if found && (s.Term != first.Term || s.Type != first.Type || !bytes.Equal(s.Data, first.Data)) {
			w.rec.wrong(n.id, "entry %d is of term %d, and of term %d elsewhere", index, s.Term, first.Term)
		}
		first, found = s, true
	}
	e.Index, e.Term = index, first.Term
	for _, n := range w.nodes { // be it one that has lost its disk since
		if at, ok := n.disk.written(place{index, e.Term}); ok && (e.At.IsZero() || at.Before(e.At)) {
			e.At, e.Leader = at, n.id
		}
	}
	switch first.Type {
	case logCommand:
		e.Data = first.Data
	case logConfiguration:
		e.Config = true
	default: // changes nothing
	}
	return e, found
}

// stores reads what the disk has.
func (d *Disk) stores() (Stores, error) {
	st := Stores{Runs: make(map[store.RunID]*store.Run)}
	img, err := d.state.Image()
	if err != nil {
		return st, err
	}
	st.Index = img.Meta.Index
	for r, err := range d.state.FinalRuns(0, math.MaxInt64, false) {
		if err != nil {
			return st, err
		}
		st.Runs[r.ID] = r
	}
	for number := uint64(1); number <= img.Meta.Schedule; number++ {
		for t, err := range d.state.Ticks(number, 0, math.MaxInt64) {
			if err != nil {
				return st, err
			}
			st.Ticks = append(st.Ticks, *t)
		}
	}
	return st, nil
}
