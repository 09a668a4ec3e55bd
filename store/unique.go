package store

import "container/heap"

// A lapse is the time at which a unique key is over that is held on after its run
// has ended. It may be out of date: the key may have been taken anew since.
type lapse struct {
	until int64 // ns elapsed
	key   string
}

// lapses is a heap, the earliest first.
type lapses []lapse

func (l lapses) Len() int           { return len(l) }
func (l lapses) Less(i, j int) bool { return l[i].until < l[j].until }
func (l lapses) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }

// Push implements [heap.Interface].
func (l *lapses) Push(x any) { *l = append(*l, x.(lapse)) }

// Pop implements [heap.Interface].
func (l *lapses) Pop() any {
	last := (*l)[len(*l)-1]
	(*l)[len(*l)-1] = lapse{}
	*l = (*l)[:len(*l)-1]
	return last
}

func uniqueKey(task, key string) string { return task + "\x00" + key }

// UniqueHolder returns the run that holds a task's unique key at the given
// elapsed time.
func (s *State) UniqueHolder(task, key string, elapsed int64) (RunID, bool) {
	u := s.uniques[uniqueKey(task, key)]
	if u == nil || (s.runs[u.Holder] == nil && u.Until <= elapsed) {
		return RunID{}, false
	}
	return u.Holder, true
}

// holdUnique gives r, not yet published, its unique key.
func (s *State) holdUnique(r *Run) {
	key := uniqueKey(r.Spec.Task, r.More.Unique)
	if r.Spec.UniqueFor > 0 && r.More.UniqueUntil == 0 {
		r.More.UniqueUntil = s.in(r.Spec.UniqueFor)
	}
	if old := s.uniques[key]; old != nil {
		s.dirty.Uniques[key] = nil // a row of an earlier holder, if there was one
	}
	s.uniques[key] = &Unique{Key: key, Holder: r.ID, Until: r.More.UniqueUntil}
}

// releaseUnique frees the key of a run that ends, unless it is to be held on.
func (s *State) releaseUnique(r *Run) {
	if r.More == nil || r.More.Unique == "" {
		return
	}
	key := uniqueKey(r.Spec.Task, r.More.Unique)
	u := s.uniques[key]
	if u == nil || u.Holder != r.ID {
		return
	}
	if r.More.UniqueUntil > s.meta.Elapsed {
		s.dirty.Uniques[key] = u
		s.holdOn(u)
		return
	}
	delete(s.uniques, key)
}

// holdOn notes when the key of a run that has ended is over.
func (s *State) holdOn(u *Unique) { heap.Push(&s.held, lapse{u.Until, u.Key}) }

// UniquesOver reports whether a unique key may be held past its time, so that a
// prune would free it.
func (s *State) UniquesOver() bool {
	return len(s.held) > 0 && s.held[0].until <= s.meta.Elapsed
}

// freeUniques frees the keys whose time is over. Cost: O(log held keys) for each.
func (s *State) freeUniques() {
	for s.UniquesOver() {
		key := heap.Pop(&s.held).(lapse).key
		if u := s.uniques[key]; u != nil && u.Until <= s.meta.Elapsed && s.runs[u.Holder] == nil {
			delete(s.uniques, key)
			s.dirty.Uniques[key] = nil
		}
	}
}
