package dispatch_test

import (
	"testing"
	"time"

	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/store"
)

// interval is the rule of an interval: a tick is that far from the one before, which
// only the schedule knows.
type interval int64

func (e interval) Next(after int64) int64     { return after + int64(e) }
func (e interval) Last(armed, at int64) int64 { return armed + (at-armed)/int64(e)*int64(e) }

// A pause that begins or ends between ticks, with no leader there until some
// later ones have gone by, leaves the ticks of an interval where they are.
func TestDispatcher_Tick_of_an_interval_keeps_its_place_over_a_pause(t *testing.T) {
	w := newWorld(t, 1, func(c *dispatch.Config) {
		c.Compile = func(_ *store.State, sc *store.Schedule) (dispatch.Rule, error) {
			return interval(sc.Trigger.Every), nil
		}
	})
	w.put("s", time.Minute)
	pause := func(paused bool) {
		cmd := &store.PauseSchedule{ID: "s", Paused: paused}
		b := &store.Batch{Level: store.FormatLevel, Wall: w.wall, Elapsed: w.elapsed}
		b.Commands = []store.Command{{Kind: store.KindPauseSchedule, Pause: cmd}}
		w.index++
		results, events := w.st.Apply(w.index, 1, b) // by a leader that is gone right after
		w.d.Applied(w.st, b, results, events)
	}
	wait := func(d time.Duration) { w.wall, w.elapsed = w.wall+int64(d), w.elapsed+int64(d) }
	wait(150 * time.Second)
	pause(true)
	wait(160 * time.Second)
	pause(false)
	w.pass(10 * time.Minute)
	for i, row := range w.ticks() {
		if (row.From-noon)%minute != 0 || (row.To-noon)%minute != 0 {
			t.Errorf("row %d: from %v to %v after noon, want whole minutes: %v", i,
				time.Duration(row.From-noon), time.Duration(row.To-noon), row.Outcome)
		}
	}
}
