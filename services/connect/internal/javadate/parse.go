package javadate

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// reading is what has been read of a text.
type reading struct {
	text string
	at   int
	// fields are the numbers by the letters of their fields.
	fields map[byte]int
	// pm says that the half of the day is the second; bc that years count backwards.
	pm, bc bool
	offset time.Duration
}

// Parse reads a time from the beginning of a text, like SimpleDateFormat in its lenient way: what is not said is that of 1970
// began, numbers beyond their range run on into the next field, and what follows is passed over.
func (f *Format) Parse(text string) (time.Time, error) {
	r := reading{text: text, fields: map[byte]int{}}
	for i, p := range f.parts {
		// Without a text between them, numbers have as many digits as the pattern says.
		exact := i+1 < len(f.parts) && f.parts[i+1].letter != 0
		if !r.part(p, exact) {
			return time.Time{}, fmt.Errorf("%.60q is no time of the format, at byte %d", text, r.at)
		}
	}
	return r.time(), nil
}

func (r *reading) part(p part, exact bool) bool {
	if p.letter == 0 {
		if !strings.HasPrefix(r.text[r.at:], p.text) {
			return false
		}
		r.at += len(p.text)
		return true
	}
	for r.at < len(r.text) && (r.text[r.at] == ' ' || r.text[r.at] == '\t') {
		r.at++
	}
	switch p.letter {
	case 'M', 'L':
		if p.count >= 3 {
			month := r.name(func(i int) string { return time.Month(i + 1).String() }, 12)
			p.letter, r.fields['M'] = 'M', month+1
			return month >= 0
		}
		p.letter = 'M'
	case 'E':
		day := r.name(func(i int) string { return time.Weekday(i).String() }, 7)
		r.fields['E'] = day
		return day >= 0
	case 'a':
		half := r.word("AM", "PM")
		r.pm = half == 1
		return half >= 0
	case 'G':
		era := r.word("AD", "BC")
		r.bc = era == 1
		return era >= 0
	case 'z', 'Z', 'X':
		return r.zone(p.letter == 'X')
	}
	begin := r.at
	n, ok := r.number(p.count, exact)
	if (p.letter == 'y' || p.letter == 'Y') && p.count <= 2 && r.at-begin == 2 && n >= 0 {
		n += 1900
		if n < 1950 {
			n += 100
		}
	}
	r.fields[p.letter] = n
	return ok
}

// name reads the name of one of n things, short or long, in any case.
func (r *reading) name(of func(i int) string, n int) int {
	for i := range n {
		for _, name := range []string{of(i), of(i)[:3]} {
			if r.word(name) == 0 {
				return i
			}
		}
	}
	return -1
}

// word reads one of some words, in any case, and returns its place, or -1.
func (r *reading) word(words ...string) int {
	for i, word := range words {
		if rest := r.text[r.at:]; len(rest) >= len(word) && strings.EqualFold(rest[:len(word)], word) {
			r.at += len(word)
			return i
		}
	}
	return -1
}

// maxDigits bounds a number, so that times stay within what can be counted.
const maxDigits = 8

func (r *reading) number(count int, exact bool) (int, bool) {
	rest := r.text[r.at:]
	if exact {
		if len(rest) < count {
			return 0, false
		}
		rest = rest[:count]
	}
	size := 0
	if strings.HasPrefix(rest, "-") {
		size = 1
	}
	begin := size
	for size < len(rest) && rest[size] >= '0' && rest[size] <= '9' {
		size++
	}
	n, err := strconv.Atoi(rest[:size])
	if err != nil || size-begin > maxDigits {
		return 0, false
	}
	r.at += size
	return n, true
}

// zones are the offsets of zones' names, in hours. Others than these are written as numbers.
var zones = map[string]int{"UTC": 0, "GMT": 0, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7, "CET": 1, "CEST": 2}

// zone reads +0100, +01:00 or +01, that behind GMT or UTC, Z, or a name.
func (r *reading) zone(iso bool) bool {
	if iso && r.word("Z") == 0 {
		return true
	}
	if !iso {
		if name := r.letters(); name != "" {
			hours, ok := zones[strings.ToUpper(name)]
			if r.offset = time.Duration(hours) * time.Hour; !ok || r.at == len(r.text) || r.text[r.at] != '+' && r.text[r.at] != '-' {
				return ok
			}
		}
	}
	rest := r.text[r.at:]
	if rest == "" || rest[0] != '+' && rest[0] != '-' {
		return false
	}
	var digits string
	size := 1
	for ; size < len(rest) && len(digits) < 4; size++ {
		switch c := rest[size]; {
		case c >= '0' && c <= '9':
			digits += rest[size : size+1]
			continue
		case c == ':' && (len(digits) == 1 || len(digits) == 2):
			digits = strings.Repeat("0", 2-len(digits)) + digits
			continue
		}
		break
	}
	if len(digits) == 1 || len(digits) == 2 {
		digits += "00"
	}
	if len(digits) == 3 {
		digits = "0" + digits
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n%100 > 59 || n/100 > 23 {
		return false
	}
	r.at += size
	r.offset += time.Duration(n/100)*time.Hour + time.Duration(n%100)*time.Minute
	if rest[0] == '-' {
		r.offset = -r.offset
	}
	return true
}

func (r *reading) letters() string {
	begin := r.at
	for r.at < len(r.text) && (r.text[r.at]|0x20 >= 'a' && r.text[r.at]|0x20 <= 'z') {
		r.at++
	}
	return r.text[begin:r.at]
}

// time puts the fields together.
func (r *reading) time() time.Time {
	get := func(letter byte, absent int) (int, bool) {
		n, ok := r.fields[letter]
		if !ok {
			n = absent
		}
		return n, ok
	}
	year, _ := get('y', 1970)
	if n, ok := get('Y', 0); ok {
		year = n
	}
	if r.bc {
		year = 1 - year
	}
	month, hasMonth := get('M', 1)
	day, hasDay := get('d', 1)
	at := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if !hasMonth && !hasDay {
		at = r.dayOfYear(at)
	}
	hour, _ := get('H', 0)
	if n, ok := get('k', 0); ok {
		hour = n % 24
	}
	half, halved := get('K', 0)
	if n, ok := get('h', 0); ok {
		half, halved = n, true
		if n == 12 {
			half = 0
		}
	}
	if halved {
		hour = half
	}
	if halved && r.pm {
		hour += 12
	}
	minute, _ := get('m', 0)
	second, _ := get('s', 0)
	ms, _ := get('S', 0)
	clockMs := ((int64(hour)*60+int64(minute))*60+int64(second))*1000 + int64(ms)
	return time.UnixMilli(at.UnixMilli() + clockMs - r.offset.Milliseconds()).UTC()
}

// dayOfYear returns the day that is said by its number in the year, or by its week and its number in that.
func (r *reading) dayOfYear(first time.Time) time.Time {
	if n, ok := r.fields['D']; ok {
		return first.AddDate(0, 0, n-1)
	}
	n, ok := r.fields['w']
	if !ok {
		return first
	}
	weekday := r.fields['E']
	if u, ok := r.fields['u']; ok {
		weekday = u % 7
	}
	return first.AddDate(0, 0, 7*(n-1)+weekday-int(first.Weekday()))
}
