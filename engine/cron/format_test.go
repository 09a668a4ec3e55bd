package cron_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/escapement-go/scheduler/engine/cron"
)

func TestExpr_String(t *testing.T) {
	for _, c := range []struct {
		in, want string
		dialect  cron.Dialect
	}{
		{"  00   09 *\t* MON-FRI ", "0 9 * * MON-FRI", cron.Standard},
		{"0 9 * * 1-5", "0 9 * * MON-FRI", cron.Standard},
		{"0 9 ? jan,FEB 7", "0 9 * 1,2 SUN", cron.Standard},
		{"0 0 * * 0-7", "0 0 * * 0-7", cron.Standard},
		{"0 0 * * 7-2/2", "0 0 * * SUN-TUE/2", cron.Standard},
		{"0 0 * * FRI-7", "0 0 * * FRI-SUN", cron.Standard},
		{"5-5 0 L-0 * 5L", "5 0 L * FRI#L", cron.Standard},
		{"0 0 LW * +mon#2,fri#L", "0 0 LW * +MON#2,FRI#L", cron.Standard},
		{"0 0 L-3W * *", "0 0 L-3W * *", cron.Standard},
		{"H H(1-5) 1/10 */3 H(0-4)/2", "H H(1-5) 1/10 */3 H(SUN-THU)/2", cron.Standard},
		{"0 0 * * H(0-7)", "0 0 * * H(0-7)", cron.Standard},
		{"0 0 * * H(5-SUN)", "0 0 * * H(FRI-SUN)", cron.Standard},
		{"TZ=Asia/Tokyo @midnight", "CRON_TZ=Asia/Tokyo @daily", cron.Standard},
		{"@annually", "@yearly", cron.Standard},
		{"@every 90m", "@every 1h30m0s", cron.Standard},
		{"0 15 10 ? * 6L 2024-2025", "0 15 10 ? * FRI#L 2024-2025", cron.Quartz},
		{"0 0 0 L * ?", "0 0 0 L * ?", cron.Quartz},
		{"0 0 0 ? * L", "0 0 0 ? * SAT", cron.Quartz},
		{"0 0 0 ? * 6-2", "0 0 0 ? * FRI-MON", cron.Quartz},
		{"0 0 0 ? * H(6-SUN)", "0 0 0 ? * H(FRI-SUN)", cron.Quartz | cron.Hashed},
	} {
		e, err := cron.Parse(c.in, cron.WithDialect(c.dialect), cron.WithHashKey("k"))
		if err != nil {
			t.Errorf("Parse(%q): %v", c.in, err)
			continue
		}
		if got := e.String(); got != c.want {
			t.Errorf("%q is written %q, want %q", c.in, got, c.want)
		}
		checkRoundTrip(t, e)
	}
}

// quartzDays is what no other flag says of Quartz: how it numbers weekdays, and its ?.
const quartzDays = cron.Quartz &^ (cron.Seconds | cron.OptionalYear | cron.NStep | cron.Wrap | cron.Ext)

// TestExpr_String_EveryItem writes whatever each dialect makes of each item, alone, in lists and with a +: the same
// dialect must read it again, as the same tree.
func TestExpr_String_EveryItem(t *testing.T) {
	for _, f := range []struct {
		name, ends, more string // the ends of ranges, and items besides
		pattern, quartz  string
		least            int // how many texts, dialects counted, are no error
	}{
		{"second", "0 5 59", "", "%s 0 0 * * *", "%s 0 0 ? * *", 14000},
		{"minute", "0 5 59", "", "0 %s 0 * * *", "0 %s 0 ? * *", 14000},
		{"hour", "0 07 23", "", "0 0 %s * * *", "0 0 %s ? * *", 14000},
		{"day of month", "1 15 31", "? L LW L-0 L-3 L-0W L-30W 1W 31W", "0 0 0 %s * *", "0 0 0 %s * ?", 14000},
		{"month", "1 12 JAN jul DEC", "", "0 0 0 1 %s *", "0 0 0 1 %s ?", 14000},
		{"weekday", "0 1 6 7 SUN mon SAT", "? L 1L 7L SUNL 1#1 7#5 sat#2 SUN#L", "0 0 0 * * %s", "0 0 0 ? * %s", 14000},
		{"year", "1970 2024 2199", "", "0 0 0 * * * %s", "0 0 0 ? * * %s", 7000},
	} {
		t.Run(f.name, func(t *testing.T) {
			read := 0
			texts := fieldTexts(strings.Fields(f.ends), strings.Fields(f.more))
			for _, d := range subsets(cron.NStep, cron.Wrap, cron.Ext, cron.Hashed, quartzDays) {
				pattern := f.pattern
				if d.Has(quartzDays) {
					pattern = f.quartz
				}
				o := cron.Options{Dialect: d | cron.Seconds | cron.OptionalYear, HashKey: "k"}
				for _, text := range texts {
					e, err := o.Parse(fmt.Sprintf(pattern, text))
					if err != nil {
						continue
					}
					read++
					readAgain(t, e)
				}
			}
			if read < f.least {
				t.Errorf("%d texts are read, want at least %d: the test has lost its subject", read, f.least)
			}
		})
	}
}

// fieldTexts returns every kind of item that can be made of the ends, and more, alone, first and last in a list, and
// behind a +.
func fieldTexts(ends, more []string) (texts []string) {
	items := append([]string{"*", "H"}, more...)
	for _, from := range ends {
		items = append(items, from)
		for _, to := range ends {
			items = append(items, from+"-"+to, "H("+from+"-"+to+")")
		}
	}
	for _, step := range []string{"/1", "/02", "/9999"} {
		for _, item := range slices.Clone(items) {
			items = append(items, item+step)
		}
	}
	others := append([]string{ends[1], ends[0] + "-" + ends[len(ends)-1], "*/2", "H"}, more...)
	for _, item := range items {
		texts = append(texts, item, "+"+item)
		for _, other := range others {
			texts = append(texts, item+","+other, other+","+item)
		}
	}
	return texts
}

// subsets returns every combination of the flags.
func subsets(flags ...cron.Dialect) []cron.Dialect {
	all := []cron.Dialect{0}
	for _, f := range flags {
		for _, d := range slices.Clone(all) {
			all = append(all, d|f)
		}
	}
	return all
}

// TestExpr_String_EveryShape does the same with the things that stand round the fields.
func TestExpr_String_EveryShape(t *testing.T) {
	var texts []string
	for _, prefix := range []string{"", "TZ=UTC ", "\tCRON_TZ=Asia/Tokyo\t "} {
		for _, body := range []string{
			"@yearly", "@annually", "@monthly", "@weekly", "@daily ", "@midnight", "@hourly",
			"@every 1ms", "@every 0.25h", "@every \t2562047h47m16.854775807s", "@every 1.000001ms",
			"1 2 3 4 5", "1 2 ? 4 5", "1 2 3 4 ?", "1 2 3 4 +5", "1 2 ? 4 +?", "1 2 * 4 +*", "1 2 ? 4 +L", "1 2 ? 4 6#2",
		} {
			texts = append(texts, prefix+body, prefix+"0 "+body, prefix+body+" 2024", prefix+"0 "+body+" 2024-2030/2")
		}
	}
	read := 0
	for _, d := range subsets(cron.Seconds, cron.OptionalSeconds, cron.Year, cron.OptionalYear, cron.Every, cron.ZonePrefix, cron.And, quartzDays) {
		for _, text := range texts {
			if e, err := (cron.Options{Dialect: d}).Parse(text); err == nil {
				read++
				readAgain(t, e)
			}
		}
	}
	if read < 5000 {
		t.Errorf("%d texts are read, want at least 5000: the test has lost its subject", read)
	}
}

// TestExpr_String_Length: what is short enough to be read is, once written, short enough to be read again.
func TestExpr_String_Length(t *testing.T) {
	for _, item := range []string{"1", "1-2", "1L", "1#2", "H(1-2)", "SUNL", "1/2", "*"} {
		for n := 1; ; n++ {
			text := "TZ=America/Argentina/ComodRivadavia 0 0 * * " + strings.Repeat(item+",", n) + "1"
			e, err := cron.Parse(text, cron.WithHashKey("k"))
			if err == nil {
				readAgain(t, e)
				continue
			}
			var syntax *cron.SyntaxError
			if !errors.As(err, &syntax) || syntax.Kind != cron.KindTooLong || len(text) < cron.MaxLength/2 {
				t.Errorf("%d bytes of %s: %v", len(text), item, err)
			}
			break
		}
	}
}
