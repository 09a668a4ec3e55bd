package sim_test

import (
	"slices"

	"github.com/escapement-go/scheduler/internal/sim"
	"github.com/escapement-go/scheduler/store"
)

// changed replaces the schedule of an event by another version.
func changed(s *sim.Story, kind store.EventKind, n int, do func(sc *store.Schedule)) {
	_, e := event(s, kind, n)
	sc := *e.Schedule
	do(&sc)
	e.Schedule = &sc
}

// scheduling are the mutations of what schedules do.
func scheduling() []mutation {
	call := func(s *sim.Story, c sim.Call) {
		c.Begin, c.End, c.Answer, c.Target = s.Calm, s.End, sim.Done, "s"
		s.Calls = append(s.Calls, c)
	}
	return []mutation{
		{"overlap", "is skipped, with 0 live runs", func(s *sim.Story) {
			_, e := event(s, store.EventTick, 3)
			skipped := *e.Tick
			skipped.Outcome = store.TickSkipped
			e.Tick = &skipped
			drop(s, store.EventEnqueued, 7) // its run
		}},
		{"overlap", "1 starts wait, 0 may", func(s *sim.Story) {
			changed(s, store.EventScheduleSet, 3, func(sc *store.Schedule) { sc.Waiting = []store.Wait{{Kind: store.WaitQueued}} })
		}},
		{"catch-up", "more than the latest tick is made up", func(s *sim.Story) {
			i, e := event(s, store.EventTick, 3)
			s.Applied[i].Batch.Commands[0].Tick.Waits = []store.Span{{From: e.Tick.From, To: e.Tick.From}}
		}},
		{"catch-up", "ticks are made up, 1 may", func(s *sim.Story) {
			s.Plans["s"] = sim.Plan{Every: 1e9, Wall: true}
			changed(s, store.EventScheduleSet, 3, func(sc *store.Schedule) { sc.CatchUp, sc.MaxCount = store.CatchUpAll, 1 })
			i, e := event(s, store.EventTick, 3)
			s.Applied[i].Batch.Commands[0].Tick.Waits = []store.Span{{From: e.Tick.From - 1e9, To: e.Tick.From}}
		}},
		{"pauses", "which is paused", func(s *sim.Story) {
			changed(s, store.EventScheduleSet, 3, func(sc *store.Schedule) { sc.Paused = true })
		}},
		{"calendars", "excludes it", func(s *sim.Story) {
			changed(s, store.EventTick, 3, func(sc *store.Schedule) { sc.Trigger.Except = []store.Exclusion{{Calendar: "c"}} })
			_, e := event(s, store.EventTick, 3)
			always := &store.Calendar{Name: "c", Except: []store.Exclusion{{Spans: []store.Span{{From: 0, To: e.Tick.From + 1}}}}}
			s.Applied[0].Events = slices.Concat(s.Applied[0].Events, []store.Event{{Kind: store.EventCalendarSet, Calendar: always}})
		}},
		{"starts by hand", "is lost", func(s *sim.Story) { call(s, sim.Call{Op: sim.OpTrigger, Runs: []store.RunID{runID(99)}}) }},
		{"starts by hand", "were to be backfilled", func(s *sim.Story) { call(s, sim.Call{Op: sim.OpBackfill, N: 1}) }},
		{"versions", "is not what it was in version 2", func(s *sim.Story) { call(s, sim.Call{Op: sim.OpRollback, N: 2}) }},
		{"cancels", "its handler goes on", func(s *sim.Story) {
			change(s, store.EventFinished, 9, func(r *store.Run) { r.State = store.Canceled })
			_, e := event(s, store.EventFinished, 9)
			s.Facts = slices.DeleteFunc(s.Facts, func(f sim.Fact) bool { return f.Run == e.Run.ID && f.What == sim.Ended })
		}},
		{"sessions", "which is over", func(s *sim.Story) { // the node was taken out
			i, _ := event(s, store.EventLeased, 3)
			s.Applied[i-1].Batch.Commands = append(s.Applied[i-1].Batch.Commands, store.Command{
				Kind: store.KindSetCluster, Cluster: &store.SetCluster{Remove: []string{"n1"}},
			})
			s.Applied[i-1].Results = append(s.Applied[i-1].Results, store.Result{})
		}},
		{"ledger", "had run before", func(s *sim.Story) {
			repeat(s, store.EventTick, 2)
			_, e := event(s, store.EventTick, 3)
			again := *e.Tick
			again.Backfill = true
			e.Tick = &again
		}},
	}
}
