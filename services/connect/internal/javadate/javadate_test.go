package javadate

import (
	"strings"
	"testing"
	"time"
)

var at = time.Date(2026, 7, 4, 15, 6, 7, 89_000_000, time.UTC)

// TestRoundTrip goes through patterns that say all there is of a time; what Java makes of others is in the transforms' cases.
func TestRoundTrip(t *testing.T) {
	for pattern, want := range map[string]string{
		"yyyy-MM-dd'T'HH:mm:ss.SSSXXX": "2026-07-04T15:06:07.089Z", "yyyyMMddHHmmssSSS": "20260704150607089", "EEE, d MMM yy hh:mm:ss.SSS a z": "Sat, 4 Jul 26 03:06:07.089 PM UTC",
		"D yyyy k:m:s.S": "185 2026 15:6:7.89", "YYYY 'week' w u HHmmss.SSS": "2026 week 27 6 150607.089", "G y LLLL d K 'o''clock' m s S a Z": "AD 2026 July 4 3 o'clock 6 7 89 PM +0000",
	} {
		f, err := Compile(pattern)
		if err != nil {
			t.Error(err)
			continue
		}
		text := f.Format(at.In(time.FixedZone("elsewhere", 3600)))
		if text != want {
			t.Errorf("%s: %q, not %q", pattern, text, want)
		}
		if back, err := f.Parse(text); err != nil || !back.Equal(at) {
			t.Errorf("%s: %q is read as %v, %v", pattern, text, back, err)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	for _, pattern := range []string{"b", "yyyy-nn", "'open", "XXXX", "P", strings.Repeat("y", maxCount+1)} {
		if _, err := Compile(pattern); err == nil {
			t.Errorf("%.20q is a pattern", pattern)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range [][2]string{
		{"yyyy", ""}, {"yyyy", "x"}, {"yyyy-MM", "2026"}, {"yyyy", "999999999"}, {"MMM", "Jux"}, {"E", "Xyz"}, {"a", "noon"}, {"G", "XY"}, {"Z", "north"}, {"X", "UTC"}, {"X", "+"},
		{"X", "+99"}, {"X", "+0175"}, {"yyyyMM", "202"}, {"'x'", "y"}, {"z", "XYZ"}, {"yyyy", "-"},
	} {
		f, err := Compile(c[0])
		if err != nil {
			t.Fatal(err)
		}
		if got, err := f.Parse(c[1]); err == nil {
			t.Errorf("%s of %q is %v", c[0], c[1], got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2026-07-04T15:06:07.089+01:30")
	f.Add("EEE, d MMM yy hh:mm a z", "Sat, 4 Jul 26 03:06 PM GMT+2")
	f.Add("D YYYY w W F u k K", "1 2 3 4 5 6 7 8")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		format, err := Compile(pattern)
		if err != nil {
			return
		}
		if at, err := format.Parse(text); err == nil {
			format.Format(at)
		}
	})
}
