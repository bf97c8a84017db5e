//go:build compose

package compose

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestStack is one test, since starting the stack is most of the work: its parts run in order and leave it whole.
func TestStack(t *testing.T) {
	took := startStack(t, "full,observability")
	t.Logf("from docker compose up to healthy: %v (%v on an idle machine)", took.Round(100_000_000), startWithin)
	client := connect(t)
	admin := kadm.NewClient(client)
	create(t, admin, "orders", 3)
	value := 0 // of the next record
	// use has the stack at work: records are acknowledged, and a group reads on.
	use := func(t *testing.T) {
		t.Helper()
		produce(t, client, "orders", value, value+300)
		consumeInGroup(t, "shop", "orders", value, value+300)
		value += 300
	}

	t.Run("nodes are reached by their external addresses", func(t *testing.T) {
		nodes, err := admin.ListBrokers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var addresses []string
		for _, n := range nodes {
			addresses = append(addresses, fmt.Sprintf("%d=%s:%d", n.NodeID, n.Host, n.Port))
		}
		want := []string{"1=127.0.0.1:19092", "2=127.0.0.1:29092", "3=127.0.0.1:39092", "11=127.0.0.1:31092", "12=127.0.0.1:32092",
			"21=127.0.0.1:31192", "22=127.0.0.1:32192"}
		if !slices.Equal(addresses, want) {
			t.Errorf("nodes are %v, want %v", addresses, want)
		}
	})
	t.Run("franz-go produces and consumes in a group", use)
	t.Run("franz-go consumes in a group whose assignor is a plugin", func(t *testing.T) {
		consumeInGroup(t, "warehouse", "orders", 0, value, kgo.ServerSideBalancer())
	})
	t.Run("franz-go produces in a transaction", func(t *testing.T) { transact(t, "orders-import") })
	t.Run("librdkafka produces and consumes in groups", func(t *testing.T) {
		create(t, admin, "letters", 3)
		librdkafka(t)
	})
	t.Run("Java produces and consumes in a group", conformance)
	t.Run("memory at rest", func(t *testing.T) {
		total := 0.0
		for _, service := range members {
			used := memory(t, service)
			total += used
			t.Logf("%-14s %6.1f MiB", service, used)
		}
		t.Logf("%-14s %6.1f MiB", "the cluster", total)
	})
	t.Run("Prometheus sees every program", scraped)
	t.Run("every alert is understood, and none fires", alerts)
	t.Run("an order of the demo is one trace from row to row", demo)
	t.Run("every query of every panel has data", panels)
	t.Run("orders of the demo outlast workers and their database", demoFaults)
	t.Run("the demo is taken away", endDemo)
	t.Run("every alert fires for its fault", func(t *testing.T) {
		if output, err := run(t.Context(), cacheDir(t)+"/prometheus/usr/bin/promtool", "test", "rules", root+"/deploy/prometheus/rules_test.yaml"); err != nil {
			t.Errorf("%v %s", err, output)
		}
	})
	t.Run("Jaeger has traces of every program", traced)
	t.Run("what a client sets off is one trace", func(t *testing.T) {
		ip := docker(t, "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", container(t, "jaeger"))
		oneTrace(t, "http://"+ip+":4318")
	})
	t.Run("librdkafka consumes in a group whose assignor is a plugin of one's own", func(t *testing.T) {
		create(t, admin, "assigned", 3)
		pluginOfOnesOwn(t)
	})

	for _, service := range members {
		t.Run("stop and start "+service, func(t *testing.T) {
			id := container(t, service)
			compose(t, "stop", service)
			if s := inspect(t, id); s.ExitCode != 0 {
				t.Errorf("told to stop, %s ended with code %d (137 is killed after the grace period)", service, s.ExitCode)
			}
			use(t)
			compose(t, "start", service)
			healthy(t, service)
			use(t)
		})
	}
	for _, service := range members {
		t.Run("crash "+service, func(t *testing.T) {
			crash(t, service)
			use(t)
			healthy(t, service)
			use(t)
		})
	}
	t.Run("every program is restarted under load", func(t *testing.T) {
		l := startLoad(t, "restarted")
		for _, service := range members {
			compose(t, "restart", "--no-deps", service)
			healthy(t, service)
			whole(t, admin, "restarted")
		}
		l.end(t)
	})
	t.Run("an alert tells of a broker that is down", func(t *testing.T) {
		compose(t, "stop", "broker-3")
		fires(t, "ProgramDown", `instance="broker-3"`)
		compose(t, "start", "broker-3")
		healthy(t, "broker-3")
		eventually(t, "the alert is over", func(ctx context.Context) error {
			samples, err := query(ctx, `ALERTS{alertname="ProgramDown"}`)
			if err == nil && len(samples) > 0 {
				err = fmt.Errorf("it is not: %v", samples)
			}
			return err
		})
	})
	t.Run("volumes outlive their containers", func(t *testing.T) {
		compose(t, "down", "--timeout", "35")
		compose(t, "up", "--detach", "--no-build", "--wait", "--wait-timeout", "180")
		consumeInGroup(t, "another", "orders", 0, value)
		use(t)
	})
}

// TestMinimalStack is one program of each kind, without anybody who watches.
func TestMinimalStack(t *testing.T) {
	t.Setenv("TRACES_EXPORTER", "none")
	took := startStack(t, "minimal")
	t.Logf("from docker compose up to healthy: %v", took.Round(100_000_000))
	client := connect(t)
	create(t, kadm.NewClient(client), "orders", 1)
	produce(t, client, "orders", 0, 300)
	consumeInGroup(t, "shop", "orders", 0, 300)
	crash(t, "broker")
	produce(t, client, "orders", 300, 600)
	consumeInGroup(t, "shop", "orders", 300, 600)
	connectors(t, "create", "copy-out", "--wait", "--set", "connector.class=file-sink", "--set", "topics=orders", "--set", "file=/data/orders",
		"--set", "key.converter="+asText, "--set", "value.converter="+asText)
	connectors(t, "create", "copy-in", "--wait", "--set", "connector.class=file-source", "--set", "topic=copies", "--set", "file=/data/orders",
		"--set", "value.converter="+asText, "--set", "topic.creation.default.partitions=1", "--set", "topic.creation.default.replication.factor=-1")
	consumeInGroup(t, "copied", "copies", 0, 600)
}

// TestUpgrade replaces the programs of the commit before by those of this one, one at a time, under load and under the demo's connectors.
func TestUpgrade(t *testing.T) {
	if _, err := run(t.Context(), "./previous"); err != nil {
		t.Fatalf("images of the commit before: %v", err)
	}
	t.Setenv("TRACES_EXPORTER", "none")
	t.Setenv("CAUCE_VERSION", "previous")
	t.Setenv("DEMO_RATE", "50")
	startStack(t, "full,demo")
	admin := kadm.NewClient(connect(t))
	l := startLoad(t, "upgraded")
	t.Setenv("CAUCE_VERSION", "dev")
	for _, service := range members {
		before := image(t, service)
		compose(t, "up", "--detach", "--no-build", "--no-deps", "--wait", "--wait-timeout", "60", service)
		if after := image(t, service); after == before {
			t.Errorf("%s still runs %s", service, after)
		}
		whole(t, admin, "upgraded")
	}
	l.end(t)
	ordersAreInvoices(t)
}

// scraped checks that Prometheus reaches every target that it is told of.
func scraped(t *testing.T) {
	eventually(t, "every target is up", func(ctx context.Context) error {
		var answer struct {
			Data struct {
				ActiveTargets []struct {
					Labels                       map[string]string
					Health, LastError, ScrapeURL string
				}
			}
		}
		if err := getJSON(ctx, prometheus+"/api/v1/targets", &answer); err != nil {
			return err
		}
		var up []string
		for _, target := range answer.Data.ActiveTargets {
			if target.Health != "up" {
				return fmt.Errorf("%s is %s: %s", target.ScrapeURL, target.Health, target.LastError)
			}
			up = append(up, target.Labels["instance"])
		}
		for _, service := range members {
			if !slices.Contains(up, service) {
				return fmt.Errorf("%s is not among %v", service, up)
			}
		}
		return nil
	})
}

// traced checks that spans of every program reach Jaeger.
func traced(t *testing.T) {
	eventually(t, "every program is a service of Jaeger", func(ctx context.Context) error {
		var answer struct{ Data []string }
		if err := getJSON(ctx, jaeger+"/api/services", &answer); err != nil {
			return err
		}
		for _, program := range []string{"cauce-controller", "cauce-broker", "cauce-groupcoord", "cauce-txncoord", "cauce-connect"} {
			if !slices.Contains(answer.Data, program) {
				return fmt.Errorf("%s is not among %v", program, answer.Data)
			}
		}
		return nil
	})
}
