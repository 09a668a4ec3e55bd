package schedfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// MaxBytes is the size past which a file is refused. No more of it is read.
const MaxBytes = 4 << 20

// Read reads at most MaxBytes of a file, and one more to tell that it has more.
func Read(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	return data, errors.Join(err, f.Close())
}

// A Pos is a place in a file; lines and columns are counted from 1.
type Pos struct {
	File         string
	Line, Column int
}

// String returns "file:line:column".
func (p Pos) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }

// An Error is a fault at a place.
type Error struct {
	Pos Pos
	Err error
}

func (e *Error) Error() string { return fmt.Sprintf("%v: %v", e.Pos, e.Err) }

// Unwrap returns the fault.
func (e *Error) Unwrap() error { return e.Err }

// A File is what a file says.
type File struct {
	OwnerAt    Pos
	Owner      string
	Generation uint64
	Prune      bool
	Schedules  []*Schedule
}

// A Schedule is an entry of a file. Strings are as they were written; zero values were
// not.
type Schedule struct {
	Pos    Pos
	Places map[string]Pos // of the values, by field

	Custom                        *Custom
	ID, Cron, Dialect             string
	Zone, DST, HashKey            string
	Every, After, Jitter          time.Duration
	Times                         []time.Time
	Start, End                    time.Time
	Except                        []Except
	Task, Queue, Tenant, Priority string
	Input                         []byte // JSON
	Timeout, ExpireAfter          time.Duration
	Attempts                      int
	Backoff, MaxBackoff           time.Duration
	Meta                          map[string]string
	Overlap, CatchUp              string
	CatchUpAge, CatchUpPace       time.Duration
	CatchUpCount, MaxRuns         int
	Paused                        bool
	Canary                        *Canary
	Note                          string
}

// Custom is a Go trigger.
type Custom struct {
	Name   string
	Params []byte // JSON; nil if there are none
}

// Canary is a trial of what the schedule runs.
type Canary struct {
	Share      float64
	Failures   int
	MaxLatency time.Duration
	Runs       int
}

// Except is an exclusion: one of its forms.
type Except struct {
	Pos      Pos
	Days     []string
	Calendar string
	ICS      string // the path of a file
	From, To time.Time
	Window   string // a cron expression
	Length   time.Duration
}

// At returns where a field is written; where the entry begins if it is not.
func (s *Schedule) At(field string) Pos {
	if p, ok := s.Places[field]; ok {
		return p
	}
	return s.Pos
}

// Parse reads a file. The error joins all faults, each an [*Error].
func Parse(name string, data []byte) (*File, error) {
	p := &parser{name: name}
	if len(data) > MaxBytes {
		return nil, &Error{Pos{name, 1, 1}, fmt.Errorf("the file has more than %d bytes", MaxBytes)}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, &Error{Pos{name, 1, 1}, errors.New("the file is empty")}
	case err != nil:
		return nil, p.syntax(err)
	}
	switch err := dec.Decode(&more); {
	case err == nil:
		p.fault(&more, errors.New("a second document: one is read"))
	case !errors.Is(err, io.EOF):
		return nil, p.syntax(err)
	}
	f := new(File)
	p.fields(doc.Content[0], map[string]func(*yaml.Node){
		"owner":      func(n *yaml.Node) { f.Owner, f.OwnerAt = p.text(n), p.pos(n) },
		"generation": func(n *yaml.Node) { f.Generation = uint64(p.count(n)) },
		"prune":      func(n *yaml.Node) { f.Prune = p.flag(n) },
		"schedules": func(n *yaml.Node) {
			for _, item := range p.items(n) {
				f.Schedules = append(f.Schedules, p.schedule(item))
			}
		},
	})
	if err := errors.Join(p.faults...); err != nil {
		return nil, err
	}
	return f, nil
}

// parser gathers faults.
type parser struct {
	name   string
	faults []error
}

func (p *parser) pos(n *yaml.Node) Pos { return Pos{p.name, n.Line, n.Column} }

func (p *parser) fault(n *yaml.Node, err error) { p.faults = append(p.faults, &Error{p.pos(n), err}) }

// syntax makes a fault of an error of the YAML library, which has the line in its text.
func (p *parser) syntax(err error) error {
	at := Pos{p.name, 1, 1}
	var rest string
	if n, _ := fmt.Sscanf(err.Error(), "yaml: line %d: %s", &at.Line, &rest); n == 2 {
		_, text, _ := bytes.Cut([]byte(err.Error()), []byte(fmt.Sprintf("line %d: ", at.Line)))
		return &Error{at, errors.New(string(text))}
	}
	return &Error{at, err}
}

func (p *parser) schedule(n *yaml.Node) *Schedule {
	s := &Schedule{Pos: p.pos(n), Places: make(map[string]Pos)}
	text := func(to *string) func(*yaml.Node) { return func(n *yaml.Node) { *to = p.text(n) } }
	span := func(to *time.Duration) func(*yaml.Node) { return func(n *yaml.Node) { *to = p.duration(n) } }
	count := func(to *int) func(*yaml.Node) { return func(n *yaml.Node) { *to = p.count(n) } }
	moment := func(to *time.Time) func(*yaml.Node) { return func(n *yaml.Node) { *to = p.time(n) } }
	known := map[string]func(*yaml.Node){
		"id": text(&s.ID), "cron": text(&s.Cron), "dialect": text(&s.Dialect), "zone": text(&s.Zone), "dst": text(&s.DST), "hash_key": text(&s.HashKey),
		"every": span(&s.Every), "after": span(&s.After), "jitter": span(&s.Jitter), "start": moment(&s.Start), "end": moment(&s.End),
		"task": text(&s.Task), "queue": text(&s.Queue), "tenant": text(&s.Tenant), "priority": text(&s.Priority),
		"timeout": span(&s.Timeout), "expire_after": span(&s.ExpireAfter), "attempts": count(&s.Attempts),
		"backoff": span(&s.Backoff), "max_backoff": span(&s.MaxBackoff),
		"overlap": text(&s.Overlap), "catch_up": text(&s.CatchUp), "catch_up_age": span(&s.CatchUpAge),
		"catch_up_count": count(&s.CatchUpCount), "catch_up_pace": span(&s.CatchUpPace), "max_runs": count(&s.MaxRuns),
		"paused": func(n *yaml.Node) { s.Paused = p.flag(n) }, "note": text(&s.Note),
		"input":  func(n *yaml.Node) { s.Input = p.json(n) },
		"custom": func(n *yaml.Node) { s.Custom = p.custom(n) },
		"canary": func(n *yaml.Node) { s.Canary = p.canary(n) },
		"meta":   func(n *yaml.Node) { s.Meta = p.texts(n) },
		"times": func(n *yaml.Node) {
			for _, item := range p.items(n) {
				s.Times = append(s.Times, p.time(item))
			}
		},
		"except": func(n *yaml.Node) {
			for _, item := range p.items(n) {
				s.Except = append(s.Except, p.except(item))
			}
		},
	}
	for name, read := range known {
		known[name] = func(n *yaml.Node) {
			at := p.pos(n)
			if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
				at.Column++ // of the text itself
			}
			s.Places[name] = at
			read(n)
		}
	}
	p.fields(n, known)
	for _, name := range []string{"id", "task"} {
		if _, ok := s.Places[name]; !ok && n.Kind == yaml.MappingNode {
			p.fault(n, fmt.Errorf("the schedule has no %s", name))
		}
	}
	return s
}

func (p *parser) custom(n *yaml.Node) *Custom {
	c := new(Custom)
	p.fields(n, map[string]func(*yaml.Node){
		"name":   func(n *yaml.Node) { c.Name = p.text(n) },
		"params": func(n *yaml.Node) { c.Params = p.json(n) },
	})
	if c.Name == "" {
		p.fault(n, errors.New("the trigger has no name"))
	}
	return c
}

func (p *parser) canary(n *yaml.Node) *Canary {
	c := new(Canary)
	p.fields(n, map[string]func(*yaml.Node){
		"share":       func(n *yaml.Node) { c.Share = p.share(n) },
		"failures":    func(n *yaml.Node) { c.Failures = p.count(n) },
		"max_latency": func(n *yaml.Node) { c.MaxLatency = p.duration(n) },
		"runs":        func(n *yaml.Node) { c.Runs = p.count(n) },
	})
	if c.Share == 0 && n.Kind == yaml.MappingNode {
		p.fault(n, errors.New("the trial has no share"))
	}
	return c
}

func (p *parser) except(n *yaml.Node) Except {
	x := Except{Pos: p.pos(n)}
	p.fields(n, map[string]func(*yaml.Node){
		"ics":      func(n *yaml.Node) { x.ICS = p.text(n) },
		"from":     func(n *yaml.Node) { x.From = p.time(n) },
		"to":       func(n *yaml.Node) { x.To = p.time(n) },
		"calendar": func(n *yaml.Node) { x.Calendar = p.text(n) },
		"window":   func(n *yaml.Node) { x.Window = p.text(n) },
		"length":   func(n *yaml.Node) { x.Length = p.duration(n) },
		"days": func(n *yaml.Node) {
			for _, item := range p.items(n) {
				x.Days = append(x.Days, p.text(item))
			}
		},
	})
	return x
}

// fields reads a mapping; a key that is not known, or comes twice, is a fault.
func (p *parser) fields(n *yaml.Node, known map[string]func(*yaml.Node)) {
	if n = follow(n); n.Kind != yaml.MappingNode {
		p.fault(n, errors.New("want a mapping"))
		return
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read := known[key.Value]
		switch {
		case read == nil:
			p.fault(key, fmt.Errorf("unknown field %q", key.Value))
		case seen[key.Value]:
			p.fault(key, fmt.Errorf("field %q comes twice", key.Value))
		default:
			read(value)
		}
		seen[key.Value] = true
	}
}

// follow returns what an alias stands for.
func follow(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func (p *parser) items(n *yaml.Node) []*yaml.Node {
	if n = follow(n); n.Kind != yaml.SequenceNode {
		p.fault(n, errors.New("want a list"))
		return nil
	}
	return n.Content
}

func (p *parser) text(n *yaml.Node) string {
	if at := follow(n); at.Kind == yaml.ScalarNode && at.Tag != "!!null" {
		return at.Value
	}
	p.fault(n, errors.New("want a text"))
	return ""
}

func (p *parser) texts(n *yaml.Node) map[string]string {
	all := make(map[string]string)
	if n = follow(n); n.Kind != yaml.MappingNode {
		p.fault(n, errors.New("want a mapping"))
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if _, twice := all[key.Value]; twice {
			p.fault(key, fmt.Errorf("key %q comes twice", key.Value))
		}
		all[key.Value] = p.text(n.Content[i+1])
	}
	return all
}

func (p *parser) duration(n *yaml.Node) time.Duration {
	d, err := time.ParseDuration(p.text(n))
	if err != nil || d < 0 {
		p.fault(n, fmt.Errorf("%q is not a duration such as 90s or 1h30m", follow(n).Value))
	}
	return d
}

func (p *parser) time(n *yaml.Node) time.Time {
	t, err := time.Parse(time.RFC3339, p.text(n))
	if err != nil {
		p.fault(n, fmt.Errorf("%q is not a time such as 2026-01-31T09:00:00Z", follow(n).Value))
	}
	return t
}

func (p *parser) count(n *yaml.Node) int {
	v, err := strconv.ParseInt(p.text(n), 10, 32)
	if err != nil || v < 0 {
		p.fault(n, fmt.Errorf("%q is not a number from 0 to 2147483647", follow(n).Value))
	}
	return int(v)
}

func (p *parser) share(n *yaml.Node) float64 {
	v, err := strconv.ParseFloat(p.text(n), 64)
	if err != nil || !(v >= 0.001 && v <= 1) {
		p.fault(n, fmt.Errorf("%q is not a share from 0.001 to 1", follow(n).Value))
	}
	return v
}

func (p *parser) flag(n *yaml.Node) bool {
	var v bool
	if err := follow(n).Decode(&v); err != nil {
		p.fault(n, errors.New("want true or false"))
	}
	return v
}

// json makes JSON of any value.
func (p *parser) json(n *yaml.Node) []byte {
	var v any
	err := n.Decode(&v)
	var data []byte
	if err == nil {
		data, err = json.Marshal(v)
	}
	if err != nil {
		p.fault(n, fmt.Errorf("it has no JSON form: %w", err))
	}
	return data
}
