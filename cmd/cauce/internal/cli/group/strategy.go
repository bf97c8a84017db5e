package group

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/format"
)

// The flags that say where to set offsets to, named as kafka-consumer-groups has them.
const (
	toEarliest = "to-earliest"
	toLatest   = "to-latest"
	toCurrent  = "to-current"
	toOffset   = "to-offset"
	shiftBy    = "shift-by"
	toDatetime = "to-datetime"
	byDuration = "by-duration"
	fromFile   = "from-file"
)

var strategies = []string{toEarliest, toLatest, toCurrent, toOffset, shiftBy, toDatetime, byDuration, fromFile}

// strategy is the one of those flags that was given.
type strategy struct {
	name string
	n    int64  // the offset, the shift, or milliseconds since 1970
	path string // of --from-file
}

func bindStrategies(flags *pflag.FlagSet) {
	flags.Bool(toEarliest, false, "to where the log starts")
	flags.Bool(toLatest, false, "to where the log ends")
	flags.Bool(toCurrent, false, "to the committed offset, or the end where there is none; commits it anew")
	flags.Int64(toOffset, 0, "to offset `N`")
	flags.Int64(shiftBy, 0, "by `N` records onwards, or back if negative")
	flags.String(toDatetime, "", "to the first record at or after `TIME`: RFC 3339, YYYY-MM-DD, or milliseconds since 1970")
	flags.String(byDuration, "", "to the first record of the last `DURATION`: 90m, or P7DT12H as ISO 8601 has it")
	flags.String(fromFile, "", "to what the CSV `FILE` says: topic,partition,offset or group,topic,partition,offset")
}

// strategyOf reads the flags; now is what durations count back from.
func strategyOf(flags *pflag.FlagSet, now time.Time) (strategy, error) {
	var given []string
	for _, name := range strategies {
		if flags.Changed(name) && flags.Lookup(name).Value.String() != "false" {
			given = append(given, name)
		}
	}
	if len(given) != 1 {
		text := "say where to, by one of --" + strings.Join(strategies, ", --")
		if len(given) > 1 {
			text = "--" + strings.Join(given, " and --") + " exclude each other"
		}
		return strategy{}, exit.Usagef("%s", text)
	}
	s := strategy{name: given[0]}
	value := flags.Lookup(s.name).Value.String()
	var err error
	switch s.name {
	case toOffset, shiftBy:
		s.n, err = strconv.ParseInt(value, 10, 64)
		if err == nil && s.name == toOffset && s.n < 0 {
			err = errors.New("must not be negative")
		}
	case toDatetime:
		var at time.Time
		at, err = format.Time(value)
		s.n = at.UnixMilli()
	case byDuration:
		var ago time.Duration
		ago, err = parseDuration(value)
		s.n = now.Add(-ago).UnixMilli()
	case fromFile:
		s.path = value
	}
	if err == nil && s.timed() && s.n < 0 {
		err = errors.New("must not lie before 1970")
	}
	if err != nil {
		return strategy{}, exit.Usagef("--%s %s: %w", s.name, value, err)
	}
	return s, nil
}

// timed says whether offsets are looked up by n as a time.
func (s strategy) timed() bool { return s.name == toDatetime || s.name == byDuration }

var isoDuration = regexp.MustCompile(`^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?$`)

// parseDuration reads a duration as Go or ISO 8601 (PnDTnHnMnS) has it.
func parseDuration(text string) (time.Duration, error) {
	malformed := errors.New("must be a duration as 90m or P7DT12H")
	fields := isoDuration.FindStringSubmatch(text)
	if fields == nil {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return 0, malformed
		}
		return d, nil
	}
	var sum time.Duration
	found := false
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if fields[i+1] == "" {
			continue
		}
		found = true
		n, err := strconv.ParseInt(fields[i+1], 10, 64)
		if err != nil || n > int64((math.MaxInt64-sum)/unit) {
			return 0, errors.New("is too long")
		}
		sum += time.Duration(n) * unit
	}
	if !found || strings.HasSuffix(text, "T") {
		return 0, malformed
	}
	return sum, nil
}

// place is what is known of a partition whose offset is to be reset. Committed is -1 if nothing is.
type place struct {
	committed  int64
	start, end int64
	wanted     int64 // what --from-file says, or where the time was found
}

// offset returns where the strategy leads. What lies outside of the log becomes its start or end, which note tells.
func (s strategy) offset(p place) (offset int64, note string, err error) {
	switch s.name {
	case toEarliest:
		return p.start, "", nil
	case toLatest:
		return p.end, "", nil
	case toCurrent:
		if offset = p.committed; offset < 0 {
			return p.end, "nothing was committed, so the end is used", nil
		}
	case toOffset:
		offset = s.n
	case shiftBy:
		if p.committed < 0 {
			return 0, "", errors.New("nothing was committed that could be shifted")
		}
		offset = p.committed + s.n
		if s.n > 0 && offset < 0 { // more than there are numbers
			offset = math.MaxInt64
		}
	default:
		offset = p.wanted
	}
	switch {
	case offset < p.start:
		return p.start, fmt.Sprintf("%d is before the start, so %d is used", offset, p.start), nil
	case offset > p.end:
		return p.end, fmt.Sprintf("%d is after the end, so %d is used", offset, p.end), nil
	}
	return offset, "", nil
}
