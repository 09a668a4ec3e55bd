package trigger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-ical"
	"github.com/teambition/rrule-go"
)

// Bounds of an iCalendar file.
const (
	MaxICS    = 256 << 10 // bytes
	maxEvents = 5000
)

// An event is a VEVENT: a stretch of time, or of whole days, that may recur.
type event struct {
	e       ical.Event
	allDay  bool
	expands bool
}

// parseICS reads the events of an iCalendar file. The library panics on some lines
// that are cut short; a file of a user must not take the process down.
func parseICS(data []byte) (events []event, err error) {
	defer func() {
		if p := recover(); p != nil {
			events, err = nil, fmt.Errorf("iCalendar file: damaged: %v", p)
		}
	}()
	if len(data) > MaxICS {
		return nil, fmt.Errorf("iCalendar file of %d bytes, at most %d are read", len(data), MaxICS)
	}
	dec := ical.NewDecoder(bytes.NewReader(data))
	for {
		cal, err := dec.Decode()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("iCalendar file: %w", err)
		}
		for _, e := range cal.Events() {
			ev, err := newEvent(e)
			if err != nil {
				return nil, fmt.Errorf("iCalendar file: event %d: %w", len(events)+1, err)
			}
			if events = append(events, ev); len(events) > maxEvents {
				return nil, fmt.Errorf("iCalendar file: more than %d events", maxEvents)
			}
		}
	}
	if len(events) == 0 {
		return nil, errors.New("iCalendar file: it has no events")
	}
	return events, nil
}

// newEvent looks whether an event can be read, whatever the zone.
func newEvent(e ical.Event) (event, error) {
	ev := event{e: e}
	start := e.Props.Get(ical.PropDateTimeStart)
	if start == nil {
		return ev, errors.New("it has no DTSTART")
	}
	ev.allDay = start.ValueType() == ical.ValueDate
	from, err := e.DateTimeStart(time.UTC)
	if err != nil {
		return ev, err
	}
	if rule := e.Props.Get(ical.PropRecurrenceRule); rule != nil && tooFine(rule.Value) {
		return ev, fmt.Errorf("recurrence %q: more often than daily", rule.Value)
	}
	to, err := ev.end(from, time.UTC)
	if err != nil {
		return ev, err
	}
	if !to.After(from) {
		return ev, errors.New("it does not end after it begins")
	}
	if from.Year() < 1970 || to.Year() > 2199 {
		return ev, errors.New("it is not within the years 1970 to 2199")
	}
	set, err := e.RecurrenceSet(time.UTC)
	ev.expands = set != nil
	if err == nil {
		ev.between(nil, from, from.AddDate(1, 0, 0), time.UTC) // what panics does so here
	}
	return ev, err
}

// tooFine reports whether a rule recurs so often that looking for its occurrences
// could take for ever.
func tooFine(rule string) bool {
	for part := range strings.SplitSeq(strings.ToUpper(rule), ";") {
		switch freq, is := strings.CutPrefix(part, "FREQ="); {
		case is && (freq == "SECONDLY" || freq == "MINUTELY" || freq == "HOURLY"),
			strings.HasPrefix(part, "BYHOUR="), strings.HasPrefix(part, "BYMINUTE="), strings.HasPrefix(part, "BYSECOND="):
			return true
		}
	}
	return false
}

// end returns the end of an event that begins at from. One that names no end lasts
// the day of its date, or no time.
func (ev *event) end(from time.Time, zone *time.Location) (time.Time, error) {
	if ev.allDay && ev.e.Props.Get(ical.PropDateTimeEnd) == nil && ev.e.Props.Get(ical.PropDuration) == nil {
		return from.AddDate(0, 0, 1), nil
	}
	return ev.e.DateTimeEnd(zone)
}

// A stretch is from one time up to another, which is not included.
type stretch struct{ from, to time.Time }

// A Cache has what iCalendar files lay out, for rules that read the same one in the
// same zone to share. Its zero value is ready; nil keeps nothing. Safe for concurrent
// use.
type Cache struct {
	mu      sync.Mutex // guards agendas
	agendas map[agendaKey]*agenda
}

type agendaKey struct {
	first *byte // of the file, which is part of an immutable record
	size  int
	zone  *time.Location
}

const maxAgendas = 256

func (c *Cache) agenda(ics []byte, zone *time.Location) (*agenda, error) {
	key := agendaKey{&ics[0], len(ics), zone}
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if a := c.agendas[key]; a != nil {
			return a, nil
		}
	}
	events, err := parseICS(ics)
	if err != nil {
		return nil, err
	}
	a := &agenda{events: events, zone: zone, years: make(map[int][]stretch)}
	if c != nil {
		if c.agendas == nil || len(c.agendas) >= maxAgendas {
			c.agendas = make(map[agendaKey]*agenda)
		}
		c.agendas[key] = a
	}
	return a, nil
}

// An agenda are the stretches of events in a zone, laid out by the year. Safe for
// concurrent use.
type agenda struct {
	events []event
	zone   *time.Location

	mu    sync.Mutex        // guards years
	years map[int][]stretch // merged, in order: those that touch the year in UTC
}

func (a *agenda) until(t time.Time) time.Time {
	list := a.year(t.UTC().Year())
	i := sort.Search(len(list), func(i int) bool { return list[i].from.After(t) })
	if i > 0 && list[i-1].to.After(t) {
		return list[i-1].to
	}
	return time.Time{}
}

// maxYears bounds the years that an agenda keeps laid out.
const maxYears = 16

func (a *agenda) year(y int) []stretch {
	a.mu.Lock()
	defer a.mu.Unlock()
	list, laid := a.years[y]
	if !laid {
		if len(a.years) >= maxYears {
			clear(a.years)
		}
		list = a.lay(y)
		a.years[y] = list
	}
	return list
}

func (a *agenda) lay(y int) []stretch {
	low, high := time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(y+1, 1, 1, 0, 0, 0, 0, time.UTC)
	var all []stretch
	for i := range a.events {
		all = a.events[i].laid(all, low, high, a.zone)
	}
	slices.SortFunc(all, func(x, y stretch) int { return x.from.Compare(y.from) })
	var merged []stretch
	for _, s := range all {
		if n := len(merged) - 1; n >= 0 && !s.from.After(merged[n].to) {
			if s.to.After(merged[n].to) {
				merged[n].to = s.to
			}
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// lastTime is the end of the years that cron expressions know.
var lastTime = time.Date(2199, 12, 31, 0, 0, 0, 0, time.UTC)

// laid is between for an event that was read before: should the library panic now, the
// event is left out, for this is under the leader's lock.
func (ev *event) laid(all []stretch, low, high time.Time, zone *time.Location) (more []stretch) {
	defer func() {
		if recover() != nil {
			more = all
		}
	}()
	return ev.between(all, low, high, zone)
}

// between appends the stretches of the event that touch the range.
func (ev *event) between(all []stretch, low, high time.Time, zone *time.Location) []stretch {
	from, err := ev.e.DateTimeStart(zone)
	if err != nil {
		return all // it was read before, in another zone
	}
	to, err := ev.end(from, zone)
	if err != nil {
		return all
	}
	length := to.Sub(from)
	add := func(begin time.Time) {
		end := begin.Add(length)
		if ev.allDay { // whole days, however long the clock makes them
			end = begin.AddDate(0, 0, int((length+12*time.Hour)/(24*time.Hour)))
		}
		if end.After(low) && begin.Before(high) {
			all = append(all, stretch{begin, end})
		}
	}
	if !ev.expands {
		add(from)
		return all
	}
	var set *rrule.Set
	if set, err = ev.e.RecurrenceSet(zone); err != nil || set == nil {
		return all
	}
	// A rule of which nothing comes would be followed to the year 9999.
	if rule := set.GetRRule(); rule != nil && (rule.GetUntil().IsZero() || rule.GetUntil().After(lastTime)) {
		rule.Until(lastTime)
	}
	for _, begin := range set.Between(low.Add(-length-24*time.Hour), high, true) {
		add(begin)
	}
	return all
}
