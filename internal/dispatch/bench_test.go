package dispatch_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/store"
)

// BenchmarkDispatcher_Grant is the granting of one waiting run, with all it takes of
// Prepare, from lanes that hold 20,000 due runs: a worker of few slots reports and
// is granted the next.
func BenchmarkDispatcher_Grant(b *testing.B) {
	for _, lanes := range []int{1, 10, 4_000} {
		b.Run(fmt.Sprintf("lanes=%d", lanes), func(b *testing.B) { benchmarkGrant(b, lanes) })
	}
}

func benchmarkGrant(b *testing.B, lanes int) {
	b.Helper()
	const runs, slots = 20_000, 16
	w := &world{st: store.NewState(), wall: noon, elapsed: noon}
	w.d = dispatch.New(dispatch.Config{
		Kick: func() {}, Now: func() (int64, int64) { return w.wall, w.elapsed },
		Random: func() uint64 { return 1 }, Logger: slog.New(slog.DiscardHandler),
	})
	w.d.Lead(w.st, true)
	apply := func(cmds ...store.Command) []store.Result {
		e := &store.Batch{Level: store.FormatLevel, Wall: w.wall, Elapsed: w.elapsed, Commands: cmds}
		w.d.Prepare(e, w.st)
		w.index++
		results, events := w.st.Apply(w.index, 1, e)
		w.d.Applied(w.st, e, results, events)
		return results
	}
	session := apply(store.Command{Kind: store.KindOpenSession, Open: &store.OpenSession{Node: "n", Tasks: []string{"work"}}})[0].N
	w.d.Attach(session, &w.worker, []string{"work"}, slots)
	specs := make([][]byte, lanes)
	for i := range specs {
		specs[i] = spec(func(s *store.Spec) { s.Queue = fmt.Sprint("q", i) }).Encode()
	}
	fill := func() {
		w.st.Flushed(w.st.TakeFlush())
		e := &store.Enqueue{Specs: specs, Runs: make([]store.NewRun, runs)}
		for i := range e.Runs {
			e.Runs[i] = store.NewRun{ID: w.id(), Spec: uint32(i % lanes)}
		}
		apply(store.Command{Kind: store.KindEnqueue, Enqueue: e})
	}
	fill()
	w.d.SetCapacity(session, slots, 0)
	apply()
	granted := 0
	for b.Loop() {
		if granted == runs-slots {
			b.StopTimer()
			fill()
			granted = 0
			b.StartTimer()
		}
		g := w.worker.grants[0]
		w.worker.grants = w.worker.grants[1:]
		apply(store.Command{Kind: store.KindComplete, Complete: &store.Complete{
			Session: session, Reports: []store.Report{{Run: g.Run.ID, Fence: g.Run.Fence, Outcome: store.OutcomeSucceeded}},
		}})
		granted++
	}
}
