package sim

import "github.com/escapement-go/scheduler/store"

// Last returns the newest record of each run.
func (s *Story) Last() map[store.RunID]*store.Run { return s.last }
