package seglog_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/cluster/seglog"
)

// filled makes a log of several segments, closed or not, and tells what it holds.
func filled(tb testing.TB, clean bool) (*disk, *work) {
	tb.Helper()
	d, w := newDisk(), newWork(11)
	l, err := seglog.OpenFolder(d, small...)
	if err != nil {
		tb.Fatal(err)
	}
	for _, key := range stableKeys {
		w.acked.values[key] = w.r.Uint64()
		if err := l.SetUint64([]byte(key), w.acked.values[key]); err != nil {
			tb.Fatal(err)
		}
	}
	for i := range 14 {
		logs := entries(uint64(1+3*i), 1, 3, []int{50, 400, 900, 1600}[i%4])
		w.acked.logs = append(w.acked.logs, logs...)
		if i == 13 { // so that no floor covers the last call
			if err := l.DeleteRange(1, 5); err != nil {
				tb.Fatal(err)
			}
		}
		store(tb, l, logs...)
	}
	w.acked.logs = w.acked.logs[5:]
	killed := d.clone() // a spare may be half made
	closeLog(tb, l)
	if clean {
		return d, w
	}
	return killed, w
}

// damages are ways to spoil the bytes of a file that are in use.
var damages = map[string]func(r *rand.Rand, b []byte) []byte{
	"flip": func(r *rand.Rand, b []byte) []byte {
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		return b
	},
	"byte": func(r *rand.Rand, b []byte) []byte {
		b[r.IntN(len(b))] = byte(r.Uint32())
		return b
	},
	"zero sector": func(r *rand.Rand, b []byte) []byte {
		at := r.IntN(len(b)) / sector * sector
		clear(b[at:min(at+sector, len(b))])
		return b
	},
	"move sector": func(r *rand.Rand, b []byte) []byte {
		from, to := r.IntN(len(b))/sector*sector, r.IntN(len(b))/sector*sector
		copy(b[to:min(to+sector, len(b))], b[from:min(from+sector, len(b))])
		return b
	},
	"truncate": func(r *rand.Rand, b []byte) []byte { return b[:r.IntN(len(b))] },
}

// TestOpen_DamageIsReportedOrHarmless spoils a byte, a sector or the length of each file. After a clean end nothing
// but an error or all that was stored is right. After a kill the last call alone may be missing, and only if a whole
// sector of it was lost.
func TestOpen_DamageIsReportedOrHarmless(t *testing.T) {
	for _, clean := range []bool{true, false} {
		before, w := filled(t, clean)
		reported := 0
		for seed := range uint64(1500) {
			r := rand.New(rand.NewPCG(seed, 3))
			d := before.clone()
			name := slices.Sorted(maps.Keys(d.names))[r.IntN(len(d.names))]
			how := slices.Sorted(maps.Keys(damages))[r.IntN(len(damages))]
			d.put(name, damages[how](r, d.names[name].written))

			l, err := seglog.OpenFolder(d, small...)
			if err != nil {
				reported++
				if c := new(seglog.CorruptError); !errors.As(err, &c) && !errors.Is(err, seglog.ErrVersion) {
					t.Fatalf("seed %d, %s of %s: got error %v, want a CorruptError", seed, how, name, err)
				}
				continue
			}
			err = w.acked.check(t, l)
			if err != nil && !clean && strings.HasSuffix(how, "sector") {
				short := w.acked.clone()
				short.logs = short.logs[:len(short.logs)-3]
				err = short.check(t, l)
			}
			if err != nil {
				t.Fatalf("seed %d, %s of %s: %v", seed, how, name, err)
			}
			closeLog(t, l)
		}
		if reported < 100 {
			t.Errorf("%d of 1500 damages were reported", reported)
		}
	}
}

// TestOpen_TornOrDamaged spoils one of three frames of a log that was killed, each of one entry of nine sectors.
func TestOpen_TornOrDamaged(t *testing.T) {
	const size = 9 * sector
	zero := func(b []byte) { clear(b[:sector]) }
	flip := func(b []byte) { b[7] ^= 4 }
	for _, tc := range []struct {
		name  string
		frame int // 0, 1, 2
		part  int // sector of the frame
		how   func([]byte)
		want  int // entries left; -1 for damage
	}{
		{"a sector of the last frame was not written", 2, 4, zero, 2},
		{"the first sector of the last frame was not written", 2, 0, zero, 2},
		{"the last frame was changed", 2, 4, flip, -1},
		{"the header of the last frame was changed", 2, 0, flip, -1},
		{"a sector was lost before another frame", 1, 4, zero, -1},
		{"a header was lost before another frame", 0, 0, zero, -1},
		{"a frame was changed before another", 0, 4, flip, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := newDisk()
			l, err := seglog.OpenFolder(d)
			if err != nil {
				t.Fatal(err)
			}
			logs := make([]*raft.Log, 3)
			for i := range logs {
				logs[i] = &raft.Log{Index: uint64(i + 1), Term: 1, Data: slices.Repeat([]byte{1}, size-48)} // and 48 more in the file
				store(t, l, logs[i])
			}
			killed := d.clone()
			closeLog(t, l)
			b := killed.names["0000000000000001.seg"].written
			tc.how(b[4096+tc.frame*size+tc.part*sector:])
			l, err = seglog.OpenFolder(killed)
			if tc.want < 0 {
				if c := new(seglog.CorruptError); !errors.As(err, &c) || c.Offset < 4096 {
					t.Fatalf("got error %v, want a CorruptError within the frames", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			wantLogs(t, l, logs[:tc.want])
			store(t, l, logs[tc.want])
			closeLog(t, l)
		})
	}
}

func TestOpen_MissingFileIsDamage(t *testing.T) {
	before, _ := filled(t, true)
	for name := range before.names {
		d := before.clone()
		delete(d.names, name)
		_, err := seglog.OpenFolder(d, small...)
		var c *seglog.CorruptError
		if !errors.As(err, &c) || c.File != name {
			t.Errorf("without %s: got error %v, want a CorruptError of it", name, err)
		}
	}
}

func TestLog_GetReportsDamageDoneWhileOpen(t *testing.T) {
	d, w := filled(t, true)
	l, err := seglog.OpenFolder(d, small...)
	if err != nil {
		t.Fatal(err)
	}
	defer closeLog(t, l)
	d.mu.Lock()
	for name, node := range d.names {
		if strings.HasSuffix(name, ".seg") {
			for i := 4096; i < len(node.written); i++ {
				node.written[i] ^= 0x20
			}
		}
	}
	d.mu.Unlock()
	for _, e := range w.acked.logs {
		var got raft.Log
		if err := l.GetLog(e.Index, &got); !errors.Is(err, seglog.ErrCorrupt) {
			t.Fatalf("get %d: got error %v, want %v", e.Index, err, seglog.ErrCorrupt)
		}
	}
}

// FuzzOpen opens what is neither a log nor without any sense.
func FuzzOpen(f *testing.F) {
	before, _ := filled(f, true)
	names := slices.Sorted(maps.Keys(before.names))
	f.Add(uint8(0), uint16(4096), []byte("some bytes"))
	f.Add(uint8(2), uint16(4100), []byte{0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, file uint8, at uint16, b []byte) {
		d := before.clone()
		name := names[int(file)%len(names)]
		copy(d.names[name].written[int(at)%len(d.names[name].written):], b)
		l, err := seglog.OpenFolder(d, small...)
		if err != nil {
			if !errors.Is(err, seglog.ErrCorrupt) && !errors.Is(err, seglog.ErrVersion) {
				t.Fatalf("got error %v, want %v", err, seglog.ErrCorrupt)
			}
			return
		}
		contents(t, l)
		closeLog(t, l)
	})
}

// FuzzEntry decodes anything, and encodes again what it makes of it.
func FuzzEntry(f *testing.F) {
	for i := range uint64(8) {
		f.Add(seglog.AppendEntry(nil, entry(i, i*300, int(i))))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var l, again raft.Log
		rest, err := seglog.DecodeEntry(b, 5, &l)
		if err != nil {
			return
		}
		if len(l.Data)+len(l.Extensions) > len(b) || len(rest) > len(b) {
			t.Fatal("got more than there was")
		}
		if _, err := seglog.DecodeEntry(seglog.AppendEntry(nil, &l), 5, &again); err != nil || !equal(&l, &again) {
			t.Fatalf("got %+v, %v, want %+v", again, err, l)
		}
	})
}

// FuzzFrame parses anything as a header, and as the facts.
func FuzzFrame(f *testing.F) {
	d, _ := filled(f, true)
	for _, node := range d.names {
		f.Add(node.written[:min(len(node.written), 5000)])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, ok := seglog.ParseFrame(b); ok && n > len(b) {
			t.Fatalf("got a frame of %d bytes in %d", n, len(b))
		}
		if again, ok := seglog.ReencodeFacts(b); ok {
			if third, ok := seglog.ReencodeFacts(again); !ok || string(third) != string(again) {
				t.Fatalf("facts %x become %x", again, third)
			}
		}
	})
}
