package lint

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// TestImportDirections holds every import of our own packages against
// imports.txt: the longest folder pattern that a file lies under decides.
func TestImportDirections(t *testing.T) {
	rules := list(t, "imports.txt")
	for _, f := range source(t).goFiles {
		rule := ruleFor(rules, f.folder())
		if rule == nil {
			t.Errorf("%s: no rule of imports.txt covers the folder", f.path)
			continue
		}
		for _, imported := range f.imports() {
			target, ours := strings.CutPrefix(imported, modulePrefix)
			if ours && !allowed(rule, f.folder(), target) {
				t.Errorf("%s imports %s, which %s may not (imports.txt)", f.path, target, rule[0])
			}
		}
	}
}

// TestTestPackagesStayWithTests keeps programs from importing what is there for tests: packages whose name ends in "test".
func TestTestPackagesStayWithTests(t *testing.T) {
	for _, f := range source(t).goFiles {
		if forTests(f.path) {
			continue
		}
		for _, imported := range f.imports() {
			if target, ours := strings.CutPrefix(imported, modulePrefix); ours && strings.HasSuffix(target, "test") {
				t.Errorf("%s imports %s, which is for tests", f.path, target)
			}
		}
	}
}

// forTests says whether a file is part of no program.
func forTests(file string) bool {
	return strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "tests/") || strings.HasSuffix(path.Dir(file), "test")
}

func ruleFor(rules [][]string, folder string) []string {
	var best []string
	for _, rule := range rules {
		if covered(rule[0], folder) != "" && (best == nil || len(rule[0]) > len(best[0])) {
			best = rule
		}
	}
	return best
}

func allowed(rule []string, folder, target string) bool {
	for _, pattern := range rule[1:] {
		if pattern == "self" {
			pattern = covered(rule[0], folder)
		}
		if covered(pattern, target) != "" {
			return true
		}
	}
	return false
}

// covered returns the leading part of folder that pattern matches, "" when it
// does not; a * stands for one path element.
func covered(pattern, folder string) string {
	elements := strings.Split(folder, "/")
	n := strings.Count(pattern, "/") + 1
	if n > len(elements) {
		return ""
	}
	head := strings.Join(elements[:n], "/")
	if ok, _ := path.Match(pattern, head); !ok {
		return ""
	}
	return head
}

func TestImportRulesThemselves(t *testing.T) {
	rules := [][]string{{"libs", "self"}, {"services/*", "self", "libs"}, {"plugins/*", "self", "libs/plugin"}, {"libs/plugin", "self"}}
	tests := []struct {
		folder, target string
		want           bool
	}{
		{"libs/log", "libs/record", true},
		{"libs/log", "services/broker", false},
		{"services/broker/internal/fetch", "services/broker/internal/produce", true},
		{"services/broker", "services/controller", false},
		{"services/broker", "libs/log", true},
		{"plugins/assignors", "libs/plugin/proto", true},
		{"plugins/assignors", "libs/log", false},
		{"libs/plugin", "libs/log", false},
	}
	for _, test := range tests {
		if got := allowed(ruleFor(rules, test.folder), test.folder, test.target); got != test.want {
			t.Errorf("%s importing %s: allowed %v, want %v", test.folder, test.target, got, test.want)
		}
	}
}

var vagueNames = []string{"util", "utils", "common", "commons", "helper", "helpers", "misc", "shared", "base"}

func TestPackagesAreNamedForWhatTheyDo(t *testing.T) {
	for folder := range source(t).packages() {
		if slices.Contains(vagueNames, path.Base(folder)) {
			t.Errorf("%s: name the package for what it does", folder)
		}
	}
}
