package telemetry_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/escapement-go/scheduler/internal/telemetry"
	"github.com/escapement-go/scheduler/store"
)

func TestMetrics(t *testing.T) {
	type want = map[string]map[string]float64
	for _, test := range []struct {
		name string
		do   func(*telemetry.Telemetry)
		want want
	}{
		{
			"enqueued runs are counted by task",
			func(t *telemetry.Telemetry) { t.Enqueued("mail", 3); t.Enqueued("mail", 2); t.Enqueued("pdf", 1) },
			want{"runs.enqueued": {"task=mail": 5, "task=pdf": 1}},
		},
		{
			"a start is counted and its lateness recorded",
			func(t *telemetry.Telemetry) { t.Started("mail", time.Millisecond); t.Started("mail", -time.Second) },
			want{"runs.started": {"task=mail": 2}, "run.start_lateness": {"task=mail": 2}},
		},
		{
			"an attempt that is to be retried ends no run",
			func(t *telemetry.Telemetry) { t.Finished("mail", store.OutcomeFailed, store.Scheduled, time.Second) },
			want{
				"attempts.finished": {"outcome=failed task=mail": 1},
				"attempt.duration":  {"outcome=failed task=mail": 1},
			},
		},
		{
			"the last attempt ends its run",
			func(t *telemetry.Telemetry) { t.Finished("mail", store.OutcomePermanent, store.Failed, time.Second) },
			want{
				"runs.finished":     {"state=failed task=mail": 1},
				"attempts.finished": {"outcome=permanent task=mail": 1},
				"attempt.duration":  {"outcome=permanent task=mail": 1},
			},
		},
		{
			"a run that ends without an attempt counts as a run alone",
			func(t *telemetry.Telemetry) { t.Finished("mail", 0, store.Expired, 0) },
			want{"runs.finished": {"state=expired task=mail": 1}},
		},
		{
			"an unknown duration is not recorded",
			func(t *telemetry.Telemetry) { t.Finished("mail", store.OutcomeCrashed, store.Scheduled, 0) },
			want{"attempts.finished": {"outcome=crashed task=mail": 1}},
		},
		{
			"words of a newer version are kept apart from ours",
			func(t *telemetry.Telemetry) {
				t.Finished("mail", 200, 200, 0)
				t.LeaseEnded(200)
				t.Tick(200)
			},
			want{
				"runs.finished":     {"state=unknown task=mail": 1},
				"attempts.finished": {"outcome=unknown task=mail": 1},
				"leases.ended":      {"outcome=unknown": 1},
				"ticks":             {"outcome=unknown": 1},
			},
		},
		{
			"leases are counted by how they ended",
			func(t *telemetry.Telemetry) {
				t.LeaseEnded(store.OutcomeCrashed)
				t.LeaseEnded(store.OutcomeCanceled)
				t.LeaseEnded(0)
			},
			want{"leases.ended": {"outcome=crashed": 1, "outcome=canceled": 1}},
		},
		{
			"ticks are counted by outcome",
			func(t *telemetry.Telemetry) { t.Tick(store.TickRan); t.Tick(store.TickBlocked); t.Tick(0) },
			want{"ticks": {"outcome=ran": 1, "outcome=blocked": 1}},
		},
		{
			"a commit is recorded in three ways",
			func(t *telemetry.Telemetry) { t.Committed(7, 900, time.Millisecond) },
			want{"commit.duration": {"": 1}, "commit.batch_size": {"": 1}, "commit.entry_size": {"": 1}},
		},
		{
			"a flush that failed is an error and nothing else",
			func(t *telemetry.Telemetry) {
				t.Flushed(10, time.Millisecond, nil)
				t.Flushed(20, time.Millisecond, errors.New("disk full"))
			},
			want{"flush.duration": {"": 1}, "flush.rows": {"": 1}, "flush.errors": {"": 1}},
		},
		{
			"leadership changes only when it is said to be another",
			func(t *telemetry.Telemetry) {
				for _, leading := range []bool{false, true, true, false, true} {
					t.Leader(leading)
				}
			},
			want{"leader": {"": 1}, "leader.changes": {"": 3}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			tel, reader := newMetrics(t)
			test.do(tel)
			got := make(want)
			for name, m := range collect(t, reader) {
				if v := nonzero(values(t, m)); len(v) > 0 {
					got[name] = v
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
		})
	}
}

// touchAll makes every metric have a value.
func touchAll(tel *telemetry.Telemetry) {
	touchCounters(tel)
	tel.ObserveNodes(func() []telemetry.NodeGauge { return []telemetry.NodeGauge{{Node: "b", Clock: true}} })
	tel.ObserveQueues(func() []telemetry.QueueGauge {
		return []telemetry.QueueGauge{{Queue: "default", Ready: 1, OldestAge: time.Second}}
	})
}

// A documented metric is a row of the table in doc.go, meaning left out.
type documented struct{ Kind, Unit, Attributes string }

func TestMetrics_are_what_the_package_comment_lists(t *testing.T) {
	want := make(map[string]documented)
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(source)) {
		row, ok := strings.CutPrefix(line, "//\tescapement.")
		if !ok {
			continue
		}
		column := func(from, to int) string { return strings.TrimSpace(row[from:to]) }
		want[column(0, 21)] = documented{column(21, 32), column(32, 43), column(43, 59)}
	}

	tel, reader := newMetrics(t)
	touchAll(tel)
	got := make(map[string]documented)
	for name, m := range collect(t, reader) {
		if m.Description == "" {
			t.Errorf("%s has no description", name)
		}
		got[name] = documented{kind(m.Data), m.Unit, attributes(t, m)}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-documented +collected):\n%s", diff)
	}
}

func kind(data metricdata.Aggregation) string {
	switch data := data.(type) {
	case metricdata.Sum[int64]:
		if data.IsMonotonic {
			return "counter"
		}
		return "updown"
	case metricdata.Gauge[float64]:
		return "gauge"
	default:
		return "histogram"
	}
}

// attributes names the attributes of a metric as the table does.
func attributes(t *testing.T, m metricdata.Metrics) string {
	t.Helper()
	keys := make(map[string]bool)
	for set := range values(t, m) {
		for word := range strings.FieldsSeq(set) {
			key, _, _ := strings.Cut(word, "=")
			keys[key] = true
		}
	}
	var in []string
	for _, key := range []string{"task", "queue", "state", "outcome", "node"} {
		if keys[key] {
			in = append(in, key)
			delete(keys, key)
		}
	}
	if len(keys) > 0 {
		t.Errorf("%s has attributes %v", m.Name, keys)
	}
	return strings.Join(in, ", ")
}

func TestMetrics_have_buckets_made_for_them(t *testing.T) {
	tel, reader := newMetrics(t)
	touchAll(tel)
	type bounds struct{ First, Last float64 }
	want := map[string]bounds{
		"run.start_lateness": {10e-6, 60},
		"attempt.duration":   {1e-3, 86400},
		"commit.duration":    {50e-6, 10},
		"flush.duration":     {1e-3, 60},
		"commit.batch_size":  {1, 4096},
		"commit.entry_size":  {256, 16 << 20},
		"flush.rows":         {1, 1 << 20},
	}
	got := make(map[string]bounds)
	for name, m := range collect(t, reader) {
		var b []float64
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			b = data.DataPoints[0].Bounds
		case metricdata.Histogram[int64]:
			b = data.DataPoints[0].Bounds
		default:
			continue
		}
		if !slices.IsSorted(b) {
			t.Errorf("%s: bounds are not sorted: %v", name, b)
		}
		got[name] = bounds{b[0], b[len(b)-1]}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bounds (-want +got):\n%s", diff)
	}
}

func TestMetrics_know_every_word_of_the_store(t *testing.T) {
	tel, reader := newMetrics(t)
	for i := uint8(1); store.Outcome(i).String() != "unknown"; i++ {
		tel.LeaseEnded(store.Outcome(i))
	}
	for i := uint8(1); store.TickOutcome(i).String() != "unknown"; i++ {
		tel.Tick(store.TickOutcome(i))
	}
	for i := uint8(0); store.RunState(i).String() != "unknown"; i++ {
		tel.Finished("mail", 0, store.RunState(i), 0)
	}
	for name, m := range collect(t, reader) {
		for set, n := range values(t, m) {
			if strings.Contains(set, "unknown") || (set != "" && set != "task=mail" && n != 1) {
				t.Errorf("%s{%s} = %v, want 1 and a known word", name, set, n)
			}
		}
	}
}
