//go:build e2e && linux

package connect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cauce-stream/cauce/tests/postgres"
	"github.com/cauce-stream/cauce/tests/retry"
)

const (
	// items is how many rows are changed again and again. One of six changes takes a row's payload, which is a tombstone in the topic.
	items = 300
	// writePause is between two writes of ten rows that stay as they are, and five changes.
	writePause = 30 * time.Millisecond
	// envelope begins the payload of a row: the value that it becomes in the topic as the sink's JsonConverter reads it, so that rows without one are tombstones.
	envelope = `{"schema":{"type":"struct","fields":[{"field":"payload","type":"string","optional":true}]},"payload":{"payload":"version `
)

// tables are the tables, and how they become topics and tables again.
type tables struct {
	*stage
	database    *postgres.Server
	exactlyOnce bool
	calm        atomic.Bool // nothing is written any more
	writes      atomic.Int64
}

// TestTablesSurviveFaults has rows of one PostgreSQL table become those of another, by topics, while a worker, the process of a task, a broker, a coordinator
// or the database is killed. In the end both tables have the same, and the topics have each row, each key's versions in their order.
func TestTablesSurviveFaults(t *testing.T) {
	first := *seed
	if first == 0 {
		first = rand.Uint64N(1 << 32)
	}
	for _, mode := range []struct {
		name        string
		exactlyOnce bool
	}{{"exactly once", true}, {"at least once", false}} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel() // most of the time is waiting
			for n := range *runs {
				t.Run(fmt.Sprint("seed ", first+uint64(n)), func(t *testing.T) { runTables(t, first+uint64(n), mode.exactlyOnce) })
			}
		})
	}
}

func runTables(t *testing.T, seed uint64, exactlyOnce bool) {
	support := "disabled"
	if exactlyOnce {
		support = "enabled"
	}
	database, err := postgres.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := database.Close(); err != nil {
			t.Error(err)
		}
	})
	s := startStage(t, "--set", "connect.exactly.once.source.support="+support)
	p := &tables{stage: s, database: database, exactlyOnce: exactlyOnce}
	p.execute(t.Context(), `CREATE TABLE event (id bigserial PRIMARY KEY, body text NOT NULL);
		CREATE TABLE item (id bigint PRIMARY KEY, version bigint NOT NULL, payload text, changed timestamptz NOT NULL);
		CREATE SCHEMA target; CREATE TABLE target.event (id bigint PRIMARY KEY, body text); CREATE TABLE target.item (id bigint PRIMARY KEY, payload text);
		CREATE FUNCTION envelope(version bigint) RETURNS text LANGUAGE sql AS $$ SELECT '`+envelope+`' || version || '"}}' $$`)
	p.configure()
	random := rand.New(rand.NewPCG(seed, 0))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var background sync.WaitGroup
	writer := rand.New(rand.NewPCG(random.Uint64(), 0))
	background.Go(func() { p.write(ctx, writer) })
	m := &mender{stage: s}
	background.Go(func() { m.run(ctx) })
	f := &breaker{stage: s, database: database, random: random, freezes: exactlyOnce}
	f.run(*faults)
	stopWriting := time.Now()
	p.calm.Store(true)
	p.settle()
	settled := time.Since(stopWriting).Round(100 * time.Millisecond)
	stop()
	background.Wait()
	t.Logf("%d faults; all is there %v after the last; %d restarts of what had failed", *faults, settled, m.restarts)
	p.check()
}

// configure makes a source and a sink of each table.
func (p *tables) configure() {
	source := config{
		"connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector", "tasks.max": "2", "connection.url": p.database.URL(), "topic.prefix": "storm-", "schema.pattern": "public",
		"poll.interval.ms": "50", "incrementing.column.name": "id", "connection.backoff.ms": "500", "topic.creation.default.partitions": "4", "topic.creation.default.replication.factor": "3",
		"transaction.boundary": "poll",
		"transforms":           "key,id", "transforms.key.type": "org.apache.kafka.connect.transforms.ValueToKey", "transforms.key.fields": "id",
		"transforms.id.type": "org.apache.kafka.connect.transforms.ExtractField$Key", "transforms.id.field": "id",
	}
	events := maps.Clone(source)
	maps.Copy(events, config{"mode": "incrementing", "table.whitelist": "public.event"})
	p.put("events", events)
	changes := maps.Clone(source)
	maps.Copy(changes, config{
		"mode": "timestamp+incrementing", "timestamp.column.name": "changed", "table.whitelist": "public.item", "transforms": "key,id,version,payload",
		"transforms.version.type": "org.apache.kafka.connect.transforms.HeaderFrom$Value", "transforms.version.fields": "version", "transforms.version.headers": "version",
		"transforms.version.operation": "copy",
		"transforms.payload.type":      "org.apache.kafka.connect.transforms.ExtractField$Value", "transforms.payload.field": "payload",
		"value.converter": "org.apache.kafka.connect.storage.StringConverter",
	})
	p.put("items", changes)
	sink := config{
		"connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector", "tasks.max": "3", "connection.url": p.database.URL(), "topics": "storm-event", "table.name.format": "target.event",
		"insert.mode": "upsert", "pk.mode": "record_key", "pk.fields": "id", "delete.enabled": "true", "max.retries": "1000", "retry.backoff.ms": "200",
		"consumer.override.metadata.max.age.ms": "1000",
	}
	p.put("event-sink", sink)
	maps.Copy(sink, config{"topics": "storm-item", "table.name.format": "target.item"})
	p.put("item-sink", sink)
}

// write writes rows until it is calm, whatever becomes of the database, and then whether the last have been written.
func (p *tables) write(ctx context.Context, random *rand.Rand) {
	var conn *pgconn.PgConn
	defer func() {
		if conn != nil {
			_ = conn.Close(context.WithoutCancel(ctx)) // the database may be killed by now
		}
	}()
	for ctx.Err() == nil && !p.calm.Load() {
		if conn == nil {
			var err error
			if conn, err = pgconn.Connect(ctx, p.database.URL()); err != nil {
				pause(ctx, writePause)
				continue
			}
		}
		var sql strings.Builder
		sql.WriteString("INSERT INTO event (body) SELECT 'event ' || n FROM generate_series(1, 10) n;")
		for range 5 {
			payload := "envelope(item.version + 1)"
			if random.IntN(6) == 0 {
				payload = "NULL"
			}
			fmt.Fprintf(&sql, "INSERT INTO item VALUES (%d, 1, envelope(1), clock_timestamp()) ON CONFLICT (id) DO UPDATE SET version = item.version + 1, payload = %s, changed = clock_timestamp();",
				random.IntN(items), payload)
		}
		if _, err := conn.Exec(ctx, sql.String()).ReadAll(); err != nil {
			_ = conn.Close(ctx) // it is broken anyway
			conn = nil
			continue
		}
		p.writes.Add(1)
		pause(ctx, writePause)
	}
}

// execute executes SQL, and returns the rows of the last statement as lines.
func (p *tables) execute(ctx context.Context, sql string) []string {
	p.Helper()
	lines, err := p.query(ctx, sql)
	if err != nil {
		p.Fatalf("%s: %v", sql, err)
	}
	return lines
}

func (p *tables) query(ctx context.Context, sql string) ([]string, error) {
	conn, err := pgconn.Connect(ctx, p.database.URL())
	if err != nil {
		return nil, err
	}
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return nil, err
	}
	var lines []string
	for _, row := range results[len(results)-1].Rows {
		columns := make([]string, len(row))
		for i, value := range row {
			columns[i] = string(value)
		}
		lines = append(lines, strings.Join(columns, "|"))
	}
	return lines, nil
}

// differences are how many rows a table and its target do not share.
var differences = map[string]string{
	"event": `SELECT count(*) FROM ((TABLE event EXCEPT ALL TABLE target.event) UNION ALL (TABLE target.event EXCEPT ALL TABLE event)) d`,
	"item": `WITH wanted AS (SELECT id, 'version ' || version AS payload FROM item WHERE payload IS NOT NULL)
		SELECT count(*) FROM ((TABLE wanted EXCEPT ALL TABLE target.item) UNION ALL (TABLE target.item EXCEPT ALL TABLE wanted)) d`,
}

// settle waits until the targets have what the tables have.
func (p *tables) settle() {
	p.Helper()
	for _, table := range []string{"event", "item"} {
		if err := retry.Until(p.Context(), patience, func(ctx context.Context) error {
			lines, err := p.query(ctx, differences[table])
			if err == nil && lines[0] != "0" {
				err = fmt.Errorf("%s rows differ", lines[0])
			}
			return err
		}); err != nil {
			all, fault := p.statuses(p.Context())
			p.Errorf("table %s and its target: %v\nstates %+v %v", table, err, all, fault)
		}
	}
}
