package boltstore_test

import (
	"fmt"
	"os"
	"time"

	"github.com/escapement-go/scheduler/store"
	"github.com/escapement-go/scheduler/store/boltstore"
)

// A state is written behind: what changed is taken as a flush, and a restart loads
// what was committed last.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	kept, err := boltstore.Open(dir, boltstore.Options{})
	if err != nil {
		panic(err)
	}

	state := store.NewState()
	spec := store.Spec{Task: "mail.send", Queue: "default", Retry: store.Retry{Attempts: 3}}
	state.Apply(1, 1, &store.Batch{Level: store.FormatLevel, Commands: []store.Command{
		{Kind: store.KindOpenSession, Open: &store.OpenSession{Node: "a", Tasks: []string{"mail.send"}}},
		{Kind: store.KindEnqueue, Enqueue: &store.Enqueue{
			Specs: [][]byte{spec.Encode()},
			Runs:  []store.NewRun{{ID: store.NewRunID(time.UnixMilli(0), [10]byte{1})}},
		}},
	}})
	flush := state.TakeFlush()
	if err := kept.Commit(flush, []byte("configuration")); err != nil {
		panic(err)
	}
	state.Flushed(flush)
	if err := kept.Close(); err != nil {
		panic(err)
	}

	kept, err = boltstore.Open(dir, boltstore.Options{})
	if err != nil {
		panic(err)
	}
	defer kept.Close()
	img, err := kept.Image()
	if err != nil {
		panic(err)
	}
	loaded := store.NewState()
	if err := loaded.Load(img); err != nil {
		panic(err)
	}
	fmt.Println(loaded.Live(), "run at index", loaded.Meta().Index)
	fmt.Println(loaded.Digest() == state.Digest())
	// Output:
	// 1 run at index 1
	// true
}
