package store_test

import (
	"fmt"
	"testing"

	"github.com/escapement-go/scheduler/store"
)

// benchBatch is the number of runs one entry is about.
const benchBatch = 256

// others are the numbers of runs that only wait.
const others = 1 << 40

// entriesOf makes the three entries in the life of n runs, from the first ID on.
func entriesOf(tb testing.TB, first uint64, n int, fence uint64) [3][]byte {
	tb.Helper()
	var runs []store.NewRun
	var ids []store.RunID
	var reports []store.Report
	for i := range uint64(n) {
		at := id(first + i)
		ids = append(ids, at)
		runs = append(runs, store.NewRun{ID: at, Input: make([]byte, 100)})
		reports = append(reports, store.Report{Run: at, Fence: fence + i + 1, Outcome: store.OutcomeSucceeded, Started: epoch, Finished: epoch})
	}
	var out [3][]byte
	for i, c := range []store.Command{
		enqueue(mail, runs...), lease(ids...),
		{Kind: store.KindComplete, Complete: &store.Complete{Session: 1, Reports: reports}},
	} {
		if first < others {
			c.Session, c.Seq = 1, first*4+uint64(i)+1
			c.Ack = c.Seq
		}
		data, err := store.EncodeBatch(nil, &store.Batch{Level: 1, Wall: epoch, Elapsed: epoch, Commands: []store.Command{c}})
		if err != nil {
			tb.Fatal(err)
		}
		out[i] = data
	}
	return out
}

// BenchmarkState_Apply takes runs through their life beside others that wait:
// each entry is decoded and applied, and what changed is taken as a flush now and
// then. One op is one run.
func BenchmarkState_Apply(b *testing.B) {
	for _, waiting := range []int{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint("waiting=", waiting), func(b *testing.B) {
			if testing.Short() && waiting > 1_000 {
				b.Skip("it takes a while")
			}
			m := newMachine(b)
			for n := 0; n < waiting; n += 1000 {
				m.s.Apply(m.s.Meta().Index+1, 1, decode(b, entriesOf(b, others+uint64(n), 1000, 0)[0]))
				m.s.Flushed(m.s.TakeFlush())
			}
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += benchBatch {
				b.StopTimer()
				log := entriesOf(b, uint64(done), benchBatch, m.s.Meta().Fence)
				b.StartTimer()
				for _, data := range log {
					results, _ := m.s.Apply(m.s.Meta().Index+1, 1, decode(b, data))
					if results[0].Code != store.OK || results[0].Each != nil {
						b.Fatalf("%+v", results[0])
					}
				}
				if done/benchBatch%40 == 0 {
					m.s.Flushed(m.s.TakeFlush())
				}
			}
		})
	}
}

// BenchmarkState_Apply_kinds times the three entries apart.
func BenchmarkState_Apply_kinds(b *testing.B) {
	for which, name := range []string{"enqueue", "lease", "complete"} {
		b.Run(name, func(b *testing.B) {
			m := newMachine(b)
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += benchBatch {
				b.StopTimer()
				for i, data := range entriesOf(b, uint64(done), benchBatch, m.s.Meta().Fence) {
					batch := decode(b, data)
					if i == which {
						b.StartTimer()
					}
					m.s.Apply(m.s.Meta().Index+1, 1, batch)
					b.StopTimer()
				}
				if done/benchBatch%40 == 0 {
					m.s.Flushed(m.s.TakeFlush())
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkDecodeBatch decodes an entry that enqueues runs. One op is one run.
func BenchmarkDecodeBatch(b *testing.B) {
	data := entriesOf(b, 0, benchBatch, 0)[0]
	b.ReportAllocs()
	b.SetBytes(int64(len(data) / benchBatch))
	for done := 0; done < b.N; done += benchBatch {
		if _, err := store.DecodeBatch(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkState_Digest(b *testing.B) {
	m := newMachine(b)
	for n := range 100 {
		m.s.Apply(m.s.Meta().Index+1, 1, decode(b, entriesOf(b, uint64(n)*1000, 1000, 0)[0]))
	}
	b.ResetTimer()
	for b.Loop() {
		m.s.Digest()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100_000, "ns/run")
}
