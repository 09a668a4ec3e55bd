package cron_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/escapement-go/scheduler/engine/cron"
)

func TestParseDialect(t *testing.T) {
	for text, want := range map[string]cron.Dialect{
		"plain": cron.Plain, "standard": cron.Standard, "quartz": cron.Quartz, "standard | year? |and": cron.Standard | cron.OptionalYear | cron.And,
		"plain|seconds": cron.Seconds, "seconds?|hash": cron.OptionalSeconds | cron.Hashed,
	} {
		if got, err := cron.ParseDialect(text); err != nil || got != want.Pinned() {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want.Pinned())
		}
	}
	for _, d := range []cron.Dialect{cron.Plain, cron.Standard, cron.Quartz, cron.Standard | cron.Seconds | cron.Year | cron.And} {
		_, names, _ := strings.Cut(d.Pinned().String(), " ")
		if got, err := cron.ParseDialect(names); err != nil || got != d.Pinned() {
			t.Errorf("%q is read as %v, %v", names, got, err)
		}
	}
	for _, text := range []string{"", "Quartz", "standard,year", "standard|", "v1 plain"} {
		_, err := cron.ParseDialect(text)
		if _, ok := errors.AsType[*cron.OptionError](err); !ok || !strings.Contains(err.Error(), "want plain, standard, quartz") {
			t.Errorf("%q: %v, want an OptionError that names the names", text, err)
		}
	}
}
