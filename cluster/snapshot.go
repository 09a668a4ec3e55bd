package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/hashicorp/raft"
)

// snapshots gives Storage to raft as its snapshot store. What Storage has at any
// time is the one snapshot there is: raft starts from its position without
// restoring it, and a body is copied out only for a follower that needs one.
//
// So a snapshot of ours costs a flush, and no reference can ever name an index
// that Storage has not reached.
type snapshots struct {
	node *Node

	mu       sync.Mutex
	incoming *raft.SnapshotMeta // received from a leader, not yet installed
	file     string             // its body
}

var errOld = errors.New("cluster: the copy has nothing that is not here")

const (
	storageID  = "storage"
	incomingID = "incoming"
)

// List implements [raft.SnapshotStore].
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	at := s.node.flusher.position()
	if at.index == 0 {
		return nil, nil
	}
	meta, err := snapshotMeta(at.index, at.term, at.config)
	if err != nil {
		return nil, err
	}
	return []*raft.SnapshotMeta{meta}, nil
}

func snapshotMeta(index, term uint64, config []byte) (*raft.SnapshotMeta, error) {
	at, servers, err := decodeConfiguration(config)
	if err != nil {
		return nil, err
	}
	return &raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax, ID: storageID, Index: index, Term: term,
		Configuration: servers, ConfigurationIndex: at,
	}, nil
}

// Open implements [raft.SnapshotStore]. The meta that it returns is of what the
// copy really holds, which may be newer than what was listed.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	if id == incomingID {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.incoming == nil {
			return nil, nil, errors.New("cluster: no snapshot was received")
		}
		meta, path := s.incoming, s.file
		s.incoming, s.file = nil, ""
		f, err := os.Open(path)
		if err != nil {
			return nil, nil, fmt.Errorf("cluster: open received snapshot: %w", err)
		}
		return meta, spool{f}, nil
	}
	f, err := newSpool(s.node.cfg.Dir)
	if err != nil {
		return nil, nil, err
	}
	meta, err := s.copyTo(f)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return meta, f, nil
}

// copyTo fills f with a copy of Storage and rewinds it.
func (s *snapshots) copyTo(f spool) (*raft.SnapshotMeta, error) {
	s.node.flusher.copying.RLock()
	defer s.node.flusher.copying.RUnlock()
	at, config, err := s.node.cfg.Storage.Backup(f)
	if err != nil {
		return nil, fmt.Errorf("cluster: copy storage: %w", err)
	}
	meta, err := snapshotMeta(at.Index, at.Term, config)
	if err != nil {
		return nil, err
	}
	if meta.Size, err = f.Seek(0, io.SeekEnd); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	return meta, err
}

// Create implements [raft.SnapshotStore].
func (s *snapshots) Create(version raft.SnapshotVersion, index, term uint64, c raft.Configuration, at uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	return &sink{to: s, meta: raft.SnapshotMeta{
		Version: version, ID: incomingID, Index: index, Term: term, Configuration: c, ConfigurationIndex: at,
	}}, nil
}

// sink takes in the body of a snapshot that a leader sends, or nothing, if it
// stands for a snapshot of ours.
type sink struct {
	to   *snapshots
	meta raft.SnapshotMeta
	body *spool
}

func (k *sink) ID() string { return k.meta.ID }

// Write implements [io.Writer].
func (k *sink) Write(b []byte) (int, error) {
	if k.body == nil {
		f, err := newSpool(k.to.node.cfg.Dir)
		if err != nil {
			return 0, err
		}
		k.body = &f
	}
	n, err := k.body.Write(b)
	k.meta.Size += int64(n)
	return n, err
}

// Close implements [raft.SnapshotSink]. Before a received snapshot can be
// installed the log learns that Storage will be ahead of it. It runs on raft's main
// goroutine: nothing of the log or of what is applied changes meanwhile.
func (k *sink) Close() error {
	if k.body == nil {
		return nil
	}
	if inst := k.to.node.inst.Load(); inst != nil {
		if inst.trans.has(k.meta.Index, k.meta.Term) { // since it was let through
			return errors.Join(errOld, k.Cancel())
		}
		if err := inst.guard.replaces(k.meta.Index); err != nil {
			return errors.Join(err, k.Cancel())
		}
	}
	k.to.mu.Lock()
	defer k.to.mu.Unlock()
	k.to.incoming, k.to.file = &k.meta, k.body.Name()
	return k.body.File.Close()
}

// Cancel implements [raft.SnapshotSink].
func (k *sink) Cancel() error {
	if k.body == nil {
		return nil
	}
	return k.body.Close()
}

// spool is a temporary file that goes with its Close.
type spool struct{ *os.File }

func newSpool(dir string) (spool, error) {
	f, err := os.CreateTemp(dir, spoolPattern)
	if err != nil {
		return spool{}, fmt.Errorf("cluster: make temporary file: %w", err)
	}
	return spool{f}, nil
}

func (s spool) Close() error { return errors.Join(s.File.Close(), os.Remove(s.Name())) }

// reference is a snapshot of ours: Storage, brought up to its index.
type reference struct{ node *Node }

// Persist implements [raft.FSMSnapshot].
func (r reference) Persist(to raft.SnapshotSink) error {
	k, ours := to.(*sink)
	if !ours {
		return errors.New("cluster: not a sink of ours")
	}
	n := r.node
	n.mu.Lock()
	n.state.Advance(k.meta.Index, k.meta.Term) // all entries up to it are applied, the last may hold no batch
	n.applied.Store(n.state.Meta().Index)
	n.mu.Unlock()
	return n.flusher.upTo(context.Background(), k.meta.Index) //nolint:forbidigo // raft has no context for it
}

// Release implements [raft.FSMSnapshot].
func (r reference) Release() {}
