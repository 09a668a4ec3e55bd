package cluster

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/store"
)

// Restored makes the log, of the given kind, of a folder whose Storage was filled from a backup at
// the given position: the log goes on from there. The folder must have no log.
//
// It returns the ID of the only node that can open the folder, and the
// configuration to store: those of the backup if it is of one node; otherwise newID
// and a configuration of that node alone, for the others are not there any more.
// Errors: [ErrDamaged]; [ErrConflict] if there is a log.
func Restored(dir string, kind LogKind, at store.Meta, configuration []byte, newID string) (nodeID string, now []byte, err error) {
	index, members, err := decodeConfiguration(configuration)
	if err != nil {
		return "", nil, err
	}
	if len(members.Servers) != 1 {
		members = raft.Configuration{Servers: []raft.Server{
			{ID: raft.ServerID(newID), Address: raft.ServerAddress(newID), Suffrage: raft.Voter},
		}}
	}
	log, err := openFolderLog(dir, kind)
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	last, err := log.LastIndex()
	if err != nil {
		return "", nil, damaged("read last index of the log: %v", err)
	}
	if last != 0 {
		return "", nil, fmt.Errorf("%w: the folder has a log", ErrConflict)
	}
	if err := log.SetUint64(termKey, at.Term); err != nil {
		return "", nil, fmt.Errorf("cluster: write term: %w", err)
	}
	if err := log.SetUint64(installedKey, at.Index); err != nil {
		return "", nil, fmt.Errorf("cluster: write position: %w", err)
	}
	return string(members.Servers[0].ID), encodeConfiguration(index, members), nil
}

// termKey is the stable key under which raft keeps its current term.
var termKey = []byte("CurrentTerm")
