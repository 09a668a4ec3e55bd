package cluster_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/store/storetest"
)

// A leader applies the entries it has just encoded without decoding them. What
// that makes of its state must be what decoding makes of the others'.
func TestAsDecoded_applies_like_the_decoded_form(t *testing.T) {
	direct := 0
	for seed := range uint64(5) {
		leader, follower := store.NewState(), store.NewState()
		g := storetest.NewGenerator(seed)
		for index := uint64(1); index <= 300; index++ {
			b := g.Next(leader)
			data, err := store.EncodeBatch(nil, b)
			if err != nil {
				t.Fatal(err)
			}
			decoded, err := store.DecodeBatch(data)
			if err != nil {
				t.Fatal(err)
			}
			want, _ := follower.Apply(index, 1, decoded)
			if cluster.AsDecoded(b) {
				direct++
			} else if b, err = store.DecodeBatch(data); err != nil {
				t.Fatal(err)
			}
			got, events := leader.Apply(index, 1, b)
			g.Observe(index, events)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d, entry %d: results differ (-decoded +direct):\n%s", seed, index, diff)
			}
			if index%25 == 0 && leader.Digest() != follower.Digest() {
				t.Fatalf("seed %d, entry %d: states differ", seed, index)
			}
			if index%100 == 0 {
				compareFlushes(t, leader, follower)
			}
		}
	}
	if direct < 100 {
		t.Errorf("entries applied without decoding: %d, too few to tell", direct)
	}
}

// encodeRun returns the run as it is written; "" if there is none.
func encodeRun(r *store.Run) string {
	if r == nil {
		return ""
	}
	b, _ := r.MarshalMsg(nil) // no field of it can fail
	return string(b)
}

// compareFlushes compares what two states would write.
func compareFlushes(t *testing.T, a, b *store.State) {
	t.Helper()
	fa, fb := a.TakeFlush(), b.TakeFlush()
	if len(fa.Runs) != len(fb.Runs) {
		t.Fatalf("%d and %d runs are written", len(fa.Runs), len(fb.Runs))
	}
	for i, c := range fa.Runs {
		d := fb.Runs[i]
		x, y := encodeRun(c.Run), encodeRun(d.Run)
		c.Run, d.Run = nil, nil
		if c != d || x != y {
			t.Fatalf("change %d is %+v of %x and %+v of %x", i, c, x, d, y)
		}
	}
	if diff := cmp.Diff(fa.Events, fb.Events); diff != "" {
		t.Fatalf("journals differ:\n%s", diff)
	}
	a.Flushed(fa)
	b.Flushed(fb)
}
