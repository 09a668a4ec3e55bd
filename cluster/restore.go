package cluster

import (
	"errors"
	"fmt"

	"github.com/escapement-go/scheduler/store"
)

// Restored makes the log, of the given kind, of a folder whose Storage was filled from a backup at
// the given position: the log goes on from there. The folder must have no log.
//
// It returns the ID of the node that the backup is of, which is the only one
// that can open the folder. Errors: [ErrDamaged]; [ErrConflict] if there is a
// log, or the backup is of a cluster of several nodes.
func Restored(dir string, kind LogKind, at store.Meta, configuration []byte) (nodeID string, err error) {
	_, members, err := decodeConfiguration(configuration)
	if err != nil {
		return "", err
	}
	if len(members.Servers) != 1 {
		return "", fmt.Errorf("%w: the backup is of a cluster of %d nodes", ErrConflict, len(members.Servers))
	}
	log, err := openFolderLog(dir, kind)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	last, err := log.LastIndex()
	if err != nil {
		return "", damaged("read last index of the log: %v", err)
	}
	if last != 0 {
		return "", fmt.Errorf("%w: the folder has a log", ErrConflict)
	}
	if err := log.SetUint64(termKey, at.Term); err != nil {
		return "", fmt.Errorf("cluster: write term: %w", err)
	}
	if err := log.SetUint64(installedKey, at.Index); err != nil {
		return "", fmt.Errorf("cluster: write position: %w", err)
	}
	return string(members.Servers[0].ID), nil
}

// termKey is the stable key under which raft keeps its current term.
var termKey = []byte("CurrentTerm")
