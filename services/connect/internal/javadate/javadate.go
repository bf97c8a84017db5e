// Package javadate writes and reads times by the patterns of Java's SimpleDateFormat, in UTC and in English, as Kafka's
// configurations have them.
//
// Two things differ from Java. Two digits of a year are one of 1950 to 2049, where Java counts 80 years back from today. And
// years before 1582 are the Gregorian calendar's like all others (ISO 8601), not the Julian's.
package javadate

import (
	"fmt"
	"strings"
	"time"
)

// Format is a pattern.
type Format struct{ parts []part }

// part is a field, of a letter and how often it stands there, or a text.
type part struct {
	letter byte
	count  int
	text   string
}

const letters = "GyYMLwWDdFEuaHkKhmsSzZX"

// maxCount bounds how often a letter is repeated.
const maxCount = 100

// Compile reads a pattern.
func Compile(pattern string) (*Format, error) {
	f := &Format{}
	for at := 0; at < len(pattern); {
		c := pattern[at]
		size := 1
		switch {
		case c == '\'':
			text, length, err := quoted(pattern[at:])
			if err != nil {
				return nil, fmt.Errorf("date format %q: %w", pattern, err)
			}
			f.literal(text)
			size = length
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			for at+size < len(pattern) && pattern[at+size] == c {
				size++
			}
			if strings.IndexByte(letters, c) < 0 || size > maxCount || c == 'X' && size > 3 {
				return nil, fmt.Errorf("date format %q: there is no field %s", pattern, pattern[at:at+size])
			}
			f.parts = append(f.parts, part{letter: c, count: size})
		default:
			f.literal(pattern[at : at+1])
		}
		at += size
	}
	return f, nil
}

func (f *Format) literal(text string) {
	if n := len(f.parts); n > 0 && f.parts[n-1].letter == 0 {
		f.parts[n-1].text += text
		return
	}
	f.parts = append(f.parts, part{text: text})
}

// quoted reads a text in quotes, two of which stand for one, and tells its size.
func quoted(in string) (text string, size int, err error) {
	if strings.HasPrefix(in, "''") {
		return "'", 2, nil
	}
	for at := 1; at < len(in); at++ {
		switch {
		case in[at] != '\'':
			text += in[at : at+1]
		case strings.HasPrefix(in[at:], "''"):
			text += "'"
			at++
		default:
			return text, at + 1, nil
		}
	}
	return "", 0, fmt.Errorf("a quote is not closed")
}

// Format writes a time.
func (f *Format) Format(t time.Time) string {
	t = t.UTC()
	var b strings.Builder
	for _, p := range f.parts {
		if p.letter == 0 {
			b.WriteString(p.text)
		} else if text, ok := p.name(t); ok {
			b.WriteString(text)
		} else {
			fmt.Fprintf(&b, "%0*d", p.count, p.number(t))
		}
	}
	return b.String()
}

// name returns what of a time a field writes in letters, if it does.
func (p part) name(t time.Time) (string, bool) {
	long := p.count >= 4
	switch p.letter {
	case 'G':
		if t.Year() <= 0 {
			return "BC", true
		}
		return "AD", true
	case 'M', 'L':
		return shortened(t.Month().String(), long), p.count >= 3
	case 'E':
		return shortened(t.Weekday().String(), long), true
	case 'a':
		return t.Format("PM"), true
	case 'z':
		if long {
			return "Coordinated Universal Time", true
		}
		return "UTC", true
	case 'Z':
		return "+0000", true
	case 'X':
		return "Z", true
	case 'y', 'Y':
		if p.count == 2 {
			return fmt.Sprintf("%02d", p.number(t)%100), true
		}
	}
	return "", false
}

func shortened(name string, long bool) string {
	if long {
		return name
	}
	return name[:3]
}

func (p part) number(t time.Time) int {
	hour := t.Hour()
	switch p.letter {
	case 'y':
		if t.Year() <= 0 {
			return 1 - t.Year()
		}
		return t.Year()
	case 'Y':
		year, _ := week(t)
		return year
	case 'M', 'L':
		return int(t.Month())
	case 'w':
		_, number := week(t)
		return number
	case 'W':
		return (t.Day()-1+int(t.AddDate(0, 0, 1-t.Day()).Weekday()))/7 + 1
	case 'D':
		return t.YearDay()
	case 'd':
		return t.Day()
	case 'F':
		return (t.Day()-1)/7 + 1
	case 'u':
		return (int(t.Weekday())+6)%7 + 1
	case 'H':
		return hour
	case 'k':
		return (hour+23)%24 + 1
	case 'K':
		return hour % 12
	case 'h':
		return (hour+11)%12 + 1
	case 'm':
		return t.Minute()
	case 's':
		return t.Second()
	}
	return t.Nanosecond() / int(time.Millisecond) // S
}

// week returns the week of a day and the year that it belongs to: weeks begin on Sunday, the first is that of January 1st.
func week(t time.Time) (year, number int) {
	year = t.Year()
	if saturday := t.AddDate(0, 0, 6-int(t.Weekday())); saturday.Year() > year {
		return saturday.Year(), 1
	}
	first := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
	return year, (t.YearDay()-1+int(first.Weekday()))/7 + 1
}
