package trigger_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/engine/cron"
	"github.com/escapement-go/scheduler/internal/trigger"
	"github.com/escapement-go/scheduler/store"
)

const standard = uint32(cron.Standard | cron.DialectVersion<<24)

func cronTrigger(expr, zone string, except ...store.Exclusion) *store.Trigger {
	return &store.Trigger{Kind: store.TriggerCron, Expr: expr, Zone: zone, Dialect: standard, Except: except}
}

func compile(t *testing.T, data *store.Trigger, env trigger.Env) *trigger.Rule {
	t.Helper()
	r, err := trigger.Compile(data, env)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ticks returns the first n ticks after a time in the rule's zone.
func ticks(t *testing.T, r *trigger.Rule, after string, n int) string {
	t.Helper()
	from, err := time.ParseInLocation("2006-01-02 15:04", after, r.Location())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for at := from.UnixNano(); len(got) < n; {
		if at = r.Next(at); at == 0 {
			got = append(got, "never")
			break
		}
		got = append(got, time.Unix(0, at).In(r.Location()).Format("01-02 15:04"))
	}
	return strings.Join(got, ", ")
}

func day(date string) int32 {
	t, err := time.Parse(time.DateOnly, date)
	if err != nil {
		panic(err)
	}
	return trigger.DayOf(t)
}

func instant(text string) int64 {
	t, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		panic(err)
	}
	return t.UnixNano()
}

func ics(lines ...string) []byte {
	all := append([]string{"BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//x//y//EN"}, lines...)
	return []byte(strings.Join(append(all, "END:VCALENDAR"), "\r\n") + "\r\n")
}

func vevent(lines ...string) []byte {
	return ics(append(append([]string{"BEGIN:VEVENT", "UID:1", "DTSTAMP:20240101T000000Z"}, lines...), "END:VEVENT")...)
}

func TestRule_Exclusions(t *testing.T) {
	for name, c := range map[string]struct {
		trigger *store.Trigger
		after   string
		want    string
	}{
		"days, in the zone": {
			cronTrigger("0 1,23 * * *", "Asia/Tokyo", store.Exclusion{Days: []int32{day("2024-12-25"), day("2024-12-26")}}),
			"2024-12-24 12:00", "12-24 23:00, 12-27 01:00",
		},
		"spans": {
			cronTrigger("0 * * * *", "", store.Exclusion{Spans: []store.Span{
				{From: instant("2024-05-01 10:00"), To: instant("2024-05-01 12:00")}, {From: instant("2024-05-01 11:00"), To: instant("2024-05-01 11:30")},
			}}), "2024-05-01 08:30", "05-01 09:00, 05-01 12:00",
		},
		"a window over midnight": {
			cronTrigger("0 */6 * * *", "", store.Exclusion{Expr: "0 22 * * FRI", Length: int64(10 * time.Hour)}),
			"2024-05-03 11:00", "05-03 12:00, 05-03 18:00, 05-04 12:00",
		},
		"windows that meet leave nothing": {
			cronTrigger("30 2 * * *", "", store.Exclusion{Expr: "0 * * * *", Length: int64(time.Hour)}), "2024-05-03 11:00", "never",
		},
		"ics: a day": {
			cronTrigger("0 12 * * *", "America/New_York", store.Exclusion{ICS: vevent("DTSTART;VALUE=DATE:20240704", "SUMMARY:off")}),
			"2024-07-03 13:00", "07-05 12:00",
		},
		"ics: a yearly holiday of two days": {
			cronTrigger("0 0 * * *", "Europe/Paris", store.Exclusion{ICS: vevent(
				"DTSTART;VALUE=DATE:20200101", "DTEND;VALUE=DATE:20200103", "RRULE:FREQ=YEARLY")}),
			"2026-12-31 12:00", "01-03 00:00",
		},
		"ics: weekly, without one week": {
			cronTrigger("0 9 * * *", "", store.Exclusion{ICS: vevent(
				"DTSTART:20240506T080000Z", "DURATION:PT2H", "RRULE:FREQ=WEEKLY;BYDAY=MO,TU", "EXDATE:20240514T080000Z")}),
			"2024-05-12 10:00", "05-14 09:00, 05-15 09:00",
		},
		"ics: a time without a zone is in the trigger's": {
			cronTrigger("0 9,10 * * *", "Asia/Tokyo", store.Exclusion{ICS: vevent("DTSTART:20240506T083000", "DTEND:20240506T093000")}),
			"2024-05-06 00:00", "05-06 10:00",
		},
		"ics: a recurrence that never comes": {
			cronTrigger("0 9 * * *", "", store.Exclusion{ICS: vevent("DTSTART:20240506T080000Z", "DURATION:PT2H", "RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30")}),
			"2024-05-12 10:00", "05-13 09:00",
		},
		"a window in the zone of a prefix": {
			cronTrigger("TZ=Asia/Tokyo 0 9,12 * * *", "", store.Exclusion{Expr: "0 8 * * *", Length: int64(2 * time.Hour)}),
			"2024-05-01 10:00", "05-01 12:00, 05-02 12:00",
		},
		"days of times, in their zone": {
			&store.Trigger{
				Kind: store.TriggerTimes, Zone: "Asia/Tokyo", Except: []store.Exclusion{{Days: []int32{day("2024-05-02")}}},
				Times: []int64{instant("2024-05-01 14:00"), instant("2024-05-01 16:00"), instant("2024-05-02 16:00")},
			}, "2024-05-01 00:00", "05-01 23:00, 05-03 01:00",
		},
		"several": {
			cronTrigger("0 0 * * *", "", store.Exclusion{Days: []int32{day("2024-05-02")}}, store.Exclusion{Days: []int32{day("2024-05-03")}}),
			"2024-05-01 12:00", "05-04 00:00",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := compile(t, c.trigger, trigger.Env{})
			if got := ticks(t, r, c.after, strings.Count(c.want, ",")+1); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestRule_NamedCalendar(t *testing.T) {
	data := cronTrigger("0 0 * * *", "", store.Exclusion{Calendar: "c"})
	if _, err := trigger.Compile(data, trigger.Env{}); !errors.Is(err, trigger.ErrUnknown) {
		t.Errorf("without the calendar: %v, want ErrUnknown", err)
	}
	cal := &store.Calendar{Name: "c", Except: []store.Exclusion{{Days: []int32{day("2024-05-02")}}, {ICS: vevent("DTSTART;VALUE=DATE:20240503")}}}
	env := trigger.Env{Cache: new(trigger.Cache), Calendar: func(string) *store.Calendar { return cal }}
	for range 2 { // the second shares what the first has laid out
		if got, want := ticks(t, compile(t, data, env), "2024-05-01 12:00", 1), "05-04 00:00"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestCompile_Refuses(t *testing.T) {
	for name, x := range map[string]store.Exclusion{
		"no expression":       {Expr: "nonsense", Length: 1},
		"no length":           {Expr: "0 0 * * *"},
		"no events":           {ICS: ics()},
		"no calendar at all":  {ICS: []byte("nonsense")},
		"no start":            {ICS: vevent("SUMMARY:x")},
		"a bad start":         {ICS: vevent("DTSTART:20241399")},
		"an end before it":    {ICS: vevent("DTSTART:20240102T000000Z", "DTEND:20240101T000000Z")},
		"no end of a time":    {ICS: vevent("DTSTART:20240102T000000Z")},
		"each second":         {ICS: vevent("DTSTART:20240102T000000Z", "DURATION:PT1S", "RRULE:FREQ=SECONDLY")},
		"seconds of a day":    {ICS: vevent("DTSTART:20240102T000000Z", "DURATION:PT1S", "RRULE:FREQ=DAILY;BYSECOND=1,2")},
		"a bad rule":          {ICS: vevent("DTSTART:20240102T000000Z", "DURATION:PT1S", "RRULE:FREQ=SOMETIMES")},
		"a zone nobody knows": {ICS: vevent("DTSTART;TZID=Atlantis/Town:20240102T000000", "DURATION:PT1S")},
		"more than is read":   {ICS: append(vevent("DTSTART;VALUE=DATE:20240102"), make([]byte, trigger.MaxICS)...)},
	} {
		if _, err := trigger.Compile(cronTrigger("0 0 * * *", "", x), trigger.Env{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for name, data := range map[string]*store.Trigger{
		"an interval with exclusions": {Kind: store.TriggerEvery, Every: 1, Except: []store.Exclusion{{Days: []int32{1}}}},
		"a Go trigger nobody has":     {Kind: store.TriggerCustom, Name: "x"},
		"a kind to come":              {Kind: 99},
	} {
		if _, err := trigger.Compile(data, trigger.Env{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Last agrees with walking from tick to tick, whatever the kind.
func TestRule_Last_is_the_last_of_Next(t *testing.T) {
	custom := func(string, []byte) (cron.Schedule, error) { return cron.MustParse("*/7 3-5 * * *"), nil }
	start := instant("2024-03-30 00:00")
	for name, data := range map[string]*store.Trigger{
		"cron":              cronTrigger("*/13 * * * *", "Europe/Paris"),
		"cron without days": cronTrigger("*/13 * * * *", "Europe/Paris", store.Exclusion{Days: []int32{day("2024-03-31")}}),
		"custom":            {Kind: store.TriggerCustom, Name: "x"},
		"every":             {Kind: store.TriggerEvery, Every: int64(11 * time.Minute)},
		"times":             {Kind: store.TriggerTimes, Times: []int64{start + 1, start + 5e12, start + 9e13}},
		"until":             {Kind: store.TriggerEvery, Every: int64(11 * time.Minute), Until: start + int64(5*time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			r := compile(t, data, trigger.Env{Custom: custom})
			armed := r.Next(start)
			last := armed
			for at := armed; at < armed+int64(60*time.Hour); at += int64(7*time.Minute) + 1 {
				for next := r.Next(last); next != 0 && next <= at; next = r.Next(last) {
					last = next
				}
				if got := r.Last(armed, at); got != last {
					t.Fatalf("Last at %v: got %v, want %v", time.Unix(0, at).UTC(), time.Unix(0, got).UTC(), time.Unix(0, last).UTC())
				}
			}
		})
	}
}

// However far it is to the last tick, finding it costs little.
func TestRule_Last_does_not_count_ticks(t *testing.T) {
	asked := 0
	custom := func(string, []byte) (cron.Schedule, error) { return counting{&asked}, nil }
	r := compile(t, &store.Trigger{Kind: store.TriggerCustom, Name: "x"}, trigger.Env{Custom: custom})
	from := instant("2024-01-01 00:00")
	at := from + int64(50*365*24*time.Hour)
	if got := r.Last(r.Next(from), at); got != at {
		t.Errorf("got %v", time.Unix(0, got).UTC())
	}
	if asked > 200 {
		t.Errorf("Next was asked %d times", asked)
	}
}

// counting ticks each second.
type counting struct{ asked *int }

func (c counting) Next(after time.Time) time.Time {
	*c.asked++
	return after.Truncate(time.Second).Add(time.Second)
}

func TestRule_EndsAtTheEndOfTime(t *testing.T) {
	for _, data := range []*store.Trigger{
		cronTrigger("* * * * *", ""), {Kind: store.TriggerEvery, Every: 1 << 40}, {Kind: store.TriggerTimes, Times: []int64{1}},
	} {
		r := compile(t, data, trigger.Env{})
		for _, at := range []int64{math.MaxInt64, math.MaxInt64 - 1} {
			if got := r.Next(at); got != 0 {
				t.Errorf("kind %d: Next(%d) = %d", data.Kind, at, got)
			}
		}
	}
}

func FuzzCompile_ICS(f *testing.F) {
	f.Add(vevent("DTSTART;VALUE=DATE:20240704"))
	f.Add(vevent("DTSTART:20240506T080000Z", "DURATION:PT2H", "RRULE:FREQ=WEEKLY;BYDAY=MO,TU", "EXDATE:20240514T080000Z"))
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := trigger.Compile(cronTrigger("0 12 * * *", "Europe/Paris", store.Exclusion{ICS: append([]byte(nil), file...)}), trigger.Env{})
		if err != nil {
			return
		}
		at := instant("2024-05-01 00:00")
		for range 3 {
			next := r.Next(at)
			if next != 0 && next <= at {
				t.Fatal(fmt.Sprint("Next(", at, ") = ", next))
			}
			at = next
		}
	})
}
