//go:build unix

package crashtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/internal/crashtest"
)

// opened is what became of opening a folder.
type opened struct {
	Err    string
	Named  bool     // Err is one of those that Start promises for damage
	Wrong  []string // what was acknowledged and is not there, or is otherwise
	Told   int      // runs of which it was said that they are damaged
	Intact int
}

// openArgs are what a folder that is opened must have.
type openArgs struct{ History string }

// openRole opens one folder after the other, each with a scheduler, and tells what
// it found in it.
func openRole(c *child) error {
	var a openArgs
	if err := c.parse(&a); err != nil {
		return err
	}
	raw, err := os.ReadFile(a.History)
	if err != nil {
		return err
	}
	var h crashtest.History
	if err := json.Unmarshal(raw, &h); err != nil {
		return err
	}
	for c.in.Scan() {
		dir := c.in.Text()
		kind := scheduler.LogBolt
		if _, err := os.Stat(filepath.Join(dir, "log")); err == nil {
			kind = scheduler.LogSegments
		}
		l, err := newLoad(loadArgs{Dir: dir, Facts: dir + ".facts", Log: kind}, func(any) {})
		if err != nil {
			return err
		}
		c.say(l.inspect(&h))
	}
	return c.in.Err()
}

func (l *load) inspect(h *crashtest.History) (o opened) {
	ctx, cancel := context.WithTimeout(context.Background(), hang/2)
	defer cancel()
	if err := l.s.Start(ctx); err != nil {
		o.Err = err.Error()
		o.Named = errors.Is(err, scheduler.ErrCorrupt) || errors.Is(err, scheduler.ErrNewer)
		return o
	}
	wrong := func(format string, args ...any) { o.Wrong = append(o.Wrong, fmt.Sprintf(format, args...)) }
	get := func(id scheduler.RunID, what string, good func(r *scheduler.Run) bool) {
		switch r, err := l.s.Get(ctx, id); {
		case errors.Is(err, scheduler.ErrCorrupt):
			o.Told++
		case err != nil:
			wrong("run %v, %s: %v", id, what, err)
		case !good(&r):
			wrong("run %v, %s: it is %v under fence %d with %s", id, what, r.State, r.Fence, r.Result)
		default:
			o.Intact++
		}
	}
	for _, a := range h.Acks {
		switch a.Op {
		case crashtest.OpEnqueue:
			get(a.Run, "enqueued", func(r *scheduler.Run) bool {
				var w crashtest.Work
				return json.Unmarshal(r.Input, &w) == nil && w == a.Work
			})
		case crashtest.OpCancel:
			get(a.Run, "canceled", func(r *scheduler.Run) bool { return r.State == scheduler.Canceled })
		case crashtest.OpStarted, crashtest.OpEnded, crashtest.OpOther:
		}
	}
	for _, s := range h.Seen {
		get(s.ID, "ended", func(r *scheduler.Run) bool {
			return r.State == s.State && r.Fence == s.Fence && bytes.Equal(r.Result, s.Result)
		})
	}
	stop, now := context.WithCancel(ctx)
	now()
	_ = l.s.Shutdown(stop) // what a damaged file makes of it is not the question
	return o
}

// A folder is the content of one that a killed process has left, and what was
// acknowledged of it.
type folder struct {
	files   map[string][]byte
	history string
}

// leftBehind makes a folder: of a process that was killed under load, or drained.
func leftBehind(t *testing.T, log scheduler.LogKind, drained bool) *folder {
	t.Helper()
	work := t.TempDir()
	args := loadArgs{Dir: filepath.Join(work, "data"), Facts: filepath.Join(work, "facts"), Seed: 1, Life: 1, Log: log}
	p := spawn(t, "load", args)
	p.heard(400, nil)
	if drained {
		p.signal(15)
		if err := p.ends(); err != nil {
			t.Fatalf("drain: %v\n%s", err, p.tail())
		}
	}
	p.kill()
	h := new(crashtest.History)
	for _, line := range p.lines {
		var a crashtest.Ack
		if err := json.Unmarshal(line, &a); err != nil {
			t.Fatal(err)
		}
		if a.Op == crashtest.OpEnded {
			h.Seen = append(h.Seen, *a.Ended)
		} else {
			h.Acks = append(h.Acks, a)
		}
	}
	raw, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	f := &folder{files: make(map[string][]byte), history: filepath.Join(work, "history")}
	if err := os.WriteFile(f.history, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(os.DirFS(args.Dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			f.files[name] = read(t, filepath.Join(args.Dir, name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

const page = 4096

// lay puts the files into a folder, but for one that is replaced; nil leaves it
// out. Empty pages become holes.
func (f *folder) lay(t *testing.T, dir, replaced string, by []byte) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range f.files {
		if name == replaced {
			if content = by; by == nil {
				continue
			}
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		out, err := os.Create(filepath.Join(dir, name))
		if err == nil {
			err = out.Truncate(int64(len(content)))
		}
		for at := 0; err == nil && at < len(content); at += page {
			if part := content[at:min(at+page, len(content))]; !empty(part) {
				_, err = out.WriteAt(part, int64(at))
			}
		}
		if err := errors.Join(err, out.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func empty(b []byte) bool { return !slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) }

// An opener is a child that opens folders, another one once it has fallen.
type opener struct {
	t *testing.T
	f *folder
	p *process
	n int

	refused, intact int
}

// open opens the folder with one file replaced, and says what is wrong about what
// comes of it.
func (o *opener) open(what, name string, by []byte) {
	o.t.Helper()
	o.n++
	dir := filepath.Join(o.t.TempDir(), fmt.Sprint(o.n))
	o.f.lay(o.t, dir, name, by)
	defer os.RemoveAll(dir)
	if o.p == nil {
		o.p = spawn(o.t, "open", openArgs{o.f.history})
	}
	o.p.tell(dir)
	var got opened
	if !o.p.hear(&got) {
		err := o.p.cmd.Wait()
		o.t.Errorf("%s: the process has ended: %v\n%.3000s", what, err, o.p.stderr.Bytes())
		o.p = nil
		return
	}
	switch {
	case got.Err != "" && !got.Named:
		o.t.Errorf("%s: start: got %v, want %v", what, got.Err, scheduler.ErrCorrupt)
	case got.Err != "":
		o.refused++
	case len(got.Wrong) > 0:
		o.t.Errorf("%s: it opens, with %d wrong: %v", what, len(got.Wrong), got.Wrong[0])
	default:
		o.intact++
	}
}

// damages is how many damages of each kind each file gets.
func damages() int { return max(3, *rounds/4) }

// damaging runs a test that damages the folder of a process that was killed, and of
// one that was drained.
func damaging(t *testing.T, log scheduler.LogKind, damage func(o *opener, rnd *rand.Rand, drained bool)) {
	t.Helper()
	t.Parallel()
	for _, drained := range []bool{false, true} {
		t.Run(map[bool]string{false: "after_kill", true: "after_drain"}[drained], func(t *testing.T) {
			t.Parallel()
			o := &opener{t: t, f: leftBehind(t, log, drained)}
			o.open("no damage", "", nil)
			if o.intact != 1 {
				t.Fatal("the folder cannot be opened before it is damaged")
			}
			chance := uint64(*seed)
			if chance == 0 {
				chance = uint64(time.Now().UnixNano())
			}
			t.Logf("seed %d", chance)
			damage(o, rand.New(rand.NewPCG(chance, 1)), drained)
			t.Logf("%d damages: %d refused, %d without an effect on what was acknowledged", o.n-1, o.refused, o.intact-1)
		})
	}
}

// A harm is what may happen to a file somewhere in the page at an offset. It returns
// what it has done and the file as it is then.
type harm func(rnd *rand.Rand, content []byte, at int) (what string, bad []byte)

func bitChanged(rnd *rand.Rand, content []byte, at int) (what string, bad []byte) {
	at += rnd.IntN(page)
	bad = bytes.Clone(content)
	bad[at] ^= 1 << rnd.IntN(8)
	return fmt.Sprintf("a bit changed at %d", at), bad
}

func sectorLost(rnd *rand.Rand, content []byte, at int) (what string, bad []byte) {
	at += 512 * rnd.IntN(page/512)
	bad = bytes.Clone(content)
	clear(bad[at : at+512])
	return fmt.Sprintf("a sector lost at %d", at), bad
}

func cutOff(rnd *rand.Rand, content []byte, at int) (what string, bad []byte) {
	at += rnd.IntN(page)
	return fmt.Sprintf("all lost from %d", at), content[:at:at]
}

// harm opens the folder n times for each harm of a file of it.
func (o *opener) harm(rnd *rand.Rand, name string, n int, harms ...harm) {
	o.t.Helper()
	content := o.f.files[name]
	used := usedPages(content)
	for range n {
		for _, h := range harms {
			what, bad := h(rnd, content, used[rnd.IntN(len(used))]*page)
			o.open(name+" with "+what, name, bad)
		}
	}
}

func TestDamage_is_refused_or_repaired(t *testing.T) {
	damaging(t, scheduler.LogBolt, func(o *opener, rnd *rand.Rand, _ bool) {
		for _, name := range []string{"state.db", "raft.db"} {
			o.harm(rnd, name, damages(), bitChanged, sectorLost, cutOff)
			o.open(name+" cut to nothing", name, []byte{})
			for meta := range 2 {
				bad := bytes.Clone(o.f.files[name])
				bad[meta*page+20] ^= 1
				o.open(fmt.Sprintf("%s with meta page %d damaged", name, meta), name, bad)
			}
		}
	})
}

// The segment log, in a folder of several files. A sector that is lost after a kill
// may be one of a write that was under way, so that is tried after a drain alone.
func TestDamage_of_segments_is_refused_or_repaired(t *testing.T) {
	damaging(t, scheduler.LogSegments, func(o *opener, rnd *rand.Rand, drained bool) {
		harms := []harm{bitChanged}
		if drained {
			harms = append(harms, sectorLost, cutOff)
		}
		for _, name := range slices.Sorted(maps.Keys(o.f.files)) {
			if filepath.Dir(name) != "log" || empty(o.f.files[name]) {
				continue
			}
			o.harm(rnd, name, 2*damages(), harms...)
			o.open(name+" is missing", name, nil)
		}
	})
}

func usedPages(b []byte) (used []int) {
	for at := 0; at+page <= len(b); at += page {
		if !empty(b[at : at+page]) {
			used = append(used, at/page)
		}
	}
	return used
}

func TestDamage_missing_file_is_refused_or_made_up_for(t *testing.T) {
	t.Parallel()
	for _, drained := range []bool{false, true} {
		f := leftBehind(t, scheduler.LogBolt, drained)
		o := &opener{t: t, f: f}
		o.open("raft.db is missing", "raft.db", nil)
		o.open("state.db is missing", "state.db", nil)
		o.open("node-id is missing", "node-id", nil)
	}
}

// Raft keeps no checksum over an entry's kind, and passes over kinds it does not
// know or that mean nothing: a command must not become one of them.
func TestDamage_entry_of_another_kind_is_refused(t *testing.T) {
	t.Parallel()
	f := leftBehind(t, scheduler.LogBolt, false)
	o := &opener{t: t, f: f}
	for kind := byte(1); kind < 9; kind++ {
		path := filepath.Join(t.TempDir(), "raft.db")
		if err := os.WriteFile(path, f.files["raft.db"], 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true})
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(func(tx *bbolt.Tx) error {
			logs := tx.Bucket([]byte("logs"))
			k, v := logs.Cursor().Last()
			v = bytes.Clone(v)
			at := bytes.Index(v, []byte("Type")) + len("Type")
			if v[at] != 0 {
				return fmt.Errorf("the last entry is of kind %d, and should be a command", v[at])
			}
			v[at] = kind
			return logs.Put(bytes.Clone(k), v)
		})
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		o.open(fmt.Sprintf("last entry of kind %d", kind), "raft.db", read(t, path))
	}
	if o.refused != 8 {
		t.Errorf("refused: got %d of 8", o.refused)
	}
}
