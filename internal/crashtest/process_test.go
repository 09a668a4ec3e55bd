//go:build unix

package crashtest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// hang is after how long something that should happen is taken not to happen.
// Nothing is measured by it.
const hang = 90 * time.Second

// roleVar names the environment variable that makes the test binary a child.
const roleVar = "ESCAPEMENT_CRASH_ROLE"

// A role is what a child does. What it says is read by its parent; once it
// returns, the process ends.
type role func(c *child) error

// roles are found by name, in the environment of a child.
func roles() map[string]role {
	return map[string]role{
		"load":   loadRole,
		"hold":   holdRole,
		"open":   openRole,
		"rows":   rowRole,
		"poison": poisonRole,
	}
}

func TestMain(m *testing.M) {
	if name := os.Getenv(roleVar); name != "" {
		os.Exit(play(name))
	}
	// The tests wait more than they work.
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// A child is the process itself, as its role sees it.
type child struct {
	args []byte
	in   *bufio.Scanner // the parent's lines

	mu  sync.Mutex // guards out
	out *os.File
}

func play(name string) int {
	c := &child{args: []byte(os.Getenv(roleVar + "_ARGS")), in: bufio.NewScanner(os.Stdin), out: os.NewFile(3, "acks")}
	if err := roles()[name](c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// parse decodes what the parent has given on the way.
func (c *child) parse(v any) error { return json.Unmarshal(c.args, v) }

// say tells the parent, in one write: it is received even if the process is
// killed right after.
func (c *child) say(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.out.Write(append(line, '\n')); err != nil {
		os.Exit(2) // the parent is gone
	}
}

// A process is a child, as its parent sees it.
type process struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr bytes.Buffer // to be read once the process has ended
	silent chan struct{}

	mu    sync.Mutex // guards all below
	lines [][]byte
	more  chan struct{} // closed when there are more lines
	read  int           // lines taken by hear
}

// spawn starts a child. It is killed when the test ends.
func spawn(t *testing.T, name string, args any, env ...string) *process {
	t.Helper()
	line, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, name: name, silent: make(chan struct{}), more: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(append(os.Environ(), roleVar+"="+name, roleVar+"_ARGS="+string(line)), env...)
	p.cmd.ExtraFiles = []*os.File{w}
	p.cmd.Stderr = &p.stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	go p.listen(r) // ends when the child does, awaited by whoever reaps it
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Kill()
		<-p.silent
		_ = p.cmd.Wait()
	})
	return p
}

func (p *process) listen(r *os.File) {
	defer close(p.silent)
	defer r.Close()
	for in := bufio.NewReader(r); ; {
		line, err := in.ReadBytes('\n')
		if err != nil { // a last line without its end was never acknowledged
			return
		}
		p.mu.Lock()
		p.lines = append(p.lines, line)
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
	}
}

// heard waits until the child has said at least n lines. It reports false if the
// child ends, or the stop channel is closed, before.
func (p *process) heard(n int, stop <-chan struct{}) bool {
	p.t.Helper()
	timer := time.NewTimer(hang)
	defer timer.Stop()
	for {
		p.mu.Lock()
		got, more := len(p.lines), p.more
		p.mu.Unlock()
		if got >= n {
			return true
		}
		select {
		case <-more:
		case <-stop:
			return false
		case <-p.silent:
			p.mu.Lock()
			got = len(p.lines)
			p.mu.Unlock()
			return got >= n
		case <-timer.C:
			p.dump(fmt.Sprintf("has said %d lines and not %d", got, n))
		}
	}
}

// dump ends the test and the child, with the stacks of the latter.
func (p *process) dump(what string) {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	err := p.cmd.Wait()
	p.t.Fatalf("child %s hangs: it %s (%v)\n%s", p.name, what, err, p.tail())
}

func (p *process) tail() []byte {
	const most = 64 << 10
	out := p.stderr.Bytes()
	return out[max(0, len(out)-most):]
}

// hear decodes the next line of the child. It reports false if there is none.
func (p *process) hear(v any) bool {
	p.t.Helper()
	p.read++
	if !p.heard(p.read, nil) {
		p.read--
		return false
	}
	p.mu.Lock()
	line := p.lines[p.read-1]
	p.mu.Unlock()
	if err := json.Unmarshal(line, v); err != nil {
		p.t.Fatalf("child %s says %q: %v", p.name, line, err)
	}
	return true
}

// must is hear for a line that has to come.
func (p *process) must(v any) {
	p.t.Helper()
	if !p.hear(v) {
		err := p.cmd.Wait()
		p.t.Fatalf("child %s has ended: %v\n%s", p.name, err, p.tail())
	}
}

// tell writes a line to the child.
func (p *process) tell(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, line+"\n"); err != nil {
		p.t.Fatalf("child %s does not listen: %v", p.name, err)
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !p.over() {
		p.t.Fatalf("signal %v to child %s: %v", s, p.name, err)
	}
}

func (p *process) over() bool {
	select {
	case <-p.silent:
		return true
	default:
		return false
	}
}

// kill ends the child without warning and waits until it is gone.
func (p *process) kill() {
	p.t.Helper()
	_ = p.cmd.Process.Kill()
	<-p.silent
	_ = p.cmd.Wait() // that it was killed
	if bytes.Contains(p.stderr.Bytes(), []byte("panic:")) || bytes.Contains(p.stderr.Bytes(), []byte("fatal error:")) {
		p.t.Fatalf("child %s panicked before it was killed:\n%s", p.name, p.tail())
	}
}

// ends waits until the child has ended by itself, and returns how.
func (p *process) ends() error {
	p.t.Helper()
	timer := time.NewTimer(hang)
	defer timer.Stop()
	select {
	case <-p.silent:
	case <-timer.C:
		p.dump("does not end")
	}
	return p.cmd.Wait()
}
