package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/escapement-go/scheduler"
	"github.com/escapement-go/scheduler/cluster"
	"github.com/escapement-go/scheduler/store"
)

// life is one process of a node.
type life struct {
	world *world
	node  *node
	host  *Host
	s     *scheduler.Scheduler

	dead    atomic.Bool     // killed, or about to end by itself: what it does does not count
	up      atomic.Bool     // it has started
	leaving atomic.Bool     // it is being taken out of the cluster: it may park
	ctx     context.Context //nolint:containedctx // the process
	kill    context.CancelFunc
	clients sync.WaitGroup
	ended   chan struct{} // closed once Start has failed or returned
	client  context.CancelFunc
}

// current returns the life that has started, or nil.
func (n *node) current() *life {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.live != nil && n.live.up.Load() && !n.live.dead.Load() {
		return n.live
	}
	return nil
}

func (n *node) setLive(l *life) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.live = l
}

// start begins a life of a node. It does not wait until the life has started: a
// node without a majority does not.
func (w *world) start(ctx context.Context, n *node) {
	l := &life{world: w, node: n, ended: make(chan struct{})}
	l.ctx, l.kill = context.WithCancel(ctx)
	number := n.lives
	n.lives++
	l.host = w.net.Host(n.id)
	addr := fmt.Sprintf("%s:%d", n.id, 7000+number) // another one after each restart
	w.net.SetName(n.id+".sim", addr)
	peers := make(map[string]string)
	for _, p := range w.nodes {
		peers[p.id] = p.id + ".sim"
	}
	var join []string
	for _, p := range w.nodes {
		if n.joins && p != n {
			join = append(join, p.id+".sim")
		}
	}
	w.rec.say(n.id, "--- starts, life %d", number)
	mount := n.disk.Mount()
	s, err := w.o.New(Life{
		ID: n.id, Number: number, Addr: addr, Peers: peers, Join: join, Clock: n.clock, Host: l.host, Logger: l.logger(),
		Options: l.options(), Trailing: w.o.Trailing, OpenLog: mount.OpenLog,
		OpenStorage: func() *Storage {
			return mount.OpenStorage(func(index, digest uint64, installed bool) {
				if installed {
					w.rec.installed(n.id, index)
					select {
					case w.installed <- struct{}{}:
					default:
					}
				}
				w.rec.sample(Sample{Node: n.id, Index: index, Digest: digest, Stored: true})
			})
		},
	})
	if err != nil {
		w.rec.wrong(n.id, "New: %v", err)
		close(l.ended)
		return
	}
	l.s = s
	n.setLive(l)
	w.zombies.Go(l.begin) // ends when the scheduler has started, or cannot
}

// begin starts the scheduler and its clients. A start that fails because of the
// disk is repeated by a new life, as a supervisor of processes would.
func (l *life) begin() {
	defer close(l.ended)
	err := l.s.Start(l.ctx)
	switch {
	case l.dead.Load():
	case err != nil:
		l.world.rec.say(l.node.id, "start: %v", err)
		disk := errors.Is(err, ErrIO) || errors.Is(err, ErrFull) || errors.Is(err, cluster.ErrStorage) // the last is of the leader's too
		out := l.leaving.Load() && errors.Is(err, scheduler.ErrParked)
		if !disk && !out && l.ctx.Err() == nil {
			l.world.rec.wrong(l.node.id, "start: %v", err)
		}
	default:
		l.up.Store(true)
		ctx, stop := context.WithCancel(l.ctx)
		l.client = stop
		l.load(ctx)
	}
}

// look notes the digest of the state, and who leads.
func (l *life) look() {
	node := l.world.o.Inside(l.s)
	if node == nil || l.dead.Load() {
		return
	}
	st := node.Status()
	if st.Parked != nil {
		if l.leaving.Load() {
			return
		}
		l.world.rec.wrong(l.node.id, "is parked: %v", st.Parked)
		return
	}
	if node.Leading() {
		l.world.mu.Lock()
		l.world.leaders[st.Term] = l.node.id
		l.world.mu.Unlock()
	}
	var v Sample
	node.View(func(s *store.State) { v = Sample{Node: l.node.id, Index: s.Meta().Index, Digest: s.Digest()} })
	if !l.dead.Load() {
		l.world.rec.sample(v)
	}
}

// crash ends the life at once. The goroutines of the process cannot be stopped,
// but nothing they do counts any more: the disk and the network ignore them.
func (w *world) crash(n *node, machine bool) {
	l := n.live
	if l == nil {
		return
	}
	l.dead.Store(true)
	n.disk.Crash()
	l.host.Kill(machine)
	n.setLive(nil)
	w.unwind(l)
}

// unwind lets the goroutines of a dead process end.
func (w *world) unwind(l *life) {
	l.kill()
	w.zombies.Go(func() { // ends when the process has unwound
		<-l.ended
		l.clients.Wait()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), time.Millisecond)
		defer cancel()
		_ = l.s.Shutdown(ctx) // whatever it says, nobody hears it
	})
}

// dismiss ends the clients of a process, who are to heed their contexts at once.
func (w *world) dismiss(l *life) {
	if l.client != nil {
		l.client()
	}
	gone := make(chan struct{})
	go func() { // ends when the clients have
		defer close(gone)
		l.clients.Wait()
	}()
	select {
	case <-gone:
		return
	case <-time.After(heed):
	}
	w.rec.wrong(l.node.id, "a call goes on %v after its context has ended", heed)
	l.node.disk.Heal()
	w.net.Heal()
	<-gone
}

// shutdown ends the life in order and returns how long that took, and its error. One
// that does not come to start, because its disk hangs, is killed.
func (w *world) shutdown(n *node, within time.Duration) (time.Duration, error) {
	l := n.live
	if l == nil {
		return 0, nil
	}
	select {
	case <-l.ended:
	case <-time.After(within):
		w.rec.say(n.id, "--- killed while it starts")
		w.crash(n, false)
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), within)
	defer cancel()
	began := time.Now()
	err := l.s.Shutdown(ctx)
	took := time.Since(began)
	w.dismiss(l)
	if err != nil {
		w.rec.say(n.id, "shutdown: %v", err)
	}
	w.rec.say(n.id, "--- shut down in %v", took)
	l.dead.Store(true)
	l.kill()
	l.host.Kill(false)
	n.disk.Crash() // a shutdown that failed may have left something under way
	n.setLive(nil)
	return took, err
}

// leader returns the node that leads, or nil.
func (w *world) leader() *node {
	var found *node
	var term uint64
	for _, n := range w.nodes {
		if l := n.current(); l != nil {
			inside := w.o.Inside(l.s)
			if st := inside.Status(); st.Role == cluster.Leader && st.Term >= term {
				found, term = n, st.Term
			}
		}
	}
	return found
}
