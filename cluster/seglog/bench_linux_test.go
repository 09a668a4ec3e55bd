package seglog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"
)

// meter measures what b.Loop does not: each call, and the CPU time of the process.
type meter struct {
	took []time.Duration
	cpu  time.Duration
}

func startMeter() *meter { return &meter{took: make([]time.Duration, 0, 1<<20), cpu: cpuTime()} }

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (m *meter) report(b *testing.B, bytes int) {
	cpu := cpuTime() - m.cpu
	slices.Sort(m.took)
	b.ReportMetric(float64(m.took[len(m.took)/2])/1e3, "p50-us")
	b.ReportMetric(float64(m.took[len(m.took)*99/100])/1e3, "p99-us")
	b.ReportMetric(float64(cpu)/1e3/float64(len(m.took)), "cpu-us/op")
	if bytes >= 1<<10 {
		b.ReportMetric(float64(cpu)/1e6/(float64(len(m.took)*bytes)/(1<<20)), "cpu-ms/MiB")
	}
}

// BenchmarkAppend compares one StoreLogs with that of raft-boltdb. As in use, the head is deleted from time to time.
func BenchmarkAppend(b *testing.B) {
	for _, load := range []struct{ n, size int }{{1, 256}, {64, 1 << 10}, {1, 64 << 10}, {1, 300 << 10}} {
		for _, kind := range []string{"seglog", "boltdb"} {
			b.Run(fmt.Sprintf("%dx%d/%s", load.n, load.size, kind), func(b *testing.B) {
				var l raft.LogStore
				if kind == "seglog" {
					l = open(b, b.TempDir())
				} else {
					l = openBolt(b, false)
				}
				benchAppend(b, l, load.n, load.size)
			})
		}
	}
}

func benchAppend(b *testing.B, l raft.LogStore, n, size int) {
	logs := entries(1, 1, n, size)
	keep := uint64(64<<20) / uint64(size)
	first, bytes := uint64(1), n*size
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	m := startMeter()
	for b.Loop() {
		begin := time.Now()
		if err := l.StoreLogs(logs); err != nil {
			b.Fatal(err)
		}
		m.took = append(m.took, time.Since(begin))
		for _, e := range logs {
			e.Index += uint64(n)
		}
		if last := logs[0].Index - 1; last-first >= keep+1024 {
			if err := l.DeleteRange(first, first+1023); err != nil {
				b.Fatal(err)
			}
			first += 1024
		}
	}
	m.report(b, bytes)
}

// BenchmarkGet compares the reading of one entry of 1 KiB.
func BenchmarkGet(b *testing.B) {
	for _, kind := range []string{"seglog", "boltdb"} {
		b.Run(kind, func(b *testing.B) {
			var l raft.LogStore = open(b, b.TempDir())
			if kind == "boltdb" {
				l = openBolt(b, true)
			}
			for i := range uint64(64) {
				store(b, l, entries(1+i*64, 1, 64, 1<<10)...)
			}
			b.ReportAllocs()
			var e raft.Log
			for i := uint64(0); b.Loop(); i++ {
				if err := l.GetLog(1+i*7%4096, &e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpen opens an empty folder, and one with 64 MiB of entries.
func BenchmarkOpen(b *testing.B) {
	b.Run("empty", func(b *testing.B) {
		for b.Loop() {
			l := open(b, b.TempDir())
			b.StopTimer()
			closeLog(b, l)
			b.StartTimer()
		}
	})
	b.Run("64MiB", func(b *testing.B) {
		dir := b.TempDir()
		l := open(b, dir)
		for i := range uint64(1024) {
			store(b, l, entry(i+1, 1, 64<<10))
		}
		closeLog(b, l)
		for b.Loop() {
			l := open(b, dir)
			b.StopTimer()
			closeLog(b, l)
			b.StartTimer()
		}
	})
}

// BenchmarkDisk is the bare cost of one write of 4 KiB and fdatasync, on space of three kinds in turn.
func BenchmarkDisk(b *testing.B) {
	const size = 16 << 20
	dir, page := b.TempDir(), slices.Repeat([]byte{1}, 4096)
	kinds := []string{"zeroed", "fallocated", "growing"}
	files, meters := make([]*os.File, len(kinds)), make([]meter, len(kinds))
	for i, kind := range kinds {
		f, err := os.Create(filepath.Join(dir, kind))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = f.Close() })
		switch files[i] = f; kind {
		case "zeroed":
			_, err = f.Write(make([]byte, size))
		case "fallocated":
			err = unix.Fallocate(int(f.Fd()), 0, 0, size)
		}
		if err := firstError(err, f.Sync()); err != nil {
			b.Skip("the file system cannot:", err)
		}
	}
	for off := int64(0); b.Loop(); off = (off + 4096) % size {
		for i, f := range files {
			begin := time.Now()
			_, err := f.WriteAt(page, off)
			if err := firstError(err, unix.Fdatasync(int(f.Fd()))); err != nil {
				b.Fatal(err)
			}
			meters[i].took = append(meters[i].took, time.Since(begin))
		}
	}
	for i, m := range meters {
		slices.Sort(m.took)
		b.ReportMetric(float64(m.took[len(m.took)/2])/1e3, kinds[i]+"-p50-us")
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
