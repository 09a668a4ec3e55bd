//go:build unix

// Command cluster runs three nodes as three processes, shows who leads and which
// node executes what, and lets you kill, freeze and stop them.
//
//	go run ./examples/cluster
//
// Commands, one a line, N being a, b or c: kill N, stop N (in good order), start N,
// pause N, resume N, enqueue N, nodes N, ticks N (as node N knows them), quit. With
// -once it kills the leader by itself, shows how the others go on, starts it again
// and ends with the ledger.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

var ids = []string{"a", "b", "c"}

func main() {
	dir := flag.String("dir", "cluster-data", "folder that keeps everything")
	once := flag.Bool("once", false, "kill the leader, show what happens, and end")
	id := flag.String("node", "", "the program starts itself with it: be this node")
	peers := flag.String("peers", "", "with -node: where the nodes are")
	flag.Parse()
	var err error
	if *id != "" {
		err = runNode(*id, *dir, strings.Split(*peers, ","))
	} else {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = run(ctx, *dir, *once)
		stop()
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dir string, once bool) error {
	f, err := newFleet(dir)
	if err != nil {
		return err
	}
	defer f.close()
	for _, id := range ids {
		if err := f.start(id); err != nil {
			return err
		}
	}
	if once {
		return demo(ctx, f)
	}
	fmt.Println("kill N, stop N, start N, pause N, resume N, enqueue N, nodes N, ticks N, quit")
	lines := make(chan string)
	go func() { // ends with the input, or with the process
		defer close(lines)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- in.Text()
		}
	}()
	for {
		select {
		case line, more := <-lines:
			if !more || strings.TrimSpace(line) == "quit" {
				return nil
			}
			if err := f.do(line); err != nil {
				fmt.Println(err)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// demo kills the leader once.
func demo(ctx context.Context, f *fleet) error {
	leader, err := f.await(ctx, "leads", "")
	if err != nil {
		return err
	}
	for range 3 {
		if _, err := f.await(ctx, "tick", ""); err != nil {
			return err
		}
	}
	steps := []struct{ do, then, by string }{
		{"kill " + leader, "leads", ""},
		{"enqueue " + other(leader), "result", ""},
		{"", "tick", ""},
		{"start " + leader, "is there", leader},
		{"enqueue " + leader, "result", ""},
		{"nodes " + leader, "end of nodes", leader},
		{"ticks " + leader, "end of ledger", leader},
	}
	for _, s := range steps {
		if s.do != "" {
			fmt.Println("> " + s.do)
			if err := f.do(s.do); err != nil {
				return err
			}
		}
		if _, err := f.await(ctx, s.then, s.by); err != nil {
			return err
		}
	}
	fmt.Printf("node %s was killed while it led; the ticks went on with the others, and each has one outcome\n", leader)
	return nil
}

// other returns a node that is not id.
func other(id string) string {
	if id == ids[0] {
		return ids[1]
	}
	return ids[0]
}
