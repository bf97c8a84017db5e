// Package position is where in a topic to start or end reading: parsed from the command line, and
// resolved to one offset for each partition.
package position

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/format"
)

// Help says what a position can look like.
const Help = `beginning, end, an OFFSET, -N (the last N records of
each partition), or @TIME (the first record at or after it): RFC 3339, YYYY-MM-DD, milliseconds
since 1970, or a duration ago (@-15m)`

type kind int

const (
	beginning kind = iota
	ending
	absolute
	last
	atTime
)

// Position is where in each partition to start or end. The zero Position is the beginning. It is a
// flag value.
type Position struct {
	kind kind
	n    int64 // the offset, the number of records, or milliseconds since 1970
	text string
}

// End is the position after the last record.
var End = Position{kind: ending, text: "end"}

// Parse reads a position as Help describes it. Durations are counted back from now.
func Parse(s string, now time.Time) (Position, error) {
	switch s {
	case "beginning", "start", "earliest":
		return Position{kind: beginning, text: s}, nil
	case "end", "latest":
		return Position{kind: ending, text: s}, nil
	}
	if at, ok := strings.CutPrefix(s, "@"); ok {
		return parseTime(s, at, now)
	}
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil:
		return Position{}, errors.New("must be beginning, end, an offset, -N or @TIME")
	case n < 0:
		return Position{kind: last, n: -n, text: s}, nil
	case s[0] == '-': // "-0" is the last 0 records
		return Position{kind: ending, text: s}, nil
	}
	return Position{kind: absolute, n: n, text: s}, nil
}

func parseTime(s, at string, now time.Time) (Position, error) {
	if strings.HasPrefix(at, "-") {
		if ago, err := time.ParseDuration(at[1:]); err == nil {
			return Position{kind: atTime, n: now.Add(-ago).UnixMilli(), text: s}, nil
		}
	}
	t, err := format.Time(at)
	if err != nil || t.UnixMilli() < 0 {
		return Position{}, errors.New("the time must be RFC 3339, YYYY-MM-DD, milliseconds since 1970, or -DURATION")
	}
	return Position{kind: atTime, n: t.UnixMilli(), text: s}, nil
}

// Set parses the value of a flag.
func (p *Position) Set(s string) error {
	parsed, err := Parse(s, time.Now())
	if err != nil {
		return err
	}
	*p = parsed
	return nil
}

func (p *Position) String() string { return p.text }

// Type names the value in help texts.
func (p *Position) Type() string { return "POSITION" }

// Given says whether the flag was set.
func (p *Position) Given() bool { return p.text != "" }
