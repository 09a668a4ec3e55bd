//go:build unix

package harness_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Three nodes are replaced, one after the other and under load, by a build that can
// read one format level more. The cluster's level rises once all of them can, and
// not before; then a node of the old build is not let in any more.
func TestUpgrade_rolls_to_the_next_format_level(t *testing.T) {
	if testing.Short() {
		t.Skip("builds this program once more")
	}
	next := filepath.Join(t.TempDir(), "next.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "nextformat", "-o", next, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build with the next format level: %v\n%s", err, out)
	}
	c := newTrial(t, 1)
	c.order(order{Do: "load"}, c.ids...)
	c.Use(next)
	for i, id := range c.ids {
		c.stop(id)
		c.start(id)
		if i == len(c.ids)-1 {
			break
		}
		if level := c.level(id); level != 1 {
			t.Fatalf("the cluster is at level %d when only %d nodes of 3 can read it", level, i+1)
		}
	}
	for end := time.Now().Add(hang); c.level("a") != 2; {
		if time.Now().After(end) {
			t.Fatal("the level does not rise though all nodes can read it")
		}
		if err := pause(t.Context(), 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	c.judge()
	c.order(order{Do: "rest"}, c.ids...)

	c.stop("b")
	c.Use("")
	c.launch("b")
	old := c.Process("b")
	<-old.Over()
	if log := old.Log(); old.Err() == nil || !strings.Contains(log, "format level") || old.Panicked() {
		t.Errorf("a node of the old build ends with %v:\n%s", old.Err(), log)
	}
}

// level returns the format level of the cluster, as a node knows it.
func (c *trial) level(id string) int {
	c.t.Helper()
	o := order{Do: "dump", Path: filepath.Join(c.dir, id+".level"), Ticks: c.last}
	c.order(o, id)
	return c.picture(o.Path).Level
}

// A lone node's level follows its build.
func TestUpgrade_of_a_lone_node(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a package once more")
	}
	test := exec.CommandContext(t.Context(), "go", "test", "-tags", "nextformat", "-run", "TestLevel", "-v", "../../cluster")
	out, err := test.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestLevel_of_a_lone_node_is_that_of_its_build") {
		t.Errorf("%v\n%s", err, out)
	}
}
