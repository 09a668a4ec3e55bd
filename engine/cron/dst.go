package cron

// This file maps readings of the wall clock, which the calendar finds, to real
// instants, which the caller wants, by the policy for gaps and overlaps. Instants
// are unix seconds. The zone is asked once per jump.
//
// For RunOnce and Skip the map from readings to instants is monotone (a reading in
// an overlap means its first pass, one in a gap means the gap's end), so the first
// matching reading past the frontier of the last instant is the answer. Expressions
// that follow elapsed time go span by span instead, since a reading can count twice.

// nextUnix returns the first firing at or after t.
func (e *Expr) nextUnix(t int64) (int64, bool) {
	if t >= realEnd {
		return 0, false
	}
	t = max(t, realStart)
	switch {
	case e.elapsed:
		return e.nextElapsed(t, false)
	case e.opts.DST == Both:
		return e.nextElapsed(t, true)
	case e.opts.DST == Shift:
		return e.nextShift(t)
	default:
		return e.nextFixed(t, e.opts.DST == RunOnce)
	}
}

// prevUnix returns the last firing at or before t.
func (e *Expr) prevUnix(t int64) (int64, bool) {
	if t < realStart {
		return 0, false
	}
	t = min(t, realEnd)
	switch {
	case e.elapsed:
		return e.prevElapsed(t, false)
	case e.opts.DST == Both:
		return e.prevElapsed(t, true)
	case e.opts.DST == Shift:
		return e.prevShift(t)
	default:
		return e.prevFixed(t, e.opts.DST == RunOnce)
	}
}

// nextFixed fires readings on their first pass; those in a gap at its end if
// makeUp is set, else not at all.
func (e *Expr) nextFixed(t int64, makeUp bool) (int64, bool) {
	s := &e.zone.spans[e.zone.at(t)]
	l := max(t+s.offset, s.front)
	if t == s.start && makeUp {
		l = s.front // the readings of the gap that ends right here
	}
	for {
		r, ok := e.cal.next(l)
		if !ok {
			return 0, false
		}
		s = &e.zone.spans[e.zone.atLocal(r)]
		switch {
		case r >= s.startLocal():
			return r - s.offset, true
		case makeUp:
			return s.start, true
		}
		l = s.startLocal()
	}
}

func (e *Expr) prevFixed(t int64, makeUp bool) (int64, bool) {
	s := &e.zone.spans[e.zone.at(t)]
	l := t + s.offset
	if l < s.front {
		l = s.front - 1 // in the second pass: all of the first has been
	}
	for {
		r, ok := e.cal.prev(l)
		if !ok {
			return 0, false
		}
		s = &e.zone.spans[e.zone.atLocal(r)]
		switch {
		case r >= s.startLocal():
			return r - s.offset, true
		case makeUp:
			return s.start, true
		}
		l = s.front - 1
	}
}

// nextShift fires readings in a gap as much later as the gap is long. They then
// fall among those of the span behind it, so both are asked.
func (e *Expr) nextShift(t int64) (int64, bool) {
	s := &e.zone.spans[e.zone.at(t)]
	best, found := e.nextShifted(s, t)
	r, ok := e.cal.next(max(t+s.offset, s.front))
	if !ok {
		return best, found
	}
	s = &e.zone.spans[e.zone.atLocal(r)]
	next := r - s.offset
	if r < s.startLocal() {
		next = r - s.front + s.start
		// Only a reading within the length of the gap behind it can come before that.
		if r, ok = e.cal.next(s.startLocal()); ok {
			next = min(next, r-s.offset)
		}
	}
	if found {
		next = min(next, best)
	}
	return next, true
}

// nextShifted returns the first firing at or after t that comes from the gap before s.
func (e *Expr) nextShifted(s *span, t int64) (int64, bool) {
	if t-s.start >= s.startLocal()-s.front {
		return 0, false
	}
	r, ok := e.cal.next(t - s.start + s.front)
	return r - s.front + s.start, ok && r < s.startLocal()
}

func (e *Expr) prevShift(t int64) (int64, bool) {
	s := &e.zone.spans[e.zone.at(t)]
	l := t + s.offset
	if l < s.front {
		l = s.front - 1
	}
	for {
		r, ok := e.cal.prev(l)
		if !ok {
			return 0, false
		}
		s = &e.zone.spans[e.zone.atLocal(r)]
		best, found := e.prevShifted(s, t)
		if r >= s.startLocal() && (!found || r-s.offset > best) {
			return r - s.offset, true
		}
		if found {
			return best, true
		}
		l = s.front - 1
	}
}

// prevShifted returns the last firing at or before t that comes from the gap before s.
func (e *Expr) prevShifted(s *span, t int64) (int64, bool) {
	if s.startLocal() <= s.front {
		return 0, false
	}
	r, ok := e.cal.prev(min(t-s.start+s.front, s.startLocal()-1))
	return r - s.front + s.start, ok && r >= s.front
}

// nextElapsed fires at every instant whose reading fits, and, if makeUp is set,
// at the end of a gap in which readings are missing.
func (e *Expr) nextElapsed(t int64, makeUp bool) (int64, bool) {
	z := e.zone
	k := z.at(t)
	s := &z.spans[k]
	l := t + s.offset
	if makeUp && t == s.start {
		l = min(l, s.front)
	}
	for {
		r, ok := e.cal.next(l)
		if ok && r < z.endLocal(k) {
			return max(r-s.offset, s.start), true
		}
		k++
		if k == len(z.spans) {
			return 0, false
		}
		s = &z.spans[k]
		if s.startLocal() >= l {
			// Nothing from l on comes again right behind this span, so nothing fits
			// before r; spans are longer than overlaps, so this holds further on too.
			if !ok {
				return 0, false
			}
			k = max(k, z.atLocal(r))
			s = &z.spans[k]
			l = r
		} else {
			l = s.startLocal()
		}
		if !makeUp {
			l = max(l, s.startLocal())
		}
	}
}

func (e *Expr) prevElapsed(t int64, makeUp bool) (int64, bool) {
	z := e.zone
	k := z.at(t)
	s := &z.spans[k]
	l := t + s.offset
	for {
		r, ok := e.cal.prev(l)
		if ok && (r >= s.startLocal() || makeUp && r >= s.front) {
			return max(r-s.offset, s.start), true
		}
		k--
		if k < 0 {
			return 0, false
		}
		end := z.endLocal(k) - 1
		if end > l {
			l = end // the first pass of readings that have come a second time
		} else {
			if !ok {
				return 0, false
			}
			// Nothing fits between r and l. If r came twice, its second pass counts.
			j := z.atLocal(r)
			if j < k && z.spans[j+1].startLocal() <= r {
				j++
			}
			k = min(k, j)
			l = min(r, z.endLocal(k)-1)
		}
		s = &z.spans[k]
	}
}
