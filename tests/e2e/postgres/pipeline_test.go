//go:build e2e && linux

package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/libs/testport"
	"github.com/cauce-stream/cauce/tests/connectrest"
	"github.com/cauce-stream/cauce/tests/devserver"
	"github.com/cauce-stream/cauce/tests/retry"
)

// pipeline is a node with a Connect worker, which copies the tables of a database to another one through topics.
type pipeline struct {
	*bench
	node    *devserver.Server
	connect string
	copy    *bench
}

const pipelineTables = `CREATE TABLE orders (id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(), name text, price numeric(10, 2));
	CREATE TABLE customers (id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(), name text);
	CREATE TABLE notes (id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(), name text)`

func startPipeline(t *testing.T, exactlyOnce string) *pipeline {
	p := &pipeline{bench: setUp(t, pipelineTables), copy: setUp(t, "CREATE SCHEMA shop"), connect: testport.Address(t)}
	var err error
	if p.node, err = devserver.Start(context.WithoutCancel(t.Context()), devserver.Options{DataDir: t.TempDir(), Args: []string{"--set", "connect.listeners=http://" + p.connect,
		"--set", "connect.offset.flush.interval.ms=200", "--set", "connect.exactly.once.source.support=" + exactlyOnce}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.node.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(p.node.Log())
		}
	})
	return p
}

// call sends a request to the worker and returns the answer, which must be a success.
func (p *pipeline) call(method, path string, body any) string {
	p.Helper()
	var out json.RawMessage
	p.eventually(method+" "+path, func(ctx context.Context) error {
		return connectrest.Ask(ctx, http.DefaultClient, method, "http://"+p.connect+path, body, &out)
	})
	return string(out)
}

func (p *pipeline) eventually(what string, try func(context.Context) error) {
	p.Helper()
	if err := retry.Until(p.Context(), time.Minute, try); err != nil {
		p.Fatalf("%s: %v", what, err)
	}
}

// records counts the records of a topic that are read at read_committed.
func (p *pipeline) records(topic string) int {
	p.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(p.node.Bootstrap), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		p.Fatal(err)
	}
	defer client.Close()
	count := 0
	for {
		ctx, cancel := context.WithTimeout(p.Context(), time.Second)
		fetches := client.PollFetches(ctx)
		quiet := ctx.Err() != nil
		cancel()
		if count += fetches.NumRecords(); quiet {
			return count
		}
	}
}

// write adds rows to all tables and changes some, in spite of a server that is killed meanwhile.
func (p *pipeline) write(rounds int) {
	p.Helper()
	var conn *pgconn.PgConn
	for round := range rounds {
		p.eventually("writing", func(ctx context.Context) error {
			var err error
			if conn == nil {
				if conn, err = pgconn.Connect(ctx, p.url); err != nil {
					return err
				}
			}
			// What is done twice is changed twice: the copy is compared by what is there in the end.
			sql := fmt.Sprintf(`INSERT INTO orders (name, price) SELECT 'order %d', i FROM generate_series(1, 20) i; INSERT INTO customers (name) VALUES ('customer %d'), ('other');
				INSERT INTO notes (name) VALUES ('note'); UPDATE orders SET name = name || '!', at = clock_timestamp() WHERE id %% 50 = %d`, round, round, round%50)
			if _, err = conn.Exec(ctx, sql).ReadAll(); err != nil {
				_ = conn.Close(ctx) // it is of no use any more
				conn = nil
			}
			return err
		})
		if round == rounds/3 || round == 2*rounds/3 {
			if err := errors.Join(server.Kill(), server.Start(p.Context())); err != nil {
				p.Fatal(err)
			}
		}
	}
	if conn != nil {
		_ = conn.Close(p.Context()) // nothing is under way
	}
}

// awaitCopy waits until the copy of a table has the rows of the table.
func (p *pipeline) awaitCopy(table string) {
	p.Helper()
	sql := "SELECT id, name FROM %s ORDER BY id"
	p.eventually("the copy of "+table, func(context.Context) error {
		if len(p.copy.rows("SELECT 1 FROM pg_tables WHERE schemaname = 'shop' AND tablename = '"+table+"'")) == 0 {
			return errors.New("it is not there")
		}
		want, got := p.rows(fmt.Sprintf(sql, table)), p.copy.rows(fmt.Sprintf(sql, "shop."+table))
		if !slices.Equal(want, got) {
			return fmt.Errorf("%d rows, of %d", len(got), len(want))
		}
		return nil
	})
}

// TestPipeline copies tables through a real worker while the server is killed, with two tasks on each side, exactly once.
func TestPipeline(t *testing.T) {
	for _, exactlyOnce := range []string{"disabled", "enabled"} {
		t.Run(exactlyOnce, func(t *testing.T) {
			p := startPipeline(t, exactlyOnce)
			source := map[string]string{"connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector", "tasks.max": "2", "connection.url": p.url, "mode": "timestamp+incrementing",
				"timestamp.column.name": "at", "incrementing.column.name": "id", "topic.prefix": "shop.", "poll.interval.ms": "50", "table.poll.interval.ms": "500", "connection.backoff.ms": "200",
				"timestamp.delay.interval.ms": "300", "numeric.mapping": "best_fit", "transforms": "key", "transforms.key.type": "org.apache.kafka.connect.transforms.ValueToKey", "transforms.key.fields": "id",
				"key.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter": "org.apache.kafka.connect.json.JsonConverter", "topic.creation.default.partitions": "2", "topic.creation.default.replication.factor": "1"}
			sink := map[string]string{"connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector", "tasks.max": "2", "connection.url": p.copy.url, "topics": "shop.orders,shop.customers,shop.notes",
				"insert.mode": "upsert", "pk.mode": "record_key", "auto.create": "true", "auto.evolve": "true", "retry.backoff.ms": "200", "max.retries": "1000", "key.converter": source["key.converter"],
				"value.converter": source["value.converter"], "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead", "errors.deadletterqueue.topic.replication.factor": "1"}
			p.call("PUT", "/connectors/shop/config", source)
			p.call("PUT", "/connectors/copy/config", sink)
			p.write(60)
			for _, table := range []string{"orders", "customers", "notes"} {
				p.awaitCopy(table)
			}
			if exactlyOnce == "enabled" {
				if got := p.records("shop.customers"); fmt.Sprint(got) != p.rows("SELECT count(*) FROM customers")[0] {
					t.Errorf("%d records of %s customers", got, p.rows("SELECT count(*) FROM customers"))
				}
			}
			if got := p.call("GET", "/connectors/shop/offsets", nil); !strings.Contains(got, `"public.orders"`) || !strings.Contains(got, `"incrementing"`) {
				t.Errorf("offsets %s", got)
			}
			// A table that comes, with a column that comes, and rows that the copy refuses.
			p.copy.exec("CREATE TABLE shop.late (id bigint PRIMARY KEY, at timestamp, name text CHECK (name <> 'bad'))")
			sink["topics"] += ",shop.late"
			p.call("PUT", "/connectors/copy/config", sink)
			p.exec("CREATE TABLE late (LIKE notes INCLUDING ALL, more int); INSERT INTO late (name, more) VALUES ('good', 7), ('bad', 8), ('fine', 9)")
			p.eventually("the copy of a table that came", func(context.Context) error {
				if got := p.copy.rows("SELECT name FROM shop.late ORDER BY 1"); !slices.Equal(got, []string{"fine", "good"}) {
					return fmt.Errorf("rows %s", got)
				}
				return nil
			})
			if got := p.copy.rows("SELECT more FROM shop.late ORDER BY 1"); !slices.Equal(got, []string{"7", "9"}) {
				t.Errorf("a column that came: %s", got)
			}
			p.eventually("the dead letter queue", func(context.Context) error {
				if got := p.records("dead"); got != 1 {
					return fmt.Errorf("%d records", got)
				}
				return nil
			})
			for _, name := range []string{"shop", "copy"} {
				p.eventually("all of "+name+" runs", func(context.Context) error {
					if got := p.call("GET", "/connectors/"+name+"/status", nil); strings.Count(got, `"RUNNING"`) != 3 {
						return errors.New(got)
					}
					return nil
				})
			}
		})
	}
}
