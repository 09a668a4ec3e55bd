package seglog_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"github.com/escapement-go/scheduler/cluster/seglog"
)

// pair is a segment log and the peer that it must not be told from.
type pair struct {
	t    *testing.T
	r    *rand.Rand
	dir  string
	got  *seglog.Log
	want *raftboltdb.BoltStore
	term uint64
}

func TestLog_BehavesAsRaftBoltDB(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			p := &pair{t: t, r: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir(), term: 1}
			p.want = openBolt(t, true)
			p.got = open(t, p.dir, small...)
			for range 250 {
				p.step()
			}
			p.reopen()
			p.compare()
		})
	}
}

func openBolt(tb testing.TB, noSync bool) *raftboltdb.BoltStore {
	tb.Helper()
	s, err := raftboltdb.New(raftboltdb.Options{
		Path: filepath.Join(tb.TempDir(), "raft.db"), NoSync: noSync, MsgpackUseNewTimeFormat: true,
		BoltOptions: &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, InitialMmapSize: 1 << 30},
	})
	if err != nil {
		tb.Fatalf("open peer: %v", err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func (p *pair) step() {
	p.t.Helper()
	first, last := bounds(p.t, p.want)
	switch n := p.r.IntN(20); {
	case n < 10:
		p.store(last)
	case n < 12: // head
		p.delete(first, first+p.r.Uint64N(last-first+1))
	case n < 14: // tail
		p.delete(last-p.r.Uint64N(last-first+1), last+p.r.Uint64N(3))
		p.term++
	case n == 14 && p.r.IntN(3) == 0:
		p.delete(first, last)
	case n == 15: // nothing there
		p.delete(last+1, last+5)
		p.delete(first+3, first+2)
	case n == 16:
		p.reopen()
	default:
		p.set()
	}
	if p.r.IntN(10) == 0 {
		p.compare()
	}
	p.compareEnds()
}

func (p *pair) store(last uint64) {
	p.t.Helper()
	next := last + 1
	if last == 0 {
		next += p.r.Uint64N(1000)
	}
	size := []int{0, 1, 60, 400, 500, 2000}[p.r.IntN(6)]
	if p.r.IntN(20) == 0 {
		size = 40_000 // more than a segment
	}
	logs := entries(next, p.term, 1+p.r.IntN(8), size)
	store(p.t, p.want, logs...)
	store(p.t, p.got, logs...)
}

func (p *pair) delete(lo, hi uint64) {
	p.t.Helper()
	if err := p.want.DeleteRange(lo, hi); err != nil {
		p.t.Fatalf("peer: delete %d..%d: %v", lo, hi, err)
	}
	if err := p.got.DeleteRange(lo, hi); err != nil {
		p.t.Fatalf("delete %d..%d: %v", lo, hi, err)
	}
}

func (p *pair) reopen() {
	p.t.Helper()
	closeLog(p.t, p.got)
	p.got = open(p.t, p.dir, small...)
}

var stableKeys = []string{"CurrentTerm", "LastVoteTerm", "LastVoteCand", "other"}

func (p *pair) set() {
	p.t.Helper()
	key, value := []byte(stableKeys[p.r.IntN(len(stableKeys))]), p.r.Uint64()
	if err := p.want.SetUint64(key, value); err != nil {
		p.t.Fatalf("peer: set: %v", err)
	}
	if err := p.got.SetUint64(key, value); err != nil {
		p.t.Fatalf("set: %v", err)
	}
}

func (p *pair) compareEnds() {
	p.t.Helper()
	first, last := bounds(p.t, p.got)
	wantFirst, wantLast := bounds(p.t, p.want)
	if first != wantFirst || last != wantLast {
		p.t.Fatalf("got entries %d..%d, want %d..%d", first, last, wantFirst, wantLast)
	}
}

func (p *pair) compare() {
	p.t.Helper()
	var want []*raft.Log
	first, last := bounds(p.t, p.want)
	for i := first; i <= last && last != 0; i++ {
		var e raft.Log
		if err := p.want.GetLog(i, &e); err != nil {
			p.t.Fatalf("peer: get %d: %v", i, err)
		}
		want = append(want, &e)
	}
	wantLogs(p.t, p.got, want)
	for _, key := range stableKeys {
		got, gotErr := p.got.Get([]byte(key))
		want, wantErr := p.want.Get([]byte(key))
		if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) || !bytes.Equal(got, want) {
			p.t.Fatalf("value of %s: got %x, %v, want %x, %v", key, got, gotErr, want, wantErr)
		}
	}
}
