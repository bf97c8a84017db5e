package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/database"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/ident"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/plan"
)

// refusal is a fault of a record.
type refusal struct{ error }

// target is the table of a topic.
type target struct {
	name  ident.Name
	table *database.Table // nil for one that is missing
	plans []*planned      // the one that was used last is the first
}

// maxPlans bounds the pairs of schemas whose plans are kept for a table.
const maxPlans = 16

// planned is a plan for a table as it is.
type planned struct {
	*plan.Plan
	write, delete string // statements
	formats       []int16
	raw           []bool // the columns whose bytes are sent as they are
}

// write is a record that is to be written.
type write struct {
	statement string // empty for nothing to do
	values    [][]byte
	formats   []int16
	bytes     int
	record    *plugin.SinkRecord
}

// prepare returns how a record is written. A refusal is the record's fault, any other error is not.
func (t *sinkTask) prepare(ctx context.Context, r *plugin.SinkRecord) (write, error) {
	to, err := t.targetOf(ctx, r.Topic)
	if err != nil {
		return write{}, err
	}
	p, err := t.planFor(ctx, to, r.Key.Schema, plan.ValueSchema(&r.Record))
	if err != nil {
		return write{}, err
	}
	deletes, err := p.Deletes(&r.Record)
	if err != nil {
		return write{}, refusal{err}
	}
	if to.table == nil { // and so is the row to delete
		return write{}, nil
	}
	w := write{record: r, formats: p.formats, statement: p.write}
	if deletes {
		w.formats, w.statement = p.formats[:p.Keys], p.delete
	}
	if w.values, err = p.Values(&r.Record, deletes, p.raw); err != nil {
		return write{}, refusal{err}
	}
	for _, value := range w.values {
		w.bytes += len(value)
	}
	return w, nil
}

func (t *sinkTask) targetOf(ctx context.Context, topic string) (*target, error) {
	if to := t.targets[topic]; to != nil {
		return to, nil
	}
	name, err := tableOf(t.values.String(formatKey), topic, t.options.Lower)
	if err != nil {
		return nil, err
	}
	to := &target{name: name}
	if err := t.describe(ctx, to); err != nil {
		return nil, err
	}
	t.targets[topic] = to
	return to, nil
}

// describe looks what the table is like.
func (t *sinkTask) describe(ctx context.Context, to *target) error {
	table, err := database.Describe(ctx, t.conn.PgConn, to.name)
	if err != nil {
		return err
	}
	if table != nil && !slices.ContainsFunc(t.values.List(typesKey), func(kind string) bool { return strings.EqualFold(kind, table.Kind) }) {
		return fmt.Errorf("%s is a %s, and %s has %s", to.name, table.Kind, typesKey, strings.Join(t.values.List(typesKey), ", "))
	}
	to.table = table
	return nil
}

// planFor returns the plan for records of some schemas, for which it makes the table or adds to it where it may.
func (t *sinkTask) planFor(ctx context.Context, to *target, key, value *data.Schema) (*planned, error) {
	for i, p := range to.plans {
		if p.For(key, value) {
			copy(to.plans[1:], to.plans[:i])
			to.plans[0] = p
			return p, nil
		}
	}
	made, err := plan.New(&t.options, key, value)
	if err != nil {
		return nil, refusal{err}
	}
	if to.table == nil && made.Writes() {
		if err := t.create(ctx, to, made); err != nil {
			return nil, err
		}
	}
	p := &planned{Plan: made}
	if to.table == nil {
		return p, nil // not kept: the table may come
	}
	if err := t.complete(ctx, to, made); err != nil {
		return nil, err
	}
	p.write, p.delete = made.Write(to.name), made.Delete(to.name)
	for i := range made.Fields {
		f := &made.Fields[i]
		raw := f.Schema.Type == data.TypeBytes && to.table.Column(f.Name).Type == "bytea"
		p.raw = append(p.raw, raw)
		p.formats = append(p.formats, map[bool]int16{true: 1}[raw])
	}
	to.plans = slices.Insert(to.plans[:min(len(to.plans), maxPlans-1)], 0, p)
	return p, nil
}

// create makes the table. Another task may do the same at the same time.
func (t *sinkTask) create(ctx context.Context, to *target, p *plan.Plan) error {
	if err := t.describe(ctx, to); err != nil || to.table != nil {
		return err
	}
	if !t.values.Bool(createKey) {
		return fmt.Errorf("table %s is missing, and %s is false", to.name, createKey)
	}
	sql, err := p.CreateTable(to.name)
	if err != nil {
		return refusal{err}
	}
	created := database.Exec(ctx, t.conn.PgConn, sql)
	var refused *pgconn.PgError
	if errors.As(created, &refused) && (refused.Code == "42P07" || refused.Code == "23505") {
		created = nil // another was a little earlier
	}
	if created != nil {
		return fmt.Errorf("%s: %w", sql, created)
	}
	if err := t.describe(ctx, to); err != nil {
		return err
	}
	if to.table == nil {
		return fmt.Errorf("table %s was made and is not there: is its schema in the search_path?", to.name)
	}
	return nil
}

// complete adds the columns that the table lacks.
func (t *sinkTask) complete(ctx context.Context, to *target, p *plan.Plan) error {
	missing := lacks(to.table, p)
	if len(missing) == 0 {
		return nil
	}
	if err := t.describe(ctx, to); err != nil { // they may have come meanwhile
		return err
	}
	if to.table == nil {
		return fmt.Errorf("table %s has gone", to.name)
	}
	if missing = lacks(to.table, p); len(missing) == 0 {
		return nil
	}
	names := make([]string, len(missing))
	for i := range missing {
		names[i] = missing[i].Name
	}
	if !t.values.Bool(evolveKey) || !p.Writes() {
		return refusal{fmt.Errorf("table %s lacks the columns %s, and %s is %t", to.name, strings.Join(names, ", "), evolveKey, t.values.Bool(evolveKey))}
	}
	sql, err := p.AddColumns(to.name, missing)
	if err != nil {
		return refusal{err}
	}
	if err := database.Exec(ctx, t.conn.PgConn, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	to.plans = nil // they are for the table as it was
	return t.describe(ctx, to)
}

func lacks(table *database.Table, p *plan.Plan) []plan.Field {
	return slices.DeleteFunc(slices.Clone(p.Fields), func(f plan.Field) bool { return table.Column(f.Name) != nil })
}
