package cluster

import (
	"testing"

	"github.com/hashicorp/raft"
)

func TestRankOf(t *testing.T) {
	members := raft.Configuration{Servers: []raft.Server{
		{ID: "d", Suffrage: raft.Voter}, {ID: "b", Suffrage: raft.Voter}, {ID: "a", Suffrage: raft.Voter}, {ID: "c", Suffrage: raft.Nonvoter},
	}}
	for _, c := range []struct {
		id, leader string
		want       int
	}{
		{"a", "b", 0}, {"b", "d", 1}, {"d", "a", 1}, {"d", "", 2}, {"c", "a", -1}, {"x", "a", -1},
	} {
		if got := rankOf(members, c.id, c.leader); got != c.want {
			t.Errorf("rank of %q under %q: got %d, want %d", c.id, c.leader, got, c.want)
		}
	}
}
