package group

import (
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/position"
)

func TestStrategyOf(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	tests := []struct {
		args string
		want strategy
		err  string
	}{
		{"--to-earliest", strategy{name: toEarliest}, ""},
		{"--to-latest --to-earliest=false", strategy{name: toLatest}, ""},
		{"--to-current", strategy{name: toCurrent}, ""},
		{"--to-offset 0", strategy{name: toOffset}, ""},
		{"--to-offset 7", strategy{name: toOffset, n: 7}, ""},
		{"--shift-by -7", strategy{name: shiftBy, n: -7}, ""},
		{"--to-datetime 2023-11-14T22:13:20Z", strategy{name: toDatetime, n: 1_700_000_000_000}, ""},
		{"--to-datetime 1600000000000", strategy{name: toDatetime, n: 1_600_000_000_000}, ""},
		{"--by-duration PT1M", strategy{name: byDuration, n: 1_699_999_940_000}, ""},
		{"--by-duration 90m", strategy{name: byDuration, n: 1_700_000_000_000 - 5_400_000}, ""},
		{"--from-file plan.csv", strategy{name: fromFile, path: "plan.csv"}, ""},
		{"", strategy{}, "say where to"},
		{"--to-latest --to-offset 3", strategy{}, "--to-latest and --to-offset exclude each other"},
		{"--to-offset -3", strategy{}, "--to-offset -3: must not be negative"},
		{"--to-datetime yesterday", strategy{}, "--to-datetime yesterday"},
		{"--by-duration P7W", strategy{}, "--by-duration P7W: must be a duration"},
		{"--by-duration P40000D", strategy{}, "must not lie before 1970"},
	}
	for _, test := range tests {
		flags := pflag.NewFlagSet("reset", pflag.ContinueOnError)
		bindStrategies(flags)
		if err := flags.Parse(strings.Fields(test.args)); err != nil {
			t.Fatal(err)
		}
		got, err := strategyOf(flags, now)
		if test.err == "" && (err != nil || got != test.want) {
			t.Errorf("%q: %+v, %v, want %+v", test.args, got, err, test.want)
		}
		if test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%q: %v, want an error with %q", test.args, err, test.err)
		}
	}
}

func TestDurations(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{"P7D": 7 * day, "PT36H": 36 * time.Hour, "P1DT2H3M4S": day + 2*time.Hour + 3*time.Minute + 4*time.Second, "1h30m": 90 * time.Minute, "P0D": 0} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "P", "PT", "P1DT", "-5m", "P1Y", "7", "P106752D", "P106751DT24H", "P99999999999999999999D"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q was taken as %s", text, got)
		}
	}
}

func TestOffsetOfStrategy(t *testing.T) {
	log := place{committed: 50, start: 10, end: 100, wanted: 33}
	fresh := place{committed: -1, start: 10, end: 100}
	tests := []struct {
		strategy strategy
		place    place
		want     int64
		note     string
		err      bool
	}{
		{strategy{name: toEarliest}, log, 10, "", false},
		{strategy{name: toLatest}, log, 100, "", false},
		{strategy{name: toCurrent}, log, 50, "", false},
		{strategy{name: toCurrent}, fresh, 100, "the end is used", false},
		{strategy{name: toCurrent}, place{committed: 5, start: 10, end: 100}, 10, "5 is before the start", false},
		{strategy{name: toOffset, n: 20}, log, 20, "", false},
		{strategy{name: toOffset, n: 9}, log, 10, "9 is before the start, so 10 is used", false},
		{strategy{name: toOffset, n: 101}, log, 100, "101 is after the end, so 100 is used", false},
		{strategy{name: toOffset, n: 100}, fresh, 100, "", false},
		{strategy{name: shiftBy, n: 5}, log, 55, "", false},
		{strategy{name: shiftBy, n: -40}, log, 10, "", false},
		{strategy{name: shiftBy, n: -41}, log, 10, "9 is before the start", false},
		{strategy{name: shiftBy, n: math.MaxInt64}, log, 100, "after the end", false},
		{strategy{name: shiftBy, n: math.MinInt64}, log, 10, "before the start", false},
		{strategy{name: shiftBy, n: 5}, fresh, 0, "", true},
		{strategy{name: toDatetime}, log, 33, "", false},
		{strategy{name: byDuration}, log, 33, "", false},
		{strategy{name: fromFile}, log, 33, "", false},
	}
	for _, test := range tests {
		got, note, err := test.strategy.offset(test.place)
		if got != test.want || !strings.Contains(note, test.note) || (note == "") != (test.note == "") || (err != nil) != test.err {
			t.Errorf("%+v of %+v: %d, %q, %v, want %d, %q", test.strategy, test.place, got, note, err, test.want, test.note)
		}
	}
}

func TestPlanFile(t *testing.T) {
	partition := func(topic string, id int32) position.Partition { return position.Partition{Topic: topic, ID: id} }
	tests := []struct {
		text string
		want map[position.Partition]int64
		err  string
	}{
		{"orders,0,12\norders,1,7\n", map[position.Partition]int64{partition("orders", 0): 12, partition("orders", 1): 7}, ""},
		{"app,orders,0,12\nother,orders,0,9\n", map[position.Partition]int64{partition("orders", 0): 12}, ""},
		{`"orders", 3, 5`, map[position.Partition]int64{partition("orders", 3): 5}, ""},
		{"", nil, `no offset for group "app"`},
		{"other,orders,0,9\n", nil, `no offset for group "app"`},
		{"orders,0\n", nil, "line 1: must be topic,partition,offset"},
		{"orders,0,1\norders,one,2\n", nil, `line 2: "one" is no partition`},
		{"orders,0,-1\n", nil, `line 1: "-1" is no offset`},
		{"orders,0,1\norders,0,2\n", nil, "line 2: orders[0] is there twice"},
		{"orders,0,1\napp,orders,0,2\n", nil, "wrong number of fields"},
	}
	for _, test := range tests {
		got, err := parsePlan(strings.NewReader(test.text), "app")
		if test.err == "" && (err != nil || !maps.Equal(got, test.want)) {
			t.Errorf("%q: %v, %v, want %v", test.text, got, err, test.want)
		}
		if test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%q: %v, want an error with %q", test.text, err, test.err)
		}
	}
}

func TestWhatIsExportedCanBeRead(t *testing.T) {
	var b strings.Builder
	if err := writePlan(&b, []move{{Topic: "orders", Partition: 2, Offset: 41}}); err != nil {
		t.Fatal(err)
	}
	got, err := parsePlan(strings.NewReader(b.String()), "app")
	if want := (map[position.Partition]int64{{Topic: "orders", ID: 2}: 41}); err != nil || !maps.Equal(got, want) {
		t.Errorf("%q was read as %v, %v", b.String(), got, err)
	}
}

func TestScope(t *testing.T) {
	var s scope
	for _, text := range []string{"a:3,1", "b", "a:2", "c:1", "c"} {
		if err := s.Set(text); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.topics["a"]; len(got) != 3 || len(s.topics["b"]) != 0 || len(s.topics["c"]) != 0 {
		t.Errorf("%v", s.topics)
	}
	for _, text := range []string{"", ":1", "a:", "a:x", "a:-1", "a:1,", "a:4294967296"} {
		if err := new(scope).Set(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
