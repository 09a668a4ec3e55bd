//go:build unix

package harness_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/internal/crashtest"
)

// judge lets the cluster come to rest, compares what the nodes know with each
// other and with what was promised, and lets it go on.
func (c *trial) judge() {
	c.t.Helper()
	began := time.Now()
	c.note("rest")
	c.order(order{Do: "rest"}, c.ids...)
	c.note("settle")
	c.order(order{Do: "settle"}, c.ids[0])
	c.note("dump")
	pictures := make(map[string]*picture, len(c.ids))
	for _, id := range c.ids {
		o := order{Do: "dump", Path: filepath.Join(c.dir, id+".picture"), After: c.applied, Ticks: c.last}
		if !c.since.IsZero() {
			o.From = c.since.Add(-slack)
		}
		c.order(o, id)
		pictures[id] = c.picture(o.Path)
	}
	first := pictures[c.ids[0]]
	for _, id := range c.ids[1:] {
		agree(c.t, c.ids[0], first, id, pictures[id])
	}
	h := c.history(first)
	for i, b := range h.Check() {
		if i == 20 {
			c.t.Error("…")
			break
		}
		c.t.Error(b)
	}
	c.conclude(first, h, began)
	c.order(order{Do: "resume"}, c.ids[0])
}

// slack is by how much the clocks of ticks may lag behind the time of day.
const slack = 30 * time.Second

// picture reads what a node has said of what it knows, without what hangs on when
// it was asked.
func (c *trial) picture(path string) *picture {
	c.t.Helper()
	b, err := os.ReadFile(path)
	p := new(picture)
	if err == nil {
		err = json.Unmarshal(b, p)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	p.Runs = slices.DeleteFunc(p.Runs, func(r scheduler.Run) bool {
		was, old := c.known[r.ID]
		if old && (was.State != r.State || was.Fence != r.Fence || !bytes.Equal(was.Result, r.Result)) {
			c.t.Errorf("run %v had %v under fence %d, and now has %v under %d", r.ID, was.State, was.Fence, r.State, r.Fence)
		}
		return old
	})
	for i := range p.Runs {
		p.Runs[i].Due = time.Time{} // by the present offset between two clocks
	}
	for id, ticks := range p.Ledgers {
		// What is met in a pause that lasts has its outcome only when it ends.
		for len(ticks) > 0 && ticks[len(ticks)-1].Outcome == scheduler.TickPaused {
			ticks = ticks[:len(ticks)-1]
		}
		p.Ledgers[id] = ticks
	}
	return p
}

// agree compares what two nodes know.
func agree(t *testing.T, a string, one *picture, b string, other *picture) {
	t.Helper()
	runs := make(map[scheduler.RunID]scheduler.Run, len(one.Runs))
	for _, r := range one.Runs {
		runs[r.ID] = r
	}
	for _, r := range other.Runs {
		if was, ok := runs[r.ID]; !ok {
			t.Errorf("run %v is known to %s and not to %s", r.ID, b, a)
		} else if !same(was, r) {
			t.Errorf("run %v: %s knows %+v, %s knows %+v", r.ID, a, was, b, r)
		}
		delete(runs, r.ID)
	}
	for id := range runs {
		t.Errorf("run %v is known to %s and not to %s", id, a, b)
	}
	for id := range beats {
		if x, y := one.Ledgers[id], other.Ledgers[id]; !same(x, y) {
			t.Errorf("schedule %q: %s knows %d ticks, %s knows %d, or they differ: %+v %+v", id, a, len(x), b, len(y), x, y)
		}
	}
	if !same(one.Ended, other.Ended) {
		t.Errorf("nodes %s and %s have other events of ends", a, b)
	}
}

func same(a, b any) bool {
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}

// history takes down what happened in this round.
func (c *trial) history(p *picture) *crashtest.History {
	c.t.Helper()
	h := &crashtest.History{Runs: make(map[scheduler.RunID]scheduler.Run, len(p.Runs))}
	for _, r := range p.Runs {
		h.Runs[r.ID] = r
	}
	c.mu.Lock()
	h.Acks, c.acks = c.acks, nil
	for _, r := range c.seen {
		r.Due = time.Time{}
		h.Seen = append(h.Seen, r)
	}
	c.seen = nil
	for _, id := range c.ids {
		for _, f := range c.faulty[id] {
			c.t.Error(f)
		}
	}
	c.mu.Unlock()
	for id := range h.Runs {
		if n := p.Ended[id]; n != 1 {
			c.t.Errorf("run %v has ended %d times, by its events", id, n)
		}
	}
	for _, id := range c.ids {
		h.Facts = append(h.Facts, c.facts(id)...)
	}
	h.Facts = slices.DeleteFunc(h.Facts, func(f crashtest.Fact) bool {
		// A node that was frozen may go on, for a moment, with what was taken from it.
		was, old := c.known[f.Run]
		if old && f.Fence > was.Fence {
			c.t.Errorf("run %v was started under fence %d, and ended under fence %d", f.Run, f.Fence, was.Fence)
		}
		return old
	})
	slices.SortStableFunc(h.Facts, func(a, b crashtest.Fact) int { return int(a.Fence) - int(b.Fence) })
	for id, d := range beats {
		l := crashtest.Ledger{Schedule: id, Ticks: ticks(p.Ledgers[id]), Next: func(after time.Time) time.Time { return after.Add(d) }}
		if last, ok := c.last[id]; ok && len(l.Ticks) > 0 && !l.Ticks[0].Nominal.Equal(last.Add(d)) {
			c.t.Errorf("schedule %q: the tick after %v is %v", id, last, l.Ticks[0].Nominal)
		}
		h.Ledgers = append(h.Ledgers, l)
	}
	return h
}

func ticks(list []tick) []scheduler.Tick {
	all := make([]scheduler.Tick, len(list))
	for i, t := range list {
		all[i] = t.Tick
		all[i].Run = t.Run
	}
	return all
}

// facts reads what the handlers of a node have written since they were last read.
func (c *trial) facts(id string) (all []crashtest.Fact) {
	c.t.Helper()
	f, err := os.Open(factsOf(c.dir, id))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, err = f.Seek(c.read[id], io.SeekStart)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	for in := bufio.NewReader(f); ; {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all
		}
		var fact crashtest.Fact
		if err == nil {
			err = json.Unmarshal(line, &fact)
		}
		if err != nil {
			c.t.Fatalf("node %s: fact %q: %v", id, line, err)
		}
		c.read[id] += int64(len(line))
		all = append(all, fact)
	}
}

// conclude makes what was judged the past.
func (c *trial) conclude(p *picture, h *crashtest.History, began time.Time) {
	maps.Copy(c.known, h.Runs)
	for id := range beats {
		if ticks := p.Ledgers[id]; len(ticks) > 0 {
			c.last[id] = ticks[len(ticks)-1].Nominal
			if until := ticks[len(ticks)-1].Until; !until.IsZero() {
				c.last[id] = until
			}
			c.ticked += len(ticks)
		}
	}
	for _, f := range h.Facts {
		if f.What == crashtest.Began {
			c.attempts++
		}
	}
	c.acked += len(h.Acks)
	c.since, c.applied = began, p.Applied
}
