package seglog_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/escapement-go/scheduler/cluster/seglog"
)

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}

func TestOpen_FolderInUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	l := open(t, dir)
	_, err := seglog.Open(dir)
	wantError(t, err, seglog.ErrInUse)
	closeLog(t, l)
	closeLog(t, open(t, dir))
}

func TestLog_Refusals(t *testing.T) {
	l := open(t, t.TempDir(), small...)
	store(t, l, entries(10, 1, 5, 100)...)
	wantError(t, l.StoreLog(entry(16, 1, 1)), seglog.ErrNotNext)
	wantError(t, l.StoreLog(entry(14, 1, 1)), seglog.ErrNotNext)
	wantError(t, l.StoreLogs([]*raft.Log{entry(15, 1, 1), entry(17, 1, 1)}), seglog.ErrNotNext)
	wantError(t, l.DeleteRange(11, 13), seglog.ErrMiddle)
	wantError(t, l.Set([]byte("k"), make([]byte, 1<<20)), seglog.ErrTooLarge)
	_, err := l.Get([]byte("k"))
	wantError(t, err, seglog.ErrKeyNotFound)
	if got, want := fmt.Sprint(err), "not found"; got != want {
		t.Errorf("got error %q, want %q, by which raft knows it", got, want)
	}
	wantLogs(t, l, entries(10, 1, 5, 100))

	closeLog(t, l)
	closeLog(t, l)
	wantError(t, l.StoreLog(entry(15, 1, 1)), seglog.ErrClosed)
	wantError(t, l.DeleteRange(10, 10), seglog.ErrClosed)
	wantError(t, l.Set(nil, nil), seglog.ErrClosed)
	wantError(t, l.GetLog(10, new(raft.Log)), seglog.ErrClosed)
	_, err = l.LastIndex()
	wantError(t, err, seglog.ErrClosed)
}

func TestLog_DataIsACopy(t *testing.T) {
	l := open(t, t.TempDir())
	e, want := entry(1, 1, 100), entry(1, 1, 100)
	store(t, l, e)
	clear(e.Data)
	var got raft.Log
	for range 2 {
		if err := l.GetLog(1, &got); err != nil || !equal(&got, want) {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
		clear(got.Data)
	}
}

func TestLog_LargeCalls(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	want := append(entries(1, 1, 70, 64<<10), entry(71, 1, 5<<20), entry(72, 1, 10))
	store(t, l, want[:70]...)
	store(t, l, want[70])
	store(t, l, want[71])
	wantLogs(t, l, want)
	closeLog(t, l)
	wantLogs(t, open(t, dir), want)
}

// TestLog_TailNeverComesBack writes what fits exactly into the place of deleted entries.
func TestLog_TailNeverComesBack(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	for i := range uint64(9) {
		store(t, l, entry(i+1, 1, 200))
	}
	if err := l.DeleteRange(4, 9); err != nil {
		t.Fatal(err)
	}
	store(t, l, entry(4, 2, 200))
	closeLog(t, l)
	wantLogs(t, open(t, dir), append(entries(1, 1, 3, 200), entry(4, 2, 200)))
}

func TestLog_HeadGivesSpaceBack(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, small...)
	for i := range uint64(100) {
		store(t, l, entry(i+1, 1, 3000))
	}
	if got, least := l.Bytes(), int64(300_000); got < least || got > least*11/10 {
		t.Errorf("got %d bytes, want a little more than %d", got, least)
	}
	if err := l.DeleteRange(1, 98); err != nil {
		t.Fatal(err)
	}
	if got := l.Bytes(); got < 6000 || got > 6500 {
		t.Errorf("got %d bytes, want a little more than 6000", got)
	}
	closeLog(t, l)
	files, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil || len(files) > 3 {
		t.Errorf("got segments %v, %v, want 3 at most", files, err)
	}
}

func TestLog_ReadersWritersAndTruncation(t *testing.T) {
	l := open(t, t.TempDir(), small...)
	const n = 400
	store(t, l, entry(1, 1, 700))
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		wg.Go(func() { // until the log is written
			for {
				select {
				case <-done:
					return
				default:
				}
				first, last := bounds(t, l)
				for i := first; i <= last; i++ {
					var e raft.Log
					err := l.GetLog(i, &e)
					if err != nil && !errors.Is(err, raft.ErrLogNotFound) || err == nil && !equal(&e, entry(i, 1, 700)) {
						t.Errorf("get %d: got %v, %v", i, e, err)
						return
					}
				}
				_ = l.Bytes()
			}
		})
	}
	wg.Go(func() { // until the log is written
		for {
			select {
			case <-done:
				return
			default:
			}
			if first, last := bounds(t, l); last > first+30 {
				if err := l.DeleteRange(first, last-30); err != nil {
					t.Errorf("delete: %v", err)
				}
			}
			if err := l.SetUint64([]byte("CurrentTerm"), 1); err != nil {
				t.Errorf("set: %v", err)
			}
		}
	})
	for i := uint64(2); i <= n; i++ {
		store(t, l, entry(i, 1, 700))
	}
	close(done)
	wg.Wait()
	if _, last := bounds(t, l); last != n {
		t.Errorf("got last index %d, want %d", last, n)
	}
}

// TestOpen_Format1 opens what version 1 of the format has written: testdata/v1, made by -update of this version.
func TestOpen_Format1(t *testing.T) {
	want := state{values: map[string]uint64{"CurrentTerm": 7}}
	want.logs = append(append(entries(4, 1, 3, 600), entries(7, 2, 2, 30)...), entry(9, 2, 0))
	golden := filepath.Join("testdata", "v1")
	if *update {
		l := open(t, golden, small...)
		store(t, l, entries(1, 1, 8, 600)...)
		for _, err := range []error{l.DeleteRange(1, 3), l.DeleteRange(7, 8), l.SetUint64([]byte("CurrentTerm"), 7)} {
			wantError(t, err, nil)
		}
		store(t, l, want.logs[3:5]...)
		store(t, l, want.logs[5])
		closeLog(t, l)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(golden)); err != nil {
		t.Fatal(err)
	}
	if err := want.check(t, open(t, dir, small...)); err != nil {
		t.Error(err)
	}
}

func TestOpen_UnknownVersion(t *testing.T) {
	for _, part := range []string{"meta", ".seg"} {
		d, _ := filled(t, true)
		for name, node := range d.names {
			if strings.HasSuffix(name, part) {
				seglog.SetVersion(node.written, 2)
			}
		}
		_, err := seglog.OpenFolder(d, small...)
		var v *seglog.VersionError
		if !errors.As(err, &v) || !strings.HasSuffix(v.File, part) || v.Version != 2 {
			t.Errorf("got error %v, want a VersionError of %s", err, part)
		}
	}
}
