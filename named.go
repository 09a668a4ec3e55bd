package scheduler

import (
	"context"
	"fmt"
	"sync"
)

// named are the IDs of callers' making that calls are asking for right now. Of two
// calls for one ID the second looks for its run only once the first has its
// outcome: else a run that is asked for and ends between that look and the second
// call's entry would be asked for again. The state knows live runs alone.
type named struct {
	mu    sync.Mutex // guards asked
	asked map[RunID]chan struct{}
}

// ask waits until no other call asks for one of the IDs, then returns what ends
// the asking.
func (n *named) ask(ctx context.Context, ids []RunID) (end func(), err error) {
	for {
		other, mine := n.try(ids)
		if other == nil {
			return func() { n.end(ids, mine) }, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, fmt.Errorf("another call asks for the same run: %w", context.Cause(ctx))
		}
	}
}

// try returns the end of another call, or takes all IDs.
func (n *named) try(ids []RunID) (other, mine chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range ids {
		if other := n.asked[id]; other != nil {
			return other, nil
		}
	}
	if n.asked == nil {
		n.asked = make(map[RunID]chan struct{})
	}
	mine = make(chan struct{})
	for _, id := range ids {
		n.asked[id] = mine
	}
	return nil, mine
}

func (n *named) end(ids []RunID, mine chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range ids {
		delete(n.asked, id)
	}
	close(mine)
}
