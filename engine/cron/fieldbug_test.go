package cron_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/escapement-go/scheduler/engine/cron"
)

// Faults that other schedulers had in the field, so that this one does not have them.

// TestFieldBug01_MissingHourFiresOnce: a nightly 02:00 job was launched again and again in
// the night in which 02:00 is missing (hashicorp/nomad#5410). The clock goes on in
// steps of a second, and then of ten minutes; each turn fires what is due.
func TestFieldBug01_MissingHourFiresOnce(t *testing.T) {
	e := cron.MustParse("0 2 * * *", cron.WithZone("America/New_York"))
	start := time.Date(2024, 3, 9, 12, 0, 0, 0, e.Location())
	end := time.Date(2024, 3, 11, 12, 0, 0, 0, e.Location())
	want := []string{"2024-03-10T03:00:00-04:00", "2024-03-11T02:00:00-04:00"}
	for _, step := range []time.Duration{time.Second, 10 * time.Minute} {
		var fired []string
		turns := 0
		due := e.Next(start)
		for now := start; !now.After(end); now = now.Add(step) {
			for !due.After(now) {
				fired = append(fired, due.Format(time.RFC3339))
				next := e.Next(due)
				if !next.After(due) {
					t.Fatalf("Next(%v) = %v, which is not later", due, next)
				}
				due = next
				if turns++; turns > 10 {
					t.Fatal("hot loop")
				}
			}
		}
		if got, want := strings.Join(fired, " "), strings.Join(want, " "); got != want {
			t.Errorf("steps of %v fire %s, want %s", step, got, want)
		}
	}
	// Asked from every second of the night, not only from the firings.
	for now := start; now.Before(end); now = now.Add(time.Second) {
		if next := e.Next(now); !next.After(now) {
			t.Fatalf("Next(%v) = %v, which is not later", now, next)
		}
	}
}

// TestFieldBug02_LastDayOfMonth: "last day of the month" was worked out once as 31, so February was
// lost, and days counted from the end hung in a loop (go-co-op/gocron#660, #554).
func TestFieldBug02_LastDayOfMonth(t *testing.T) {
	from := time.Date(2024, 1, 19, 0, 0, 0, 0, time.UTC)
	for expr, want := range map[string]string{
		"0 0 L * *":   "01-31 02-29 03-31 04-30 05-31 06-30",
		"0 0 L-1 * *": "01-30 02-28 03-30 04-29 05-30 06-29",
		// Every month counted from the 31st is every month's last day.
		"0 0 31,L * *": "01-31 02-29 03-31 04-30 05-31 06-30",
		"0 0 L-30 * *": "03-01 05-01 07-01 08-01 10-01 12-01",
		"0 0 LW * *":   "01-31 02-29 03-29 04-30 05-31 06-28",
	} {
		var got []string
		for _, at := range cron.MustParse(expr).NextN(from, 6) {
			got = append(got, at.Format("01-02"))
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%q fires on %s, want %s", expr, got, want)
		}
	}
}

// TestFieldBug19_ZoneData: in a slim container no zone but UTC was known, and jobs ran in UTC
// without a word (go-co-op/gocron#725). See also its twin, which has no zone database.
func TestFieldBug19_ZoneData(t *testing.T) {
	e, err := cron.Parse("0 9 * * *", cron.WithZone("Europe/Isle_of_Man"))
	if err != nil {
		t.Fatal(err)
	}
	got := e.Next(time.Date(2024, 7, 1, 0, 0, 0, 0, time.UTC))
	if want := time.Date(2024, 7, 1, 8, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("09:00 on the Isle of Man in summer = %v, want %v", got, want)
	}

	// One odd zone among many is one error, typed, and no schedule.
	bad := 0
	for i := range 100 {
		zone := "Europe/Berlin"
		if i == 42 {
			zone = "Mars/Olympus"
		}
		e, err := cron.Parse("0 9 * * *", cron.WithZone(zone))
		var unknown *cron.ZoneError
		switch {
		case err == nil && e.Location().String() != zone:
			t.Errorf("zone %s is read as %s", zone, e.Location())
		case errors.As(err, &unknown):
			if unknown.Zone != "Mars/Olympus" || e != nil {
				t.Errorf("error names %q, schedule is %v", unknown.Zone, e)
			}
			bad++
		}
	}
	if bad != 1 {
		t.Errorf("%d of 100 are refused, want 1", bad)
	}
}

// TestFieldBug21_HashKeys: names were folded or lost. For H any bytes are a key of
// their own: names that differ by case or by normal form draw apart, and nothing in a name is an error
// (dkron-io/dkron#604).
func TestFieldBug21_HashKeys(t *testing.T) {
	names := []string{
		".", "..", "a/b", "a b", "#x", "%00", "\n", "\x00", "😀", "שלום", "jobs", "all", "Jobs",
		"\xff\xfe", "\u00e9", "e\u0301", strings.Repeat("n", 10<<10),
	}
	if utf8.ValidString(names[13]) {
		t.Fatal("want invalid UTF-8 among the names")
	}
	seen := map[string]string{}
	for _, name := range names {
		e, err := cron.Parse("H H H H *", cron.WithHashKey(name))
		if err != nil {
			t.Errorf("key %.20q: %v", name, err)
			continue
		}
		at := e.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).Format("01-02 15:04")
		if other, ok := seen[at]; ok {
			t.Errorf("keys %.20q and %.20q both draw %s", name, other, at)
		}
		seen[at] = name
		if got := e.Options().HashKey; got != name {
			t.Errorf("key %.20q is kept as %.20q", name, got)
		}
	}
	// No key is an error, not a key.
	var syntax *cron.SyntaxError
	if _, err := cron.Parse("H * * * *"); !errors.As(err, &syntax) || syntax.Kind != cron.KindBadHash {
		t.Errorf("H without a key: %v, want a %s", err, cron.KindBadHash)
	}
}
