package cron

// Local time is counted here in seconds since 1970-01-01 00:00:00 of the wall
// clock itself, as if the zone had no offset; days are whole days of that count.

const (
	minYear = 1970
	maxYear = 2199

	daySeconds = 24 * 60 * 60
	// localEnd is the first local second after maxYear.
	localEnd = 84006 * daySeconds
)

// monthStart[leap][m] is the number of days of the year before month m.
var monthStart = [2][14]uint16{
	{0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365},
	{0, 0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335, 366},
}

// leap returns 1 for leap years and 0 for others.
func leap(y int) int {
	if y%4 == 0 && (y%100 != 0 || y%400 == 0) {
		return 1
	}
	return 0
}

// yearStart returns the day of 1 January.
func yearStart(y int) int {
	p := y - 1
	return 365*(y-minYear) + p/4 - p/100 + p/400 - 477
}

// civil returns the date of a day not before 1970. It is Howard Hinnant's
// civil_from_days (https://howardhinnant.github.io/date_algorithms.html), without
// the care for negative days.
func civil(day int) (y, m, d int) {
	z := uint32(day) + 719468
	era := z / 146097
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	d = int(doy - (153*mp+2)/5 + 1)
	m = int(mp) + 3
	y = int(yoe + era*400)
	if m > 12 {
		m -= 12
		y++
	}
	return y, m, d
}

// weekday returns the weekday of a day not before 1970, Sunday being 0.
func weekday(day int) int { return (day + 4) % 7 }
