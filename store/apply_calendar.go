package store

func (s *State) applyPutCalendar(p *PutCalendar) Result {
	name := p.Calendar.Name
	old := s.calendars[name]
	if p.Delete {
		return s.deleteCalendar(name)
	}
	n := &Calendar{Name: name, Version: 1, Except: p.Calendar.Except, Changed: s.meta.Wall}
	if name == "" {
		return Result{Code: CodeInvalid, Text: "calendar name is empty"}
	}
	for i := range n.Except {
		if n.Except[i].Calendar != "" {
			return Result{Code: CodeInvalid, Text: "a calendar names another one"}
		}
	}
	if old != nil {
		n.Version, n.Changed = old.Version, old.Changed
		if sameEncoding(old, n) {
			return Result{N: old.Version}
		}
		n.Version, n.Changed = old.Version+1, s.meta.Wall
	}
	s.calendars[name] = n
	s.dirty.Calendars[name] = n
	s.emit(Event{Kind: EventCalendarSet, Calendar: n})
	return Result{N: n.Version}
}

func (s *State) deleteCalendar(name string) Result {
	old := s.calendars[name]
	if old == nil {
		return Result{Code: CodeNotFound, Text: name}
	}
	user := "" // the first by ID: the order of the map is not to be seen
	for sc := range s.SchedulesWithout(name) {
		if user == "" || sc.ID < user {
			user = sc.ID
		}
	}
	if user != "" {
		return Result{Code: CodeConflict, Text: "schedule " + user + " excludes it"}
	}
	delete(s.calendars, name)
	s.dirty.Calendars[name] = nil
	s.emit(Event{Kind: EventCalendarSet, Calendar: old})
	return Result{}
}

// CalendarsOf returns a number that changes with every change of a calendar whose times
// the schedule excludes, while its trigger stays as it is; 0 if it excludes none's.
func (s *State) CalendarsOf(sc *Schedule) (sum uint64) {
	for i := range sc.Trigger.Except {
		if c := s.calendars[sc.Trigger.Except[i].Calendar]; c != nil {
			sum += c.Version
		}
	}
	return sum
}
