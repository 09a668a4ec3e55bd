package cron

import (
	"testing"
	"time"
)

// TestZone_Layout checks what the searches rely on, in zones with all sorts of pasts:
// spans are longer than the overlaps and gaps beside them, fronts never go back, and
// the offsets are those of the time package, also in years past its table.
func TestZone_Layout(t *testing.T) {
	for _, name := range []string{
		"UTC", "America/New_York", "Europe/Berlin", "Europe/Dublin", "Africa/Casablanca", "Africa/El_Aaiun", "Asia/Gaza",
		"Asia/Tehran", "Australia/Lord_Howe", "Antarctica/Troll", "Antarctica/Casey", "Pacific/Apia", "Pacific/Kwajalein", "Pacific/Auckland",
		"Pacific/Chatham", "America/St_Johns", "America/Caracas", "America/Argentina/San_Luis", "Asia/Pyongyang", "Africa/Monrovia", "America/Scoresbysund",
	} {
		z, err := loadZone(name, -1)
		if err != nil {
			t.Fatal(err)
		}
		for k := 1; k < len(z.spans); k++ {
			a, b := z.spans[k-1], z.spans[k]
			jump := max(b.offset-a.offset, a.offset-b.offset)
			if jump == 0 || b.start-a.start <= jump {
				t.Errorf("%s: span at %v is shorter than the jump of %ds before the next", name, time.Unix(a.start, 0).UTC(), jump)
			}
			if b.front <= a.front {
				t.Errorf("%s: front goes back at %v", name, time.Unix(b.start, 0).UTC())
			}
			if _, before := time.Unix(b.start-1, 0).In(z.loc).Zone(); int64(before) != a.offset {
				t.Errorf("%s: offset just before %v is %d, want %d", name, time.Unix(b.start, 0).UTC(), a.offset, before)
			}
		}
		for at := int64(realStart); at < realEnd; at += 37 * 3600 {
			_, want := time.Unix(at, 0).In(z.loc).Zone()
			if got := z.spans[z.at(at)].offset; got != int64(want) {
				t.Fatalf("%s: offset at %v is %d, want %d", name, time.Unix(at, 0).UTC(), got, want)
			}
		}
	}
}

// BenchmarkZone_FirstUse is what the first expression of a zone costs.
func BenchmarkZone_FirstUse(b *testing.B) {
	loc, err := time.LoadLocation("America/New_York")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		newZone(loc)
	}
}
