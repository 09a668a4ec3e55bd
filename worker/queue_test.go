package worker

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/escapement-go/scheduler/store"
)

// The queues are tested from inside, beside models that do the same by sorting.

func TestWaiting_pops_by_due_time_then_arrival(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var w waiting
	var model []*Execution
	for range 20_000 {
		if rnd.IntN(3) > 0 || len(model) == 0 {
			x := &Execution{due: rnd.Int64N(50)}
			w.push(x)
			at, _ := slices.BinarySearchFunc(model, x.due+1, func(x *Execution, due int64) int { return int(x.due - due) })
			model = slices.Insert(model, at, x)
			continue
		}
		if due, ok := w.next(); !ok || due != model[0].due {
			t.Fatalf("next: got %d %v, want %d", due, ok, model[0].due)
		}
		if got := w.pop(); got != model[0] {
			t.Fatalf("pop: got due %d, want %d", got.due, model[0].due)
		}
		model = model[1:]
	}
}

func TestReady_agrees_with_a_model(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 2))
	var r ready
	var model []*Execution // in order of arrival
	drop := func(x *Execution) { model = slices.DeleteFunc(model, func(y *Execution) bool { return x == y }) }
	for now := range int64(30_000) {
		now *= 1e6
		switch n := rnd.IntN(20); {
		case n < 11:
			x := &Execution{readyAt: now, class: store.Priority(rnd.IntN(store.NumPriorities))}
			r.push(x)
			model = append(model, x)
		case n < 19:
			critical := rnd.IntN(4) == 0
			want := modelPop(model, now, critical)
			if got := r.pop(now, critical); got != want {
				t.Fatalf("pop at %d: got %+v, want %+v", now, got, want)
			}
			drop(want)
		default:
			keep := rnd.IntN(10)
			want := modelOverdue(model, now-30e6, keep)
			if got := r.overdue(now-30e6, keep); !slices.Equal(got, want) {
				t.Fatalf("overdue at %d: got %d, want %d", now, len(got), len(want))
			}
			for _, x := range want {
				drop(x)
			}
		}
		if r.n != len(model) {
			t.Fatalf("length: got %d, want %d", r.n, len(model))
		}
	}
}

func modelPop(model []*Execution, now int64, critical bool) *Execution {
	var best *Execution
	for _, x := range model { // so the first of its class and age is found first
		if critical && x.class != store.Critical {
			continue
		}
		aged := now-x.readyAt > aging
		switch {
		case best == nil, !aged && now-best.readyAt <= aging && x.class > best.class:
			best = x
		}
	}
	return best
}

func modelOverdue(model []*Execution, limit int64, keep int) []*Execution {
	byClass := slices.Clone(model)
	slices.SortStableFunc(byClass, func(a, b *Execution) int { return int(b.class) - int(a.class) })
	var out []*Execution
	for i, x := range byClass {
		if i >= keep && x.readyAt <= limit {
			out = append(out, x)
		}
	}
	return out
}
