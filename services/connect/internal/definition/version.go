package definition

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// satisfies says whether a version is what is wanted (KIP-891): latest, one version, or ranges as Maven writes them, like [1.0,2.0),[3.0,).
func satisfies(version, wanted string) (bool, error) {
	wanted = strings.TrimSpace(wanted)
	switch {
	case wanted == "":
		return false, errors.New("a version, a range of versions or latest is wanted")
	case wanted == "latest":
		return true, nil
	case !strings.ContainsAny(wanted, "[]()"):
		if strings.Contains(wanted, ",") {
			return false, errors.New("a range is written like [1.0,2.0)")
		}
		return compareVersions(version, wanted) == 0, nil
	}
	any := false
	for rest := wanted; rest != ""; {
		r, after, err := cutRange(rest)
		if err != nil {
			return false, err
		}
		any = any || r.has(version)
		rest = strings.TrimSpace(after)
		if strings.HasPrefix(rest, ",") {
			if rest = strings.TrimSpace(rest[1:]); rest == "" {
				return false, errors.New("it ends in a comma")
			}
		}
	}
	return any, nil
}

// versionRange is bounded by from and to, which are empty for no bound.
type versionRange struct {
	from, to         string
	withFrom, withTo bool
}

func (r versionRange) has(version string) bool {
	if r.from != "" {
		if c := compareVersions(version, r.from); c < 0 || c == 0 && !r.withFrom {
			return false
		}
	}
	if r.to != "" {
		if c := compareVersions(version, r.to); c > 0 || c == 0 && !r.withTo {
			return false
		}
	}
	return true
}

// cutRange takes the first range off a text.
func cutRange(text string) (r versionRange, rest string, err error) {
	end := strings.IndexAny(text, "])")
	if text[0] != '[' && text[0] != '(' || end < 0 {
		return r, "", fmt.Errorf("%q is no range like [1.0,2.0)", text)
	}
	within := text[1:end]
	r.withFrom, r.withTo = text[0] == '[', text[end] == ']'
	from, to, both := strings.Cut(within, ",")
	r.from, r.to = strings.TrimSpace(from), strings.TrimSpace(to)
	switch {
	case strings.ContainsAny(within, "[(") || strings.Contains(to, ","):
		err = fmt.Errorf("%q is no range like [1.0,2.0)", text[:end+1])
	case !both && (r.from == "" || !r.withFrom || !r.withTo):
		err = fmt.Errorf("%q is no range: one version is written like [1.0]", text[:end+1])
	case !both:
		r.to = r.from
	case r.from != "" && r.to != "" && compareVersions(r.from, r.to) > 0:
		err = fmt.Errorf("the range %q is empty", text[:end+1])
	}
	return r, text[end+1:], err
}

// qualifiers are what comes before a release, in order, the release itself, and what comes after it.
var qualifiers = []string{"alpha", "beta", "milestone", "rc", "snapshot", "", "sp"}

// compareVersions orders versions as Maven does: by numbers, and by qualifiers like rc where there are texts. What is missing is 0, or a release.
func compareVersions(a, b string) int {
	left, right := versionParts(a), versionParts(b)
	for i := range max(len(left), len(right)) {
		if c := comparePart(part(left, i), part(right, i)); c != 0 {
			return c
		}
	}
	return 0
}

func part(parts []string, i int) string {
	if i < len(parts) {
		return parts[i]
	}
	return ""
}

// comparePart orders two parts. A number comes after any text, but that 0 is as good as nothing.
func comparePart(a, b string) int {
	left, leftErr := strconv.ParseUint(a, 10, 64)
	right, rightErr := strconv.ParseUint(b, 10, 64)
	switch {
	case (leftErr == nil || a == "") && (rightErr == nil || b == ""):
		return cmp.Compare(left, right)
	case leftErr == nil:
		return 1
	case rightErr == nil:
		return -1
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}

// rank puts texts that are no known qualifiers after all that are.
func rank(text string) int {
	if i := slices.Index(qualifiers, text); i >= 0 {
		return i
	}
	return len(qualifiers)
}

// versionParts splits a version at dots, hyphens, and between digits and letters.
func versionParts(version string) []string {
	var parts []string
	begin, text := 0, strings.ToLower(version)
	cut := func(end int) {
		if begin < end {
			parts = append(parts, text[begin:end])
		}
	}
	for i, r := range text {
		switch {
		case strings.ContainsRune(".-_+", r):
			cut(i)
			begin = i + 1
		case i > begin && unicode.IsDigit(r) != unicode.IsDigit(rune(text[i-1])):
			cut(i)
			begin = i
		}
	}
	cut(len(text))
	long := map[string]string{"a": "alpha", "b": "beta", "m": "milestone", "cr": "rc", "ga": "", "final": "", "release": ""}
	for i, p := range parts {
		if name, ok := long[p]; ok {
			parts[i] = name
		}
	}
	return parts
}
