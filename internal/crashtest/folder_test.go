//go:build unix

package crashtest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/escapement-go/scheduler"
)

// echo is the task of tests that need no more than one.
var echo = scheduler.NewTask[string, string]("echo")

func echoing(_ context.Context, in string) (string, error) { return in, nil }

// newEcho makes a scheduler on a folder that can do echo.
func newEcho(t *testing.T, dir string, opts ...scheduler.Option) *scheduler.Scheduler {
	t.Helper()
	opts = append([]scheduler.Option{scheduler.WithDataDir(dir), scheduler.WithHandler(echo, echoing)}, opts...)
	s, err := scheduler.New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// guarded is the test's context with the hang guard on it.
func guarded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	t.Cleanup(cancel)
	return ctx
}

// started makes and starts a scheduler; it is shut down when the test ends.
func started(t *testing.T, dir string, opts ...scheduler.Option) *scheduler.Scheduler {
	t.Helper()
	s := newEcho(t, dir, opts...)
	if err := s.Start(guarded(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Shutdown(context.WithoutCancel(t.Context())) })
	return s
}

// refuses starts a scheduler on a folder and wants the given error.
func refuses(t *testing.T, dir string, want error) {
	t.Helper()
	ctx := guarded(t)
	s := newEcho(t, dir)
	if err := s.Start(ctx); !errors.Is(err, want) {
		t.Errorf("start: got %v, want %v", err, want)
	}
	if err := s.Start(ctx); !errors.Is(err, scheduler.ErrClosed) {
		t.Errorf("start after a failed one: got %v, want %v", err, scheduler.ErrClosed)
	}
	if _, err := echo.Enqueue(ctx, s, "x"); !errors.Is(err, scheduler.ErrClosed) {
		t.Errorf("call after a failed start: got %v, want %v", err, scheduler.ErrClosed)
	}
	if err := s.Shutdown(ctx); ctx.Err() != nil {
		t.Errorf("shutdown after a failed start hangs: %v", err)
	}
}

// mustEcho runs the task once, to its end.
func mustEcho(t *testing.T, s *scheduler.Scheduler, text string) scheduler.RunID {
	t.Helper()
	ctx := guarded(t)
	f, err := echo.Enqueue(ctx, s, text)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.Wait(ctx); err != nil || got != text {
		t.Fatalf("run: got %q, %v, want %q", got, err, text)
	}
	return f.ID()
}

// holdRole has a folder in use until it is told that it may end.
func holdRole(c *child) error {
	var dir string
	if err := c.parse(&dir); err != nil {
		return err
	}
	s, err := scheduler.New(scheduler.WithDataDir(dir), scheduler.WithHandler(echo, echoing))
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := s.Start(ctx); err != nil {
		return err
	}
	id, err := s.Enqueue(ctx, echo.With("held"))
	if err != nil {
		return err
	}
	c.say(id)
	c.in.Scan()
	return s.Shutdown(ctx)
}

func TestFolder_in_use_by_another_process_is_refused_until_that_is_gone(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"ended", "killed"} {
		t.Run(end, func(t *testing.T) {
			dir := t.TempDir()
			p := spawn(t, "hold", dir)
			var id scheduler.RunID
			p.must(&id)
			refuses(t, dir, scheduler.ErrInUse)
			if end == "killed" {
				p.kill()
			} else {
				p.tell("end")
				if err := p.ends(); err != nil {
					t.Errorf("the holder was disturbed: %v\n%s", err, p.tail())
				}
			}
			s := started(t, dir)
			if r, err := s.Await(guarded(t), id); err != nil || r.State != scheduler.Succeeded {
				t.Errorf("the holder's run: got %v, %v, want %v", r.State, err, scheduler.Succeeded)
			}
		})
	}
}

func TestFolder_in_use_by_the_same_process_is_refused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := started(t, dir)
	refuses(t, dir, scheduler.ErrInUse)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skipf("no symbolic links: %v", err)
	}
	refuses(t, link, scheduler.ErrInUse)
	mustEcho(t, s, "undisturbed")
}

// A build to come writes a higher format, or rows of a higher version.
func TestFolder_of_a_newer_version_is_refused_and_left_as_it_is(t *testing.T) {
	t.Parallel()
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	seal := func(key, row []byte) []byte {
		binary.LittleEndian.PutUint32(row, crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, row[4:]))
		return row
	}
	for name, forge := range map[string]func(key, row []byte) []byte{
		"format": func(_, row []byte) []byte { return append(row[:5], 0xff, 0x7f) },
		"rows": func(_, row []byte) []byte {
			row[4]++
			return row
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := started(t, dir)
			mustEcho(t, s, "old")
			if err := s.Shutdown(guarded(t)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "state.db")
			db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			err = db.Update(func(tx *bbolt.Tx) error {
				meta, key := tx.Bucket([]byte("meta")), []byte("format")
				return meta.Put(key, seal(key, forge(key, bytes.Clone(meta.Get(key)))))
			})
			if err := errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
			before := read(t, path)
			refuses(t, dir, scheduler.ErrNewer)
			if !bytes.Equal(read(t, path), before) {
				t.Error("the file was changed")
			}
		})
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFolder_that_cannot_be_written_is_refused(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := started(t, dir)
	id := mustEcho(t, s, "written")
	if err := s.Shutdown(guarded(t)); err != nil {
		t.Fatal(err)
	}
	writable, want := readOnly(t, dir)
	refuses(t, dir, want)
	refuses(t, filepath.Join(dir, "below"), want)
	writable()
	s = started(t, dir)
	if r, err := s.Get(guarded(t), id); err != nil || r.State != scheduler.Succeeded {
		t.Errorf("run: got %v, %v, want %v", r.State, err, scheduler.Succeeded)
	}
}

func TestFolder_that_is_a_file_is_refused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	refuses(t, path, syscall.ENOTDIR)
	refuses(t, filepath.Join(path, "below"), syscall.ENOTDIR)
	if got := read(t, path); string(got) != "mine" {
		t.Errorf("the file: got %q, want it untouched", got)
	}
}

// A folder that has just been made is as safe as an old one: without its log it is
// not taken for an empty one.
func TestFolder_that_is_young_and_has_lost_its_log_is_refused(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(path string) error{
		"missing": os.RemoveAll,
		"empty":   func(path string) error { return errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			p := spawn(t, "hold", dir)
			var id scheduler.RunID
			p.must(&id) // acknowledged, and most likely not flushed
			p.kill()
			if err := harm(filepath.Join(dir, "log")); err != nil {
				t.Fatal(err)
			}
			refuses(t, dir, scheduler.ErrCorrupt)
		})
	}
}
