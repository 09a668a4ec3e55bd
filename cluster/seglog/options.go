package seglog

// sizes of segments, in bytes.
type sizes struct{ first, most int64 }

// An Option changes how a log is kept. Nodes may differ in them, and so may one folder from opening to opening.
type Option func(*sizes)

// WithSegmentBytes sets how large segments grow: 64 MiB by default, and 8 KiB..1 GiB, to which it is clamped. Space is
// given back in whole segments.
func WithSegmentBytes(n int64) Option {
	return func(s *sizes) { s.most = min(max(n, 8<<10), maxSegment) }
}

// WithFirstSegmentBytes sets the size of the first segment of an empty folder: 1 MiB by default, and 8 KiB or more.
// Each segment is four times as large as the one before, up to the size of [WithSegmentBytes].
func WithFirstSegmentBytes(n int64) Option {
	return func(s *sizes) { s.first = min(max(n, 8<<10), maxSegment) }
}

func newSizes(opts []Option) sizes {
	s := sizes{first: 1 << 20, most: 64 << 20}
	for _, o := range opts {
		o(&s)
	}
	return s
}

// after returns the size of the segment that follows one of size prev, 0 for none.
func (s sizes) after(prev int64) int64 {
	if prev == 0 {
		return roundUp(min(s.first, s.most), pageSize)
	}
	return roundUp(min(max(prev, s.first)*4, s.most), pageSize)
}

// roundUp returns the multiple of to, a power of two, at or above n.
func roundUp(n, to int64) int64 { return (n + to - 1) &^ (to - 1) }
