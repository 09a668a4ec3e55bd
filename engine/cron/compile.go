package cron

// compile works the tree out to what the searches need.
func (e *Expr) compile(ast *AST) {
	if ast.Every > 0 {
		e.every = ast.Every
		return
	}
	e.elapsed = elapsing(ast.Minute) || elapsing(ast.Hour)
	key := e.opts.HashKey
	c := &e.cal
	c.second = 1
	if ast.Second != nil {
		c.second = mask(ast.Second, FieldSecond, key)
	}
	c.minute = mask(ast.Minute, FieldMinute, key)
	c.hour = uint32(mask(ast.Hour, FieldHour, key))
	c.month = uint16(mask(ast.Month, FieldMonth, key))
	c.days.anyDOM, c.days.anyDOW = wild(ast.DayOfMonth), wild(ast.DayOfWeek)
	c.days.both = ast.Both || e.opts.Dialect.Has(And)
	c.days.addDays(ast.DayOfMonth, key)
	c.days.addWeekdays(ast.DayOfWeek, key)
	c.years = [4]uint64{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}
	if ast.Year != nil && !wild(ast.Year) {
		c.years = [4]uint64{}
		for _, n := range items(ast.Year) {
			each(n, FieldYear, key, func(y int) { c.years[(y-minYear)>>6] |= 1 << ((y - minYear) & 63) })
		}
	}
	c.finish()
}

// mask returns the values of a field as bits.
func mask(n Node, f Field, key string) (set uint64) {
	lo, hi := f.bounds()
	if wild(n) {
		return (1<<(hi-lo+1) - 1) << lo
	}
	if v, ok := n.(Value); ok {
		return 1 << v.N
	}
	for _, item := range items(n) {
		each(item, f, key, func(v int) { set |= 1 << v })
	}
	return set
}

// addDays adds the items of the day-of-month field.
func (s *days) addDays(n Node, key string) {
	if s.anyDOM {
		return
	}
	for _, n := range items(n) {
		switch n := n.(type) {
		case Last:
			s.last |= 1 << n.Before
		case NearestWeekday:
			s.nearest, s.nearestKind = uint8(n.Day), nearestToDay
			if n.Last {
				s.nearestKind = nearestToLast
			}
		default:
			each(n, FieldDayOfMonth, key, func(d int) { s.dom |= 1 << d })
		}
	}
}

// addWeekdays adds the items of the weekday field.
func (s *days) addWeekdays(n Node, key string) {
	if s.anyDOW {
		return
	}
	for _, n := range items(n) {
		if n, ok := n.(NthWeekday); ok {
			s.hasNth = true
			s.nth[max(n.N, 0)] |= 1 << n.Weekday
			continue
		}
		each(n, FieldDayOfWeek, key, func(w int) { s.dow |= 1 << (w % 7) })
	}
}

// each calls yield with every value that a plain item of field f stands for.
func each(n Node, f Field, key string, yield func(int)) {
	lo, hi := f.bounds()
	step := 1
	if s, ok := n.(Step); ok {
		n, step = s.Of, s.N
		if h, ok := n.(Hash); ok {
			// The beat is the step, where it begins is drawn.
			n = Range{h.From + draw(key, f, min(step, h.To-h.From+1)), h.To}
		} else if v, ok := n.(Value); ok {
			n = Range{v.N, hi}
		}
	}
	from, to := lo, hi
	switch n := n.(type) {
	case Value:
		from, to = n.N, n.N
	case Range:
		from, to = n.From, n.To
	case Hash:
		from = n.From + draw(key, f, n.To-n.From+1)
		to = from
	}
	size := hi - lo + 1
	if to < from {
		to += size
	}
	for v := from; v <= to; v += step {
		w := v
		if w > hi {
			w -= size
		}
		yield(w)
	}
}
