package cron_test

import (
	"bufio"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/engine/cron"
)

// zoneNames returns all zones that this machine lists.
func zoneNames(t *testing.T) []string {
	t.Helper()
	f, err := os.Open("/usr/share/zoneinfo/tzdata.zi")
	if err != nil {
		t.Skipf("no list of zones here: %v", err)
	}
	defer f.Close()
	var names []string
	for s := bufio.NewScanner(f); s.Scan(); {
		switch f := strings.Fields(s.Text()); {
		case len(f) > 1 && f[0] == "Z":
			names = append(names, f[1])
		case len(f) > 2 && f[0] == "L":
			names = append(names, f[2])
		}
	}
	return names
}

// TestZones_All: in every zone of the database every-minute jobs fire at every whole
// minute of real time whose wall clock has second zero, near and far.
func TestZones_All(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	n := 0
	for _, name := range zoneNames(t) {
		if name == "Factory" {
			continue
		}
		e, err := cron.Parse("* * * * * *", cron.WithDialect(cron.Seconds), cron.WithZone(name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		n++
		daily := cron.MustParse("30 4 * * *", cron.WithZone(name))
		for range 50 {
			at := time.Unix(rng.Int64N(7.2e9), 0)
			if got, want := e.Next(at), at.Add(time.Second); !got.Equal(want) {
				t.Errorf("%s: second after %v = %v", name, at, got)
			}
			if got, want := e.Prev(at), at.Add(-time.Second); !got.Equal(want) && at.Unix() > 1e5 {
				t.Errorf("%s: second before %v = %v", name, at, got)
			}
			next := daily.Next(at)
			if h, m, s := next.Clock(); h*60+m < 4*60+30 || h > 6 || s != 0 || next.Sub(at) > 50*time.Hour {
				t.Errorf("%s: 04:30 after %v = %v", name, at, next)
			}
		}
	}
	if n < 400 {
		t.Errorf("%d zones, want hundreds", n)
	}
}

func TestZones_Refused(t *testing.T) {
	for _, name := range []string{
		"Local", "localtime", "posixrules", "Factory", "right/Europe/Berlin", "posix/UTC", "/etc/localtime", "../zoneinfo/UTC",
		"Europe/../Europe/Berlin", "Europe//Berlin", "Europe/Berlin/", "Europe", "UTC+3", "+03:00", "GMT+3:00", "CEST", "Asia/Shangai", "Europe/Berlin\x00", " UTC",
		"Z", "utc ", "C:\\zone", strings.Repeat("A", 1000),
	} {
		_, err := cron.Parse("@daily", cron.WithZone(name))
		var zone *cron.ZoneError
		if !errors.As(err, &zone) || !errors.Is(err, cron.ErrUnknownZone) {
			t.Errorf("zone %.40q: error %v, want *ZoneError", name, err)
			continue
		}
		if zone.Zone != name || zone.Pos != -1 || zone.Msg == "" {
			t.Errorf("zone %.40q: %#v", name, zone)
		}
		if strings.ContainsAny(name, " \x00") {
			continue
		}
		if _, err := cron.Parse("CRON_TZ=" + name + " @daily"); !errors.As(err, &zone) && len(name) < 900 || zone.Pos > 8 {
			t.Errorf("prefix %.40q: error %v", name, err)
		}
	}
	// The zone that a prefix overrides is checked all the same.
	if _, err := cron.Parse("TZ=UTC @daily", cron.WithZone("Mars/Olympus")); !errors.Is(err, cron.ErrUnknownZone) {
		t.Errorf("overridden zone: error %v", err)
	}
}

// TestExpr_Concurrent shares expressions between goroutines, for the race detector.
func TestExpr_Concurrent(t *testing.T) {
	var wg sync.WaitGroup
	shared := cron.MustParse("30 2 * * *", cron.WithZone("America/New_York"))
	from := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	want := shared.NextN(from, 200)[199]
	for _, zone := range []string{"Asia/Tehran", "Asia/Tehran", "America/Bogota", "America/New_York"} {
		wg.Go(func() {
			if got := shared.NextN(from, 200)[199]; !got.Equal(want) {
				t.Errorf("200th firing = %v, want %v", got, want)
			}
			e := cron.MustParse("0 9 * * *", cron.WithZone(zone))
			if got := e.Next(from).Hour(); got != 9 {
				t.Errorf("%s: fires at %d hours", zone, got)
			}
			_, _ = shared.String(), shared.Lint(from, want)
		})
	}
	wg.Wait()
}
