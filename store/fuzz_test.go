package store_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/escapement-go/scheduler/store"
)

// Whatever DecodeBatch accepts can be applied, and is read again as it was.
func FuzzDecodeBatch(f *testing.F) {
	for _, data := range entries(f, 4, 60) {
		f.Add(data)
	}
	golden, err := store.EncodeBatch(nil, goldenBatch())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := store.DecodeBatch(data)
		if err != nil {
			if !errors.Is(err, store.ErrFormat) {
				t.Fatalf("%v, want ErrFormat", err)
			}
			return
		}
		again, err := store.EncodeBatch(nil, b)
		if err != nil {
			t.Fatalf("it cannot be encoded: %v", err)
		}
		c, err := store.DecodeBatch(again)
		if err != nil {
			t.Fatalf("it cannot be read again: %v", err)
		}
		x, y := newMachine(t), newMachine(t)
		x.s.Apply(10, 1, b)
		y.s.Apply(10, 1, c)
		if x.s.Digest() != y.s.Digest() {
			t.Error("read again, it has another effect")
		}
		x.s.Apply(11, 1, b) // and once more, upon what it did
		x.s.TakeFlush()
		x.s.Digest()
	})
}

// Whatever bytes a journal row has, unpacking them ends.
func FuzzUnpackEvents(f *testing.F) {
	m := newMachine(f)
	m.ok(enqueue(mail, store.NewRun{ID: id(1)}))
	for e := range m.s.UnflushedEvents() {
		f.Add(e.Data)
	}
	f.Add([]byte{})
	f.Add([]byte{1, 0, 9, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		whole := bytes.Clone(data)
		ended := false
		for e, err := range store.UnpackEvents(store.PackedEvents{Index: 7, Data: data}) {
			if ended {
				t.Fatal("events after an error")
			}
			if err != nil {
				ended = true
				if !errors.Is(err, store.ErrJournal) {
					t.Fatalf("%v, want ErrJournal", err)
				}
			} else if e.Index != 7 {
				t.Fatalf("event of index %d, want 7", e.Index)
			}
		}
		if !bytes.Equal(whole, data) {
			t.Fatal("the row was changed")
		}
	})
}
