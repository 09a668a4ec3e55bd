//go:build unix

package harness

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// roleVar names the environment variable that makes a process a child.
const roleVar = "ESCAPEMENT_HARNESS_ROLE"

// A Role is what a child does. Once it returns, the process ends.
type Role func(c *Child) error

// Main plays the role that this process was started with, and does not return then.
// In a process that [Spawn] has not started it does nothing. It is for the first
// line of a main or a TestMain.
func Main(roles map[string]Role) {
	name := os.Getenv(roleVar)
	if name == "" {
		return
	}
	c := &Child{args: []byte(os.Getenv(roleVar + "_ARGS")), in: bufio.NewScanner(os.Stdin), out: os.NewFile(3, "words")}
	if err := roles[name](c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A Child is the process itself, as its role sees it.
type Child struct {
	args []byte
	in   *bufio.Scanner

	mu  sync.Mutex // guards out
	out *os.File
}

// Parse decodes what the parent has given on the way.
func (c *Child) Parse(v any) error { return json.Unmarshal(c.args, v) }

// Say tells the parent, in one write: it is received even if the process is killed
// right after. It ends the process if there is no parent any more. Safe for
// concurrent use.
func (c *Child) Say(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.out.Write(append(line, '\n')); err != nil {
		os.Exit(2) // nobody is there to be told
	}
}

// Hear waits for the parent's next order. It reports false if there will be none.
func (c *Child) Hear(v any) bool { return c.in.Scan() && json.Unmarshal(c.in.Bytes(), v) == nil }

// A Process is a child, as its parent sees it.
type Process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	log   *tail
	over  chan struct{} // closed once the process has ended and all it said was heard
	err   error         // how it ended; set before over is closed
}

// Spawn starts a child of the named program, "" being this one. Each line that it
// says goes to hear, one after the other.
func Spawn(program, role string, args any, hear func(line []byte)) (*Process, error) {
	line, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &Process{log: new(tail), over: make(chan struct{})}
	if program == "" {
		program = os.Args[0]
	}
	p.cmd = exec.Command(program) //nolint:noctx // it is ended by Kill
	p.cmd.Env = append(os.Environ(), roleVar+"="+role, roleVar+"_ARGS="+string(line))
	p.cmd.ExtraFiles = []*os.File{w}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = orphanless()
	p.stdin, err = p.cmd.StdinPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	_ = w.Close()
	if err != nil {
		_ = r.Close()
		return nil, fmt.Errorf("harness: start %s: %w", role, err)
	}
	go p.listen(r, hear) // ends with the child
	return p, nil
}

func (p *Process) listen(r *os.File, hear func([]byte)) {
	defer close(p.over)
	for in := bufio.NewReader(r); ; {
		line, err := in.ReadBytes('\n')
		if err != nil { // a last line without its end was never said
			break
		}
		hear(line)
	}
	_ = r.Close()
	p.err = p.cmd.Wait()
}

// Tell gives the child an order.
func (p *Process) Tell(v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = p.stdin.Write(append(line, '\n'))
	}
	return err
}

// Signal sends a signal; to a process that has ended nothing happens.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Kill ends the child without warning, frozen or not, and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.over
}

// Over is closed once the child has ended and all that it said was heard.
func (p *Process) Over() <-chan struct{} { return p.over }

// Err returns how the child ended, once it has.
func (p *Process) Err() error {
	<-p.over
	return p.err
}

// Stacks ends a child that hangs with what its goroutines do, see [Process.Log].
func (p *Process) Stacks() {
	p.Signal(syscall.SIGCONT)
	p.Signal(syscall.SIGQUIT)
	<-p.over
}

// Log returns the last of what the child has printed.
func (p *Process) Log() string { return p.log.String() }

// Panicked reports whether the child has ended by a panic.
func (p *Process) Panicked() bool {
	log := []byte(p.Log())
	return bytes.Contains(log, []byte("panic:")) || bytes.Contains(log, []byte("fatal error:"))
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex // guards kept
	kept []byte
}

const keptLog = 256 << 10

// Write implements [io.Writer].
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept = append(t.kept, b...); len(t.kept) > 2*keptLog {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-keptLog:]...)
	}
	return len(b), nil
}

// String returns what is kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}
