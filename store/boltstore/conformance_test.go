package boltstore_test

import (
	"testing"

	"github.com/escapement-go/scheduler/store/boltstore"
	"github.com/escapement-go/scheduler/store/storetest"
)

// folder is a place on disk.
type folder string

func (f folder) Open(tb testing.TB, b storetest.Bounds) storetest.Backend {
	tb.Helper()
	s, err := boltstore.Open(string(f), boltstore.Options{JournalBytes: b.JournalBytes})
	if err != nil {
		tb.Fatalf("Open: %v", err)
	}
	return s
}

func TestStore_Conformance(t *testing.T) {
	storetest.Test(t, func(tb testing.TB) storetest.Place {
		tb.Helper()
		return folder(tb.TempDir())
	})
}
