//go:build nextformat

package cluster_test

import (
	"testing"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/store"
)

// A state begins at level 1, and a lone node raises it to what its build can read.
func TestLevel_of_a_lone_node_is_that_of_its_build(t *testing.T) {
	n := open(t, cluster.Setup{})
	ctx := deadline(t)
	for level := uint16(0); level != store.FormatLevel; {
		n.View(func(st *store.State) { level = st.Meta().Level })
		select {
		case <-tick():
		case <-ctx.Done():
			t.Fatalf("level %d, want %d", level, store.FormatLevel)
		}
	}
}
