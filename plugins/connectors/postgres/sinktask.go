package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/plugins/connectors/internal/backoff"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/database"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/plan"
)

// sinkTask writes each batch in one transaction, record by record in their order, and without waiting for the answer to one
// before it sends the next. What a record does is thus seen by those after it, and the database says which it refuses.
type sinkTask struct {
	context  *plugin.SinkContext
	database database.Config
	values   configdef.Values
	options  plan.Options
	batch    int
	wait     time.Duration

	conn     *session           // nil while there is none
	targets  map[string]*target // by topic
	failures int                // since the last batch that was written
	next     time.Time          // when to try again
	reported map[place]bool     // of the batch that is put
}

// place is where a record is from.
type place struct {
	plugin.TopicPartition
	offset int64
}

// Start does not need the database.
func (t *sinkTask) Start(ctx context.Context, c *plugin.SinkContext, config map[string]string) error {
	v, err := sinkDefinition.Parse(config)
	if err != nil {
		return err
	}
	t.context, t.values, t.database, t.options = c, v, databaseOf(v), optionsOf(v)
	t.batch, t.wait = int(v.Int(batchSizeKey)), v.Millis(retryKey)
	t.targets, t.reported = map[string]*target{}, map[place]bool{}
	if what, err := t.options.Check(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if t.options.Zone, err = loadZone(v.String(zoneKey)); err != nil {
		return err
	}
	_, ignored, err := t.database.Parse()
	if err != nil {
		return fmt.Errorf("%s: %w", urlKey, err)
	}
	if len(ignored) > 0 {
		slog.InfoContext(ctx, "parameters of the URL that concern the JDBC driver alone", "ignored", ignored)
	}
	return nil
}

// Put writes records. Of those that are refused for what they hold the others are written all the same.
func (t *sinkTask) Put(ctx context.Context, records []plugin.SinkRecord) error {
	if len(records) == 0 {
		return nil
	}
	if err := backoff.Rest(ctx, time.Until(t.next)); err != nil {
		return err
	}
	err := t.write(ctx, records)
	if err == nil {
		t.failures = 0
		clear(t.reported)
		return nil
	}
	t.drop()
	passes := database.Passes(err) || database.Outdated(err)
	if !passes || t.failures >= int(t.values.Int(retriesKey)) {
		return err
	}
	t.failures++
	t.next = time.Now().Add(t.wait)
	t.context.NextPut(t.wait)
	return plugin.Retriable(err)
}

// drop gives up the connection and what is known of tables.
func (t *sinkTask) drop() {
	if t.conn != nil {
		database.Close(t.conn.PgConn)
	}
	t.conn = nil
	clear(t.targets)
}

func (t *sinkTask) write(ctx context.Context, records []plugin.SinkRecord) error {
	if t.conn == nil {
		conn, err := t.database.Connect(ctx)
		if err != nil {
			return err
		}
		t.conn = &session{PgConn: conn, statements: map[string]string{}}
	}
	writes := make([]write, 0, len(records))
	for i := range records {
		w, err := t.prepare(ctx, &records[i])
		var refused refusal
		if errors.As(err, &refused) {
			err = t.report(&records[i], refused.error)
		}
		if err != nil {
			return err
		}
		if w.statement != "" {
			writes = append(writes, w)
		}
	}
	return t.transact(ctx, writes)
}

// report hands a record over that cannot be written, once.
func (t *sinkTask) report(r *plugin.SinkRecord, fault error) error {
	at := place{r.Original, r.Offset}
	if t.reported[at] {
		return nil
	}
	if err := t.context.Report(r, fault); err != nil {
		return err
	}
	t.reported[at] = true
	return nil
}

// Stop gives the connection up.
func (t *sinkTask) Stop() error {
	t.drop()
	return nil
}

// session is a connection with the statements that it has prepared.
type session struct {
	*pgconn.PgConn
	statements map[string]string // names by text
}

// maxStatements bounds the statements of a session: schemas may change without end.
const maxStatements = 200

// statement returns the name of a statement, which it prepares when it is new.
func (s *session) statement(ctx context.Context, sql string) (string, error) {
	if name := s.statements[sql]; name != "" {
		return name, nil
	}
	name := fmt.Sprintf("cauce_%d", len(s.statements)+1)
	if _, err := s.Prepare(ctx, name, sql, nil); err != nil {
		return "", fmt.Errorf("%s: %w", sql, database.FromServer(err))
	}
	s.statements[sql] = name
	return name, nil
}

// forget makes room for statements. Those that were named before are no longer.
func (s *session) forget(ctx context.Context) error {
	if len(s.statements) < maxStatements {
		return nil
	}
	clear(s.statements)
	return database.Exec(ctx, s.PgConn, "DEALLOCATE ALL")
}
