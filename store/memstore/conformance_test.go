package memstore_test

import (
	"bytes"
	"testing"

	"github.com/escapement-go/scheduler/store/memstore"
	"github.com/escapement-go/scheduler/store/storetest"
)

// place hands its store from one opening to the next: a store in memory ends when
// it is closed.
type place struct{ s *memstore.Store }

// lasting is a store whose content outlives it, as it does within a process.
type lasting struct {
	*memstore.Store
	p      *place
	closed bool
}

func (l *lasting) Close() error {
	if l.closed {
		return nil
	}
	l.closed = true
	var copied bytes.Buffer
	if _, _, err := l.Backup(&copied); err != nil {
		return err
	}
	next := memstore.New(memstore.Options{})
	l.p.s = next
	if err := next.Restore(&copied); err != nil {
		return err
	}
	return l.Store.Close()
}

func (p *place) Open(tb testing.TB, b storetest.Bounds) storetest.Backend {
	tb.Helper()
	s := memstore.New(memstore.Options{JournalBytes: b.JournalBytes})
	if p.s != nil {
		var copied bytes.Buffer
		if _, _, err := p.s.Backup(&copied); err != nil {
			tb.Fatalf("Backup: %v", err)
		}
		if err := s.Restore(&copied); err != nil {
			tb.Fatalf("Restore: %v", err)
		}
	}
	p.s = s
	return &lasting{Store: s, p: p}
}

func TestStore_Conformance(t *testing.T) {
	storetest.Test(t, func(testing.TB) storetest.Place { return new(place) })
}
