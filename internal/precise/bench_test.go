package precise_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/internal/precise"
)

// BenchmarkLateness measures how long after its time a timer is received, for times at random within 5 ms.
func BenchmarkLateness(b *testing.B) {
	b.Run("precise", func(b *testing.B) {
		timer := precise.New()
		defer timer.Close()
		lateness(b, timer.C(), timer.Reset)
	})
	b.Run("time.Timer", func(b *testing.B) {
		timer := time.NewTimer(time.Hour)
		defer timer.Stop()
		lateness(b, timer.C, func(d time.Duration) { timer.Reset(d) })
	})
}

func lateness(b *testing.B, c <-chan time.Time, reset func(time.Duration)) {
	late := make([]time.Duration, 0, 1024)
	for b.Loop() {
		d := time.Millisecond + rand.N(4*time.Millisecond)
		start := time.Now()
		reset(d)
		<-c
		late = append(late, time.Since(start)-d)
	}
	slices.Sort(late)
	at := func(q float64) float64 { return float64(late[int(q*float64(len(late)-1))].Nanoseconds()) / 1000 }
	b.ReportMetric(at(0.50), "p50-µs-late")
	b.ReportMetric(at(0.99), "p99-µs-late")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkReset measures arming a timer anew that does not get to fire.
func BenchmarkReset(b *testing.B) {
	timer := precise.New()
	defer timer.Close()
	b.ReportAllocs()
	for b.Loop() {
		timer.Reset(time.Hour)
	}
}
