//go:build compose

package compose

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/tests/retry"
)

// asText is a converter.
const asText = "org.apache.kafka.connect.storage.StringConverter"

var (
	demoConnectors = []string{"orders-source", "invoices-sink"}
	demoServices   = append([]string{"postgres", "shop", "billing", "warehouse-1", "warehouse-2"}, demoConnectors...)
)

// connectors runs `cauce connector` on the stack's first worker.
func connectors(t *testing.T, args ...string) {
	t.Helper()
	if _, err := run(t.Context(), root+"/bin/cauce", append([]string{"connector", "--connect", "http://127.0.0.1:8083"}, args...)...); err != nil {
		t.Fatalf("cauce connector %s: %v", strings.Join(args, " "), err)
	}
}

func demoProfile(t *testing.T) { t.Setenv("COMPOSE_PROFILES", "full,observability,demo") }

// demo has the example pipeline run, and follows its orders from the one table to the other. It goes on.
func demo(t *testing.T) {
	demoProfile(t)
	t.Setenv("DEMO_RATE", "50")
	compose(t, append([]string{"up", "--detach", "--no-build", "--no-recreate", "--wait"}, demoServices...)...)
	database := demoDatabase(t)
	eventually(t, "orders have become rows of invoices", func(ctx context.Context) error {
		return holds(ctx, database, `SELECT count(*) > 100 FROM orders o JOIN invoices i ON i.order_id = o.id
			AND (i.customer, i.item, i.quantity, i.total_cents) = (o.customer, o.item, o.quantity, o.quantity::bigint * o.price_cents)`)
	})
	rejected := oneRecord(t, "billing.rejected")
	if !strings.Contains(string(rejected.Value), `"quantity":0`) {
		t.Errorf("billing has rejected %s", rejected.Value)
	}
	dead := oneRecord(t, "invoices.dead")
	if i := slices.IndexFunc(dead.Headers, func(h kgo.RecordHeader) bool { return h.Key == "__connect.errors.exception.message" }); i < 0 ||
		!strings.Contains(string(dead.Headers[i].Value), "out of range") {
		t.Errorf("%s is a dead letter with the headers %v", dead.Value, dead.Headers)
	}
	eventually(t, "an order is one trace", rowToRow)
}

// demoFaults crashes what the pipeline's connectors run on and takes their database away: each order that can be is an invoice in the end.
func demoFaults(t *testing.T) {
	demoProfile(t)
	crash(t, "connect-1")
	compose(t, "restart", "postgres")
	healthy(t, "connect-1")
	crash(t, "connect-2")
	healthy(t, "connect-2")
	ordersAreInvoices(t)
}

// ordersAreInvoices ends the shop and waits until each order that can be is an invoice.
func ordersAreInvoices(t *testing.T) {
	t.Helper()
	compose(t, "stop", "shop")
	database := demoDatabase(t)
	// The work of a worker that was away is held back for 30 s, and the partitions of a crashed one's sinks for the 45 s of their group.
	err := retry.Until(t.Context(), 3*healsWithin, func(ctx context.Context) error {
		return holds(ctx, database, `SELECT count(*) > 100 AND count(*) = count(i.order_id) FROM orders o LEFT JOIN invoices i ON i.order_id = o.id
			WHERE o.quantity BETWEEN 1 AND 9`)
	})
	if err != nil {
		t.Errorf("every order is an invoice: %v", err)
	}
}

// endDemo takes the pipeline away, and its connectors.
func endDemo(t *testing.T) {
	demoProfile(t)
	connectors(t, append([]string{"delete", "--wait"}, demoConnectors...)...)
	compose(t, append([]string{"rm", "--force", "--stop", "--volumes"}, demoServices...)...)
}

// demoDatabase is where the tables of the pipeline are.
func demoDatabase(t *testing.T) string {
	t.Helper()
	ip := docker(t, "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", container(t, "postgres"))
	return "postgres://shop:shop@" + ip + "/shop"
}

// holds is an error unless a statement's one value is true.
func holds(ctx context.Context, database, statement string) error {
	conn, err := pgconn.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	result := conn.ExecParams(ctx, statement, nil, nil, nil, nil).Read()
	if result.Err != nil {
		return result.Err
	}
	if string(result.Rows[0][0]) != "t" {
		return fmt.Errorf("not so: %s", statement)
	}
	return nil
}

// oneRecord waits for a record of a topic.
func oneRecord(t *testing.T, topic string) *kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), healsWithin)
	defer cancel()
	reader := connect(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for {
		fetches := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%s has no record after %v: %v", topic, healsWithin, fetches.Err())
		}
		if records := fetches.Records(); len(records) > 0 {
			return records[0]
		}
	}
}

// rowToRow looks for a trace that begins as a connector reads a row and has all that becomes of it, the row that another writes too.
func rowToRow(ctx context.Context) error {
	var answer struct{ Data []*jaegerTrace }
	if err := getJSON(ctx, jaeger+"/api/traces?service=warehouse&limit=20", &answer); err != nil {
		return err
	}
	seen := fmt.Errorf("there are %d traces of the warehouse", len(answer.Data))
	for _, trace := range answer.Data {
		if seen = trace.isOfAnOrder(); seen == nil {
			return nil
		}
	}
	return seen
}

// isOfAnOrder says what is missing in the trace of an order: services, or spans within others.
func (j *jaegerTrace) isOfAnOrder() error {
	root, names := "", map[string]string{}
	for _, s := range j.Spans {
		names[s.SpanID] = s.OperationName
		if s.OperationName == "connect.poll" {
			root = s.SpanID
		}
	}
	missing := []string{
		"connect.poll > connect.transform", "connect.poll > connect.convert", "connect.poll > connect.produce", "cauce-broker", "billing", "cauce-txncoord",
		"connect.consume > connect.convert", "connect.consume > connect.transform", "connect.consume > connect.put", "warehouse",
	}
	for _, s := range j.Spans {
		has := []string{j.Processes[s.ProcessID].ServiceName}
		for _, r := range s.References {
			has = append(has, names[r.SpanID]+" > "+s.OperationName)
		}
		missing = slices.DeleteFunc(missing, func(m string) bool { return slices.Contains(has, m) })
	}
	if len(missing) > 0 {
		return fmt.Errorf("trace %s has nothing of %v", j.TraceID, missing)
	}
	if err := j.isOneTree(root); err != nil {
		return fmt.Errorf("trace %s: %w", j.TraceID, err)
	}
	return nil
}
