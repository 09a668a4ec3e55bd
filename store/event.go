package store

// EventKind says what an [Event] tells.
type EventKind uint8

// The kinds of events. They are stored and never renumbered.
const (
	_                  EventKind = iota
	EventEnqueued                // Run was added
	EventLeased                  // Run was granted to Run.Session under Run.Fence
	EventRescheduled             // Run goes back to waiting; Session and Fence are those of the ended lease
	EventFinished                // Run reached a final state; Session and Fence are those of the lease it ended, if any
	EventCheckpointed            // Run has a new checkpoint
	EventScheduleSet             // Schedule is new, changed, paused, resumed or armed anew
	EventScheduleGone            // Schedule was deleted
	EventTick                    // Tick was decided
	EventQueueSet                // Queue was configured
	EventSessionOpened           // Session is new
	EventSessionEnded            // Session will send no more
	EventPruned                  // history was dropped
	EventClusterSet              // what holds for the cluster as a whole changed, or a node came or went
	EventCalendarSet             // Calendar is new, changed or deleted
)

// An Event is what applying a command changed. Its records are the immutable
// ones of the state.
type Event struct {
	Kind     EventKind
	Outcome  Outcome // EventRescheduled, EventFinished: how the attempt ended, if one did
	Run      *Run
	Schedule *Schedule
	Tick     *Tick
	Queue    *Queue
	Calendar *Calendar
	Session  uint64
	Fence    uint64
}

var eventNames = [...]string{
	"", "enqueued", "leased", "rescheduled", "finished", "checkpointed", "schedule_set", "schedule_gone",
	"tick", "queue_set", "session_opened", "session_ended", "pruned", "cluster_set", "calendar_set",
}

// String returns the kind's word.
func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return "unknown"
}
