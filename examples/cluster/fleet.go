//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A fleet is the three processes, as their parent sees them.
type fleet struct {
	dir   string
	peers []string // "a=127.0.0.1:4711", …
	nodes map[string]*process
	lines chan line // what they print; those that nobody waits for are dropped
}

type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{}
}

type line struct{ node, text string }

func newFleet(dir string) (*fleet, error) {
	f := &fleet{dir: dir, nodes: make(map[string]*process), lines: make(chan line, 1024)} // 1024: more than is printed while nobody listens
	var held []net.Listener
	for _, id := range ids {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		held = append(held, ln)
		f.peers = append(f.peers, id+"="+ln.Addr().String())
	}
	for _, ln := range held { // all at once, so that each has a port of its own
		if err := ln.Close(); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *fleet) running(id string) bool {
	p := f.nodes[id]
	if p == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// start starts the program itself, as a node.
func (f *fleet) start(id string) error {
	if f.running(id) {
		return fmt.Errorf("node %s runs", id)
	}
	cmd := exec.Command(os.Args[0], "-dir", f.dir, "-node", id, "-peers", strings.Join(f.peers, ","))
	cmd.SysProcAttr = orphanless()
	stdin, err := cmd.StdinPipe() // a node ends when it is closed
	if err != nil {
		return err
	}
	out, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &process{cmd: cmd, stdin: stdin, ended: make(chan struct{})}
	f.nodes[id] = p
	fmt.Printf("[%s] process %d\n", id, cmd.Process.Pid)
	var printing sync.WaitGroup
	printing.Go(func() { // ends with the process
		for in := bufio.NewScanner(out); in.Scan(); {
			fmt.Printf("[%s] %s\n", id, in.Text())
			select {
			case f.lines <- line{id, in.Text()}:
			default:
			}
		}
	})
	go func() { // ends with the process
		err := cmd.Wait()
		_ = w.Close()
		printing.Wait()
		if err == nil {
			err = errors.New("in good order")
		}
		fmt.Printf("[%s] process has ended: %v\n", id, err)
		close(p.ended)
	}()
	return nil
}

// do carries out a command.
func (f *fleet) do(text string) error {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil
	}
	if len(words) != 2 {
		return fmt.Errorf("%q: a command and a node, like: kill a", text)
	}
	do, id := words[0], words[1]
	if do == "start" {
		return f.start(id)
	}
	if !f.running(id) {
		return fmt.Errorf("node %q does not run", id)
	}
	p := f.nodes[id]
	switch do {
	case "kill":
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ended
		return nil
	case "pause":
		return p.cmd.Process.Signal(syscall.SIGSTOP)
	case "resume":
		return p.cmd.Process.Signal(syscall.SIGCONT)
	case "stop", "enqueue", "nodes", "ticks":
		_, err := fmt.Fprintln(p.stdin, do)
		return err
	}
	return fmt.Errorf("%q is no command", do)
}

// await waits until a node, or any if by is empty, prints a line that begins with
// the given word. It returns which one did.
func (f *fleet) await(ctx context.Context, word, by string) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		select {
		case l := <-f.lines:
			if strings.HasPrefix(l.text, word) && (by == "" || by == l.node) {
				return l.node, nil
			}
		case <-ctx.Done():
			return "", fmt.Errorf("no node says %q: %w", word, ctx.Err())
		}
	}
}

// close stops all nodes in good order, and kills those that take long.
func (f *fleet) close() {
	for _, p := range f.nodes {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.stdin.Close()
	}
	late := time.NewTimer(10 * time.Second)
	defer late.Stop()
	for _, p := range f.nodes {
		select {
		case <-p.ended:
		case <-late.C:
			for _, p := range f.nodes {
				_ = p.cmd.Process.Kill()
			}
		}
		<-p.ended
	}
}
