package sim

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/escapement-go/scheduler/store"
)

func (w Work) encode() string {
	b, err := json.Marshal(w)
	if err != nil {
		panic(err) // it has no field that could fail
	}
	return string(b)
}

func decodeWork(input []byte) (w Work, err error) {
	if err := json.Unmarshal(input, &w); err != nil {
		return w, fmt.Errorf("sim: decode work: %w", err)
	}
	return w, nil
}

// checkStorage: the history on each disk is what the log makes, row by row.
func checkStorage(s *Story) (b Breaches) {
	finals := make(map[store.RunID]*store.Run)
	var ticks []store.Tick
	upTo := make(map[uint64]bool)
	for _, st := range s.Stores {
		upTo[st.Index] = true
	}
	for i := range s.Applied {
		a := &s.Applied[i]
		for j := range a.Events {
			switch e := &a.Events[j]; e.Kind {
			case store.EventFinished:
				finals[e.Run.ID] = e.Run
			case store.EventRescheduled:
				if finals[e.Run.ID] != nil { // it was taken up again; its row may stay until it ends
					finals[e.Run.ID] = nil
				}
			case store.EventTick:
				ticks = append(ticks, *e.Tick)
			default: // is in the digest
			}
		}
		if upTo[a.Index] {
			for node, st := range s.Stores {
				if st.Index == a.Index {
					b.compare(node, st, finals, ticks)
				}
			}
		}
	}
	return b
}

func (b *Breaches) compare(node string, st Stores, finals map[store.RunID]*store.Run, ticks []store.Tick) {
	for id, want := range finals {
		got := st.Runs[id]
		if want == nil {
			continue
		}
		if got == nil {
			b.add("the disk of %s lacks run %v, which has %v", node, id, want.State)
			continue
		}
		x, _ := got.MarshalMsg(nil)
		y, _ := want.MarshalMsg(nil)
		if !bytes.Equal(x, y) {
			b.add("the disk of %s has run %v as %+v, it is %+v", node, id, got, want)
		}
	}
	for id, r := range st.Runs {
		if _, known := finals[id]; !known {
			b.add("the disk of %s has run %v as %v, it has not ended", node, id, r.State)
		}
	}
	// A row that was let go may have been taken apart since; the others stay.
	key := func(t store.Tick) string { return fmt.Sprintf("%+v", t) }
	stored := make(map[string]bool, len(st.Ticks))
	for _, t := range st.Ticks {
		stored[key(t)] = true
	}
	for _, t := range ticks {
		if exact := t.Outcome == store.TickRan || t.Outcome == store.TickSkipped; exact && !stored[key(t)] {
			b.add("the disk of %s lacks tick %s of schedule %d, which is %v", node, at(t.From), t.Schedule, t.Outcome)
		}
	}
}
