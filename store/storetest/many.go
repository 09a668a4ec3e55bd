//nolint:thelper // these are the tests themselves: a failure belongs to its own line
package storetest

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/store"
)

// A crowd is many runs of one hour, in whatever order they come and go, and what a
// backend should have of them.
type crowd struct {
	rng         *rand.Rand
	ids         []store.RunID
	live, final map[store.RunID]*store.Run
}

// newCrowd makes the IDs of n runs; those that follow each other are far apart.
func newCrowd(seed uint64, n int) *crowd {
	c := &crowd{
		rng:  rand.New(rand.NewPCG(seed, 7)),
		live: make(map[store.RunID]*store.Run), final: make(map[store.RunID]*store.Run),
	}
	for i := range n {
		c.ids = append(c.ids, runID(start.Add(time.Duration(i)*time.Hour/time.Duration(n)), uint64(i)))
	}
	return c
}

// spec returns one of few specs, or one that no other run has.
func (c *crowd) spec() *store.Spec {
	spec := *someSpec
	switch c.rng.IntN(10) {
	case 0:
		spec.Timeout = c.rng.Int64()
	case 1, 2, 3:
		spec.Queue = "other"
	}
	return &spec
}

// input returns mostly little, and now and then more than many runs together.
func (c *crowd) input() []byte {
	size := 1 + c.rng.IntN(120)
	switch c.rng.IntN(40) {
	case 0:
		size += c.rng.IntN(6_000)
	case 1:
		size += c.rng.IntN(40_000)
	}
	return bytes.Repeat([]byte{byte(size)}, size)
}

// change adds a change of a run to a flush: it becomes live, changes, ends, is
// taken up again or goes.
func (c *crowd) change(f *store.Flush, id store.RunID) {
	r := liveRun(id, "")
	r.Spec, r.Input = c.spec(), c.input()
	wasLive := c.live[id] != nil
	switch c.rng.IntN(4) {
	case 0, 1:
		addLive(f, r)
		c.live[id] = r
	case 2:
		r.State, r.Finished = store.Succeeded, 1
		addFinal(f, r, 0, wasLive)
		c.final[id] = r
		delete(c.live, id)
	case 3:
		if wasLive {
			f.Runs = append(f.Runs, store.ChangedRun{ID: id, Gone: true})
			delete(c.live, id)
		}
	}
}

func testCrowd(t *testing.T, p Place) {
	c := newCrowd(1, 1500)
	var fl flushes
	b := p.Open(t, Bounds{})
	for round := range 40 {
		f := fl.next()
		at, n := c.rng.IntN(len(c.ids)), 1+c.rng.IntN(30)
		switch {
		case round < 10: // they come in order
			for _, id := range c.ids[round*100 : round*100+100] {
				c.change(f, id)
			}
		case round%4 == 0: // many that follow each other
			for _, id := range c.ids[at:min(at+300, len(c.ids))] {
				c.change(f, id)
			}
		default:
			for _, i := range c.rng.Perm(len(c.ids))[:n] {
				c.change(f, c.ids[i])
			}
		}
		commit(t, b, f)
		if round%8 == 0 {
			b = reopened(t, p, b)
		}
		c.check(t, b)
	}
	f := fl.next()
	for id := range c.live {
		f.Runs = append(f.Runs, store.ChangedRun{ID: id, Gone: true})
	}
	clear(c.live)
	commit(t, b, f)
	c.check(t, b)
	closeBackend(t, b)
}

// check compares what the backend has with what it should have.
func (c *crowd) check(t *testing.T, b Backend) {
	if got := b.Stats(); got.LiveRuns != int64(len(c.live)) || got.FinalRuns != int64(len(c.final)) {
		t.Fatalf("Stats() = %+v, want %d live and %d final runs", got, len(c.live), len(c.final))
	}
	img, err := b.Image()
	if err != nil {
		t.Fatal(err)
	}
	got, want := make(map[string]string), make(map[string]string)
	if err := img.Runs(func(r *store.Run) error { got[r.ID.String()] = encode(r); return nil }); err != nil {
		t.Fatal(err)
	}
	for id, r := range c.live {
		want[id.String()] = encode(r)
	}
	if !maps.Equal(got, want) {
		same(t, "live runs", got, want)
	}
	for _, i := range c.rng.Perm(len(c.ids))[:100] {
		id := c.ids[i]
		r, _, err := b.FinalRun(id)
		if want := c.final[id]; err != nil || (r == nil) != (want == nil) || r != nil && encode(r) != encode(want) {
			t.Fatalf("FinalRun(%v) = %+v, %v, want %+v", id, r, err, want)
		}
	}
	from := start.UnixMilli() + c.rng.Int64N(hour)
	c.checkList(t, b, from, from+c.rng.Int64N(hour))
	c.checkList(t, b, 0, start.UnixMilli()+2*hour)
}

func (c *crowd) checkList(t *testing.T, b Backend, from, to int64) {
	var want []string
	for _, id := range c.ids {
		if at := id.Time().UnixMilli(); c.final[id] != nil && at >= from && at < to {
			want = append(want, encode(c.final[id]))
		}
	}
	show := func(r *store.Run) string { return encode(r) }
	for _, newestFirst := range []bool{false, true} {
		if got := list(t, b.FinalRuns(from, to, newestFirst), show); !slices.Equal(got, want) {
			same(t, fmt.Sprintf("FinalRuns(%d, %d, %v)", from, to, newestFirst), got, want)
		}
		slices.Reverse(want)
	}
}
