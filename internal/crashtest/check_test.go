package crashtest_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/internal/crashtest"
)

var (
	runA = mustID("01980000-0000-7000-8000-00000000000a")
	runB = mustID("01980000-0000-7000-8000-00000000000b")
	noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

func mustID(text string) scheduler.RunID {
	id, err := scheduler.ParseRunID(text)
	if err != nil {
		panic(err)
	}
	return id
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// goodHistory is one of two runs: A was asked for with a key and a delay, and B
// is of a tick. A's first attempt was killed.
func goodHistory() *crashtest.History {
	plain := crashtest.Work{N: 7, Kind: crashtest.Steps}
	a := scheduler.Run{
		ID: runA, Task: "t", Queue: "narrow", State: scheduler.Succeeded, Fence: 3, Attempt: 2, Crashes: 1,
		Created: noon, Finished: noon.Add(3 * time.Second), UniqueKey: "k",
		Input: mustJSON(plain), Result: mustJSON(crashtest.Done{N: 7, Fence: 3}),
	}
	b := scheduler.Run{
		ID: runB, Task: "t", Queue: "narrow", State: scheduler.Failed, Fence: 2, Attempt: 1, Schedule: "each",
		Nominal: noon.Add(time.Second), Created: noon.Add(4 * time.Second), Finished: noon.Add(5 * time.Second), UniqueKey: "k",
		Input: mustJSON(crashtest.Work{Kind: crashtest.Doomed}), Error: "no",
	}
	at := func(d time.Duration) int64 { return noon.Add(d).UnixNano() }
	return &crashtest.History{
		Acks: []crashtest.Ack{
			{Op: crashtest.OpStarted},
			{Op: crashtest.OpEnqueue, Run: runA, Work: plain, Begun: at(0), Delay: time.Second, Key: "k", Queue: "narrow"},
		},
		Facts: []crashtest.Fact{
			{What: crashtest.Began, Run: runA, Attempt: 1, Fence: 1, Queue: "narrow", Life: 1, At: at(time.Second)},
			{What: crashtest.Saved, Run: runA, Attempt: 1, Fence: 1, Queue: "narrow", Life: 1, Step: 1},
			{What: crashtest.Began, Run: runB, Attempt: 1, Fence: 2, Queue: "narrow", Life: 2, At: at(4 * time.Second), Due: at(time.Second)},
			{What: crashtest.Gave, Run: runB, Attempt: 1, Fence: 2, Queue: "narrow", Life: 2},
			{What: crashtest.Began, Run: runA, Attempt: 2, Fence: 3, Queue: "narrow", Life: 2, Step: 1, At: at(2 * time.Second)},
			{What: crashtest.Ended, Run: runA, Attempt: 2, Fence: 3, Queue: "narrow", Life: 2},
		},
		Seen: []scheduler.Run{a},
		Runs: map[scheduler.RunID]scheduler.Run{runA: a, runB: b},
		Ledgers: []crashtest.Ledger{{
			Schedule: "each", Created: noon,
			Next: func(t time.Time) time.Time { return t.Truncate(time.Second).Add(time.Second) },
			Ticks: []scheduler.Tick{
				{Nominal: noon.Add(time.Second), Outcome: scheduler.TickRan, Run: runB},
				{Nominal: noon.Add(2 * time.Second), Until: noon.Add(4 * time.Second), Outcome: scheduler.TickPaused},
				{Nominal: noon.Add(5 * time.Second), Outcome: scheduler.TickSkipped, Run: runB},
			},
		}},
		Limits: map[string]int{"narrow": 1},
	}
}

func TestHistory_Check_is_content_with_a_good_history(t *testing.T) {
	if got := goodHistory().Check(); len(got) != 0 {
		t.Errorf("check: got %q, want nothing", got)
	}
}

func TestHistory_Check_complains_of(t *testing.T) {
	change := func(h *crashtest.History, id scheduler.RunID, f func(*scheduler.Run)) {
		r := h.Runs[id]
		f(&r)
		h.Runs[id] = r
	}
	ticks := func(h *crashtest.History) *[]scheduler.Tick { return &h.Ledgers[0].Ticks }
	for _, c := range []struct {
		name string
		want string
		harm func(h *crashtest.History)
	}{
		{"a_lost_run", "is lost: enqueue was acknowledged", func(h *crashtest.History) { delete(h.Runs, runA) }},
		{"a_run_that_was_seen_to_end_and_is_lost", "is lost: it was seen", func(h *crashtest.History) { delete(h.Runs, runA) }},
		{"a_started_run_that_is_lost", "was started and is lost", func(h *crashtest.History) { delete(h.Runs, runB) }},
		{"a_changed_input", "has input", func(h *crashtest.History) { h.Acks[1].Work.N++ }},
		{"a_run_that_never_ends", "has not ended", func(h *crashtest.History) {
			change(h, runB, func(r *scheduler.Run) { r.State = scheduler.Running })
		}},
		{"a_cancel_that_did_not_last", "its cancel was acknowledged", func(h *crashtest.History) {
			h.Acks = append(h.Acks, crashtest.Ack{Op: crashtest.OpCancel, Run: runA})
		}},
		{"a_result_of_another_attempt", "its accepted fence", func(h *crashtest.History) {
			change(h, runA, func(r *scheduler.Run) { r.Result = mustJSON(crashtest.Done{N: 7, Fence: 1}) })
		}},
		{"a_result_of_another_input", "its input is", func(h *crashtest.History) {
			change(h, runA, func(r *scheduler.Run) { r.Result = mustJSON(crashtest.Done{N: 8, Fence: 3}) })
		}},
		{"a_result_that_no_handler_gave", "never returned", func(h *crashtest.History) { h.Facts = h.Facts[:5] }},
		{"a_failure_that_should_not_be", "of kind steps has failed", func(h *crashtest.History) {
			change(h, runA, func(r *scheduler.Run) { r.State = scheduler.Failed })
		}},
		{"a_success_that_should_not_be", "of kind doomed has succeeded", func(h *crashtest.History) {
			change(h, runB, func(r *scheduler.Run) { r.State = scheduler.Succeeded })
		}},
		{"a_moved_final_state", "and now has", func(h *crashtest.History) { h.Seen[0].State = scheduler.Canceled }},
		{"a_second_accepted_result", "and now has", func(h *crashtest.History) {
			h.Seen[0].Fence, h.Seen[0].Result = 1, mustJSON(crashtest.Done{N: 7, Fence: 1})
		}},
		{"a_fence_that_goes_back", "was started after", func(h *crashtest.History) { h.Facts[0].Fence = 9 }},
		{"an_attempt_number_twice", "was started after", func(h *crashtest.History) { h.Facts[4].Attempt = 1 }},
		{"two_runs_under_one_fence", "both started under", func(h *crashtest.History) { h.Facts[2].Fence = 1 }},
		{"a_start_after_the_end", "and ended under", func(h *crashtest.History) {
			h.Facts = append(h.Facts, crashtest.Fact{What: crashtest.Began, Run: runA, Attempt: 3, Fence: 4, Step: 1, Life: 2})
		}},
		{"a_doubled_tick", "two outcomes", func(h *crashtest.History) {
			*ticks(h) = append(*ticks(h), (*ticks(h))[2])
		}},
		{"a_lost_tick", "has no outcome", func(h *crashtest.History) { *ticks(h) = append((*ticks(h))[:1], (*ticks(h))[2]) }},
		{"a_lost_first_tick", "its first tick", func(h *crashtest.History) { *ticks(h) = (*ticks(h))[1:] }},
		{"a_span_that_ends_between_ticks", "does not end with a tick", func(h *crashtest.History) {
			(*ticks(h))[1].Until = noon.Add(3500 * time.Millisecond)
		}},
		{"an_empty_ledger", "has no ticks", func(h *crashtest.History) { *ticks(h) = nil }},
		{"a_lost_run_of_a_tick", "of tick", func(h *crashtest.History) { delete(h.Runs, runB) }},
		{"a_run_of_another_tick", "which is of", func(h *crashtest.History) {
			change(h, runB, func(r *scheduler.Run) { r.Nominal = noon })
		}},
		{"a_run_of_two_ticks", "is of two ticks", func(h *crashtest.History) {
			(*ticks(h))[2].Outcome, (*ticks(h))[2].Nominal = scheduler.TickRan, noon.Add(time.Second)
			(*ticks(h))[1], (*ticks(h))[0] = (*ticks(h))[0], (*ticks(h))[2]
			h.Ledgers[0].Next = func(t time.Time) time.Time { return noon.Add(time.Second) }
		}},
		{"a_scheduled_run_without_a_tick", "is of no tick", func(h *crashtest.History) {
			(*ticks(h))[0].Outcome = scheduler.TickMissed
		}},
		{"a_unique_key_held_twice", "held it until", func(h *crashtest.History) {
			change(h, runB, func(r *scheduler.Run) { r.Created = noon.Add(2 * time.Second) })
		}},
		{"a_limit_passed", "its limit is 1", func(h *crashtest.History) { h.Facts[2].Life = 1 }},
		{"a_lost_checkpoint", "step 1 was saved", func(h *crashtest.History) { h.Facts[4].Step = 0 }},
		{"an_early_delayed_run", "before its time", func(h *crashtest.History) { h.Facts[0].At = noon.UnixNano() }},
		{"an_early_tick", "before its time", func(h *crashtest.History) { h.Facts[2].At = noon.UnixNano() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := goodHistory()
			c.harm(h)
			got := strings.Join(h.Check(), "\n")
			if !strings.Contains(got, c.want) {
				t.Errorf("check: got %q, want a complaint with %q", got, c.want)
			}
		})
	}
}
