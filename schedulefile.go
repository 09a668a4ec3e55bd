package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/escapement-go/scheduler/engine/cron"
	"github.com/escapement-go/scheduler/internal/ask"
	"github.com/escapement-go/scheduler/internal/dispatch"
	"github.com/escapement-go/scheduler/internal/schedfile"
	"github.com/escapement-go/scheduler/internal/trigger"
	"github.com/escapement-go/scheduler/store"
)

// WithScheduleFile declares the schedules of a YAML or JSON file, or of all files of a
// folder that end in .yaml, .yml or .json, and follows their changes while the
// scheduler runs: what has changed is applied, unchanged schedules are not touched,
// whatever was made of them by hand since ([WithSchedule]), and files with a fault in
// them change nothing; the log and [Scheduler.Health] say then what is wrong, by line and
// column. A schedule whose Go trigger cannot be asked is no such fault: it alone waits
// ([Custom]). The form of the files is published as
// internal/schedfile/schedules.schema.json.
//
// The files of one path have one owner, which is the application of [WithApp] unless
// they say otherwise, and a generation. A schedule that another owner has declared, or
// that [WithSchedule] declares too, is a fault, and files of an older generation change
// nothing. A schedule that is taken out of the files stays, unless they set prune: then
// it is deleted.
//
// The files, and the iCalendar files that they name, are looked at each second, and read
// once they have not changed for one.
func WithScheduleFile(path string) Declaration {
	return declaration{func(c *config) {
		switch {
		case path == "":
			c.fault(fmt.Errorf("scheduler: schedule file: empty path: %w", ErrInvalid))
		case c.scheduleFile != "":
			c.fault(fmt.Errorf("scheduler: schedule file: %w", ErrDuplicate))
		}
		c.scheduleFile = path
	}}
}

// watchFiles is how often the files of schedules are looked at. Notices of the operating
// system would come sooner, but a file has to rest for as long anyway, lest it is read
// half written, and where files change by mounts, over a network or under an overlay no
// notice comes. A look is a few calls of stat.
const watchFiles = time.Second

// The keys of log lines about the files of schedules.
const (
	keyPath      = "path"
	keySchedules = "schedules" // how many

	keyScheduleID = "schedule_id"
	keyVersion    = "version"
)

// followFiles applies the changes of the files of schedules until ctx ends. applied is
// the footprint that is in force.
func (s *Scheduler) followFiles(ctx context.Context, applied string) {
	seen := applied
	tick := time.NewTicker(watchFiles)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := s.footprint()
		if now == seen && now != applied { // nobody is writing any more
			applied = s.applyFiles(ctx)
			now = s.footprint() // they may name other files now
		}
		if len(s.fileLater) > 0 {
			if still, err := s.declareAll(ctx, s.fileLater, &s.filesHeld); err == nil {
				s.fileLater = still
			} else if ctx.Err() == nil {
				s.hold(&s.filesHeld, err)
			}
		}
		seen = now
	}
}

// footprint changes with the files of schedules, and with those that they named when
// they were read last.
func (s *Scheduler) footprint() string {
	var b strings.Builder
	for _, name := range slices.Concat(scheduleFiles(s.cfg.scheduleFile), s.fileNames) {
		b.WriteString(look(name))
	}
	return b.String()
}

// look returns what a file looks like without reading it. What its name stands for may be
// swapped, time and size being the same.
func look(name string) string {
	target, err := filepath.EvalSymlinks(name)
	if err == nil {
		var info os.FileInfo
		if info, err = os.Stat(target); err == nil {
			return fmt.Sprintln(name, target, info.Size(), info.ModTime().UnixNano())
		}
	}
	return fmt.Sprintln(name, err)
}

// scheduleFiles returns the files of a path, sorted: itself, or what is in it.
func scheduleFiles(path string) []string {
	entries, err := os.ReadDir(path)
	if err != nil {
		return []string{path}
	}
	var names []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext == ".yaml" || ext == ".yml" || ext == ".json" {
			names = append(names, filepath.Join(path, e.Name()))
		}
	}
	return names
}

// applyFiles applies the files of schedules as they are. It returns the footprint that is
// done with: none if they are to be applied again although they have not changed.
func (s *Scheduler) applyFiles(ctx context.Context) (mark string) {
	s.fileNames, s.fileLater = nil, nil
	mark = s.footprint()
	set, err := s.readFiles(ctx)
	s.fileNames, mark = set.names, mark+set.looks
	if err != nil {
		s.refuseFiles(err)
		if errors.Is(err, ErrUnknownTask) || errors.Is(err, ErrConflict) || errors.Is(err, trigger.ErrUnknown) {
			return "" // what they need may yet come to be
		}
		return mark
	}
	if s.fileLater, err = s.declareAll(ctx, set.defs, &s.filesHeld); err == nil {
		err = s.pruneSchedules(ctx, set)
	}
	if err != nil {
		s.refuseFiles(err)
		if errors.Is(err, ErrInvalid) && !errors.Is(err, trigger.ErrUnknown) {
			return mark // until they change
		}
		return ""
	}
	s.fileFault.Store(nil)
	s.cfg.logger.Info("schedule files applied", keyPath, s.cfg.scheduleFile, keySchedules, len(set.defs))
	return mark
}

// refuseFiles notes and logs what is wrong with the files, once.
func (s *Scheduler) refuseFiles(err error) {
	s.filesHeld.Store(nil)
	if last := s.fileFault.Swap(&err); last == nil || (*last).Error() != err.Error() {
		s.cfg.logger.Error("schedule files are not in force", keyPath, s.cfg.scheduleFile, keyError, err)
	}
}

// fileSet is what the files of a path declare together.
type fileSet struct {
	owner      string
	generation uint64
	prune      bool
	defs       []*scheduleDef
	names      []string // of the other files that were read
	looks      string   // of those, before
}

// readFiles reads the files and checks them against what is known; the error joins all
// that is wrong with them.
func (s *Scheduler) readFiles(ctx context.Context) (*fileSet, error) {
	set, err := s.parseFiles(s.cfg.scheduleFile)
	faults := []error{err}
	patience := ask.Patience
	for i, p := range s.prospects(ctx, set.defs, true) {
		err := s.mayFire(ctx, &p, patience)
		switch {
		case err == nil:
		case !notAsked(err):
			p.refusals = append(p.refusals, err)
		case errors.Is(err, dispatch.ErrSlow):
			patience = ask.Impatient(patience)
		}
		if p.old != nil && p.def.canary != nil && !p.again() && !onlyRuns(p.old, p.sc) {
			p.refusals = append(p.refusals, fmt.Errorf("%w: a trial changes what runs, not when", ErrInvalid))
		}
		for _, err := range p.refusals {
			faults = append(faults, &schedfile.Error{Pos: set.defs[i].at, Err: fmt.Errorf("schedule %q: %w", p.sc.ID, err)})
		}
	}
	return set, errors.Join(faults...)
}

// onlyRuns reports whether a schedule that is to be differs from the one that is in
// nothing but what it runs.
func onlyRuns(is *store.Schedule, be store.Schedule) bool {
	be.Spec, be.Input, be.Meta = is.Spec, is.Input, is.Meta
	return store.SameDefinition(is, &be)
}

// mayFire returns why a schedule that is to be would never fire, or cannot be asked. It
// does not ask the Go trigger of one that keeps its tick.
func (s *Scheduler) mayFire(ctx context.Context, p *prospect, patience time.Duration) error {
	if p.sc.Trigger.Kind == store.TriggerCustom {
		if p.def.canary != nil || p.again() || p.old != nil && store.KeepsTick(p.old, &p.sc) {
			return nil
		}
		_, err := s.firstTick(ctx, &p.sc, patience)
		return err
	}
	rule, err := compileTrigger(&p.sc.Trigger, p.env)
	if err != nil {
		return err
	}
	return fires(rule, &p.sc.Trigger)
}

// parseFiles reads the files of a path; the error joins all that is wrong with them
// whatever is known.
func (s *Scheduler) parseFiles(path string) (*fileSet, error) {
	set := &fileSet{owner: s.cfg.app, generation: s.cfg.generation}
	var faults []error
	var owner schedfile.Pos
	places := make(map[string]schedfile.Pos)
	for _, name := range scheduleFiles(path) {
		f, err := readFile(name)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if f.Owner != "" && owner.File != "" && f.Owner != set.owner {
			faults = append(faults, &schedfile.Error{Pos: f.OwnerAt, Err: fmt.Errorf("owner %q: it is %q in %v: %w", f.Owner, set.owner, owner, ErrConflict)})
		} else if f.Owner != "" {
			set.owner, owner = f.Owner, f.OwnerAt
		}
		set.generation = max(f.Generation, set.generation)
		set.prune = set.prune || f.Prune
		for _, e := range f.Schedules {
			if at, twice := places[e.ID]; twice {
				faults = append(faults, &schedfile.Error{Pos: e.At("id"), Err: fmt.Errorf("schedule %q: %w: it is in %v already", e.ID, ErrDuplicate, at)})
				continue
			}
			places[e.ID] = e.At("id")
			d, err := s.fileSchedule(e, set)
			if err != nil {
				faults = append(faults, err)
				continue
			}
			d.at = e.At("id")
			set.defs = append(set.defs, d)
		}
	}
	set.owner = cmp.Or(set.owner, "schedule file")
	for _, d := range set.defs {
		d.app, d.generation, d.author = set.owner, set.generation, cmp.Or(d.author, fmt.Sprintf("%s/%d", set.owner, set.generation))
	}
	return set, errors.Join(faults...)
}

func readFile(name string) (*schedfile.File, error) {
	data, err := schedfile.Read(name)
	if err != nil {
		return nil, err
	}
	return schedfile.Parse(name, data)
}

// pruned returns those of the schedules that the files delete, sorted: their owner does
// not declare them any more, there or in code.
func (set *fileSet) pruned(all iter.Seq[*store.Schedule], inCode []*scheduleDef) (gone []string) {
	if !set.prune {
		return nil
	}
	declared := make(map[string]bool)
	for _, d := range slices.Concat(set.defs, inCode) {
		declared[d.id] = true
	}
	for sc := range all {
		if sc.App == set.owner && sc.Gen <= set.generation && !declared[sc.ID] {
			gone = append(gone, sc.ID)
		}
	}
	slices.Sort(gone)
	return gone
}

// pruneSchedules deletes the schedules that the files do not declare any more.
func (s *Scheduler) pruneSchedules(ctx context.Context, set *fileSet) error {
	var all iter.Seq[*store.Schedule]
	s.node.View(func(st *store.State) { all = st.Schedules() })
	for _, id := range set.pruned(all, s.cfg.schedules) {
		err := s.call(ctx, store.Command{Kind: store.KindDeleteSchedule, Delete: &store.DeleteSchedule{ID: id}})
		if err != nil && !errors.Is(err, ErrNotFound) {
			return fmt.Errorf("delete schedule %q: %w", id, err)
		}
	}
	return nil
}

// fileSchedule makes a definition of an entry. An error says where it is.
func (s *Scheduler) fileSchedule(e *schedfile.Schedule, set *fileSet) (*scheduleDef, error) {
	when, err := fileTrigger(e, set)
	if err != nil {
		return nil, err
	}
	call, err := s.fileCall(e)
	if err != nil {
		return nil, err
	}
	opts := []ScheduleOption{MaxRuns(e.MaxRuns), Note(e.Note)}
	if e.Overlap != "" {
		p, err := parseOverlap(e.Overlap)
		if err != nil {
			return nil, &schedfile.Error{Pos: e.At("overlap"), Err: err}
		}
		opts = append(opts, Overlap(p))
	}
	c := CatchUp{MaxAge: e.CatchUpAge, MaxCount: e.CatchUpCount, Pace: e.CatchUpPace}
	if e.CatchUp != "" {
		at := slices.Index([]string{CatchUpLatest.String(), CatchUpNone.String(), CatchUpAll.String()}, e.CatchUp)
		if at < 0 {
			return nil, &schedfile.Error{Pos: e.At("catch_up"), Err: fmt.Errorf("catch-up policy %q: want latest, none or all: %w", e.CatchUp, ErrInvalid)}
		}
		c.Policy = CatchUpPolicy(at)
	}
	if err := c.check(); err != nil {
		return nil, &schedfile.Error{Pos: e.At("catch_up"), Err: err}
	}
	opts = append(opts, Misfire(c))
	if e.Paused {
		opts = append(opts, Paused())
	}
	if c := e.Canary; c != nil {
		opts = append(opts, Canary(Trial{Share: c.Share, Failures: c.Failures, MaxLatency: c.MaxLatency, Runs: c.Runs}))
	}
	d, err := newScheduleDef(e.ID, when, call, opts)
	if err == nil {
		err = call.check(s.cfg.maxPayload)
	}
	if err != nil {
		return nil, &schedfile.Error{Pos: e.Pos, Err: err}
	}
	return d, nil
}

// parseOverlap reads what [OverlapPolicy.String] writes.
func parseOverlap(text string) (OverlapPolicy, error) {
	for _, p := range []OverlapPolicy{OverlapSkip, OverlapAllow, OverlapReplace} {
		if text == p.String() {
			return p, nil
		}
	}
	var n int
	if _, err := fmt.Sscanf(text, "queue(%d)", &n); err == nil && OverlapQueue(n).valid() && OverlapQueue(n).String() == text {
		return OverlapQueue(n), nil
	}
	return 0, fmt.Errorf("overlap policy %q: want skip, allow, replace or queue(n): %w", text, ErrInvalid)
}

// fileTrigger makes the trigger of an entry.
func fileTrigger(e *schedfile.Schedule, set *fileSet) (t Trigger, err error) {
	field, n := "id", 0
	for name, given := range map[string]bool{
		"cron": e.Cron != "", "every": e.Every != 0, "after": e.After != 0, "times": len(e.Times) > 0, "custom": e.Custom != nil,
	} {
		if given {
			field, n = name, n+1
		}
	}
	if n != 1 {
		return t, &schedfile.Error{Pos: e.Pos, Err: fmt.Errorf("want one of cron, every, after, times and custom: %w", ErrInvalid)}
	}
	opts, err := fileTriggerOptions(e, set)
	if err != nil {
		return t, err
	}
	switch field {
	case "cron":
		t = Cron(e.Cron, opts...)
	case "every":
		t = Every(e.Every, opts...)
	case "after":
		t = After(e.After, opts...)
	case "custom":
		t = Custom(e.Custom.Name, json.RawMessage(cmp.Or(string(e.Custom.Params), "null")), opts...)
	default:
		t = Times(e.Times...).With(opts...)
	}
	if t.err != nil {
		at := e.At(field)
		if syntax, ok := errors.AsType[*SyntaxError](t.err); ok && field == "cron" {
			at.Column += syntax.Pos
		}
		if _, ok := errors.AsType[*cron.ZoneError](t.err); ok && e.Zone != "" {
			at = e.At("zone")
		}
		return t, &schedfile.Error{Pos: at, Err: t.err}
	}
	return t, nil
}

// fileTriggerOptions makes the options of the trigger of an entry.
func fileTriggerOptions(e *schedfile.Schedule, set *fileSet) (opts []TriggerOption, err error) {
	if e.Zone != "" {
		opts = append(opts, Zone(e.Zone))
	}
	if e.Dialect != "" {
		d, err := cron.ParseDialect(e.Dialect)
		if err != nil {
			return nil, &schedfile.Error{Pos: e.At("dialect"), Err: fmt.Errorf("%w: %w", ErrInvalid, err)}
		}
		opts = append(opts, Dialect(d))
	}
	if e.DST != "" {
		p := slices.IndexFunc([]DSTPolicy{DSTRunOnce, DSTSkip, DSTShift, DSTBoth}, func(p DSTPolicy) bool { return p.String() == e.DST })
		if p < 0 {
			return nil, &schedfile.Error{Pos: e.At("dst"), Err: fmt.Errorf("policy %q: want run-once, skip, shift or both: %w", e.DST, ErrInvalid)}
		}
		opts = append(opts, DST(DSTPolicy(p)))
	}
	if e.HashKey != "" {
		opts = append(opts, HashKey(e.HashKey))
	}
	opts = append(opts, Jitter(e.Jitter), Between(e.Start, e.End))
	for _, x := range e.Except {
		c, err := fileCalendar(x, set)
		if err != nil {
			return nil, &schedfile.Error{Pos: x.Pos, Err: err}
		}
		opts = append(opts, Except(c))
	}
	return opts, nil
}

// fileCalendar makes the calendar of an exclusion. The path of an iCalendar file begins
// at the folder of the file that names it.
func fileCalendar(x schedfile.Except, set *fileSet) (c Calendar, err error) {
	forms := 0
	form := func(given bool, calendar func() Calendar) {
		if given {
			forms++
			c = calendar()
		}
	}
	form(x.Calendar != "", func() Calendar { return NamedCalendar(x.Calendar) })
	form(x.Window != "", func() Calendar { return BlackoutWindow(x.Window, x.Length) })
	form(len(x.Days) > 0, func() Calendar { return Days(x.Days...) })
	form(!x.From.IsZero() || !x.To.IsZero(), func() Calendar { return Blackout(x.From, x.To) })
	form(x.ICS != "", func() Calendar {
		path := x.ICS
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(x.Pos.File), path)
		}
		set.names = append(set.names, path)
		set.looks += look(path)
		data, err := schedfile.Read(path)
		if err != nil {
			return Calendar{err: err}
		}
		return ICS(data)
	})
	if forms != 1 || x.Length != 0 && x.Window == "" {
		return c, fmt.Errorf("want one of days, calendar, window with length, from with to, and ics: %w", ErrInvalid)
	}
	return c, c.err
}

// fileCall makes the call of an entry. The defaults of a task whose handler is
// registered here hold.
func (s *Scheduler) fileCall(e *schedfile.Schedule) (Call, error) {
	base := s.cfg.bases[e.Task]
	if base == nil {
		base = newSettings(e.Task)
	}
	var opts []RunOption
	add := func(given bool, o RunOption) {
		if given {
			opts = append(opts, o)
		}
	}
	add(e.Queue != "", InQueue(e.Queue))
	add(e.Tenant != "", ForTenant(e.Tenant))
	add(e.Timeout != 0, Timeout(e.Timeout))
	add(e.ExpireAfter != 0, ExpireAfter(e.ExpireAfter))
	add(e.Attempts != 0 || e.Backoff != 0 || e.MaxBackoff != 0, Retry(Backoff{Initial: e.Backoff, Max: e.MaxBackoff, Attempts: uint32(e.Attempts)}))
	if e.Priority != "" {
		class := slices.Index([]string{"low", "normal", "high", "critical"}, e.Priority)
		if class < 0 {
			return Call{}, &schedfile.Error{
				Pos: e.At("priority"), Err: fmt.Errorf("priority %q: want low, normal, high or critical: %w", e.Priority, ErrInvalid),
			}
		}
		opts = append(opts, Priority(PriorityClass(class)))
	}
	for _, key := range slices.Sorted(maps.Keys(e.Meta)) {
		opts = append(opts, Meta(key, e.Meta[key]))
	}
	c := Call{settings: base.with(opts), input: e.Input}
	if c.input == nil {
		c.input = []byte("null")
	}
	if c.err = c.settings.err; c.err != nil {
		return c, &schedfile.Error{Pos: e.At("task"), Err: c.err}
	}
	if decodes := s.cfg.decodes[e.Task]; decodes != nil {
		if err := decodes(c.input); err != nil {
			return c, &schedfile.Error{Pos: e.At("input"), Err: fmt.Errorf("input of task %q: %w: %w", e.Task, ErrInvalid, err)}
		}
	}
	return c, nil
}
