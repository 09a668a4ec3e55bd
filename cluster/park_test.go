package cluster_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/store/memstore"
)

// entry is data as an entry of a node's log.
func entry(data []byte) raft.Log {
	return raft.Log{Data: data, Extensions: binary.BigEndian.AppendUint64(nil, xxhash.Sum64(data))}
}

func TestNode_parks_on_what_it_cannot_apply(t *testing.T) {
	encode := func(b *store.Batch) []byte {
		data, err := store.EncodeBatch(nil, b)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	newer := entry(encode(&store.Batch{Level: store.FormatLevel + 1}))
	strange := entry(encode(&store.Batch{Level: store.FormatLevel, Commands: []store.Command{{Kind: 200}}}))
	flipped := entry(encode(&store.Batch{Level: store.FormatLevel, Wall: 1}))
	flipped.Data[len(flipped.Data)-1] ^= 1
	for name, log := range map[string]raft.Log{
		"junk":                      entry([]byte("junk")),
		"a newer format level":      newer,
		"an unknown command":        strange,
		"a checksum that differs":   flipped,
		"an entry without checksum": {Data: encode(&store.Batch{Level: store.FormatLevel})},
	} {
		t.Run(name, func(t *testing.T) {
			led := make(chan bool, 2)
			n := open(t, cluster.Setup{OnLead: func(_ *store.State, leading bool) { led <- leading }})
			session(t, n)
			before := n.Status().Applied
			if err, _ := n.Raft().ApplyLog(log, 0).Error(), 0; err != nil {
				t.Fatalf("append: %v", err)
			}
			for want := range []bool{true, false} {
				if got := <-led; got != (want == 0) {
					t.Errorf("leading: got %v", got)
				}
			}
			checkParked(t, n, store.ErrFormat)
			if got := n.Status().Applied; got != before {
				t.Errorf("applied: got %d, want %d as before", got, before)
			}
		})
	}
}

func checkParked(t *testing.T, n *cluster.Node, cause error) {
	t.Helper()
	err := n.Ready(deadline(t))
	if !errors.Is(err, cluster.ErrParked) || cause != nil && !errors.Is(err, cause) {
		t.Errorf("ready: got %v, want %v and %v", err, cluster.ErrParked, cause)
	}
	if _, err := n.Call(deadline(t), enqueue(1, 1)); !errors.Is(err, cluster.ErrParked) {
		t.Errorf("call: got %v, want %v", err, cluster.ErrParked)
	}
	if err := n.Status().Parked; !errors.Is(err, cluster.ErrParked) {
		t.Errorf("status: got %v, want %v", err, cluster.ErrParked)
	}
	if err := n.Flush(deadline(t)); !errors.Is(err, cluster.ErrParked) && n.Status().Flushed < n.Status().Applied {
		t.Errorf("flush: got %v, want %v", err, cluster.ErrParked)
	}
}

func TestNode_panic_while_applying_parks(t *testing.T) {
	storage := memstore.New(memstore.Options{})
	armed := false
	n := open(t, cluster.Setup{
		Storage: storage,
		OnApply: func(*store.State, uint64, *store.Batch, []store.Result, []store.Event) {
			if armed {
				panic("a bug")
			}
		},
	})
	session(t, n)
	if err := n.Flush(deadline(t)); err != nil {
		t.Fatal(err)
	}
	flushed := n.Status().Flushed
	n.View(func(*store.State) { armed = true })
	_, err := n.Propose(t.Context(), enqueue(1, 1))
	if !errors.Is(err, cluster.ErrOutcomeUnknown) || !errors.Is(err, cluster.ErrParked) {
		t.Errorf("propose: got %v, want %v and %v", err, cluster.ErrOutcomeUnknown, cluster.ErrParked)
	}
	checkParked(t, n, nil)
	shutdown(t, n)
	if got := n.Status().Flushed; got != flushed {
		t.Errorf("flushed: got %d, want %d: what was applied halfway must not reach storage", got, flushed)
	}
}

// preloaded starts a node, fills its log and returns the log.
func preloaded(t *testing.T, storage cluster.Storage, runs int) cluster.LogStore {
	t.Helper()
	log := cluster.NewMemLog()
	cfg := cluster.Setup{Storage: storage}
	cluster.WrapLog(&cfg, func(cluster.LogStore) cluster.LogStore { return log })
	n := open(t, cfg)
	session(t, n)
	for i := range runs {
		if _, err := n.Propose(t.Context(), enqueue(i, 10)); err != nil {
			t.Fatal(err)
		}
	}
	shutdown(t, n)
	return log
}

// keep is a storage that outlives the node that closes it.
type keep struct{ cluster.Storage }

func (keep) Close() error { return nil }

func TestOpen_refuses_a_log_that_does_not_fit_the_storage(t *testing.T) {
	at := func(s cluster.Storage) uint64 {
		img, err := s.Image()
		if err != nil {
			t.Fatal(err)
		}
		return img.Meta.Index
	}
	for name, harm := range map[string]func(log cluster.LogStore, index uint64) error{
		"lost its end": func(log cluster.LogStore, index uint64) error {
			return log.DeleteRange(index, index+10)
		},
		"is empty": func(log cluster.LogStore, index uint64) error {
			return log.DeleteRange(1, index+10)
		},
		"begins too late": func(log cluster.LogStore, index uint64) error {
			var last raft.Log
			if err := log.GetLog(index, &last); err != nil {
				return err
			}
			last.Index += 100
			return log.StoreLog(&last)
		},
		"is another log": func(log cluster.LogStore, index uint64) error {
			var last raft.Log
			if err := log.GetLog(index, &last); err != nil {
				return err
			}
			last.Term += 100
			return log.StoreLog(&last)
		},
		"cannot be read": func(log cluster.LogStore, index uint64) error {
			return log.StoreLog(&raft.Log{Index: index + 1, Term: 1000, Type: raft.LogConfiguration, Data: []byte{0xc1}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := keep{memstore.New(memstore.Options{})}
			log := preloaded(t, s, 3)
			if err := harm(log, at(s)); err != nil {
				t.Fatal(err)
			}
			cfg := cluster.Setup{ID: "one", Storage: s}
			cluster.WrapLog(&cfg, func(cluster.LogStore) cluster.LogStore { return log })
			if n, err := cluster.Open(t.Context(), cfg); !errors.Is(err, cluster.ErrDamaged) {
				t.Errorf("open: got %v, want %v", err, cluster.ErrDamaged)
				if err == nil {
					shutdown(t, n)
				}
			}
		})
	}
}

func TestOpen_refuses_the_folder_of_another_node(t *testing.T) {
	s := keep{memstore.New(memstore.Options{})}
	log := preloaded(t, s, 3)
	cfg := cluster.Setup{ID: "two", Storage: s}
	cluster.WrapLog(&cfg, func(cluster.LogStore) cluster.LogStore { return log })
	if _, err := cluster.Open(t.Context(), cfg); !errors.Is(err, cluster.ErrDamaged) {
		t.Errorf("open: got %v, want %v", err, cluster.ErrDamaged)
	}
}
