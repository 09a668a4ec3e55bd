package sim_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A patch is a change of the product that takes one of its guards away.
type patch struct {
	file, old, new string
}

// mutants are products that break a promise, and simulations that have to find out.
var mutants = []struct {
	name    string
	test    string
	patches []patch
}{
	{"a report is accepted whatever its fence", givenUp, []patch{
		{"store/apply_lease.go", `r.State != Running || r.Fence != rep.Fence || r.Session != session {`, `r.State != Running {`},
	}},
	{"a call that is repeated is carried out again", several, []patch{
		{"store/apply.go", `if kept, ok := ses.results[c.Seq]; ok {`, `if kept, ok := ses.results[c.Seq]; ok && c.Kind == KindOpenSession {`},
	}},
	{"ticks that were missed are forgotten", lone, []patch{
		{"internal/dispatch/verdict.go", `t.Spans = letGo(rule, sc, rule.Last(sc.Next, first-1), let)`, `_ = let`},
	}},
	{"a new leader arms from now", lone, []patch{
		{"store/apply_tick.go", `t.Armed != old.Next || old.Next == 0 || `, ``},
		{"internal/dispatch/verdict.go", `first, let := madeUp(rule, sc, last, now)`, `first, let := madeUp(rule, sc, last, now)
	if now-sc.Next > int64(5*time.Second) {
		t.Armed, t.Nominal = rule.Last(sc.Next, now), rule.Last(sc.Next, now)
		return t
	}`},
	}},
	{"the overlap policy is forgotten", lone, []patch{
		{"store/apply_start.go", `if !sc.Contended() {`, `if true {`},
	}},
	{"unique keys are not looked at", lone, []patch{
		{"store/apply_run.go", `		if held {
			return`, `		if held && seen.known != nil {
			return`},
	}},
	{"a queue's limit is off by one", lone, []patch{
		{"store/apply_lease.go", `q.Limit > 0 && q.leased >= int(q.Limit)`, `q.Limit > 0 && q.leased > int(q.Limit)`},
		{"internal/dispatch/gates.go", limitGate, limitGateOff},
	}},
	{"a tick's run is due when it is decided", lone, []patch{
		{"store/apply_start.go", `r.Due += ahead`, `_ = ahead`},
	}},
	{"a worker starts what it is given at once", lone, []patch{
		{"node.go", `Fence: g.Run.Fence, In: g.In}`, `Fence: g.Run.Fence}`},
	}},
	{"a session's row is not flushed", lone, []patch{
		{"store/flush.go", `f.Sessions[id] = s.sessions[id].record()`, `_ = id`},
	}},
	{"a failed write is taken for a success", lone, []patch{
		{"cluster/guard.go", `	if err != nil {
		err = fmt.Errorf("cluster: %s: %w", what, err)
		g.latch(err)`, `	if err = nil; err != nil {
		err = fmt.Errorf("cluster: %s: %w", what, err)
		g.latch(err)`},
	}},
	{"a run that takes another's place lets it go on", lone, []patch{
		{"store/apply_start.go", `		if r == nil {
			continue
		}
		end := *r`, `		if r == nil || len(n.Live) > 0 {
			continue
		}
		end := *r`},
	}},
	{"one start more than may waits for its turn", lone, []patch{
		{"store/apply_start.go", `sc.queued() < int(sc.QueueMax)`, `sc.queued() <= int(sc.QueueMax)`},
	}},
	{"all ticks that were missed are made up", lone, []patch{
		{"internal/dispatch/verdict.go", `nthBefore(rule, sc, last, first, sc.MaxCount)`, `nthBefore(rule, sc, last, first, 0)`},
	}},
	{"ticks are made up without a pause", lone, []patch{
		{"store/apply_start.go", `n.Waiting[0].At = s.in(c.Wait.Pace)`, `n.Waiting[0].At = s.in(0)`},
	}},
	{"what waits starts though its schedule is paused", lone, []patch{
		{"store/apply_start.go", `case old.Paused:`, `case old.Paused && old.Spec == nil:`},
		{"internal/dispatch/waits.go", `sc.Paused || sc.Room() == 0 {
		if armed`, `sc.Room() == 0 {
		if armed`},
		{"internal/dispatch/waits.go", `len(sc.Waiting) == 0 || sc.Paused || sc.Room() == 0 {
		return`, `len(sc.Waiting) == 0 || sc.Room() == 0 {
		return`},
	}},
	{"what has run is backfilled", lone, []patch{
		{"backfill.go", `if ran[at] || waits(sc, at) {`, `if waits(sc, at) {`},
	}},
	{"a calendar that is changed moves no tick", lone, []patch{
		{"internal/dispatch/ticks.go", `d.recount = append(d.recount, sc.Number)`, `_ = sc`},
		{"internal/dispatch/verdict.go", `done || fell {`, `done {`},
	}},
	{"a rollback takes the version after", lone, []patch{
		{"versions.go", `return int(v.Version) == version })`, `return int(v.Version) == version+1 })`},
	}},
	{"a cancel does not reach the handler", lone, []patch{
		{"node.go", `w.pool.Cancel(run.ID, fence, cause)`, `_ = cause`},
	}},
	{"a copy leaves the queues out", copies, []patch{
		{"store/memstore/copy.go", `	frameAll(f, frameQueue, k.queues)
`, ``},
	}},
	{"a copy leaves history out", copies, []patch{
		{"store/memstore/copy.go", `		f.record(frameTick, &at, t)`, `		_, _ = at, t`},
	}},
	{"a node that was taken out keeps its session", members, []patch{
		{"store/node.go", `		s.endSessions(id)`, `		_ = id`},
	}},
	{"an installed copy does not become the state", copies, []patch{
		{"cluster/flusher.go", `n.state, n.configuration = state, config`, `n.configuration = config`},
	}},
}

const (
	lone    = "TestSim_one_node"
	several = "TestSim_three_nodes"
	givenUp = "TestSim_workers_are_given_up"
	copies  = "TestSim_copies_are_installed"
	members = "TestSim_members_come_and_go"

	limitGate    = `q.limit > 0 && q.leased >= int(q.limit)`
	limitGateOff = `q.limit > 0 && q.leased > int(q.limit)`
)

// root is the module's folder, seen from this package's.
const root = "../.."

// patched returns the file with the patch, which must fit in one place.
func patched(t *testing.T, text string, p patch) string {
	t.Helper()
	if n := strings.Count(text, p.old); n != 1 {
		t.Fatalf("%s has %d places that the mutation fits, want one:\n%s", p.file, n, p.old)
	}
	return strings.Replace(text, p.old, p.new, 1)
}

func TestMutants_fit_the_product(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			for _, p := range m.patches {
				text, err := os.ReadFile(filepath.Join(root, p.file))
				if err != nil {
					t.Fatal(err)
				}
				patched(t, string(text), p)
			}
		})
	}
}

// tries is how many seeds a mutant may survive.
const tries = 8

// A simulator that finds nothing may be blind: each mutant has to be caught.
func TestMutants_are_caught(t *testing.T) {
	if os.Getenv("ESCAPEMENT_MUTANTS") == "" {
		t.Skip("ESCAPEMENT_MUTANTS is not set; it takes a build and some simulations for each mutant")
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			bin := build(t, m.patches)
			for seed := 1; seed <= tries; seed++ {
				run := exec.CommandContext(t.Context(), bin, "-test.run", "^"+m.test+"$")
				run.Dir = root
				run.Env = append(os.Environ(), fmt.Sprint("ESCAPEMENT_SEED=", seed))
				out, err := run.CombinedOutput()
				if err != nil {
					t.Logf("caught by seed %d: %s", seed, verdict(string(out)))
					return
				}
			}
			t.Errorf("%d seeds have found nothing", tries)
		})
	}
}

// build makes the root's tests with the patches laid over the sources.
func build(t *testing.T, patches []patch) (bin string) {
	t.Helper()
	dir := t.TempDir()
	texts := make(map[string]string)
	for _, p := range patches {
		file, err := filepath.Abs(filepath.Join(root, p.file))
		if err != nil {
			t.Fatal(err)
		}
		text, seen := texts[file]
		if !seen {
			read, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text = string(read)
		}
		texts[file] = patched(t, text, p)
	}
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	for file, text := range texts {
		to := filepath.Join(dir, fmt.Sprint(len(overlay.Replace))+".go")
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[file] = to
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	listing := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(listing, list, 0o600); err != nil {
		t.Fatal(err)
	}
	bin = filepath.Join(dir, "mutant.test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", listing, "-o", bin, ".")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

// verdict returns the first breach that a simulation tells of.
func verdict(out string) string {
	_, rest, found := strings.Cut(out, "breaks promises:\n")
	if !found {
		return "it does not end well:\n" + out[:min(len(out), 500)]
	}
	first, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(first)
}
