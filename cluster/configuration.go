package cluster

import (
	"encoding/json"
	"fmt"

	"github.com/hashicorp/raft"
)

// configurationFormat is the version of the stored form.
const configurationFormat = 1

// configuration is who is in the cluster, as of a log index, in the form that
// Storage keeps beside the state.
type configuration struct {
	Format  int      `json:"format"`
	Index   uint64   `json:"index"` // of the entry that brought it
	Servers []server `json:"servers"`
}

type server struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	Voter   bool   `json:"voter"`
}

func encodeConfiguration(index uint64, c raft.Configuration) []byte {
	stored := configuration{Format: configurationFormat, Index: index}
	for _, s := range c.Servers {
		stored.Servers = append(stored.Servers, server{string(s.ID), string(s.Address), s.Suffrage == raft.Voter})
	}
	b, err := json.Marshal(stored)
	if err != nil {
		panic("cluster: encode configuration: " + err.Error()) // strings and numbers cannot fail
	}
	return b
}

func decodeConfiguration(b []byte) (uint64, raft.Configuration, error) {
	var stored configuration
	var c raft.Configuration
	if err := json.Unmarshal(b, &stored); err != nil {
		return 0, c, damaged("stored configuration: %v", err)
	}
	if stored.Format != configurationFormat {
		return 0, c, fmt.Errorf("cluster: stored configuration has format %d, this build reads %d", stored.Format, configurationFormat)
	}
	for _, s := range stored.Servers {
		suffrage := raft.Nonvoter
		if s.Voter {
			suffrage = raft.Voter
		}
		c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(s.ID), Address: raft.ServerAddress(s.Address), Suffrage: suffrage})
	}
	return stored.Index, c, nil
}

// soleVoter reports whether id is the only voter of c.
func soleVoter(c raft.Configuration, id string) bool {
	found := false
	for _, s := range c.Servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		if string(s.ID) != id {
			return false
		}
		found = true
	}
	return found
}

func isMember(c raft.Configuration, id string) bool {
	for _, s := range c.Servers {
		if string(s.ID) == id {
			return true
		}
	}
	return false
}
