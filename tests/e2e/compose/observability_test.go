//go:build compose

package compose

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/tests/retry"
)

// sample is one series of an instant query's answer.
type sample struct {
	Metric map[string]string
	Value  [2]any // time, value in text
}

// query asks Prometheus for the value of an expression now.
func query(ctx context.Context, expression string) ([]sample, error) {
	var answer struct {
		Data struct{ Result json.RawMessage }
	}
	if err := getJSON(ctx, prometheus+"/api/v1/query?query="+url.QueryEscape(expression), &answer); err != nil {
		return nil, err
	}
	var samples []sample
	if err := json.Unmarshal(answer.Data.Result, &samples); err != nil {
		return nil, fmt.Errorf("%s: not a vector: %w", expression, err)
	}
	return samples, nil
}

// panels runs every query of the dashboards as Grafana would, on a stack that has been used and has connectors. Where a query stands
// in for a series that is born with the first fault (or vector(0)), the name of the metric cannot be checked this way.
func panels(t *testing.T) {
	files, err := filepath.Glob(root + "/deploy/grafana/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	asGrafana := strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*")
	count := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var dashboard struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &dashboard); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, panel := range dashboard.Panels {
			for _, target := range panel.Targets {
				count++
				eventually(t, filepath.Base(file)+", "+panel.Title, func(ctx context.Context) error {
					samples, err := query(ctx, asGrafana.Replace(target.Expr))
					if err == nil && len(samples) == 0 {
						err = fmt.Errorf("no data for %s", target.Expr)
					}
					return err
				})
			}
		}
	}
	t.Logf("%d queries", count)
}

// alerts checks that Prometheus has taken all rules, and that none fires on a cluster that is well.
func alerts(t *testing.T) {
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Query, Health, LastError, State string }
			}
		}
	}
	if err := getJSON(t.Context(), prometheus+"/api/v1/rules", &answer); err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, group := range answer.Data.Groups {
		for _, rule := range group.Rules {
			count++
			if rule.Health == "err" || rule.State == "firing" {
				t.Errorf("%s is %s, %s: %s", rule.Name, rule.State, rule.Health, rule.LastError)
			}
		}
	}
	if count == 0 {
		t.Error("there are no rules")
	}
	t.Logf("%d rules", count)
}

// alertsWithin is how long an alert may take that looks at minutes and waits for one more.
const alertsWithin = 4 * time.Minute

// fires waits until an alert with these labels is firing.
func fires(t *testing.T, alert, labels string) {
	t.Helper()
	err := retry.Until(t.Context(), alertsWithin, func(ctx context.Context) error {
		samples, err := query(ctx, `ALERTS{alertstate="firing", alertname="`+alert+`", `+labels+`}`)
		if err == nil && len(samples) == 0 {
			err = fmt.Errorf("it does not")
		}
		return err
	})
	if err != nil {
		t.Errorf("the alert %s fires: not within %v: %v", alert, alertsWithin, err)
	}
}
