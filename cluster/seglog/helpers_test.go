package seglog_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"github.com/escapement-go/scheduler/cluster/seglog"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small makes every test cross segments.
var small = []seglog.Option{seglog.WithFirstSegmentBytes(8 << 10), seglog.WithSegmentBytes(16 << 10)}

func open(tb testing.TB, dir string, opts ...seglog.Option) *seglog.Log {
	tb.Helper()
	l, err := seglog.Open(dir, opts...)
	if err != nil {
		tb.Fatalf("open: %v", err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	return l
}

// entry makes up an entry that its index, term and salt determine.
func entry(index, term uint64, size int) *raft.Log {
	r := rand.New(rand.NewPCG(index, term))
	l := &raft.Log{Index: index, Term: term, Type: raft.LogType(r.IntN(6))}
	if size > 0 {
		var b []byte
		for len(b) < size {
			b = binary.LittleEndian.AppendUint64(b, r.Uint64())
		}
		l.Data = b[:size]
		if r.IntN(3) == 0 { // sectors of zeros inside
			clear(l.Data[size/4 : size/4+size/2])
		}
	}
	if r.IntN(2) == 0 {
		l.Extensions = fmt.Appendf(nil, "ext-%d", index)
	}
	if r.IntN(4) > 0 {
		l.AppendedAt = time.Unix(r.Int64N(1<<33)-1<<31, r.Int64N(1e9)).UTC()
	}
	return l
}

// entries makes up n entries of size bytes from index on.
func entries(index, term uint64, n, size int) []*raft.Log {
	logs := make([]*raft.Log, n)
	for i := range logs {
		logs[i] = entry(index+uint64(i), term, size)
	}
	return logs
}

func equal(a, b *raft.Log) bool {
	return a.Index == b.Index && a.Term == b.Term && a.Type == b.Type && bytes.Equal(a.Data, b.Data) &&
		bytes.Equal(a.Extensions, b.Extensions) && a.AppendedAt.Equal(b.AppendedAt)
}

// contents returns all of a log, and checks that nothing is to be had outside its ends.
func contents(tb testing.TB, l raft.LogStore) []*raft.Log {
	tb.Helper()
	first, last := bounds(tb, l)
	var all []*raft.Log
	for i := first; i <= last && last != 0; i++ {
		var e raft.Log
		if err := l.GetLog(i, &e); err != nil {
			tb.Fatalf("get %d of %d..%d: %v", i, first, last, err)
		}
		all = append(all, &e)
	}
	for _, i := range []uint64{0, first - 1, last + 1} {
		var e raft.Log
		if err := l.GetLog(i, &e); !errors.Is(err, raft.ErrLogNotFound) {
			tb.Fatalf("get %d outside %d..%d: got error %v, want %v", i, first, last, err, raft.ErrLogNotFound)
		}
	}
	return all
}

func bounds(tb testing.TB, l raft.LogStore) (first, last uint64) {
	tb.Helper()
	first, err := l.FirstIndex()
	if err != nil {
		tb.Fatalf("first index: %v", err)
	}
	last, err = l.LastIndex()
	if err != nil {
		tb.Fatalf("last index: %v", err)
	}
	return first, last
}

func sameLogs(got, want []*raft.Log) error {
	if len(got) != len(want) {
		return fmt.Errorf("got %d entries, want %d", len(got), len(want))
	}
	for i := range got {
		if !equal(got[i], want[i]) {
			return fmt.Errorf("entry %d: got %+v, want %+v", want[i].Index, *got[i], *want[i])
		}
	}
	return nil
}

func wantLogs(tb testing.TB, l raft.LogStore, want []*raft.Log) {
	tb.Helper()
	if err := sameLogs(contents(tb, l), want); err != nil {
		tb.Fatal(err)
	}
}

func store(tb testing.TB, l raft.LogStore, logs ...*raft.Log) {
	tb.Helper()
	if err := l.StoreLogs(logs); err != nil {
		tb.Fatalf("store %d..%d: %v", logs[0].Index, logs[len(logs)-1].Index, err)
	}
}

func closeLog(tb testing.TB, l *seglog.Log) {
	tb.Helper()
	if err := l.Close(); err != nil {
		tb.Fatalf("close: %v", err)
	}
}
