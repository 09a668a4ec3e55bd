package cron_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/escapement-go/scheduler/engine/cron"
)

// TestSyntaxError_Place wants the fault's place and the hint to be those a person needs.
func TestSyntaxError_Place(t *testing.T) {
	for _, c := range []struct {
		expr    string
		dialect cron.Dialect
		field   cron.Field
		at      string // what the text at Pos begins with
		msg     string // part of Msg
		hint    string // part of Hint
	}{
		{"0 9 * * MNO", cron.Standard, cron.FieldDayOfWeek, "MNO", "no name", "MON"},
		{"0 9 * * MO", cron.Standard, cron.FieldDayOfWeek, "MO", "no name", "MON"},
		{"0 9 * * M0N", cron.Standard, cron.FieldDayOfWeek, "M0N", "neither", "MON"},
		{"0 9 * * MON-FRY", cron.Standard, cron.FieldDayOfWeek, "FRY", "no name", "FRI"},
		{"0 9 * * Monday", cron.Standard, cron.FieldDayOfWeek, "Monday", "no name", "MON"},
		{"0 9 * sept *", cron.Standard, cron.FieldMonth, "sept", "no name", "SEP"},
		{"0 9 * MON *", cron.Standard, cron.FieldMonth, "MON", "no name", "weekday"},
		{"0 9 * * JAN", cron.Standard, cron.FieldDayOfWeek, "JAN", "no name", "month"},
		{"60 9 * * *", cron.Standard, cron.FieldMinute, "60", "outside 0-59", "full hour is 0"},
		{"0 24 * * *", cron.Standard, cron.FieldHour, "24", "outside 0-23", "midnight is 0"},
		{"900 * * * *", cron.Standard, cron.FieldMinute, "900", "outside", "minute first"},
		{"0 0 0 * *", cron.Standard, cron.FieldDayOfMonth, "0 *", "outside 1-31", "last day is L"},
		{"0 9,25 * * *", cron.Standard, cron.FieldHour, "25", "outside", ""},
		{"*5 * * * *", cron.Standard, cron.FieldMinute, "*5", "mixed", "*/5"},
		{"10-5 * * * *", cron.Plain, cron.FieldMinute, "10-5", "backwards", "5-10"},
		{"5/15 * * * *", cron.Plain, cron.FieldMinute, "/15", "single value", "5-59/15"},
		{"0 0 9 * * *", cron.Standard, cron.FieldExpression, "0 0 9", "6 fields", "Seconds"},
		{"0 0 9 * * * *", cron.Standard, cron.FieldExpression, "0 0 9", "7 fields", "Year"},
		{"0 9 * * 1, 2", cron.Standard, cron.FieldExpression, "0 9", "6 fields", ""},
		{"every 5 minutes", cron.Standard, cron.FieldExpression, "every", "3 fields", "*/5 * * * *"},
		{"daily", cron.Standard, cron.FieldExpression, "daily", "1 fields", "@daily"},
		{"@Daily", cron.Standard, cron.FieldExpression, "@Daily", "unknown macro", "@daily"},
		{"@weeky", cron.Standard, cron.FieldExpression, "@weeky", "unknown macro", "@weekly"},
		{"@every 1d", cron.Standard, cron.FieldExpression, "1d", "not a duration", "24h"},
		{"@every 5", cron.Standard, cron.FieldExpression, "5", "not a duration", "5s"},
		{"@every 1ns", cron.Standard, cron.FieldExpression, "1ns", "at least", ""},
		{"\"0 9 * * *\"", cron.Standard, cron.FieldMinute, "\"", "character", "quotes"},
		{"0 9 * * ∗", cron.Standard, cron.FieldDayOfWeek, "∗", "character", "plain *"},
		{"０ 9 * * *", cron.Standard, cron.FieldMinute, "０", "character", "write 0"},
		{"0 9 l * *", cron.Standard, cron.FieldDayOfMonth, "l", "no name", "capitals"},
		{"0 9 * * L", cron.Standard, cron.FieldDayOfWeek, "L", "bare L", "FRIL"},
		{"0 9 LW * *", cron.Plain, cron.FieldDayOfMonth, "LW", "needs the Ext", ""},
		{"H * * * *", cron.Plain, cron.FieldMinute, "H", "no name", "Hashed"},
		{"H(5) * * * *", cron.Standard, cron.FieldMinute, "H(5)", "no form of H", "H(from-to)"},
		{"H(9-1) * * * *", cron.Standard, cron.FieldMinute, "H(9-1)", "backwards", ""},
		{"TZ=UTC", cron.Standard, cron.FieldExpression, "", "nothing after", ""},
		{"TZ= 0 9 * * *", cron.Standard, cron.FieldExpression, " 0 9", "without a zone", "CRON_TZ="},
		{"TZ=UTC 0 9 * * *", cron.Plain, cron.FieldMinute, "=UTC", "character '='", "ZonePrefix"},
		{"0 0 0 ? 1 SAT,SUNL", cron.Quartz, cron.FieldDayOfWeek, "SUNL", "L alone", "of their own"},
		{"0 0 0 ? * 6L,2", cron.Quartz, cron.FieldDayOfWeek, "6L,2", "L alone", "of their own"},
		{"0 0 0 ? * 2,JUL", cron.Quartz, cron.FieldDayOfWeek, "JU", "no name", ""},
		{"0 0 0 ? * 2,6#3", cron.Quartz, cron.FieldDayOfWeek, "6#3", "single #", "of their own"},
		{"0 0 0 ? * 2/2", cron.Quartz &^ cron.NStep, cron.FieldDayOfWeek, "/2", "single value", "MON-SAT/2"},
		{"0 9 * * " + strings.Repeat("1,", 300) + "1", cron.Standard, cron.FieldExpression, "0 9", "1211 bytes with its weekdays by name", ""},
		{strings.Repeat("1,", 600) + "1 * * * *", cron.Standard, cron.FieldExpression, "1,", "1209 bytes", ""},
	} {
		_, err := cron.Parse(c.expr, cron.WithDialect(c.dialect), cron.WithHashKey("k"))
		var e *cron.SyntaxError
		if !errors.As(err, &e) {
			t.Errorf("%q: error %v, want *SyntaxError", c.expr, err)
			continue
		}
		if e.Field != c.field || !strings.HasPrefix(c.expr[e.Pos:], c.at) {
			t.Errorf("%q: fault in %s at %d, want %s at %q", c.expr, e.Field, e.Pos, c.field, c.at)
		}
		if !strings.Contains(e.Msg, c.msg) || !strings.Contains(e.Hint, c.hint) {
			t.Errorf("%q: %v, want %q and %q", c.expr, err, c.msg, c.hint)
		}
		if strings.Contains(err.Error(), "%!") {
			t.Errorf("%q: botched text %v", c.expr, err)
		}
	}
}

func TestOptions_Unknown(t *testing.T) {
	for name, o := range map[string]cron.Options{
		"newer version": {Dialect: (cron.DialectVersion + 1) << 24},
		"unknown flag":  {Dialect: 1 << 20},
		"policy":        {DST: 4},
	} {
		e, err := o.Parse("@daily")
		var option *cron.OptionError
		if !errors.As(err, &option) || !errors.Is(err, cron.ErrOption) || e != nil {
			t.Errorf("%s: %v, %v, want *OptionError", name, e, err)
		}
	}
}

// TestOptions_Stored: an expression comes back from what a schedule stores.
func TestOptions_Stored(t *testing.T) {
	e := cron.MustParse("H H 29,L * *", cron.WithZone("Europe/Dublin"), cron.WithDST(cron.Shift), cron.WithHashKey("bills"))
	o := e.Options()
	if got := o.Dialect.Version(); got != cron.DialectVersion {
		t.Errorf("version = %d, want %d", got, cron.DialectVersion)
	}
	zone, dialect, policy, key := o.Zone, uint32(o.Dialect), uint8(o.DST), o.HashKey
	again, err := cron.Options{Zone: zone, Dialect: cron.Dialect(dialect), DST: cron.DSTPolicy(policy), HashKey: key}.Parse(e.Source())
	if err != nil {
		t.Fatal(err)
	}
	from := at("2024-01-01T00:00:00Z")
	for i, want := range e.NextN(from, 100) {
		if got := again.NextN(from, 100)[i]; !got.Equal(want) {
			t.Fatalf("firing %d = %v, want %v", i, got, want)
		}
	}
}

// TestHash_Golden pins what version 1 draws: a change here moves the ticks of
// schedules that exist.
func TestHash_Golden(t *testing.T) {
	for _, c := range []struct{ expr, key, want string }{
		{"H H H H H", "nightly-report", "2024-09-06T22:59"},
		{"H H * * *", "nightly-report", "2024-01-01T22:59"},
		{"H/15 * * * *", "nightly-report", "2024-01-01T00:14"},
		{"H(10-20) H(0-5) H * *", "mail", "2024-01-06T04:14"},
		{"H H * * H", "\xff", "2024-01-04T22:00"},
	} {
		got := cron.MustParse(c.expr, cron.WithHashKey(c.key)).Next(at("2024-01-01T00:00:00Z")).Format("2006-01-02T15:04")
		if got != c.want {
			t.Errorf("%q for %q fires at %s, want %s", c.expr, c.key, got, c.want)
		}
	}
}
