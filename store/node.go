package store

import (
	"slices"
	"strings"
)

// NodeRecord is what the cluster knows of one of its nodes.
type NodeRecord struct {
	ID          string `msg:"i"`
	Incarnation string `msg:"n"`           // of the node's folder: another one is another memory
	Address     string `msg:"a"`           // at which it was last reached
	Level       uint16 `msg:"l"`           // the newest format its build can read
	Observer    bool   `msg:"o,omitempty"` // it is never to vote
}

// Node returns what is known of a node.
func (m *Meta) Node(id string) (NodeRecord, bool) {
	i, found := m.find(id)
	if !found {
		return NodeRecord{}, false
	}
	return m.Nodes[i], true
}

func (m *Meta) find(id string) (int, bool) {
	return slices.BinarySearchFunc(m.Nodes, id, func(n NodeRecord, id string) int { return strings.Compare(n.ID, id) })
}

func (s *State) applySetCluster(c *SetCluster) Result {
	for i := range c.Put {
		if c.Put[i].ID == "" {
			return Result{Code: CodeInvalid, Text: "node has no ID"}
		}
	}
	if s.meta.Cluster == "" {
		s.meta.Cluster = c.ID
	}
	s.meta.Level = max(s.meta.Level, c.Level)
	nodes := slices.Clone(s.meta.Nodes) // copies of the meta are about
	for _, n := range c.Put {
		m := Meta{Nodes: nodes}
		if i, found := m.find(n.ID); found {
			nodes[i] = n
		} else {
			nodes = slices.Insert(nodes, i, n)
		}
	}
	for _, id := range c.Remove {
		m := Meta{Nodes: nodes}
		if i, found := m.find(id); found {
			nodes = slices.Delete(nodes, i, i+1)
		}
		s.endSessions(id)
	}
	s.meta.Nodes = nodes
	s.emit(Event{Kind: EventClusterSet})
	return Result{}
}
