// Package spread knows how to sum up a sample of durations: by its percentiles, never by its mean.
package spread

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A Sample is a set of durations in ascending order.
type Sample []time.Duration

// Of sorts the durations in place and returns them as a Sample.
func Of(ds []time.Duration) Sample {
	slices.Sort(ds)
	return ds
}

// At returns the percentile p, from 0 to 100, by nearest rank; 0 of an empty sample.
func (s Sample) At(p float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	return s[int(p/100*float64(len(s)-1)+0.5)]
}

// Below counts the durations under the limit.
func (s Sample) Below(limit time.Duration) int {
	n, _ := slices.BinarySearch(s, limit)
	return n
}

// String returns the percentiles of the sample in ms.
func (s Sample) String() string {
	if len(s) == 0 {
		return "no sample"
	}
	return fmt.Sprintf("p50 %-8s p90 %-8s p99 %-8s max %-8s ms (n=%d)",
		Ms(s.At(50)), Ms(s.At(90)), Ms(s.At(99)), Ms(s.At(100)), len(s))
}

// Ms returns a duration in ms with three decimals.
func Ms(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/1e6) }

// Median returns the middle of some values, which it sorts; the lower of two.
func Median[T cmp.Ordered](values []T) T {
	var none T
	if len(values) == 0 {
		return none
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}
