package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"sort"
	"time"
)

// A Fault is a kind of fault.
type Fault string

// The faults.
const (
	Crash     Fault = "crash"      // kill -9, started again after a while
	PowerCut  Fault = "power cut"  // the machine goes: no resets, no answers
	Restart   Fault = "restart"    // a shutdown in order, and a start
	DiskError Fault = "disk error" // writes fail
	DiskFull  Fault = "disk full"
	DiskHang  Fault = "disk hang" // writes wait
	DiskSlow  Fault = "disk slow"
	ClockStep Fault = "clock step" // the time of day is set, and set right again later
	Drift     Fault = "drift"

	CutOff  Fault = "cut off" // a node from all others
	OneWay  Fault = "one way" // a node hears and is not heard, or the other way round
	Resets  Fault = "resets"  // connections break
	SlowNet Fault = "slow network"
	Freeze  Fault = "freeze" // neither disk nor network go on

	// LostAnswers and Stragglers double what was asked for, as the caller asks again.
	// Answers are lost of what was carried out just before; stragglers come seconds
	// after what was sent later over another connection, when another node leads at
	// times.
	LostAnswers Fault = "lost answers"
	Stragglers  Fault = "stragglers"

	// Absence is a crash or a cut so long that the others have not kept what the node
	// lacks: it comes back by a copy of the leader's state. Options.Trailing has to be
	// small. It is not among those of AllFaults.
	Absence Fault = "absence"

	// Leave, Expel and Wipe: a node leaves the cluster, is taken out by the leader,
	// alive or dead, or loses its disk; and comes back with an empty one, under another
	// address. They are not among those of AllFaults.
	Leave Fault = "leave"
	Expel Fault = "expel"
	Wipe  Fault = "wipe"
)

// AllFaults returns the faults that a cluster of so many nodes can have.
func AllFaults(nodes int) []Fault {
	all := []Fault{Crash, PowerCut, Restart, DiskError, DiskFull, DiskHang, DiskSlow, ClockStep, Drift}
	if nodes > 1 {
		all = append(all, CutOff, OneWay, Resets, SlowNet, Freeze, LostAnswers, Stragglers)
	}
	return all
}

// blow is one fault of the schedule that a seed makes.
type blow struct {
	at     time.Duration // since the begin
	fault  Fault
	node   int
	lasts  time.Duration
	amount time.Duration
}

// blows draws the schedule of faults.
func (o Options) blows() (all []blow) {
	rng := rand.New(rand.NewPCG(o.Seed, 0x666c7473))
	if o.Faults.Every < 0 || len(o.Faults.Kinds) == 0 {
		return nil
	}
	for at := 2 * time.Second; ; {
		at += time.Duration(rng.Int64N(int64(2 * o.Faults.Every)))
		if at >= o.Faulty {
			return all
		}
		b := blow{at: at, fault: o.Faults.Kinds[rng.IntN(len(o.Faults.Kinds))], node: rng.IntN(o.Nodes)}
		b.lasts = time.Duration(rng.ExpFloat64() * float64(o.Faults.Lasts))
		if rng.IntN(6) == 0 {
			b.lasts *= 5 // so that workers are given up, and come back with what they have done
		}
		b.lasts = min(max(b.lasts, 10*time.Millisecond), 30*time.Second)
		switch b.fault {
		case ClockStep:
			scale := []time.Duration{100 * time.Millisecond, 5 * time.Second, time.Minute, 3 * time.Hour}[rng.IntN(4)]
			b.amount = time.Duration((2*rng.Float64() - 1) * float64(scale))
		case Drift:
			b.amount = time.Duration((2*rng.Float64() - 1) * float64(500*time.Microsecond))
		case Absence:
			b.lasts += 40 * time.Second
			b.amount = time.Duration(rng.IntN(4)) // see away
		case LostAnswers:
			b.amount = time.Duration(rng.Int64N(int64(20 * time.Millisecond)))
		case Stragglers:
			b.amount = time.Duration(rng.Int64N(int64(5 * time.Second)))
		case DiskSlow, SlowNet:
			b.amount = time.Duration(rng.Int64N(int64(300 * time.Millisecond)))
		default: // has no amount
		}
		all = append(all, b)
	}
}

// strike lets the faults happen, one after the other or several at once, as long
// as the nodes that are ill leave a majority (a lone node may be ill), until the
// faulty time is over.
func (w *world) strike(ctx context.Context) {
	type cure struct {
		at time.Time
		do func()
	}
	var cures []cure
	began := time.Now()
	healUntil := func(end time.Time) {
		for len(cures) > 0 && !cures[0].at.After(end) {
			sleep(ctx, time.Until(cures[0].at))
			cures[0].do()
			cures = cures[1:]
		}
		sleep(ctx, time.Until(end))
	}
	for _, b := range w.o.blows() {
		healUntil(began.Add(b.at))
		n := w.nodes[b.node]
		if l := w.leader(); w.o.Faults.Leader && l != nil {
			n = l
		}
		if !w.mayFall(n) || n.live == nil {
			continue
		}
		w.struck[b.fault]++
		w.rec.say(n.id, "--- %s for %v (%v)", b.fault, b.lasts.Round(time.Millisecond), b.amount)
		do, ill := w.hit(ctx, n, b)
		if ill {
			n.ills++
		}
		cures = append(cures, cure{time.Now().Add(b.lasts), func() {
			w.rec.say(n.id, "--- %s ends", b.fault)
			do()
			if ill { // others of its faults may last
				n.ills--
			}
		}})
		sort.SliceStable(cures, func(i, j int) bool { return cures[i].at.Before(cures[j].at) })
	}
	healUntil(began.Add(w.o.Faulty))
	for _, c := range cures {
		c.do()
	}
}

// mayFall reports whether a majority is left without n.
func (w *world) mayFall(n *node) bool {
	ill := 0
	for _, other := range w.nodes {
		if other != n && w.sick(other) {
			ill++
		}
	}
	return !w.sick(n) && (len(w.nodes) == 1 || (ill+1)*2 < len(w.nodes))
}

// hit begins a fault and returns what ends it, and whether the node can count for
// a majority meanwhile.
func (w *world) hit(ctx context.Context, n *node, b blow) (cure func(), ill bool) {
	revive := func() { w.start(ctx, n) }
	switch b.fault {
	case Crash, PowerCut:
		w.crash(n, b.fault == PowerCut) //nolint:contextcheck // a process has a context of its own
		return revive, true
	case Restart:
		_, _ = w.shutdown(n, 5*time.Second) //nolint:contextcheck // a process has a context of its own; what is under way may take longer
		return revive, true
	case DiskError, DiskFull:
		n.disk.Fail(map[Fault]error{DiskError: ErrIO, DiskFull: ErrFull}[b.fault])
		return func() { n.disk.Fail(nil); w.again(ctx, n) }, true
	case DiskHang:
		n.disk.Hang(true)
		return func() { n.disk.Hang(false) }, true
	case DiskSlow:
		n.disk.SetLatency(b.amount/2, b.amount)
		return func() { n.disk.SetLatency(200*time.Microsecond, time.Millisecond) }, b.amount > 50*time.Millisecond
	case Absence:
		return w.away(ctx, n, b)
	case Leave, Expel, Wipe:
		return w.hitMember(ctx, n, b)
	case ClockStep:
		n.clock.Step(b.amount)
		return func() { n.clock.Step(-b.amount) }, false
	case Drift:
		n.clock.SetDrift(b.amount)
		return func() { n.clock.SetDrift(0) }, false
	default:
		return w.hitNetwork(n, b)
	}
}

// away takes a node away, one way or another. Half of them go down once more while
// they come back, at some moment about the installation of the copy.
func (w *world) away(ctx context.Context, n *node, b blow) (cure func(), ill bool) {
	back, ill := func() { w.start(ctx, n) }, true
	if b.amount%2 == 0 {
		w.crash(n, true) //nolint:contextcheck // a process has a context of its own
	} else {
		back, ill = w.hitNetwork(n, b)
	}
	if b.amount < 2 {
		return back, ill
	}
	return func() {
		select {
		case <-w.installed: // long ago
		default:
		}
		back()
		within, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		select {
		case <-w.installed:
			sleep(ctx, b.lasts%(3*time.Millisecond))
		case <-within.Done():
		}
		w.rec.say(n.id, "--- crash while it comes back")
		w.crash(n, true) //nolint:contextcheck // a process has a context of its own
		sleep(ctx, time.Second)
		w.start(ctx, n)
	}, ill
}

// again starts a node whose start has failed.
func (w *world) again(ctx context.Context, n *node) {
	if l := n.live; l != nil {
		select {
		case <-l.ended:
		default:
			return
		}
		if !l.up.Load() {
			w.crash(n, false) //nolint:contextcheck // a process has a context of its own
			w.start(ctx, n)
		}
	}
}

// severs is how many writes in a hundred are a connection's last while answers are
// lost.
const severs = 5

func (w *world) hitNetwork(n *node, b blow) (cure func(), ill bool) {
	others := slices.DeleteFunc(slices.Clone(w.nodes), func(o *node) bool { return o == n })
	each := func(set func(from, to string)) {
		for _, o := range others {
			if b.fault != OneWay || b.lasts%2 == 0 {
				set(n.id, o.id)
			}
			if b.fault != OneWay || b.lasts%2 == 1 {
				set(o.id, n.id)
			}
		}
	}
	switch b.fault {
	case Resets:
		each(w.net.Reset)
		return func() {}, false
	case SlowNet, LostAnswers, Stragglers:
		path := Path{Latency: b.amount / 2, Jitter: b.amount/2 + 1}
		if b.fault != SlowNet {
			path = Path{Latency: usualLatency, Jitter: usualLatency, Severs: severs, Late: b.amount}
		}
		each(func(from, to string) { w.net.SetPath(from, to, path) })
		return func() {
			each(func(from, to string) { w.net.SetPath(from, to, Path{Latency: usualLatency, Jitter: usualLatency}) })
		}, b.fault == SlowNet
	case Freeze:
		n.disk.Hang(true)
	default: // cuts alone
	}
	each(func(from, to string) { w.net.SetCut(from, to, true) })
	return func() {
		each(func(from, to string) { w.net.SetCut(from, to, false) })
		if b.fault == Freeze {
			n.disk.Hang(false)
		}
	}, true
}

// heal ends all faults that are left, and brings every node back.
func (w *world) heal(ctx context.Context) {
	w.net.Heal()
	for _, n := range w.nodes {
		n.disk.Heal()
		n.clock.Correct()
		n.ills = 0
		if n.live == nil {
			w.start(ctx, n)
		} else {
			w.again(ctx, n)
		}
	}
}
