// Package trigger gives meaning to the data of a trigger: it says when a
// [store.Trigger] has its ticks. Cron expressions are read by engine/cron, the
// other kinds, exclusions and calendars here.
package trigger
