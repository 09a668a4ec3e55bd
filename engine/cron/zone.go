package cron

import (
	"math"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // the fallback where the system has no zone database, as in slim containers
)

// zone is a time zone laid out for searching: the spans of constant offset that
// touch the years known here, in order. It is immutable and shared.
type zone struct {
	loc   *time.Location
	spans []span
}

// span is a stretch of real time with one offset. It ends where the next begins.
//
//	gap before a span:      front < start+offset    readings [front, start+offset) do not exist
//	overlap before a span:  front > start+offset    readings [start+offset, front) come again
type span struct {
	start  int64 // unix seconds; far in the past for the first
	front  int64 // local seconds: all readings before it exist before start, or never
	offset int64 // seconds east of UTC
}

const (
	// realStart and realEnd enclose all instants whose local year is known.
	realStart = -2 * daySeconds
	realEnd   = localEnd + 2*daySeconds

	longAgo = math.MinInt64 / 4
	forever = math.MaxInt64 / 4
)

// at returns the index of the span that holds the instant t.
func (z *zone) at(t int64) int {
	lo, hi := 0, len(z.spans)
	for hi-lo > 1 {
		mid := int(uint(lo+hi) >> 1)
		if z.spans[mid].start <= t {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// atLocal returns the index of the span in which the reading l first comes, or
// before which it is missing.
func (z *zone) atLocal(l int64) int {
	lo, hi := 0, len(z.spans)
	for hi-lo > 1 {
		mid := int(uint(lo+hi) >> 1)
		if z.spans[mid].front <= l {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// endLocal returns the first reading past the end of span k.
func (z *zone) endLocal(k int) int64 {
	if k+1 == len(z.spans) {
		return forever
	}
	return z.spans[k+1].start + z.spans[k].offset
}

// startLocal returns the first reading of the span.
func (s span) startLocal() int64 { return s.start + s.offset }

// newZone lays out loc. It costs some hundred look-ups in loc.
func newZone(loc *time.Location) *zone {
	z := &zone{loc: loc}
	t := time.Unix(realStart, 0).In(loc)
	_, offset := t.Zone()
	start, front := int64(longAgo), int64(longAgo)
	for {
		z.spans = append(z.spans, span{start: start, front: front, offset: int64(offset)})
		end, next, ok := offsetEnd(t, offset)
		if !ok {
			return z
		}
		start = end.Unix()
		front = max(front, start+int64(offset))
		t, offset = end, next
	}
}

// offsetEnd returns the first instant after t at which the offset is not off, and
// what it is then; ok is false if there is none before realEnd.
//
// time.Time.ZoneBounds is not enough: it also ends where only the name of the zone
// changes, and in the years behind the last transition of the database's table it can
// end before t itself (seen for Pacific/Auckland on 31 December 2040).
func offsetEnd(t time.Time, off int) (end time.Time, next int, ok bool) {
	for {
		_, end := t.ZoneBounds()
		if end.IsZero() {
			return end, 0, false
		}
		probe := !end.After(t)
		if probe {
			end = t.Add(time.Hour)
		}
		if end.Unix() >= realEnd {
			return end, 0, false
		}
		if _, next := end.Zone(); next != off {
			if probe {
				end = bisect(t, end, off)
			}
			return end, next, true
		}
		t = end
	}
}

// bisect returns the first whole second after lo, at the latest hi, at which the
// offset is not off.
func bisect(lo, hi time.Time, off int) time.Time {
	for hi.Sub(lo) > time.Second {
		mid := lo.Add(hi.Sub(lo) / 2).Truncate(time.Second)
		if _, o := mid.Zone(); o == off {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

var (
	utc = newZone(time.UTC)

	// zones keeps what loadZone has found: laying out a zone is dear, and all
	// schedules of a zone share it. It holds real zones under their own names only, so it
	// is bounded by the size of the zone database.
	zones sync.Map // name → *zone
)

// loadZone returns the zone of that name. pos is where the name stands, for the
// *ZoneError that is the only error.
func loadZone(name string, pos int) (*zone, error) {
	switch name {
	case "", "UTC":
		return utc, nil
	}
	if z, ok := zones.Load(name); ok {
		return z.(*zone), nil
	}
	if msg, hint := refuseZone(name); msg != "" {
		return nil, &ZoneError{Zone: name, Pos: pos, Msg: msg, Hint: hint}
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, &ZoneError{Zone: name, Pos: pos, Msg: "unknown zone", Hint: zoneHint(name)}
	}
	z, _ := zones.LoadOrStore(name, newZone(loc))
	return z.(*zone), nil
}

// refuseZone says why a name is not looked up at all: because it depends on the
// machine, or cannot be a zone.
func refuseZone(name string) (msg, hint string) {
	const placeHint = "give a place, such as Europe/Berlin"
	switch name {
	case "Local", "localtime", "posixrules", "Factory":
		return "means something else on every machine", placeHint
	}
	if strings.HasPrefix(name, "right/") || strings.HasPrefix(name, "posix/") {
		return "counts leap seconds, or is there on some machines only", "leave out " + name[:6]
	}
	// One name for one zone: with its slashes doubled a file would be found as well.
	if len(name) > 64 || strings.ContainsFunc(name, notInZone) || strings.Contains("/"+name+"/", "//") {
		return "unknown zone", zoneHint(name)
	}
	return "", ""
}

func notInZone(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	default:
		return !strings.ContainsRune("_+-/", r)
	}
}

// zoneHint guesses what a name that is no zone was meant to be.
func zoneHint(name string) string {
	rest := strings.TrimPrefix(strings.TrimPrefix(strings.ToUpper(name), "UTC"), "GMT")
	switch {
	case rest == "" || rest == "Z":
		return "write UTC"
	case rest[0] == '+' || rest[0] == '-' || rest[0] >= '0' && rest[0] <= '9':
		return "an offset is no zone: give a place, such as Asia/Shanghai, or Etc/GMT-8 for eight hours east of UTC"
	case !strings.Contains(name, "/"):
		return "give a place, such as Europe/Berlin"
	default:
		return ""
	}
}
