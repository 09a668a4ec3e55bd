package store_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/escapement-go/scheduler/store"
)

// A prune frees the keys whose time is over and no others, whatever has happened to
// them and to the state meanwhile.
func TestState_Prune_frees_unique_keys_when_they_are_over(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		m := newMachine(t)
		until := make(map[string]int64) // when an ended run's key is over
		var minted uint64
		for range 200 {
			m.sleep(rnd.Int64N(2 * second))
			key := fmt.Sprint("k", rnd.IntN(20))
			short := mail
			short.UniqueFor = 1 + rnd.Int64N(60*second)
			minted++
			run := store.NewRun{ID: id(minted), Unique: key}
			if m.do(enqueue(short, run)).Code == store.OK {
				until[key] = m.elapsed + short.UniqueFor
				m.ok(store.Command{Kind: store.KindCancel, Run: &store.RunCommand{ID: run.ID}})
			} else if until[key] <= m.elapsed {
				t.Fatalf("seed %d: %s is held past its end", seed, key)
			}
			over := false
			for k, end := range until {
				if end > m.elapsed {
					continue
				}
				over = true
				delete(until, k)
			}
			if over && !m.s.UniquesOver() {
				t.Fatalf("seed %d: a key is over and nobody knows", seed)
			}
			m.ok(store.Command{Kind: store.KindPrune, Prune: new(store.Prune)})
			if m.s.UniquesOver() {
				t.Fatalf("seed %d: a key is over after a prune", seed)
			}
			freed := 0
			flush := m.s.TakeFlush()
			for _, u := range flush.Uniques {
				if u == nil {
					freed++
				}
			}
			m.s.Flushed(flush)
			if over && freed == 0 {
				t.Fatalf("seed %d: no row is freed", seed)
			}
			for k := range until {
				if _, held := m.s.UniqueHolder("mail.send", k, m.elapsed); !held {
					t.Fatalf("seed %d: %s is free before its end", seed, k)
				}
			}
		}
	}
}
