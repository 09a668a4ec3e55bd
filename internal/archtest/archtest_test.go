package archtest_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/escapement-go/scheduler/internal/archtest"
)

// made is the module of the made-up packages: the real table's, so that its rows are what is proven.
const made = "github.com/escapement-go/scheduler"

// pkg makes up a package of ours; "" is the root.
func pkg(rel string, imports ...string) archtest.Package {
	return archtest.Package{ImportPath: strings.TrimSuffix(made+"/"+rel, "/"), Imports: imports}
}

// wheres cuts faults down to what a table of cases can name.
func wheres(faults []archtest.Fault) []string {
	var got []string
	for _, f := range faults {
		got = append(got, strings.TrimPrefix(strings.TrimPrefix(f.Where, made), "/")+": "+f.What)
	}
	return got
}

func check(t *testing.T, got []archtest.Fault, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, wheres(got)); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestCheckArrows(t *testing.T) {
	for _, tc := range []struct {
		name string
		pkg  archtest.Package
		want []string
	}{
		{"the root wires the rooms", pkg("", made+"/cluster", made+"/store", made+"/engine/cron", made+"/internal/clock"), nil},
		{"a room may use the clock", pkg("worker", made+"/internal/clock", made+"/store"), nil},
		{"an example may be anywhere below examples", pkg("examples/cluster/node", made), nil},
		{"others' packages are no arrow", pkg("dag", "fmt", "example.com/engine"), nil},
		{"the root uses nothing optional", pkg("", made+"/ai", made+"/worker/remote"), []string{
			": may not import " + made + "/ai", ": may not import " + made + "/worker/remote",
		}},
		{"no arrow points back at the root", pkg("worker", made), []string{"worker: may not import " + made}},
		{"store does not know how it is kept", pkg("store", made+"/store/boltstore"), []string{
			"store: may not import " + made + "/store/boltstore",
		}},
		{"engine knows nothing of ours", pkg("engine", made+"/engine/cron"), []string{
			"engine: may not import " + made + "/engine/cron",
		}},
		{"pure packages have no clock", pkg("store", made+"/internal/clock"), []string{
			"store: may not import " + made + "/internal/clock",
		}},
		{"rooms do not know each other", pkg("internal/dispatch", made+"/cluster"), []string{
			"internal/dispatch: may not import " + made + "/cluster",
		}},
		{"an unknown room", pkg("util", "fmt"), []string{"util: has no row in the import table of internal/archtest"}},
		{"a row is not a tree", pkg("dag/sub"), []string{"dag/sub: has no row in the import table of internal/archtest"}},
		{"a package that does not load", archtest.Package{
			ImportPath: made + "/dag", Error: &archtest.ListError{Err: "expected 'package'"},
		}, []string{"dag: does not load: expected 'package'"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check(t, archtest.CheckArrows(archtest.Escapement, []archtest.Package{tc.pkg}), tc.want...)
		})
	}
}

func TestCheckHomes(t *testing.T) {
	const (
		raft = "github.com/hashicorp/raft"
		bolt = "go.etcd.io/bbolt"
		grpc = "google.golang.org/grpc"
		oai  = "github.com/openai/openai-go"
	)
	ok := []archtest.Package{
		pkg("cluster", raft, raft+"-boltdb/v2", bolt), pkg("store/boltstore", bolt), pkg("console", "html/template"),
		pkg("worker/remote", grpc+"/codes"), pkg("ai", oai+"/v3"), pkg("store/storetest", "testing"),
		{ImportPath: "example.com/other", Imports: []string{grpc}},
	}
	check(t, archtest.CheckHomes(archtest.Escapement, ok))

	for _, tc := range []struct{ rel, imp string }{
		{"", raft},
		{"store", bolt},
		{"worker", raft + "-boltdb/v2"},
		{"store/boltstore", raft},
		{"worker", grpc + "/status"},
		{"console", oai + "/v3/option"},
		{"ai/mcp", oai + "/v3"},
		{"", "html/template"},
		{"worker", "testing"},
		{"internal/telemetry", "go.opentelemetry.io/otel/sdk/metric"},
		{"engine/cron", "github.com/robfig/cron/v3"},
	} {
		t.Run(tc.rel+" "+tc.imp, func(t *testing.T) {
			got := archtest.CheckHomes(archtest.Escapement, []archtest.Package{pkg(tc.rel, tc.imp)})
			if len(got) != 1 || !strings.Contains(got[0].What, "may not import "+tc.imp) {
				t.Errorf("got %v, want one fault about %s", got, tc.imp)
			}
		})
	}
}

func TestCheckLinks(t *testing.T) {
	root := archtest.Package{ImportPath: made, Deps: []string{
		"fmt", "github.com/hashicorp/raft", "html/template", made + "/worker", "google.golang.org/grpc/codes",
		"github.com/openai/openai-go/v3", made + "/console", "google.golang.org/grpcish",
	}}
	other := archtest.Package{ImportPath: made + "/worker/remote", Deps: []string{"google.golang.org/grpc"}}
	check(t, archtest.CheckLinks(archtest.Escapement, []archtest.Package{root, other}),
		": must not link google.golang.org/grpc/codes",
		": must not link github.com/openai/openai-go/v3",
		": must not link "+made+"/console")
}

func TestCheckPure(t *testing.T) {
	impure := `package store
import ("os"; "log/slog"; "math/rand/v2"; clock "time"; "example.com/time2"; "sync/atomic")
func f() {
	go f()
	_, _ = clock.Now(), clock.Second
	clock.AfterFunc(1, f)
	time2.Now()
}
`
	fset, sources, err := archtest.ReadSources(fstest.MapFS{
		"store/a.go":           {Data: []byte(impure)},
		"store/a_test.go":      {Data: []byte(impure)},
		"store/boltstore/a.go": {Data: []byte(impure)},
		"store/gen.go":         {Data: []byte("//go:build ignore\n\npackage main\n\nimport \"os\"\n")},
		"store/testdata/a.go":  {Data: []byte("not Go")},
		"dag/dot.go":           {Data: []byte("package dag\n\nimport . \"time\"\n")},
		"engine/wheel.go":      {Data: []byte("package engine\n\nimport \"time\"\n\nvar tick = 100 * time.Millisecond\n")},
		"engine/cron/zone.go":  {Data: []byte("package cron\n\nimport (\n\t\"sync\"\n\t\"time\"\n)\n\nvar m sync.Map\n\nvar d = time.Since(time.Time{})\n")},
		"bench/go.mod":         {Data: []byte("module bench\n")},
		"bench/main.go":        {Data: []byte("not Go")},
	})
	if err != nil {
		t.Fatal(err)
	}
	check(t, archtest.CheckPure(archtest.Escapement, fset, sources),
		"dag/dot.go:3:8: a pure package does not hide package time behind a dot import",
		"engine/cron/zone.go:10:9: a pure package takes the time as an argument: no time.Since",
		"store/a.go:2:9: a pure package does not import os",
		"store/a.go:2:15: a pure package does not import log/slog",
		"store/a.go:2:27: a pure package does not import math/rand/v2",
		"store/a.go:2:78: a pure package does not import sync/atomic",
		"store/a.go:4:2: a pure package starts no goroutine",
		"store/a.go:5:9: a pure package takes the time as an argument: no time.Now",
		"store/a.go:6:2: a pure package takes the time as an argument: no time.AfterFunc")
}

func TestForeignImports_sees_the_files_of_other_platforms(t *testing.T) {
	_, sources, err := archtest.ReadSources(fstest.MapFS{
		"worker/timer_plan9.go": {Data: []byte("package worker\n\nimport (\n\t\"fmt\"\n\t\"go.etcd.io/bbolt\"\n)\n")},
		"worker/gen.go":         {Data: []byte("//go:build ignore\n\npackage main\n\nimport \"google.golang.org/grpc\"\n")},
		"worker/plan9_test.go":  {Data: []byte("package worker\n\nimport \"google.golang.org/grpc\"\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := pkg("worker", "fmt")
	p.Name = "worker"
	p.IgnoredGoFiles = []string{"gen.go", "plan9_test.go", "timer_plan9.go"}
	got := archtest.ForeignImports(archtest.Escapement, []archtest.Package{p}, sources)
	if diff := cmp.Diff([]string{"fmt", "go.etcd.io/bbolt"}, got[0].Imports); diff != "" {
		t.Errorf("imports (-want +got):\n%s", diff)
	}
}

func TestCheckLengths(t *testing.T) {
	file := func(lines int) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("package p\n" + strings.Repeat("\n", lines-1))}
	}
	tree := fstest.MapFS{
		"dag/full.go":             file(10),
		"dag/long.go":             file(11),
		"dag/long_gen.go":         file(999),
		"dag/long_gen_test.go":    file(999),
		"dag/full_test.go":        file(20),
		"dag/long_test.go":        file(21),
		"dag/testdata/long.go":    file(999),
		".cache/long.go":          file(999),
		"bench/go.mod":            {Data: []byte("module bench\n")},
		"bench/long.go":           file(11),
		"worker/remote/api.pb.go": file(999),
	}
	for i := range 3 {
		tree[fmt.Sprintf("root%d.go", i)] = file(1)
		tree[fmt.Sprintf("root%d_test.go", i)] = file(1)
	}
	limits := archtest.Lengths{File: 10, Test: 20, RootFiles: 3}
	got, err := archtest.CheckLengths(limits, tree)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"bench/long.go: has 11 lines, more than 10: split it by idea",
		"dag/long.go: has 11 lines, more than 10: split it by idea",
		"dag/long_test.go: has 21 lines, more than 20: split it by idea",
	}
	check(t, got, want...)

	tree["root.go"] = file(1)
	got, err = archtest.CheckLengths(limits, tree)
	if err != nil {
		t.Fatal(err)
	}
	check(t, got, append(want, ".: has 4 non-test files, more than 3")...)
}

func TestReadPackages(t *testing.T) {
	got, err := archtest.ReadPackages(strings.NewReader(`{"ImportPath":"a"}` + "\n" + `{"ImportPath":"b","Error":{"Err":"x"}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []archtest.Package{{ImportPath: "a"}, {ImportPath: "b", Error: &archtest.ListError{Err: "x"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("packages (-want +got):\n%s", diff)
	}
	if _, err := archtest.ReadPackages(strings.NewReader(`{"ImportPath":`)); err == nil {
		t.Error("cut output: got no error")
	}
}
