package telemetry

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/escapement-go/scheduler/store"
)

// A series is one counter under one set of attributes, with that set in the
// forms in which the instruments take it. The set is built once.
type series struct {
	n       atomic.Int64
	observe []metric.ObserveOption
	record  []metric.RecordOption
}

func newSeries(attrs ...attribute.KeyValue) *series {
	set := metric.WithAttributeSet(attribute.NewSet(attrs...))
	return &series{observe: []metric.ObserveOption{set}, record: []metric.RecordOption{set}}
}

// report observes the series' count as the value of c.
func (s *series) report(o metric.Observer, c metric.Int64Observable) {
	o.ObserveInt64(c, s.n.Load(), s.observe...)
}

// The places in a family: one for every word, the first unused where the zero
// value is no word, and a last one for the words of a newer version.
const (
	outcomePlaces = int(store.OutcomeCanceled) + 2
	tickPlaces    = int(store.TickBlocked) + 2
	statePlaces   = int(store.Expired) + 2
)

// A family is a set of series that differ in one word: an outcome or a state.
// They are made when first used, since most tasks see two outcomes of nine.
type family[W word] struct {
	key  string               // the attribute whose value is the word
	with []attribute.KeyValue // the other attributes
	of   []atomic.Pointer[series]
}

type word interface {
	~uint8
	String() string
}

func newFamily[W word](places int, key string, with ...attribute.KeyValue) *family[W] {
	return &family[W]{key: key, with: with, of: make([]atomic.Pointer[series], places)}
}

// at returns the word's series. It does not allocate but for the first time.
func (f *family[W]) at(w W) *series {
	if int(w) >= len(f.of)-1 {
		w = math.MaxUint8 // all unknown words are one
	}
	place := &f.of[min(int(w), len(f.of)-1)]
	if s := place.Load(); s != nil {
		return s
	}
	place.CompareAndSwap(nil, newSeries(append(slices.Clip(f.with), attribute.String(f.key, w.String()))...))
	return place.Load()
}

// report observes those series of the family that exist.
func (f *family[W]) report(o metric.Observer, c metric.Int64Observable) {
	for i := range f.of {
		if s := f.of[i].Load(); s != nil {
			s.report(o, c)
		}
	}
}

// A table holds one V per name for the first names it is asked for, up to a
// limit, and one V for all others. Reading is an atomic load and a map lookup;
// nothing is ever taken out.
type table[V any] struct {
	limit int
	other V
	build func(name string) V

	snap atomic.Pointer[snapshot[V]]
	mu   sync.Mutex // serializes the replacing of snap
}

// A snapshot is immutable once published.
type snapshot[V any] struct {
	byName map[string]V
	all    []V  // in order of arrival, so that a limit of the SDK always falls on the same ones
	full   bool // other is in use, and the last of all
}

func newTable[V any](limit int, build func(name string) V) *table[V] {
	t := &table[V]{limit: limit, other: build(Other), build: build}
	t.snap.Store(new(snapshot[V]))
	return t
}

// get returns the name's V, or that of the others.
func (t *table[V]) get(name string) V {
	snap := t.snap.Load()
	if v, ok := snap.byName[name]; ok {
		return v
	}
	if snap.full {
		return t.other
	}
	return t.add(name)
}

// add costs a copy of the map; there are at most limit+1 of them.
func (t *table[V]) add(name string) V {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.snap.Load()
	if v, ok := old.byName[name]; ok {
		return v
	}
	switch {
	case old.full:
		return t.other
	case len(old.byName) == t.limit:
		t.snap.Store(&snapshot[V]{byName: old.byName, all: append(old.all, t.other), full: true})
		return t.other
	}
	name = strings.Clone(name) // it may be a part of something large
	v := t.build(utf8(name))
	byName := make(map[string]V, len(old.byName)+1)
	maps.Copy(byName, old.byName)
	byName[name] = v
	// Appending in place is safe: readers of the older snapshots do not look beyond their length.
	t.snap.Store(&snapshot[V]{byName: byName, all: append(old.all, v)})
	return v
}

// all returns every V there is, in order of arrival.
func (t *table[V]) all() []V { return t.snap.Load().all }
