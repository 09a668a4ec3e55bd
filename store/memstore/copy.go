package memstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"
	"github.com/tinylib/msgp/msgp"

	"github.com/escapement-go/scheduler/store"
)

// A copy is a magic number, frames, and a hash of what precedes it. A frame is
// its kind, its length and its body; rows of the history have their segment's key
// in front of the record.
const copyMagic = "escapement memory\x01"

// The kinds of frames.
const (
	frameEnd = iota
	frameMeta
	frameConfig
	frameRun
	frameSchedule
	frameQueue
	frameSession
	frameUnique
	frameTask
	frameSegment
	frameFinal
	frameTick
	frameEvent
	frameCalendar
	frameVersion
)

// Backup writes a copy of everything, as of one commit, and returns its position
// and configuration. A slow w holds up nothing.
func (s *Store) Backup(w io.Writer) (store.Meta, []byte, error) {
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return store.Meta{}, nil, store.ErrClosed
	}
	meta, config := s.kept.meta, s.kept.config
	b, err := s.kept.encode()
	s.mu.RUnlock()
	if err == nil {
		_, err = w.Write(b)
	}
	if err != nil {
		return store.Meta{}, nil, fmt.Errorf("memstore: copy: %w", err)
	}
	return meta, config, nil
}

// Restore replaces everything by a copy that [Store.Backup] made, read to its
// end. On an error the old state stays.
// Errors: [store.ErrCorrupt] for a copy that is cut short or changed, and those
// of r.
func (s *Store) Restore(r io.Reader) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("memstore: restore: %w", err)
	}
	k, err := decodeKept(b)
	if err != nil {
		return fmt.Errorf("memstore: restore: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	s.kept = k
	return nil
}

// framer appends frames.
type framer struct {
	b, body []byte
	err     error
}

func (f *framer) frame(kind byte, body []byte) {
	f.b = append(f.b, kind)
	f.b = binary.AppendUvarint(f.b, uint64(len(body)))
	f.b = append(f.b, body...)
}

func (f *framer) record(kind byte, recs ...msgp.Marshaler) {
	f.body = f.body[:0]
	for _, rec := range recs {
		var err error
		if f.body, err = rec.MarshalMsg(f.body); err != nil {
			f.err = err
		}
	}
	f.frame(kind, f.body)
}

func frameAll[K comparable, P msgp.Marshaler](f *framer, kind byte, recs map[K]P) {
	for _, rec := range recs {
		f.record(kind, rec)
	}
}

func (k *kept) encode() ([]byte, error) {
	f := &framer{b: []byte(copyMagic)}
	f.record(frameMeta, &k.meta)
	if k.config != nil {
		f.frame(frameConfig, k.config)
	}
	frameAll(f, frameRun, k.runs)
	frameAll(f, frameSchedule, k.schedules)
	frameAll(f, frameQueue, k.queues)
	frameAll(f, frameCalendar, k.calendars)
	frameAll(f, frameVersion, k.versions)
	frameAll(f, frameSession, k.sessions)
	frameAll(f, frameUnique, k.uniques)
	frameAll(f, frameSegment, k.segments)
	for name := range k.tasks {
		f.frame(frameTask, []byte(name))
	}
	for at, r := range k.history.all() {
		f.record(frameFinal, &at, r)
	}
	for at, t := range k.ticks.all() {
		f.record(frameTick, &at, t)
	}
	for _, e := range k.journal {
		f.frame(frameEvent, append(binary.BigEndian.AppendUint64(nil, e.Index), e.Data...))
	}
	f.frame(frameEnd, nil)
	return binary.LittleEndian.AppendUint64(f.b, xxhash.Sum64(f.b)), f.err
}

func damaged(reason string) error { return &store.CorruptError{Reason: reason} }

func decodeKept(b []byte) (*kept, error) {
	n := len(b) - 8
	if n < len(copyMagic) || binary.LittleEndian.Uint64(b[n:]) != xxhash.Sum64(b[:n]) ||
		!bytes.HasPrefix(b, []byte(copyMagic)) {
		return nil, damaged("the copy is cut short or changed")
	}
	k := newKept()
	for b = b[len(copyMagic):n]; len(b) > 0; {
		kind := b[0]
		size, m := binary.Uvarint(b[1:])
		if m <= 0 || size > uint64(len(b)-1-m) {
			return nil, damaged("the copy has a frame that is cut short")
		}
		body := b[1+m:][:size]
		b = b[1+m+int(size):]
		if err := k.decode(kind, body); err != nil {
			return nil, err
		}
	}
	return k, nil
}

func (k *kept) decode(kind byte, body []byte) error {
	switch kind {
	case frameEnd:
		return nil
	case frameMeta:
		_, err := k.meta.UnmarshalMsg(body)
		return err
	case frameConfig:
		k.config = bytes.Clone(body)
		return nil
	case frameRun:
		return decodeInto(k.runs, body, func(r *store.Run) store.RunID { return r.ID })
	case frameSchedule:
		return decodeInto(k.schedules, body, func(sc *store.Schedule) string { return sc.ID })
	case frameQueue:
		return decodeInto(k.queues, body, func(q *store.Queue) string { return q.Name })
	case frameCalendar:
		return decodeInto(k.calendars, body, func(c *store.Calendar) string { return c.Name })
	case frameVersion:
		return decodeInto(k.versions, body, func(v *store.ScheduleVersion) store.VersionKey {
			return store.VersionKey{Number: v.Number, Version: v.Version}
		})
	case frameSession:
		return decodeInto(k.sessions, body, func(s *store.Session) uint64 { return s.ID })
	case frameUnique:
		return decodeInto(k.uniques, body, func(u *store.Unique) string { return u.Key })
	case frameSegment:
		return decodeInto(k.segments, body, func(seg *store.Segment) store.SegmentKey { return seg.Key() })
	case frameTask:
		k.tasks[string(body)] = struct{}{}
		return nil
	}
	return k.decodeHistory(kind, body)
}

func (k *kept) decodeHistory(kind byte, body []byte) error {
	if kind == frameEvent && len(body) >= 8 {
		e := store.PackedEvents{Index: binary.BigEndian.Uint64(body), Data: bytes.Clone(body[8:])}
		k.journal = append(k.journal, e)
		k.journalBytes += eventBytes(e)
		return nil
	}
	var at store.SegmentKey
	body, err := at.UnmarshalMsg(body)
	if err != nil {
		return err
	}
	switch kind {
	case frameFinal:
		r, err := decode[store.Run](body)
		if err == nil {
			k.history.put(at, r.ID, r)
		}
		return err
	case frameTick:
		t, err := decode[store.Tick](body)
		if err == nil {
			k.ticks.put(at, keyOf(t), t)
		}
		return err
	}
	return fmt.Errorf("%w: the copy has frames of kind %d", store.ErrNewer, kind)
}

// record is a pointer to a record with a generated codec.
type record[T any] interface {
	*T
	msgp.Marshaler
	msgp.Unmarshaler
}

func decode[T any, P record[T]](body []byte) (P, error) {
	rec := P(new(T))
	if _, err := rec.UnmarshalMsg(body); err != nil {
		return nil, damaged(err.Error())
	}
	return rec, nil
}

func decodeInto[K comparable, T any, P record[T]](to map[K]P, body []byte, key func(P) K) error {
	rec, err := decode[T, P](body)
	if err == nil {
		to[key(rec)] = rec
	}
	return err
}

// clone returns a deep copy.
func clone[T any, P record[T]](rec P) (*T, error) {
	b, err := rec.MarshalMsg(nil)
	if err != nil {
		return nil, err
	}
	return decode[T, P](b)
}
