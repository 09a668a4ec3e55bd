package boltstore

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/escapement-go/scheduler/store"
)

// How full pages are left when they split: keys that only grow leave nothing
// between them to fill later.
const (
	appendFill = 0.95
	randomFill = 0.5
)

// runs writes the runs in the order of their IDs, live ones to their bucket and
// final ones to their segments.
func (w *writer) runs(f *store.Flush) error {
	changes := make(map[string][]runChange)
	add := func(path string, c runChange) {
		list := changes[path]
		if n := len(list); n > 0 && *list[n-1].id == *c.id { // the later one counts
			list[n-1] = c
		} else {
			changes[path] = append(list, c)
		}
	}
	paths := segmentPaths{}
	for _, c := range sortedRuns(f.Runs) {
		live := c.Run != nil && !c.Final
		switch {
		case live:
			add(runsBucket, runChange{&c.ID, c.Run})
		case c.Gone:
			add(runsBucket, runChange{&c.ID, nil})
		}
		if c.Run != nil && c.Final {
			add(paths.of(c.Segment), runChange{&c.ID, c.Run})
		}
	}
	p := &packer{rows: w.rows, specs: make(map[*store.Spec][]byte)}
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		t, err := w.table(path, appendFill)
		if err != nil {
			return err
		}
		if err := p.apply(t, path, changes[path]); err != nil {
			return err
		}
	}
	return nil
}

// segmentPaths are paths by segment.
type segmentPaths map[store.SegmentKey]string

func (p segmentPaths) of(k store.SegmentKey) string {
	path, known := p[k]
	if !known {
		path = segmentPath(k)
		p[k] = path
	}
	return path
}

// sortedRuns returns the changes in the order of IDs, those of one ID as they
// came.
func sortedRuns(runs []store.ChangedRun) []*store.ChangedRun {
	sorted := make([]*store.ChangedRun, len(runs))
	for i := range runs {
		sorted[i] = &runs[i]
	}
	slices.SortStableFunc(sorted, func(a, b *store.ChangedRun) int { return a.ID.Compare(b.ID) })
	return sorted
}

// live writes the other live records.
func (w *writer) live(f *store.Flush) error {
	if err := putAll(w, schedulesBucket, randomFill, f.Schedules, textKey); err != nil {
		return err
	}
	if err := putAll(w, queuesBucket, randomFill, f.Queues, textKey); err != nil {
		return err
	}
	if err := putAll(w, sessionsBucket, randomFill, f.Sessions, numberKey); err != nil {
		return err
	}
	if err := putAll(w, uniquesBucket, randomFill, f.Uniques, textKey); err != nil {
		return err
	}
	if err := putAll(w, calendarsBucket, randomFill, f.Calendars, textKey); err != nil {
		return err
	}
	if err := putAll(w, versionsBucket, appendFill, f.Versions, versionKey); err != nil {
		return err
	}
	if err := putAll(w, segmentsBucket, randomFill, f.Segments, segmentKey); err != nil {
		return err
	}
	if len(f.Tasks) == 0 {
		return nil
	}
	t, err := w.table(tasksBucket, randomFill)
	if err != nil {
		return err
	}
	for _, name := range f.Tasks {
		key := textKey(name)
		if err := t.put(key, w.rows.raw(key, []byte(name))); err != nil {
			return err
		}
	}
	return nil
}

// putAll stores records in the order of their keys and deletes those that are nil.
func putAll[K comparable, R any, P interface {
	*R
	codec
}](w *writer, path string, fill float64, recs map[K]P, key func(K) []byte) error {
	if len(recs) == 0 {
		return nil
	}
	t, err := w.table(path, fill)
	if err != nil {
		return err
	}
	type pair struct {
		key []byte
		rec P
	}
	pairs := make([]pair, 0, len(recs))
	for k, rec := range recs {
		pairs = append(pairs, pair{key(k), rec})
	}
	slices.SortFunc(pairs, func(a, b pair) int { return bytes.Compare(a.key, b.key) })
	for _, p := range pairs {
		if p.rec == nil {
			if err := t.delete(p.key); err != nil {
				return err
			}
			continue
		}
		row, err := w.rows.encode(p.key, p.rec)
		if err != nil {
			return err
		}
		if err := t.put(p.key, row); err != nil {
			return err
		}
	}
	return nil
}

// ticks writes the ledger rows in the order of their keys. Of rows with one key
// the last one decided stays.
func (w *writer) ticks(f *store.Flush) error {
	order := make([]int, len(f.Ticks))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &f.Ticks[i], &f.Ticks[j]
		switch {
		case a.Segment != b.Segment:
			return cmp.Or(cmp.Compare(a.Segment.Time, b.Segment.Time), cmp.Compare(a.Segment.Part, b.Segment.Part))
		case a.Tick.Schedule != b.Tick.Schedule:
			return cmp.Compare(a.Tick.Schedule, b.Tick.Schedule)
		case a.Tick.To != b.Tick.To:
			return cmp.Compare(a.Tick.To, b.Tick.To)
		}
		return i - j
	})
	var t *table
	var segment store.SegmentKey // of t
	for _, i := range order {
		r := &f.Ticks[i]
		if t == nil || r.Segment != segment {
			var err error
			if t, err = w.table(segmentPath(r.Segment), appendFill); err != nil {
				return err
			}
			segment = r.Segment
		}
		key := tickKey(r.Tick.Schedule, r.Tick.To, r.Tick.Backfill)
		row, err := w.rows.encode(key[:], &r.Tick)
		if err != nil {
			return err
		}
		if err := t.put(key[:], row); err != nil {
			return err
		}
	}
	return nil
}

// journalChunks is into how many buckets the journal is divided at least: it is
// trimmed by whole ones.
const journalChunks = 16

// events appends to the journal, and drops its oldest buckets while it is above
// its bound.
func (w *writer) events(f *store.Flush) error {
	if len(f.Events) == 0 {
		return nil
	}
	chunks, total := w.journalChunks()
	var t *table
	for _, e := range f.Events {
		if len(chunks) == 0 || w.sum(chunks[len(chunks)-1]).bytes >= uint64(w.journalBytes/journalChunks) {
			name := binary.BigEndian.AppendUint64(nil, e.Index)
			chunks, t = append(chunks, journalBucket+"/"+string(name)), nil
		}
		if t == nil {
			var err error
			if t, err = w.table(chunks[len(chunks)-1], appendFill); err != nil {
				return err
			}
		}
		key := numberKey(e.Index)
		row := w.rows.raw(key, e.Data)
		if err := t.put(key, row); err != nil {
			return err
		}
		total += uint64(len(key) + len(row))
	}
	for len(chunks) > 1 && total > uint64(w.journalBytes) {
		total -= w.sum(chunks[0]).bytes
		if err := w.dropBucket(chunks[0]); err != nil {
			return err
		}
		chunks = chunks[1:]
	}
	return nil
}

// journalChunks returns the paths of the journal's buckets, oldest first, and the
// bytes in them.
func (w *writer) journalChunks() (chunks []string, total uint64) {
	for path, sum := range w.known {
		if parent, _ := split(path); parent == journalBucket {
			chunks = append(chunks, path)
			total += sum.bytes
		}
	}
	slices.Sort(chunks)
	return chunks, total
}

// sum returns what the bucket at path holds by now.
func (w *writer) sum(path string) sum {
	if t, used := w.tables[path]; used {
		if t == nil {
			return sum{}
		}
		return t.sum
	}
	return w.known[path]
}
