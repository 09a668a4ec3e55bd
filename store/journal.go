package store

import (
	"encoding/binary"
	"errors"
	"iter"
)

// EventRecord is an event as the journal keeps it.
type EventRecord struct {
	Index   uint64 // of the log entry
	Wall    int64  // ns, stamped on the entry
	Kind    EventKind
	Outcome Outcome
	State   RunState // run events: after the event

	Run      RunID  // run events
	Attempt  uint32 // run events
	Fence    uint64 // run events
	Schedule string // schedule and tick events, and events of runs made by one
	Tick     TickOutcome
	Nominal  int64  // tick events: ns on the trigger's clock, of the first tick
	Session  uint64 // session and lease events
	Queue    string // queue events
	Calendar string // calendar events
}

// journalVersion is the first byte of a packed row.
const journalVersion = 1

// packEvents packs the events of one entry into a journal row.
func packEvents(wall int64, events []Event) []byte {
	b := make([]byte, 0, 16+len(events)*32)
	b = append(b, journalVersion)
	b = binary.AppendVarint(b, wall)
	for i := range events {
		e := &events[i]
		b = append(b, byte(e.Kind), byte(e.Outcome))
		switch {
		case e.Run != nil:
			b = append(b, byte(e.Run.State))
			b = append(b, e.Run.ID[:]...)
			b = binary.AppendUvarint(b, uint64(e.Run.Attempt))
			b = binary.AppendUvarint(b, e.Fence)
			b = binary.AppendUvarint(b, e.Session)
			schedule := ""
			if e.Run.More != nil {
				schedule = e.Run.More.Schedule
			}
			b = appendText(b, schedule)
		case e.Tick != nil:
			b = appendText(b, e.Schedule.ID)
			b = append(b, byte(e.Tick.Outcome))
			b = binary.AppendVarint(b, e.Tick.From)
		case e.Schedule != nil:
			b = appendText(b, e.Schedule.ID)
		case e.Queue != nil:
			b = appendText(b, e.Queue.Name)
		case e.Calendar != nil:
			b = appendText(b, e.Calendar.Name)
		default:
			b = binary.AppendUvarint(b, e.Session)
		}
	}
	return b
}

func appendText(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// ErrJournal is yielded by [UnpackEvents] for a row that is damaged or written
// by a newer build.
var ErrJournal = errors.New("unreadable journal row")

// UnpackEvents yields the events of a journal row in order. A damaged row yields
// what precedes the damage, then [ErrJournal].
func UnpackEvents(row PackedEvents) iter.Seq2[EventRecord, error] {
	return func(yield func(EventRecord, error) bool) {
		d := unpacker{b: row.Data}
		if d.byte() != journalVersion {
			yield(EventRecord{}, ErrJournal)
			return
		}
		wall := d.varint()
		for len(d.b) > 0 && !d.bad {
			e := EventRecord{Index: row.Index, Wall: wall}
			d.event(&e)
			if d.bad {
				break
			}
			if !yield(e, nil) {
				return
			}
		}
		if d.bad {
			yield(EventRecord{}, ErrJournal)
		}
	}
}

// unpacker reads the fields of a row; bad is set once it runs out.
type unpacker struct {
	b   []byte
	bad bool
}

func (d *unpacker) event(e *EventRecord) {
	e.Kind, e.Outcome = EventKind(d.byte()), Outcome(d.byte())
	switch e.Kind {
	case EventEnqueued, EventLeased, EventRescheduled, EventFinished, EventCheckpointed:
		e.State = RunState(d.byte())
		copy(e.Run[:], d.take(len(e.Run)))
		e.Attempt = uint32(d.uvarint())
		e.Fence = d.uvarint()
		e.Session = d.uvarint()
		e.Schedule = d.text()
	case EventTick:
		e.Schedule = d.text()
		e.Tick = TickOutcome(d.byte())
		e.Nominal = d.varint()
	case EventScheduleSet, EventScheduleGone:
		e.Schedule = d.text()
	case EventQueueSet:
		e.Queue = d.text()
	case EventCalendarSet:
		e.Calendar = d.text()
	case EventSessionOpened, EventSessionEnded, EventPruned, EventClusterSet:
		e.Session = d.uvarint()
	default:
		d.bad = true
	}
}

func (d *unpacker) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.bad, d.b = true, nil
		return nil
	}
	taken := d.b[:n]
	d.b = d.b[n:]
	return taken
}

func (d *unpacker) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *unpacker) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *unpacker) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *unpacker) text() string {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return ""
	}
	return string(d.take(int(n)))
}
