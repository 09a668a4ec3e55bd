package scheduler

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/store/boltstore"
)

// fenceJump is how far fences jump at a restore (see [Restore]): more than were
// given since the backup was made.
const fenceJump = 1 << 40

// Restore fills a folder from what [Scheduler.Backup] wrote, to be opened with
// [WithDataDir]. The folder must be empty or not exist; after an error it is to
// be removed. The restored node has the ID of the one that was backed up, which
// must not run any more. A backup of several nodes makes one, with a new ID and as a
// cluster of its own, which others then join with empty folders.
//
// What happened after the backup is forgotten, so runs that ended since may run
// again. Fences jump, so that those given out since are older than all new ones.
//
// Errors: [ErrConflict] if the folder has something; [ErrCorrupt] if the backup is
// damaged or cut short; [ErrNewer].
func Restore(dir string, r io.Reader) error {
	if err := restore(dir, r); err != nil {
		return fmt.Errorf("scheduler: restore %s: %w", dir, storageError(err))
	}
	return nil
}

func restore(dir string, r io.Reader) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if has, err := os.ReadDir(dir); err != nil {
		return err
	} else if len(has) > 0 {
		return fmt.Errorf("the folder is not empty: %w", ErrConflict)
	}
	st, err := boltstore.Open(dir, boltstore.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if err := st.Restore(r); err != nil {
		return err
	}
	img, err := st.Image()
	if err != nil {
		return err
	}
	nodeID, members, err := cluster.Restored(dir, cluster.LogSegments, img.Meta, st.Configuration(), newNodeID())
	if errors.Is(err, cluster.ErrConflict) {
		return fmt.Errorf("%w: %w", ErrConflict, err)
	}
	if err != nil {
		return err
	}
	img.Meta.Fence += fenceJump
	img.Meta.Cluster, img.Meta.Nodes = "", nil // the nodes of then are strangers to what begins here
	if err := st.Commit(&store.Flush{Meta: img.Meta}, members); err != nil {
		return err
	}
	return writeNodeID(filepath.Join(dir, nodeIDFile), nodeID)
}
