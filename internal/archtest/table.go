package archtest

import "strings"

// A Table is the architecture: the rows say who may import whom inside the module, the homes say where a module
// from outside may be imported. Paths of our own are relative to the module, "." being the root; "x/..." is x
// and everything below it.
type Table struct {
	Module         string
	Rows           []Row
	Everyone       []string // may be imported by every package that is not pure
	Homes          []Home
	RootNeverLinks []string // neither directly nor through others; "./x" is a path of our own
}

// A Row is one package, or one tree of packages.
type Row struct {
	Path string
	May  []string // those of our packages that it may import
	Pure bool     // takes time and input as arguments and returns effects: see [CheckPure]
	But  []string // what a pure package imports all the same; its reason stands beside it
}

// A Home is where an outside module may be imported; In is empty for what only tests and benchmarks may use.
type Home struct {
	Module string
	In     []string
	Why    string
}

// Escapement is the table of this module. An arrow that is missing here is missing on purpose: whoever needs one
// adds it, together with the reason, in the change that uses it.
var Escapement = Table{
	Module: "github.com/escapement-go/scheduler",

	Rows: []Row{
		// The root wires the rooms together.
		{Path: ".", May: []string{
			"cluster", "worker", "internal/dispatch", "engine", "engine/cron", "dag", "store", "store/boltstore",
			"store/memstore", "internal/precise", "internal/session", "internal/telemetry", "internal/trigger",
			"internal/schedfile", "internal/ask",
		}},

		// Pure cores.
		{Path: "engine", Pure: true},
		// The zones that cron has loaded are the same for every reader, and never change: a sync.Map of them is no state.
		{Path: "engine/cron", Pure: true, But: []string{"sync"}},
		{Path: "dag", Pure: true},
		{Path: "store", Pure: true, May: []string{"dag"}},

		// Shells around the cores.
		{Path: "store/boltstore", May: []string{"store", "internal/boltfile"}},
		{Path: "store/memstore", May: []string{"store"}},
		{Path: "store/storetest", May: []string{"store"}},
		{Path: "cluster", May: []string{"store", "cluster/seglog", "internal/boltfile", "internal/telemetry"}},
		{Path: "cluster/seglog"},
		{Path: "worker", May: []string{"store", "internal/precise", "internal/telemetry"}},
		{Path: "internal/dispatch", May: []string{"store", "engine", "internal/precise", "internal/telemetry"}},
		{Path: "internal/session", May: []string{"store", "worker", "internal/dispatch"}},

		// What a trigger's data means. It says when, and so knows what says it of cron expressions.
		{Path: "internal/trigger", May: []string{"store", "engine/cron"}},

		// Go triggers fail as handlers do.
		{Path: "internal/ask", May: []string{"store", "engine/cron", "worker", "internal/dispatch", "internal/trigger"}},

		{Path: "internal/schedfile"},

		// Small tools that the rooms share.
		{Path: "internal/boltfile"},
		{Path: "internal/clock"},
		{Path: "internal/precise"},
		{Path: "internal/telemetry", May: []string{"store"}},

		// What only some applications use. Nothing that the root links imports these. Those that answer a person
		// also read the two pure packages whose errors are part of the public API.
		{Path: "worker/remote", May: []string{".", "worker"}},
		{Path: "worker/exec", May: []string{".", "worker"}},
		{Path: "ai", May: []string{".", "engine/cron", "dag"}},
		{Path: "ai/mcp", May: []string{".", "ai", "engine/cron", "dag"}},
		{Path: "console", May: []string{".", "engine/cron", "dag"}},
		{Path: "schedulertest", May: []string{"."}},
		{Path: "examples/...", May: []string{
			".", "cluster", "worker", "worker/remote", "worker/exec", "ai", "ai/mcp", "console", "schedulertest",
			"engine/cron", "dag",
		}},

		// Proof: these look at everything.
		{Path: "internal/archtest"},
		{Path: "internal/crashtest", May: []string{"."}},
		{Path: "internal/sim", May: []string{
			".", "cluster", "cluster/seglog", "worker", "internal/dispatch", "engine", "engine/cron", "dag", "store",
			"store/boltstore", "store/memstore", "internal/precise", "internal/telemetry",
		}},
		{Path: "internal/harness", May: []string{
			".", "cluster", "cluster/seglog", "worker", "worker/remote", "worker/exec", "internal/dispatch", "engine",
			"engine/cron", "dag", "store", "store/boltstore", "store/memstore", "internal/precise", "internal/telemetry",
			"internal/crashtest",
		}},
	},

	Everyone: []string{"internal/clock"},

	Homes: []Home{
		{"github.com/hashicorp/raft", []string{"cluster", "cluster/seglog", "internal/sim"}, "Raft is known to cluster alone; a simulated disk keeps its log"},
		{"go.etcd.io/bbolt", []string{"store/boltstore", "cluster"}, "bbolt is known to store/boltstore and to cluster's log store"},
		{"go.yaml.in/yaml/v3", []string{"internal/schedfile"}, "files of schedules are read in one place"},
		{"github.com/emersion/go-ical", []string{"internal/trigger"}, "calendars are known to internal/trigger alone"},
		{"github.com/teambition/rrule-go", []string{"internal/trigger"}, "calendars are known to internal/trigger alone"},
		{"google.golang.org/grpc", []string{"worker/remote/...", "examples/..."}, "gRPC is known to worker/remote alone"},
		{"google.golang.org/protobuf", []string{"worker/remote/..."}, "gRPC is known to worker/remote alone"},
		{"github.com/openai/openai-go", []string{"ai"}, "OpenAI is known to ai alone"},
		{"github.com/modelcontextprotocol/go-sdk", []string{"ai/mcp"}, "MCP is known to ai/mcp alone"},
		// Raft itself links both template packages, through its codec and net/rpc, so the root's dependencies cannot
		// be free of them; our own code can.
		{"html/template", []string{"console"}, "templates are known to console alone"},
		{"text/template", []string{"console", "ai"}, "templates are known to console and to ai's prompts"},
		{"go.opentelemetry.io/otel/sdk", []string{"examples/..."}, "libraries use OpenTelemetry's API and are given its SDK"},
		{"testing", testKits, "a library that links testing gives its users testing's flags"},
		{"pgregory.net/rapid", testKits, "for tests"},
		{"github.com/anishathalye/porcupine", []string{"internal/sim"}, "a checker, for tests"},
		{"github.com/google/go-cmp", testKits, "for tests"},
		{"go.uber.org/goleak", testKits, "for tests"},
		{"github.com/robfig/cron", nil, "a yardstick, for tests and benchmarks"},
	},

	RootNeverLinks: []string{
		"google.golang.org/grpc", "google.golang.org/protobuf", "github.com/openai/openai-go",
		"github.com/modelcontextprotocol/go-sdk", "go.opentelemetry.io/otel/sdk",
		"./worker/remote", "./worker/exec", "./ai", "./console", "./schedulertest", "./internal/sim", "./internal/harness",
	},
}

// testKits are the packages that are made for tests to import.
var testKits = []string{"store/storetest", "schedulertest", "internal/sim", "internal/harness"}

// rel cuts the module off path; the root is ".".
func (t Table) rel(path string) (rel string, ours bool) {
	if path == t.Module {
		return ".", true
	}
	return strings.CutPrefix(path, t.Module+"/")
}

// row finds the row of a package of ours: the one with its exact path before the one of a tree it lies in.
func (t Table) row(rel string) (Row, bool) {
	var tree Row
	var ok bool
	for _, r := range t.Rows {
		if r.Path == rel {
			return r, true
		}
		if !ok && match(r.Path, rel) {
			tree, ok = r, true
		}
	}
	return tree, ok
}

// match reports whether rel is what pattern names.
func match(pattern, rel string) bool {
	tree, ok := strings.CutSuffix(pattern, "/...")
	return pattern == rel || ok && (rel == tree || strings.HasPrefix(rel, tree+"/"))
}

func matchAny(patterns []string, rel string) bool {
	for _, p := range patterns {
		if match(p, rel) {
			return true
		}
	}
	return false
}
