package boltfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/escapement-go/scheduler/internal/boltfile"
)

// newFile makes a file with a bucket that has branches, a small one in another,
// and a value over several pages.
func newFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	for part := range 4 {
		err = errors.Join(err, db.Update(func(tx *bbolt.Tx) error {
			many, err := tx.CreateBucketIfNotExists([]byte("many"))
			if err != nil {
				return err
			}
			for i := range 200 {
				err = errors.Join(err, many.Put(fmt.Appendf(nil, "%d-%04d", part, i), make([]byte, 100)))
			}
			inner, inErr := many.CreateBucketIfNotExists([]byte("inner"))
			if inErr != nil {
				return inErr
			}
			return errors.Join(err, inner.Put(fmt.Appendf(nil, "%d", part), []byte("x")))
		}))
	}
	err = errors.Join(err, db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("large"))
		if err != nil {
			return err
		}
		return b.Put([]byte("k"), make([]byte, 20_000))
	}), db.Close())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func check(t *testing.T, path string) (boltfile.Content, error) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return boltfile.Check(f)
}

// change changes a byte of the file.
func change(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

func TestCheck_counts_the_rows_of_an_intact_file(t *testing.T) {
	got, err := check(t, newFile(t))
	want := boltfile.Content{Rows: map[string]uint64{"many": 800, "many/inner": 4, "large": 1}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("check: %v, (-want +got)\n%s", err, diff)
	}
}

func TestCheck_tells_which_file_is_behind(t *testing.T) {
	size := int64(os.Getpagesize())
	for _, meta := range []int64{0, 1} {
		path := newFile(t)
		change(t, path, meta*size+16+40)
		if got, err := check(t, path); err != nil || !got.Behind {
			t.Errorf("meta page %d unreadable: got %+v, %v, want it to be behind", meta, got, err)
		}
		change(t, path, (1-meta)*size+16+40)
		var damage *boltfile.DamageError
		if got, err := check(t, path); !errors.As(err, &damage) {
			t.Errorf("both meta pages unreadable: got %+v, %v, want a DamageError", got, err)
		}
	}
}

// What passes is what bbolt can read, whatever it is.
func TestCheck_lets_pass_what_bbolt_can_read_alone(t *testing.T) {
	path := newFile(t)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for at := 0; at < len(content); at += 1021 {
		bad := filepath.Join(t.TempDir(), "bad.db")
		harmed := append([]byte(nil), content...)
		harmed[at] ^= 1 << (at % 8)
		if at%3 == 0 {
			harmed = harmed[:at]
		}
		if err := os.WriteFile(bad, harmed, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := check(t, bad); err != nil {
			found++
			continue
		}
		db, err := bbolt.Open(bad, 0o600, &bbolt.Options{NoFreelistSync: true}) // panics on what it cannot read
		if err != nil {
			t.Errorf("change at %d passes, and bbolt says %v", at, err)
			continue
		}
		err = db.View(func(tx *bbolt.Tx) error {
			return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
				return b.ForEach(func(_, _ []byte) error { return nil })
			})
		})
		if err := errors.Join(err, db.Close()); err != nil {
			t.Errorf("change at %d passes, and bbolt says %v", at, err)
		}
	}
	if found == 0 {
		t.Error("no damage was found")
	}
}

func TestCheck_refuses_what_is_no_bbolt_file(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte(strings.Repeat("text", 10_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	var damage *boltfile.DamageError
	if _, err := check(t, path); !errors.As(err, &damage) {
		t.Errorf("check: got %v, want a DamageError", err)
	}
}

func TestLock_is_taken_once(t *testing.T) {
	path := newFile(t)
	one, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	two, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	if err := boltfile.Lock(one); err != nil {
		t.Fatal(err)
	}
	switch err := boltfile.Lock(two); {
	case err == nil:
		t.Skip("on this system bbolt alone locks")
	case !errors.Is(err, boltfile.ErrLocked):
		t.Errorf("second lock: got %v, want %v", err, boltfile.ErrLocked)
	}
	if err := errors.Join(boltfile.Unlock(one), boltfile.Lock(two)); err != nil {
		t.Errorf("lock once it is free: %v", err)
	}
}
