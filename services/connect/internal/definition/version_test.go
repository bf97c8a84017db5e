package definition

import "testing"

func TestCompareVersions(t *testing.T) {
	ordered := []string{"0.9", "1.0-alpha-1", "1.0-beta2", "1.0-M1", "1.0-rc1", "1.0-rc2", "1.0-SNAPSHOT", "1.0", "1.0-sp", "1.0-other", "1.0.1", "1.2", "1.10", "2.0"}
	for i, a := range ordered {
		for j, b := range ordered {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := compareVersions(a, b); got != want {
				t.Errorf("%s and %s: %d", a, b, got)
			}
		}
	}
	for _, same := range [][2]string{{"1", "1.0.0"}, {"1.0-ga", "1.0"}, {"1.0-RC1", "1.0-cr1"}} {
		if compareVersions(same[0], same[1]) != 0 {
			t.Errorf("%v are not the same", same)
		}
	}
}

func TestSatisfies(t *testing.T) {
	for _, test := range []struct {
		version, wanted string
		fits            bool
	}{
		{"1.5", "latest", true}, {"1.5", "1.5", true}, {"1.5", "1.5.0", true}, {"1.5", "1.6", false}, {"1.5", "[1.5]", true}, {"1.5", "[1.0,1.5)", false}, {"1.5", "[1.0, 1.5]", true},
		{"1.5", "(1.5,)", false}, {"1.5", "[1.5,)", true}, {"1.5", "(,1.5]", true}, {"1.5", "(,)", true}, {"1.5", "[1.0,1.2],[1.4,1.6]", true}, {"1.3", "[1.0,1.2],[1.4,1.6]", false},
	} {
		if fits, err := satisfies(test.version, test.wanted); fits != test.fits || err != nil {
			t.Errorf("%s in %s: %v, %v", test.version, test.wanted, fits, err)
		}
	}
	for _, wrong := range []string{"", "[", "]", "[1.0", "1.0,2.0", "[2,1]", "[]", "(1.0)", "[1,2,3]", "[1,2],", "[1,2]3", "[[1,2]", "1.0]"} {
		if _, err := satisfies("1.5", wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}

// FuzzSatisfies sees to it that no text is too odd, and that what is taken is taken of a version that it names alone.
func FuzzSatisfies(f *testing.F) {
	for _, seed := range []string{"latest", "1.0", "[1.0,2.0)", "(,1],[3,)", "[1.0-rc1]", "[", ")("} {
		f.Add("1.0", seed)
	}
	f.Fuzz(func(t *testing.T, version, wanted string) {
		if _, err := satisfies(version, wanted); err != nil && err.Error() == "" {
			t.Error("an error without words")
		}
		if compareVersions(version, version) != 0 || compareVersions(version, wanted) != -compareVersions(wanted, version) {
			t.Errorf("%q and %q are in no order", version, wanted)
		}
	})
}
