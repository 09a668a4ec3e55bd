// Package cron knows when a cron expression fires. It is pure: the same text, the
// same [Options] and the same instant give the same answer on every machine that
// has the same zone database.
//
//	e, err := cron.Parse("0 9 * * MON-FRI", cron.WithZone("Asia/Shanghai"))
//	next := e.Next(time.Now())
//
// # What is read
//
// Fields are separated by spaces or tabs: minute, hour, day of month, month and day
// of week; a [Dialect] may add seconds in front and a year behind.
//
//	n, n-m, a,b,c   one value, a range, any of these
//	*, ?            every value; ? in a day field only
//	*/n, n-m/s      every nth value of the field, every sth of the range
//	n/s             (NStep) every sth value from n to the end of the field
//	22-2            (Wrap) 22, 23, 0, 1, 2
//	L, L-n          last day of the month; (Ext) n days before it
//	nW              working day nearest to the nth, in the same month
//	LW, L-nW        (Ext) last working day; working day nearest to n days before the last
//	FRI#2, FRIL     second Friday of the month; last Friday, also written FRI#L
//	H, H(n-m), H/n  (Hashed) a value chosen by the hash key; every nth from a chosen start
//	@daily          and @yearly, @monthly, @weekly, @hourly; (Every) @every 90m
//
// Months and weekdays may be named by three letters in any case; 0 and 7 are Sunday.
// Steps start anew in each field: */7 minutes is 0, 7, … 56 and then 0 again, and */90
// minutes is 0 alone. If both day fields are restricted, either is enough, as in every
// cron since 1987; a + before the weekday field, or the And dialect, asks for both.
// Years run from 1970 to 2199; a search that leaves them ends with the zero Time, which
// means never.
//
// # When the clock is put forward or back
//
// An expression whose minute or hour field is * or */n follows elapsed time: it fires at
// every real instant whose wall clock fits. Every quarter of an hour stays every quarter
// of an hour, through the repeated hour as well.
//
// All other expressions name fixed times of day. By default ([RunOnce]) such a time
// fires once per day, whatever the clock does: if the clock jumps over it, at the first
// instant after the jump (02:30 fires at 03:00); if the clock comes by twice, the first
// time. Several times in one gap make one firing, merged with an ordinary one at that
// instant. [Skip], [Shift] and [Both] are the other choices. This is how ISC cron and
// its descendants have long behaved; robfig/cron skips and doubles instead.
//
// # Zones
//
// A zone is looked up when the expression is parsed, and an unknown one is a
// [*ZoneError]; nothing ever falls back to UTC. The program carries a copy of the zone
// database (time/tzdata, about 450 KB) which is used where the system has none. Zones
// that depend on the machine ("Local") are refused. Rules of zones change; nodes that
// must agree on a tick should let one of them compute it and share the result.
//
// # Cost
//
// Next and Prev jump from field to field over bit masks and allocate nothing. The
// search is bounded by the number of years, not by how far away the firing is, and so
// always ends. A zone is laid out once per process, at its first use, for about a
// millisecond and 25 KB.
package cron
