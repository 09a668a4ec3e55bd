package dispatch

import "time"

// What is left of a deleted schedule is kept for as long as its ledger, but of no
// more than maxDeleted of those that are older than keepDeleted: within that time
// the tick that was released ahead when the schedule was deleted has passed.
const (
	maxDeleted  = 10_000
	keepDeleted = int64(time.Minute)
)

// deletedOver returns the deleted schedules that are to be forgotten.
func (p *preparation) deletedOver() (ids []string) {
	age := int64(p.d.cfg.Retention.MaxAge)
	gone := p.st.DeletedSchedules()
	for i, sc := range gone {
		since := p.elapsed - sc.Deleted
		if since <= keepDeleted {
			break
		}
		if age > 0 && since > age || len(gone)-i > maxDeleted {
			ids = append(ids, sc.ID)
		}
	}
	return ids
}
