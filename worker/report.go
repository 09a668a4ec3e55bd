package worker

import (
	"log/slog"
	"slices"
	"time"

	"github.com/escapement-go/scheduler/store"
)

const (
	maxBatch      = 4096    // reports in one call of Report
	maxBatchBytes = 1 << 20 // of results and error texts in one call, unless a single report has more
	firstBackoff  = 10 * time.Millisecond
	maxBackoff    = time.Second
	maxSpare      = 4 * maxBatch // reports that a slice may have room for to be kept for later
)

// sendLocked gives a report to the reporter. What gathers while that is busy is its next batch. The number is bounded by
// the scheduler, which counts an attempt as held until its report is acked.
func (p *Pool) sendLocked(rep store.Report) {
	p.out = append(p.out, rep)
	if len(p.out) == 1 {
		select {
		case p.reported <- struct{}{}:
		default: // the token of an earlier report is still there
		}
	}
}

// report delivers reports until the pool is closed. What is left then stays in inFlight and out.
func (p *Pool) report() {
	defer close(p.silent)
	for {
		batch := p.collect()
		if batch == nil {
			return
		}
		for rest := batch; len(rest) > 0; {
			n := batchLen(rest)
			took, ok := p.deliver(rest[:n])
			if !ok {
				return
			}
			p.acked(rest[:n], rest[n:], took)
			rest = rest[n:]
		}
		clear(batch)
		if cap(batch) <= maxSpare {
			p.mu.Lock()
			p.spare = batch[:0]
			p.mu.Unlock()
		}
	}
}

// collect waits for reports. It returns nil when the pool is closed.
func (p *Pool) collect() []store.Report {
	for {
		p.mu.Lock()
		if p.state == closed {
			p.mu.Unlock()
			return nil
		}
		if batch := p.out; len(batch) > 0 {
			p.out, p.spare = p.spare, nil
			p.inFlight = batch
			p.mu.Unlock()
			return batch
		}
		p.mu.Unlock()
		select {
		case <-p.reported:
		case <-p.closed:
		}
	}
}

// batchLen returns how many of the reports go into one call.
func batchLen(reports []store.Report) int {
	size := 0
	for i := range reports {
		size += len(reports[i].Result) + len(reports[i].Error)
		if i == maxBatch || i > 0 && size > maxBatchBytes {
			return i
		}
	}
	return len(reports)
}

// deliver calls Report until it has worked, and returns how long (ns) the last call took; ok is false if the pool is
// closed before.
func (p *Pool) deliver(batch []store.Report) (took int64, ok bool) {
	for wait := firstBackoff; ; wait = min(2*wait, maxBackoff) {
		begin := time.Now()
		err := p.cfg.Report(p.writes, batch)
		if err == nil {
			if wait > firstBackoff {
				p.cfg.Logger.LogAttrs(p.base, slog.LevelInfo, "reports delivered again", slog.Int(keyReports, len(batch)))
			}
			return int64(time.Since(begin)), true
		}
		if p.writes.Err() != nil {
			return 0, false
		}
		if wait == firstBackoff {
			p.cfg.Logger.LogAttrs(p.base, slog.LevelWarn, "reports are kept: they could not be delivered",
				slog.Int(keyReports, len(batch)), slog.Any(keyError, err))
		}
		if !p.pause(wait) {
			return 0, false
		}
	}
}

func (p *Pool) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.closed:
		return false
	}
}

// acked forgets attempts that the scheduler has recorded, which took it the given time (ns).
func (p *Pool) acked(done, rest []store.Report, took int64) {
	for part := range slices.Chunk(done, atOnce) {
		p.mu.Lock()
		for i := range part {
			p.forgetLocked(key{part[i].Run, part[i].Fence})
		}
		p.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight = rest
	p.prefetch.measureCommit(took)
	p.notifyLocked()
}
