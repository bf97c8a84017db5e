// Package prometheus holds the alerts and their runbooks to each other.
package prometheus

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const runbooks = "../../docs/runbooks/"

var (
	alertName   = regexp.MustCompile(`(?m)^\s*- alert: (\w+)$`)
	runbookName = regexp.MustCompile(`runbook: ([a-z-]+) }`)
)

// TestEachAlertHasARunbookInBothLanguages that names it.
func TestEachAlertHasARunbookInBothLanguages(t *testing.T) {
	rules, err := os.ReadFile("rules/cauce.yaml")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, alert := range strings.Split(string(rules), "- alert: ")[1:] {
		name, _, _ := strings.Cut(alert, "\n")
		book := runbookName.FindStringSubmatch(alert)
		if book == nil {
			t.Errorf("%s has no runbook", name)
			continue
		}
		used[book[1]] = true
		for _, language := range []string{"en/", "es/"} {
			page, err := os.ReadFile(runbooks + language + book[1] + ".md")
			if err != nil || !strings.Contains(string(page), name) {
				t.Errorf("%s%s.md does not name %s (%v)", language, book[1], name, err)
			}
		}
	}
	if n := len(alertName.FindAllString(string(rules), -1)); n == 0 {
		t.Error("there are no alerts")
	}
	for _, language := range []string{"en/", "es/"} {
		pages, err := filepath.Glob(runbooks + language + "*.md")
		if err != nil || len(pages) != len(used) {
			t.Errorf("%s has %d pages, the alerts name %d (%v)", language, len(pages), len(used), err)
		}
	}
}

// TestEachAlertIsTested looks for it in the file that promtool runs.
func TestEachAlertIsTested(t *testing.T) {
	rules, err := os.ReadFile("rules/cauce.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile("rules_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, alert := range alertName.FindAllStringSubmatch(string(rules), -1) {
		if !strings.Contains(string(tests), `alertname="`+alert[1]+`"`) {
			t.Errorf("%s is never seen firing in rules_test.yaml", alert[1])
		}
	}
}
