package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/plugins/connectors/internal/backoff"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/column"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/database"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/ident"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/position"
)

const (
	// firstBackoff is the wait before the second try to connect; it doubles with each.
	firstBackoff = 100 * time.Millisecond
	// maxBatchBytes bounds the values of a batch, the last row apart.
	maxBatchBytes = 16 << 20
)

// sourceTask reads its tables in turns. What a statement returns is read as it comes, over several polls, from a connection
// that has nothing else to do meanwhile.
type sourceTask struct {
	database   database.Config
	values     configdef.Values
	options    column.Options
	interval   time.Duration
	batchRows  int
	maxBackoff time.Duration

	tables  []*table
	turn    int // of the table that is read, or read next
	conn    *pgconn.PgConn
	rows    *rows // of the statement that is under way
	backoff time.Duration
}

// table is a table or a query, and how far it was read.
type table struct {
	name      ident.Name // nil for a query
	topic     string
	partition *plugin.SourcePartition // nil in mode bulk
	at        position.Offset
	due       time.Time
}

// String is what logs and errors call it.
func (t *table) String() string {
	if t.name == nil {
		return "the query"
	}
	return "table " + t.name.String()
}

// Start goes on where each table was read to. It does not need the database.
func (t *sourceTask) Start(ctx context.Context, c *plugin.SourceContext, config map[string]string) error {
	v, err := sourceDefinition.Parse(config)
	if err != nil {
		return err
	}
	zone, err := loadZone(v.String(zoneKey))
	if err != nil {
		return err
	}
	t.values, t.database = v, databaseOf(v)
	t.options = column.Options{Numeric: numericOf(v, config), Granularity: v.String(granularityKey), Zone: zone}
	t.interval, t.batchRows, t.maxBackoff = v.Millis(pollKey), int(v.Int(batchKey)), v.Millis(backoffKey)
	parsed, ignored, err := t.database.Parse()
	if err != nil {
		return fmt.Errorf("%s: %w", urlKey, err)
	}
	if len(ignored) > 0 {
		slog.InfoContext(ctx, "parameters of the URL that concern the JDBC driver alone", "ignored", ignored)
	}
	if queryOf(v) != "" {
		t.tables = []*table{{topic: v.String(prefixKey)}}
	} else {
		var names []ident.Name
		if err := json.Unmarshal([]byte(config[tablesKey]), &names); err != nil {
			return fmt.Errorf("%s is no list of tables: %w", tablesKey, err)
		}
		for _, name := range names {
			t.tables = append(t.tables, &table{name: name, topic: v.String(prefixKey) + name.Table()})
		}
	}
	if position.Mode(v.String(modeKey)) == position.Bulk {
		return nil
	}
	for _, one := range t.tables {
		if err := one.find(ctx, c, parsed.Database, v); err != nil {
			return err
		}
	}
	return nil
}

// find looks for the offset of a table, under all partitions by which the JDBC connectors may have stored it.
func (t *table) find(ctx context.Context, c *plugin.SourceContext, db string, v configdef.Values) error {
	keys := []any{position.QueryPartition}
	if t.name != nil {
		keys = nil
		for _, p := range position.TablePartitions(db, t.name[0], t.name.Table()) {
			keys = append(keys, p)
		}
	}
	partitions, err := c.Partitions(ctx, keys...)
	if err != nil {
		return err
	}
	t.partition = partitions[0]
	for _, p := range partitions {
		found, err := p.Offset(&t.at)
		if err != nil {
			return err
		}
		if found {
			if err := t.at.Check(position.Mode(v.String(modeKey))); err != nil {
				return fmt.Errorf("the stored offset of %s: %w", t, err)
			}
			return nil
		}
	}
	if v.Has(firstNumberKey) {
		t.at.Incrementing = new(v.Int(firstNumberKey))
	}
	return nil
}

// Poll returns rows of the table whose turn it is, and waits until one is due.
func (t *sourceTask) Poll(ctx context.Context) ([]plugin.SourceRecord, error) {
	if len(t.tables) == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for {
		records, err := t.read(ctx)
		if err != nil {
			t.drop()
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if database.Passes(err) {
				t.backoff = min(max(2*t.backoff, firstBackoff), t.maxBackoff)
				return nil, plugin.Retriable(err)
			}
			return nil, err
		}
		if len(records) > 0 {
			return records, nil
		}
	}
}

// read returns what can be read next, and moves on to the next table where there is nothing more.
func (t *sourceTask) read(ctx context.Context) ([]plugin.SourceRecord, error) {
	one := t.tables[t.turn]
	if t.rows == nil {
		if err := backoff.Rest(ctx, max(time.Until(one.due), t.backoff)); err != nil {
			return nil, err
		}
		var err error
		if t.conn == nil {
			if t.conn, err = t.database.Connect(ctx); err != nil {
				return nil, err
			}
		}
		if t.rows, err = t.open(ctx, one); err != nil {
			return nil, fmt.Errorf("reading %s: %w", one, err)
		}
		t.backoff = 0
	}
	records, err := t.take(one)
	if err != nil {
		return nil, fmt.Errorf("reading %s after %s: %w", one, describe(one.at), err)
	}
	if t.rows.ended {
		t.rows = nil
		one.due = time.Now().Add(t.interval)
		t.turn = (t.turn + 1) % len(t.tables)
	}
	return records, nil
}

func describe(at position.Offset) string {
	text, err := json.Marshal(at)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// take returns the next rows as records, and counts them as read. Rows without an offset of their own are not parted from the
// others of their time, within maxBatchBytes.
func (t *sourceTask) take(one *table) ([]plugin.SourceRecord, error) {
	var records []plugin.SourceRecord
	at := one.at
	for bytes, parts := 0, true; bytes < maxBatchBytes && (len(records) < t.batchRows || !parts); {
		row, ok, err := t.rows.next()
		if err != nil {
			if len(records) > 0 && !database.IsFromServer(err) {
				t.rows.fault = err // what was read before is not in vain
				break
			}
			return nil, err
		}
		if !ok {
			break
		}
		bytes += row.bytes
		parts = row.parts
		record := plugin.SourceRecord{Record: row.record(one.topic), Source: one.partition}
		if parts {
			at = row.at
		}
		if one.partition != nil {
			record.Offset = at
		}
		records = append(records, record)
	}
	one.at = at
	return records, nil
}

// drop gives the connection up.
func (t *sourceTask) drop() {
	database.Close(t.conn)
	t.conn, t.rows = nil, nil
}

// Stop gives the connection up.
func (t *sourceTask) Stop() error {
	t.drop()
	return nil
}
