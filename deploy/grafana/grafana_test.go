package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDashboardsAreCurrent(t *testing.T) {
	files, err := filepath.Glob("dashboards/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(all()) {
		t.Errorf("dashboards has %d files, want %d", len(files), len(all()))
	}
	for name, d := range all() {
		want, err := render(name, d)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join("dashboards", name+".json")); err != nil || string(got) != string(want) {
			t.Errorf("dashboards/%s.json differs from the tables (%v): make docs", name, err)
		}
	}
}

// TestPanelsSayWhatTheyShow holds the tables to what a reader needs: a title, a query, a legend where there are several series.
func TestPanelsSayWhatTheyShow(t *testing.T) {
	for name, d := range all() {
		for _, r := range d.rows {
			for _, p := range r.panels {
				if p.title == "" || len(p.queries) == 0 {
					t.Errorf("%s, %s: a panel without a title or a query", name, r.title)
				}
				for _, q := range p.queries {
					if q.expr == "" || q.legend == "" && !p.stat {
						t.Errorf("%s, %s, %s: a query without a legend", name, r.title, p.title)
					}
				}
			}
		}
	}
}
