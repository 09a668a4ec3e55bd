package ask_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escapement-go/scheduler/engine/cron"
	"github.com/escapement-go/scheduler/internal/ask"
	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/internal/trigger"
	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/worker"
)

const minute = int64(time.Minute)

// moody is a trigger that ticks each minute, after what its mood does.
type moody struct {
	mu    sync.Mutex // guards all below
	mood  func()
	stuck int // calls that have not returned
	most  int
}

func (m *moody) Next(after time.Time) time.Time {
	m.mu.Lock()
	m.stuck++
	m.most = max(m.most, m.stuck)
	mood := m.mood
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.stuck--
	}()
	if mood != nil {
		mood()
	}
	return after.Truncate(time.Minute).Add(time.Minute)
}

func (m *moody) set(mood func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mood = mood
}

// peak is how many calls there were at a time.
func (m *moody) peak() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.most
}

// told is what became of questions, by schedule.
type told struct {
	mu      sync.Mutex // guards all below
	answers map[string]dispatch.Answer
	errs    map[string]error
}

func (g *told) of(id string) (dispatch.Answer, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.answers[id], g.errs[id]
}

func (g *told) len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.errs)
}

// newAsker makes an Asker of one trigger "moody", and of others that the peer is asked for.
func newAsker(t *testing.T, m *moody, peer func(ctx context.Context, node string, asked *ask.Question) (*ask.Reply, error)) (*ask.Asker, *told) {
	t.Helper()
	got := &told{answers: make(map[string]dispatch.Answer), errs: make(map[string]error)}
	a := ask.New(ask.Config{
		Trigger: func(name string) ask.Func {
			if name != "moody" {
				return nil
			}
			return func(json.RawMessage) (cron.Schedule, error) { return m, nil }
		},
		Calendars: new(trigger.Cache),
		Peers: func() []string {
			if peer == nil {
				return nil
			}
			return []string{"peer"}
		},
		Ask: peer,
		Told: func(q *dispatch.Question, answer dispatch.Answer, err error) {
			got.mu.Lock()
			defer got.mu.Unlock()
			got.answers[q.Schedule.ID], got.errs[q.Schedule.ID] = answer, err
		},
	})
	a.Start(t.Context())
	t.Cleanup(a.Close)
	return a, got
}

// question asks for the first tick after noon of a schedule that excludes some minutes.
func question(id, name string, except ...int64) *dispatch.Question {
	sc := &store.Schedule{ID: id, Number: 7, Version: 1, Trigger: store.Trigger{Kind: store.TriggerCustom, Name: name}}
	for _, at := range except {
		sc.Trigger.Except = append(sc.Trigger.Except, store.Exclusion{Spans: []store.Span{{From: at * minute, To: at*minute + 1}}})
	}
	return &dispatch.Question{Kind: dispatch.AskAnew, Now: 720 * minute, Schedule: sc}
}

func TestAsker_Begin(t *testing.T) {
	t.Run("a calendar that has changed makes another question", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := &moody{mood: func() { time.Sleep(1500 * time.Millisecond) }}
			a, got := newAsker(t, m, nil)
			a.Begin(question("s", "moody"))
			time.Sleep(time.Second)
			a.Begin(question("s", "moody", 721))
			time.Sleep(time.Minute)
			if a, err := got.of("s"); a.Next != 722*minute || m.peak() != 1 {
				t.Errorf("next: noon + %v, %v, %d calls at a time; want noon + 2m and 1", time.Duration(a.Next-720*minute), err, m.peak())
			}
		})
	})
	t.Run("what is asked again gets the answer, which is kept for a minute", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := &moody{mood: func() { time.Sleep(8 * time.Second) }}
			a, got := newAsker(t, m, nil)
			for _, id := range []string{"a", "b"} {
				a.Begin(question(id, "moody"))
			}
			time.Sleep(9 * time.Second)
			if _, err := got.of("a"); !errors.Is(err, dispatch.ErrSlow) || a.Calls() != 2 {
				t.Errorf("%v, %d calls; want %v and 2", err, a.Calls(), dispatch.ErrSlow)
			}
			m.set(func() { t.Error("called again") })
			a.Begin(question("a", "moody"))
			synctest.Wait()
			if answer, err := got.of("a"); err != nil || answer.Next != 721*minute {
				t.Errorf("asked again: %+v, %v", answer, err)
			}
			time.Sleep(time.Minute)
			if n := a.Calls(); n != 0 {
				t.Errorf("%d answers are kept that nobody has come for", n)
			}
		})
	})
	t.Run("only the log has the stack of a panic", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, got := newAsker(t, &moody{mood: func() { panic("on fire") }}, nil)
			a.Begin(question("s", "moody"))
			synctest.Wait()
			_, err := got.of("s")
			if v, ok := err.(slog.LogValuer); !ok || err.Error() != "it panics: on fire" || !strings.Contains(v.LogValue().String(), "ask_test.go") {
				t.Errorf("%v", err)
			}
		})
	})
	t.Run("not more are asked at a time than a node answers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			asking, most := 0, 0
			a, got := newAsker(t, new(moody), func(ctx context.Context, _ string, _ *ask.Question) (*ask.Reply, error) {
				mu.Lock()
				asking++
				most = max(most, asking)
				mu.Unlock()
				<-ctx.Done()
				mu.Lock()
				defer mu.Unlock()
				asking--
				return nil, ctx.Err()
			})
			const n = 3 * ask.MaxAskers
			for i := range n {
				a.Begin(question(fmt.Sprint(i), "elsewhere"))
			}
			a.Begin(question("near", "moody"))
			synctest.Wait()
			if answer, _ := got.of("near"); answer.Next == 0 {
				t.Error("a trigger that is here waits for those that are elsewhere")
			}
			time.Sleep(3 * ask.Patience)
			synctest.Wait()
			if got.len() != n+1 || most != ask.MaxAskers {
				t.Errorf("%d questions have failed, %d were asked at a time; want %d and %d", got.len()-1, most, n, ask.MaxAskers)
			}
		})
	})
}

func TestAsker_First(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(moody)
		var replier *ask.Asker
		a, _ := newAsker(t, m, func(_ context.Context, _ string, asked *ask.Question) (*ask.Reply, error) {
			if replier == nil {
				return nil, errors.New("no way there")
			}
			q := *asked
			return replier.Reply(&q), nil
		})
		first := func(name string) error {
			_, err := a.First(t.Context(), question("s", name), ask.Patience)
			return err
		}
		want := func(what string, err, is error) {
			t.Helper()
			if !errors.Is(err, is) {
				t.Errorf("%s: got %v, want %v", what, err, is)
			}
		}
		want("a peer that cannot be reached", first("elsewhere"), ask.ErrUnavailable)
		replier, _ = newAsker(t, m, nil)
		want("one that nobody has", first("elsewhere"), ask.ErrMissing)
		m.set(func() { panic("on fire") })
		_, err := a.First(t.Context(), question("s", "moody"), ask.Patience)
		want("a panic", err, ask.ErrUnavailable)
		p, ok := errors.AsType[*worker.PanicError](err)
		if !ok || p.Value != "on fire" || !strings.Contains(string(p.Stack), "moody") || strings.Contains(err.Error(), "goroutine") {
			t.Errorf("a panic: %v", err)
		}
		m.set(runtime.Goexit)
		if err = first("moody"); err == nil || !strings.Contains(err.Error(), "it has left its goroutine") {
			t.Errorf("one that ends its goroutine: %v", err)
		}
		m.set(func() { time.Sleep(time.Hour) })
		want("one that hangs", first("moody"), ask.ErrUnavailable)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = a.First(ctx, question("other", "moody"), ask.Patience)
		want("a call that is canceled", err, context.Canceled)
		time.Sleep(2 * time.Hour)
	})
}

// An answer of another node says what its trigger did.
func TestAsker_Reply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(moody)
		has, _ := newAsker(t, m, nil)
		rename := func(asked *ask.Question) *ask.Question {
			sc := new(store.Schedule)
			if _, err := sc.UnmarshalMsg(asked.Schedule); err != nil {
				t.Error(err)
			}
			sc.Trigger.Name = "moody" // as it is called there
			q := *asked
			q.Schedule, _ = sc.MarshalMsg(nil)
			return &q
		}
		a, _ := newAsker(t, m, func(_ context.Context, _ string, asked *ask.Question) (*ask.Reply, error) {
			return has.Reply(rename(asked)), nil
		})
		next, err := a.First(t.Context(), question("s", "there", 721), ask.Patience)
		if err != nil || next != 722*minute {
			t.Errorf("an answer: %v, %v", next, err)
		}
		m.set(func() { panic("on fire") })
		_, err = a.First(t.Context(), question("s", "there"), ask.Patience)
		p, ok := errors.AsType[*worker.PanicError](err)
		if !ok || p.Value != "on fire" || len(p.Stack) == 0 || !errors.Is(err, ask.ErrUnavailable) || !strings.Contains(err.Error(), `node "peer": it panics: on fire`) {
			t.Errorf("a panic: %v", err)
		}
		m.set(func() { time.Sleep(time.Hour) })
		if _, err = a.First(t.Context(), question("s", "there"), ask.Patience); !errors.Is(err, dispatch.ErrSlow) || !errors.Is(err, ask.ErrUnavailable) {
			t.Errorf("one that hangs: %v", err)
		}
		time.Sleep(2 * time.Hour)
	})
}

func TestQuery(t *testing.T) {
	t.Run("triggers that hang pile up nothing, and use up the patience", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			m := &moody{mood: func() { <-release }}
			a, _ := newAsker(t, m, nil)
			const schedules = 20
			var queries sync.WaitGroup
			began := time.Now()
			for range 10 {
				queries.Go(func() {
					q := a.Query(t.Context())
					for i := range schedules {
						s, err := q.Make(fmt.Sprint(i), "moody", nil)
						if err != nil {
							continue // another query found out before
						}
						if at := s.Next(time.Unix(0, 0)); !at.IsZero() || !errors.Is(s.(interface{ Err() error }).Err(), ask.ErrUnavailable) {
							t.Errorf("schedule %d: %v, %v", i, at, s)
						}
					}
				})
			}
			queries.Wait()
			if took := time.Since(began); m.peak() > schedules || took > 2*ask.Patience+schedules*10*time.Millisecond {
				t.Errorf("%d calls hang, and the queries took %v", m.peak(), took)
			}
			close(release)
		})
	})
	t.Run("ends with its context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := &moody{mood: func() { time.Sleep(time.Second) }}
			a, _ := newAsker(t, m, nil)
			ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
			defer cancel()
			s, err := a.Query(ctx).Make("s", "moody", nil)
			if err != nil {
				t.Fatal(err)
			}
			got := slices.Collect(cron.All(s, time.Unix(0, 0)))
			if err := s.(interface{ Err() error }).Err(); len(got) != 2 || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ask.ErrUnavailable) {
				t.Errorf("%v, %v; want two ticks, and the end of the context", got, err)
			}
			time.Sleep(time.Minute)
		})
	})
	t.Run("before Start", func(t *testing.T) {
		a := ask.New(ask.Config{Trigger: func(string) ask.Func { return func(json.RawMessage) (cron.Schedule, error) { panic("no") } }})
		if _, err := a.Query(t.Context()).Make("s", "any", nil); !errors.Is(err, ask.ErrUnavailable) {
			t.Errorf("a trigger that panics when it is made: %v", err)
		}
		a.Close()
	})
}
