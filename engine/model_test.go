package engine_test

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/engine"
)

// model is the wheel as one would write it without a thought for speed: a list that is searched for the least.
type model struct {
	t       *testing.T
	w       *engine.Wheel[uint64]
	now     int64
	order   uint64
	pending []modelTimer
	stale   []engine.Handle
}

type modelTimer struct {
	due    int64
	order  uint64
	name   uint64
	handle engine.Handle
}

// newModel returns a model whose wheel files timers ahead in steps of the given size: small ones, so that a slot is
// often found half emptied.
func newModel(t *testing.T, now int64, steps int) *model {
	t.Helper()
	w := engine.New[uint64](now)
	engine.SetSteps(w, steps/2, steps)
	return &model{t: t, w: w, now: now}
}

func (m *model) set(due int64) {
	m.order++
	h := m.w.Set(due, m.order)
	m.pending = append(m.pending, modelTimer{due, m.order, m.order, h})
}

func (m *model) move(i int, due int64) {
	if !m.w.Move(m.pending[i].handle, due) {
		m.t.Fatalf("Move of a pending timer: got false")
	}
	m.order++
	m.pending[i].due, m.pending[i].order = due, m.order
}

func (m *model) cancel(i int) {
	if !m.w.Cancel(m.pending[i].handle) {
		m.t.Fatalf("Cancel of a pending timer: got false")
	}
	m.finish(i)
}

func (m *model) finish(i int) {
	m.stale = append(m.stale, m.pending[i].handle)
	m.pending = slices.Delete(m.pending, i, i+1)
}

// pop takes out at most limit timers and compares each with the least of the list.
func (m *model) pop(now int64, limit int) {
	m.now = now
	for range limit {
		want := -1
		for i, p := range m.pending {
			if p.due <= now && (want < 0 || compareTimers(p, m.pending[want]) < 0) {
				want = i
			}
		}
		name, due, ok := m.w.Pop(now)
		if ok != (want >= 0) {
			m.t.Fatalf("Pop(%d) with %d pending: got ok=%v, due %d; want ok=%v", now, len(m.pending), ok, due, want >= 0)
		}
		if !ok {
			return
		}
		if w := m.pending[want]; name != w.name || due != w.due {
			m.t.Fatalf("Pop(%d): got timer %d due %d, want timer %d due %d", now, name, due, w.name, w.due)
		}
		m.finish(want)
	}
}

func compareTimers(a, b modelTimer) int {
	return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.order, b.order))
}

// check compares all that can be seen without changing anything.
func (m *model) check() {
	m.t.Helper()
	if err := engine.Check(m.w); err != nil {
		m.t.Fatal(err)
	}
	if got, want := m.w.Len(), len(m.pending); got != want {
		m.t.Fatalf("Len: got %d, want %d", got, want)
	}
	at, ok := m.w.Next()
	if ok != (len(m.pending) > 0) {
		m.t.Fatalf("Next with %d pending: got ok=%v", len(m.pending), ok)
	}
	for _, p := range m.pending {
		if at > p.due {
			m.t.Fatalf("Next: got %d, after a due time of %d", at, p.due)
		}
		if name, due, ok := m.w.Lookup(p.handle); !ok || name != p.name || due != p.due {
			m.t.Fatalf("Lookup: got %d, %d, %v; want %d, %d, true", name, due, ok, p.name, p.due)
		}
	}
	for _, h := range m.stale {
		if _, _, ok := m.w.Lookup(h); ok || m.w.Cancel(h) || m.w.Move(h, m.now) {
			m.t.Fatalf("a stale handle does something")
		}
	}
	seen := maps.Collect(m.w.All())
	for _, p := range m.pending {
		if got, ok := seen[p.handle]; !ok || got != p.name {
			m.t.Fatalf("All: got %d, %v for timer %d", got, ok, p.name)
		}
	}
	if got, want := len(seen), len(m.pending); got != want {
		m.t.Fatalf("All: got %d timers, want %d", got, want)
	}
}

// sleep does what a loop does that is woken by nothing but Next, and ends at now.
func (m *model) sleep(now int64) {
	wakes, limit := 0, 20*len(m.pending)+8
	for {
		at, ok := m.w.Next()
		if !ok || at > now {
			break
		}
		m.pop(max(m.now, at), math.MaxInt)
		if wakes++; wakes > limit {
			m.t.Fatalf("more than %d wakes", limit)
		}
	}
	m.pop(max(m.now, now), math.MaxInt)
}

// distances are what due times and steps of the clock are chosen around: each unit of the wheel, and a bit beside it.
var distances = []int64{
	0, 1, int64(time.Millisecond), int64(100 * time.Millisecond), int64(time.Second), int64(20 * time.Second),
	int64(time.Minute), int64(1280 * time.Second), int64(81920 * time.Second), int64(60 * 24 * time.Hour),
	int64(11 * 365 * 24 * time.Hour), int64(100 * 365 * 24 * time.Hour),
}

// offset returns a distance at random, of any order of magnitude up to limit.
func offset(rng *rand.Rand, limit int) int64 {
	d := distances[rng.IntN(min(limit, len(distances)))]
	switch rng.IntN(3) {
	case 0:
		return d*rng.Int64N(4) + rng.Int64N(3) - 1
	case 1:
		return d + rng.Int64N(3) - 1
	default:
		return rng.Int64N(d + 1)
	}
}

// around returns a+d, held at the ends of an int64.
func around(a, d int64) int64 {
	switch sum := a + d; {
	case d > 0 && sum < a:
		return math.MaxInt64
	case d < 0 && sum > a:
		return math.MinInt64
	default:
		return sum
	}
}

func (m *model) randomDue(rng *rand.Rand) int64 {
	switch rng.IntN(20) {
	case 0:
		return around(m.now, -offset(rng, 20))
	case 1:
		return [...]int64{math.MinInt64, math.MinInt64 + 1, 0, math.MaxInt64 - 1, math.MaxInt64}[rng.IntN(5)]
	case 2:
		if len(m.pending) > 0 {
			return m.pending[rng.IntN(len(m.pending))].due
		}
	case 3: // the beginning of a slot
		unit := distances[3+rng.IntN(6)]
		return m.now/unit*unit + unit
	}
	return around(m.now, offset(rng, 4+rng.IntN(10)))
}

func (m *model) randomStep(rng *rand.Rand) {
	switch op := rng.IntN(100); {
	case op < 45:
		for range rng.IntN(6) {
			m.set(m.randomDue(rng))
		}
	case op < 55 && len(m.pending) > 0:
		m.move(rng.IntN(len(m.pending)), m.randomDue(rng))
	case op < 65 && len(m.pending) > 0:
		m.cancel(rng.IntN(len(m.pending)))
	case op < 85:
		m.sleep(around(m.now, offset(rng, 8)))
	case op < 95:
		m.pop(around(m.now, offset(rng, 5+rng.IntN(7))), rng.IntN(20))
	case op < 97: // the clock goes back
		m.pop(around(m.now, -offset(rng, 10)), math.MaxInt)
	case op < 98:
		m.w.Rebase(m.now)
	case op < 99 && rng.IntN(10) == 0:
		for len(m.pending) > 0 {
			m.finish(0)
		}
		m.w.Reset(m.now)
	}
	if len(m.stale) > 50 {
		m.stale = m.stale[len(m.stale)-50:]
	}
}

// TestWheel_Model plays random calls against the model, from clocks all over the range of an int64.
func TestWheel_Model(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 50
	}
	for seed := range uint64(rounds) {
		rng := rand.New(rand.NewPCG(seed, 1))
		starts := []int64{
			0, 1, -1, time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC).UnixNano(), math.MinInt64, math.MaxInt64,
			rng.Int64(), -rng.Int64(),
		}
		m := newModel(t, starts[rng.IntN(len(starts))], []int{1, 3, 512}[rng.IntN(3)])
		for range 300 {
			m.randomStep(rng)
			m.check()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		m.pop(math.MaxInt64, math.MaxInt)
		m.check()
	}
}

// FuzzWheel reads a byte string as calls: three bytes each, the kind, an order of magnitude and a factor.
func FuzzWheel(f *testing.F) {
	f.Add(int64(0), []byte{0, 3, 1, 0, 4, 9, 3, 5, 1, 1, 0, 7})
	f.Add(int64(math.MaxInt64), []byte{0, 3, 1, 4, 4, 9, 5, 5, 1, 2, 0, 7})
	f.Add(int64(math.MinInt64), []byte{0, 9, 1, 0, 9, 1, 3, 12, 200, 6, 0, 0, 3, 1, 1})
	f.Fuzz(func(t *testing.T, now int64, calls []byte) {
		if len(calls) > 3*200 {
			t.Skip("the model is slow")
		}
		m := newModel(t, now, 1+len(calls)%4)
		for ; len(calls) >= 3; calls = calls[3:] {
			d := distances[int(calls[1]&0x7f)%len(distances)]
			d = min(d, math.MaxInt64/256)*int64(calls[2]) + int64(calls[2]%3) - 1
			if calls[1]&0x80 != 0 {
				d = -d
			}
			at := around(m.now, d)
			pick := 0
			if len(m.pending) > 0 {
				pick = int(calls[2]) % len(m.pending)
			}
			switch kind := calls[0] % 8; {
			case kind <= 1:
				m.set(at)
			case kind == 2 && len(m.pending) > 0:
				m.move(pick, at)
			case kind == 3:
				m.pop(at, math.MaxInt)
			case kind == 4 && len(m.pending) > 0:
				m.cancel(pick)
			case kind == 5:
				m.pop(at, int(calls[2]%4))
			case kind == 6:
				m.w.Rebase(at)
			case kind == 7:
				m.sleep(at)
			}
			m.check()
		}
		m.pop(math.MaxInt64, math.MaxInt)
		m.check()
	})
}
