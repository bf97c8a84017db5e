package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/database"
)

// maxSentBytes bounds the values that are sent before answers are read, one record apart.
const maxSentBytes = 8 << 20

// transact writes records in one transaction, those that are refused apart. What is refused only at the end, by a constraint
// that is checked then, is found by halves.
func (t *sinkTask) transact(ctx context.Context, writes []write) error {
	if len(writes) == 0 {
		return nil
	}
	if err := t.conn.forget(ctx); err != nil {
		return err
	}
	names := make([]string, len(writes))
	for i := range writes {
		var err error
		if names[i], err = t.conn.statement(ctx, writes[i].statement); err != nil {
			return err
		}
	}
	if err := database.Exec(ctx, t.conn.PgConn, "BEGIN"); err != nil {
		return err
	}
	for from := 0; from < len(writes); {
		to := from
		for bytes := 0; to < len(writes) && to-from < t.batch && bytes < maxSentBytes; to++ {
			bytes += writes[to].bytes
		}
		if err := t.chunk(ctx, writes[from:to], names[from:to]); err != nil {
			return err
		}
		from = to
	}
	err := database.Exec(ctx, t.conn.PgConn, "COMMIT")
	switch {
	case !database.OfData(err):
		return err
	case len(writes) == 1:
		return t.report(writes[0].record, err)
	}
	half := len(writes) / 2
	if err := t.transact(ctx, writes[:half]); err != nil {
		return err
	}
	return t.transact(ctx, writes[half:])
}

// chunk writes records within a transaction. When one is refused those before it are written again without it, then those after
// it.
func (t *sinkTask) chunk(ctx context.Context, writes []write, names []string) error {
	for len(writes) > 0 {
		if err := database.Exec(ctx, t.conn.PgConn, "SAVEPOINT cauce"); err != nil {
			return err
		}
		done, err := t.send(ctx, writes, names)
		if err == nil {
			return database.Exec(ctx, t.conn.PgConn, "RELEASE SAVEPOINT cauce")
		}
		if !database.OfData(err) {
			return fmt.Errorf("writing: %w", err)
		}
		if err := t.report(writes[done].record, err); err != nil {
			return err
		}
		if err := database.Exec(ctx, t.conn.PgConn, "ROLLBACK TO SAVEPOINT cauce"); err != nil {
			return err
		}
		if _, err := t.send(ctx, writes[:done], names); err != nil {
			return fmt.Errorf("writing again what was written before: %w", err)
		}
		if err := database.Exec(ctx, t.conn.PgConn, "RELEASE SAVEPOINT cauce"); err != nil {
			return err
		}
		writes, names = writes[done+1:], names[done+1:]
	}
	return nil
}

// send has the database write records, and returns how many it has written before the error, if any.
func (t *sinkTask) send(ctx context.Context, writes []write, names []string) (done int, err error) {
	if len(writes) == 0 {
		return 0, nil
	}
	pipeline := t.conn.StartPipeline(ctx)
	for i := range writes {
		pipeline.SendQueryPrepared(names[i], writes[i].values, writes[i].formats, nil)
	}
	if err := pipeline.Sync(); err != nil {
		return 0, database.FromServer(errors.Join(err, pipeline.Close()))
	}
	for done = range writes {
		results, err := pipeline.GetResults()
		if result, ok := results.(*pgconn.ResultReader); ok && err == nil {
			_, err = result.Close()
		}
		if err != nil {
			_ = pipeline.Close() // the same error again, or that the connection is gone, which the next call finds
			return done, database.FromServer(err)
		}
	}
	return len(writes), database.FromServer(pipeline.Close())
}
