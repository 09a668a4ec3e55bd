package sim_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/internal/sim"
)

func openLog(t *testing.T, d *sim.Disk) cluster.LogStore {
	t.Helper()
	l, err := d.Mount().OpenLog()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func entries(from, to uint64) (logs []*raft.Log) {
	for i := from; i <= to; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: 1, Data: []byte{byte(i)}})
	}
	return logs
}

func lastIndex(t *testing.T, l cluster.LogStore) uint64 {
	t.Helper()
	last, err := l.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	return last
}

func TestDisk_a_crash_keeps_what_was_synced_and_a_beginning_of_the_rest(t *testing.T) {
	seen := make(map[uint64]bool)
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			d := sim.NewDisk(seed, time.Millisecond, 0)
			l := openLog(t, d)
			if err := l.StoreLogs(entries(1, 3)); err != nil {
				t.Fatal(err)
			}
			done := make(chan error)
			go func() { done <- l.StoreLogs(entries(4, 6)) }()
			synctest.Wait()
			d.Crash()
			if err := <-done; err == nil {
				t.Error("a write that a crash has cut off was acknowledged")
			}
			if err := l.StoreLogs(entries(7, 7)); err == nil {
				t.Error("a dead process can still write")
			}
			last := lastIndex(t, openLog(t, d))
			if last < 3 || last > 6 {
				t.Errorf("last index: got %d, want 3…6", last)
			}
			seen[last] = true
			if got := uint64(len(d.Archive())); got != last {
				t.Errorf("archive: got %d entries, want %d", got, last)
			}
		})
	}
	if len(seen) != 4 {
		t.Errorf("ends of the log after a crash: got %v, want each of 3…6", seen)
	}
}

func TestDisk_faults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := sim.NewDisk(1, time.Millisecond, time.Millisecond)
		l := openLog(t, d)
		d.Fail(sim.ErrFull)
		if err := l.StoreLogs(entries(1, 1)); !errors.Is(err, sim.ErrFull) {
			t.Errorf("write to a full disk: got %v, want %v", err, sim.ErrFull)
		}
		if _, err := d.Mount().OpenLog(); err == nil {
			t.Error("a log on a full disk can be opened")
		}
		d.Fail(nil)
		l = openLog(t, d)
		began := time.Now()
		d.Hang(true)
		time.AfterFunc(time.Hour, func() { d.Hang(false) })
		if err := l.StoreLogs(entries(1, 5)); err != nil || time.Since(began) != time.Hour {
			t.Errorf("write to a hanging disk: got %v after %v, want success after an hour", err, time.Since(began))
		}
		if err := l.DeleteRange(1, 2); err != nil {
			t.Fatal(err)
		}
		if err := l.DeleteRange(5, 5); err != nil {
			t.Fatal(err)
		}
		if first, _ := l.FirstIndex(); first != 3 || lastIndex(t, l) != 4 {
			t.Errorf("log: got %d…%d, want 3…4", first, lastIndex(t, l))
		}
		if got := len(d.Archive()); got != 4 {
			t.Errorf("archive: got %d entries, want those that were truncated and not the one that was taken back", got)
		}
	})
}

func TestClock_shows_what_it_is_set_to(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sim.NewClock()
		began := time.Now()
		c.Step(time.Hour)
		c.SetDrift(time.Millisecond)
		time.Sleep(10 * time.Second)
		if got, want := c.Now().Sub(time.Now().Round(0)), time.Hour+10*time.Millisecond; got != want {
			t.Errorf("ahead: got %v, want %v", got, want)
		}
		c.Step(-2 * time.Hour)
		time.Sleep(time.Second)
		if got, want := sim.Ahead(c.Settings(), began, time.Now()), time.Hour+10*time.Millisecond; got != want {
			t.Errorf("most ahead in all: got %v, want %v", got, want)
		}
		if got := sim.Ahead(c.Settings(), time.Now(), time.Now()); got > -time.Hour+time.Second {
			t.Errorf("most ahead at the end: got %v, want about an hour behind", got)
		}
	})
}
