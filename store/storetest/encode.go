package storetest

import (
	"github.com/tinylib/msgp/msgp"

	"github.com/escapement-go/scheduler/store"
)

// encode returns the encoded form of a record: what of it is stored.
func encode(rec msgp.Marshaler) string {
	b, err := rec.MarshalMsg(nil)
	if err != nil {
		panic("storetest: encode record: " + err.Error()) // none of them can fail
	}
	return string(b)
}

// reread returns the run as a reader of its row gets it.
func reread(r *store.Run) *store.Run {
	n := new(store.Run)
	if _, err := n.UnmarshalMsg([]byte(encode(r))); err != nil {
		panic("storetest: decode run: " + err.Error()) // it was encoded just now
	}
	return n
}
