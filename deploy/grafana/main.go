// Command grafana writes the dashboards of deploy/grafana/dashboards from the tables in this package: what is asked and
// how it is drawn, without the pages of JSON around it.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: grafana DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "grafana:", err)
		os.Exit(1)
	}
}

// all are the dashboards by the name of their file.
func all() map[string]dashboard {
	return map[string]dashboard{"cluster": cluster, "broker": broker, "groups": groups, "transactions": transactions, "controllers": controllers, "plugins": plugins, "connect": connect}
}

func write(dir string) error {
	for name, d := range all() {
		text, err := render(name, d)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".json"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// dashboard is a page of rows; panels flow from left to right.
type dashboard struct {
	title string
	// pick is the metric whose instances the page can be narrowed to with $instance; empty for none.
	pick string
	rows []row
}

type row struct {
	title  string
	panels []panel
}

// panel is a number (stat) or a graph over time.
type panel struct {
	title   string
	doc     string // what it tells, and when to worry
	unit    string // of Grafana; empty for plain numbers
	stat    bool
	bad     float64 // a stat turns red from here; 0 for never
	queries []query
}

// query is PromQL and the legend of its series, with {{label}} for a label's value.
type query struct{ expr, legend string }

func one(expr, legend string) []query { return []query{{expr, legend}} }

const (
	columns    = 24
	statWidth  = 4
	statHeight = 4
	plotWidth  = 12
	plotHeight = 8
)

type object = map[string]any

func render(uid string, d dashboard) ([]byte, error) {
	source := object{"type": "prometheus", "uid": "prometheus"}
	panels := []object{}
	id, y := 0, 0
	for _, r := range d.rows {
		id++
		panels = append(panels, object{"id": id, "type": "row", "title": r.title, "collapsed": false, "panels": []object{}, "gridPos": position(0, y, columns, 1)})
		y++
		x, height := 0, 0
		for _, p := range r.panels {
			w, h := plotWidth, plotHeight
			if p.stat {
				w, h = statWidth, statHeight
			}
			if x+w > columns {
				x, y, height = 0, y+height, 0
			}
			id++
			panels = append(panels, drawn(p, id, position(x, y, w, h), source))
			x, height = x+w, max(height, h)
		}
		y += height
	}
	variables := []object{}
	if d.pick != "" {
		question := "label_values(" + d.pick + ", instance)"
		variables = append(variables, object{
			"name": "instance", "label": "Instance", "type": "query", "datasource": source, "query": object{"query": question, "refId": "instance"},
			"definition": question, "includeAll": true, "allValue": ".*", "multi": true, "refresh": 2, "sort": 1,
			"current": object{"text": "All", "value": "$__all"},
		})
	}
	text, err := json.MarshalIndent(object{
		"uid": "cauce-" + uid, "title": "Cauce: " + d.title, "tags": []string{"cauce"}, "schemaVersion": 39, "version": 1, "editable": true,
		"refresh": "10s", "time": object{"from": "now-30m", "to": "now"}, "graphTooltip": 1, "panels": panels,
		"templating": object{"list": variables},
		"links":      []object{{"type": "dashboards", "tags": []string{"cauce"}, "title": "Cauce", "asDropdown": true, "includeVars": false, "keepTime": true}},
	}, "", " ")
	return append(text, '\n'), err
}

func position(x, y, w, h int) object { return object{"x": x, "y": y, "w": w, "h": h} }

func drawn(p panel, id int, at, source object) object {
	targets := []object{}
	for i, q := range p.queries {
		target := object{"refId": string(rune('A' + i)), "datasource": source, "expr": q.expr, "legendFormat": q.legend}
		if p.stat {
			target["instant"] = true
		}
		targets = append(targets, target)
	}
	defaults := object{"unit": p.unit, "min": 0}
	kind, options := "timeseries", object{"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi", "sort": "desc"}}
	if p.stat {
		kind, options = "stat", object{"colorMode": "value", "graphMode": "none", "reduceOptions": object{"calcs": []string{"lastNotNull"}}}
		steps := []object{{"color": "green", "value": nil}}
		if p.bad != 0 {
			steps = append(steps, object{"color": "red", "value": p.bad})
		}
		defaults["thresholds"] = object{"mode": "absolute", "steps": steps}
	} else {
		defaults["custom"] = object{"fillOpacity": 8, "lineWidth": 1, "showPoints": "never"}
	}
	return object{
		"id": id, "type": kind, "title": p.title, "description": p.doc, "datasource": source, "gridPos": at, "targets": targets,
		"fieldConfig": object{"defaults": defaults, "overrides": []object{}}, "options": options,
	}
}
