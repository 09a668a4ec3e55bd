package schedfile_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/escapement-go/scheduler/internal/schedfile"
)

// Every field of the published form is read, as YAML and as JSON.
func TestParse_reads_what_the_schema_has(t *testing.T) {
	data, err := os.ReadFile("schedules.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	type field struct{ Examples []any }
	var schema struct {
		Properties map[string]field
		Defs       struct {
			Schedule struct{ Properties map[string]field }
		} `json:"$defs"`
	}
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	entry := make(map[string]any)
	for name, f := range schema.Defs.Schedule.Properties {
		entry[name] = f.Examples[0]
	}
	file := map[string]any{"schedules": []any{entry}}
	for name, f := range schema.Properties {
		if len(f.Examples) > 0 {
			file[name] = f.Examples[0]
		}
	}
	text, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := schedfile.Parse("x.json", text)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Schedules) != 1 || len(f.Schedules[0].Places) != len(entry) || f.Owner == "" || f.Generation == 0 || !f.Prune {
		t.Errorf("got %+v", f)
	}
	sc := f.Schedules[0]
	if len(sc.Except) != 5 || sc.Except[3].ICS == "" || sc.Except[4].From.IsZero() || !sc.Except[4].To.After(sc.Except[4].From) {
		t.Errorf("exclusions %+v", sc.Except)
	}
	if sc.Custom == nil || sc.Custom.Name != "tides" || string(sc.Custom.Params) != `{"port":"Brest"}` {
		t.Errorf("custom %+v", sc.Custom)
	}
	if want := (schedfile.Canary{Share: 0.1, Failures: 1, MaxLatency: 30 * time.Second, Runs: 20}); sc.Canary == nil || *sc.Canary != want {
		t.Errorf("canary %+v", sc.Canary)
	}
	if got, want := string(f.Schedules[0].Input), `{"to":["a@example.com"]}`; got != want {
		t.Errorf("input %s, want %s", got, want)
	}
}

func TestParse_Faults(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "x:1:1: the file is empty",
		"- a":                     "x:1:1: want a mapping",
		"schedules:\n  - id: [1]": "x:2:9: want a text; x:2:5: the schedule has no task",
		"schedules:\n  - id: a\n    task: b\n    nmae: c":                `x:4:5: unknown field "nmae"`,
		"schedules:\n  - {id: a, task: b, every: 5}":                     `x:2:29: "5" is not a duration such as 90s or 1h30m`,
		"schedules:\n  - {id: a, task: b, id: c}":                        `x:2:22: field "id" comes twice`,
		"schedules:\n  - {id: a, task: b, times: [yesterday]}":           `x:2:30: "yesterday" is not a time such as 2026-01-31T09:00:00Z`,
		"schedules:\n  - {id: a, task: b, attempts: -1, paused: some}":   `x:2:32: "-1" is not a number from 0 to 2147483647; x:2:44: want true or false`,
		"schedules:\n  - {id: a, task: b, meta: {x: y, x: z}}":           `x:2:35: key "x" comes twice`,
		"schedules:\n  - {id: a, task: b, custom: {params: 1}}":          "x:2:30: the trigger has no name",
		"schedules:\n  - {id: a, task: b, canary: {runs: 1}}":            "x:2:30: the trial has no share",
		"schedules:\n  - {id: a, task: b, canary: {share: 2, runs: -1}}": `x:2:38: "2" is not a share from 0.001 to 1; x:2:47: "-1" is not a number from 0 to 2147483647`,
		"schedules:\n  - {id: a, task: b, except: [{since: x}]}":         `x:2:32: unknown field "since"`,
		"schedules: {a: b}":                       "x:1:12: want a list",
		"prune: true\n---\nprune: true":           "x:2:1: a second document: one is read",
		"schedules: []\n---\n a: [b\n":            "x:2:1: did not find expected ',' or ']'",
		"schedules:\n  - id: a\n\ttask: b":        "x:2:1: found a tab character that violates indentation",
		`{"schedules": [{"id": "a", "task": "b"}`: "x:1:1: did not find expected ',' or ']'",
	} {
		_, err := schedfile.Parse("x", []byte(text))
		if err == nil {
			t.Errorf("%q: accepted", text)
			continue
		}
		if got := strings.ReplaceAll(err.Error(), "\n", "; "); got != want {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
		}
		if _, ok := errors.AsType[*schedfile.Error](err); !ok {
			t.Errorf("%q: %v is no Error", text, err)
		}
	}
}

func TestRead_reads_no_more_than_it_takes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	f, err := os.Create(name)
	if err == nil {
		err = errors.Join(f.Truncate(1<<40), f.Close()) // sparse
	}
	if err != nil {
		t.Fatal(err)
	}
	data, err := schedfile.Read(name)
	if err != nil || len(data) != schedfile.MaxBytes+1 {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	if _, err = schedfile.Parse("x", data); err == nil || err.Error() != "x:1:1: the file has more than 4194304 bytes" {
		t.Errorf("Parse: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("schedules:\n  - id: a\n    task: b\n    cron: '* * * * *'\n    input: {x: [1, 2]}\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := schedfile.Parse("x", data)
		if (file == nil) == (err == nil) {
			t.Errorf("%v, %v", file, err)
		}
	})
}
