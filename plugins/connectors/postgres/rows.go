package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/column"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/database"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/position"
)

// rows are what a statement returns, as far as it has come.
type rows struct {
	result  *pgconn.ResultReader
	reader  *column.Reader
	fields  []database.Field
	reading position.Reading
	// The places of the columns of the mode; -1 for none.
	incrementing int
	timestamps   []int

	ahead *row  // the row after the one that was returned last, where that matters
	fault error // of the next call
	ended bool
}

// row is a row, and how far its table was read with it.
type row struct {
	value *data.Struct
	at    position.Offset
	// parts says that at tells the rows up to this one from those to come.
	parts bool
	bytes int
}

func (r *row) record(topic string) data.Record {
	return data.NewRecord(topic, data.Value{}, data.Value{Schema: r.value.Schema, V: r.value})
}

// open has the database return what comes after the offset of a table.
func (t *sourceTask) open(ctx context.Context, one *table) (*rows, error) {
	v := t.values
	r := &rows{incrementing: -1, reading: position.Reading{Mode: position.Mode(v.String(modeKey)), Zone: t.options.Zone, Delay: v.Millis(delayKey), Suffix: v.String(suffixKey)}}
	schemaName := ""
	if one.name != nil {
		r.reading.From, schemaName = one.name.SQL(), one.name.Table()
	} else {
		r.reading.From = "(" + strings.TrimRight(queryOf(v), "; \t\r\n") + "\n) AS query"
	}
	var err error
	if r.fields, err = database.Fields(ctx, t.conn, "SELECT * FROM "+r.reading.From); err != nil {
		return nil, err
	}
	if err := t.choose(ctx, one, r); err != nil {
		return nil, err
	}
	fields := make([]column.Field, len(r.fields))
	for i, f := range r.fields {
		fields[i] = column.Field{Name: f.Name, TypeOID: f.DataTypeOID, TypeModifier: f.TypeModifier, NotNull: f.NotNull}
	}
	if r.reader, err = column.NewReader(schemaName, fields, t.options); err != nil {
		return nil, err
	}
	if err := t.begin(ctx, one, r.reading.Mode); err != nil {
		return nil, err
	}
	return r, r.execute(ctx, t.conn, one.at)
}

// choose finds the columns by which the mode goes.
func (t *sourceTask) choose(ctx context.Context, one *table, r *rows) error {
	mode, strict := r.reading.Mode, one.name != nil && t.values.Bool(nonNullKey)
	described := &database.Table{}
	if one.name != nil && mode != position.Bulk {
		var err error
		if described, err = database.Describe(ctx, t.conn, one.name); err != nil {
			return err
		}
		if described == nil {
			return errors.New("it does not exist")
		}
	}
	if mode.HasIncrementing() {
		name := t.values.String(incrementingKey)
		if i := slices.IndexFunc(described.Columns, func(c database.Column) bool { return c.Counts }); name == "" && i >= 0 {
			name = described.Columns[i].Name
		}
		if name == "" {
			return fmt.Errorf("it has no serial or identity column: name one in %s", incrementingKey)
		}
		if err := r.chooseIncrementing(name, strict); err != nil {
			return err
		}
	}
	if mode.HasTimestamp() {
		if err := r.chooseTimestamps(t.values.List(timestampKey), strict); err != nil {
			return err
		}
	}
	if mode == position.Timestamp {
		for _, c := range described.Key() {
			r.reading.Key = append(r.reading.Key, position.Column{Name: c.Name, Type: c.Type})
		}
	}
	return nil
}

func (r *rows) chooseIncrementing(name string, strict bool) error {
	i, err := r.find(name)
	if err != nil {
		return fmt.Errorf("%s: %w", incrementingKey, err)
	}
	f := &r.fields[i]
	kind := "bigint"
	switch exact := column.IsInteger(f.DataTypeOID); {
	case !exact:
		return fmt.Errorf("%s: column %s is no integer", incrementingKey, f.Name)
	case strict && !f.NotNull:
		return fmt.Errorf("%s: column %s may be null (%s)", incrementingKey, f.Name, nonNullKey)
	case column.IsNumeric(f.DataTypeOID):
		kind = "numeric"
	}
	r.incrementing, r.reading.Incrementing = i, position.Column{Name: f.Name, Type: kind}
	return nil
}

func (r *rows) chooseTimestamps(names []string, strict bool) error {
	full := false
	r.reading.Local = true
	for _, name := range names {
		i, err := r.find(name)
		if err != nil {
			return fmt.Errorf("%s: %w", timestampKey, err)
		}
		f := &r.fields[i]
		local, ok := column.IsTimestamp(f.DataTypeOID)
		if !ok {
			return fmt.Errorf("%s: column %s is neither timestamp nor timestamptz", timestampKey, f.Name)
		}
		full = full || f.NotNull
		r.reading.Local = r.reading.Local && local
		r.timestamps = append(r.timestamps, i)
		r.reading.Timestamps = append(r.reading.Timestamps, position.Column{Name: f.Name})
	}
	if strict && !full {
		return fmt.Errorf("%s: all of %s may be null (%s)", timestampKey, strings.Join(names, ", "), nonNullKey)
	}
	return nil
}

// find returns the place of a column. Upper and lower case count unless only one column has the name without them.
func (r *rows) find(name string) (int, error) {
	match := -1
	for i := range r.fields {
		switch {
		case r.fields[i].Name == name:
			return i, nil
		case !strings.EqualFold(r.fields[i].Name, name):
		case match >= 0:
			return 0, fmt.Errorf("there is no column %s, and several whose names differ in upper and lower case", name)
		default:
			match = i
		}
	}
	if match < 0 {
		return 0, fmt.Errorf("there is no column %s", name)
	}
	return match, nil
}

// begin sets the time after which to begin with a table that was not read before.
func (t *sourceTask) begin(ctx context.Context, one *table, mode position.Mode) error {
	first := firstTimeKey
	if !t.values.Has(first) {
		first = firstTimeMsKey
	}
	if !mode.HasTimestamp() || one.at.Timestamp != nil || !t.values.Has(first) {
		return nil
	}
	begin := time.UnixMilli(t.values.Int(first)).UTC()
	if t.values.Int(first) < 0 {
		var err error
		if begin, err = database.Now(ctx, t.conn); err != nil {
			return err
		}
	}
	one.at = position.Offset{Timestamp: &begin}
	return nil
}

// execute sends the statement. Its first rows may not be there yet.
func (r *rows) execute(ctx context.Context, conn *pgconn.PgConn, at position.Offset) error {
	sql, texts, err := r.reading.Statement(at)
	if err != nil {
		return err
	}
	params := make([][]byte, len(texts))
	for i, text := range texts {
		params[i] = []byte(text)
	}
	formats := slices.Clone(r.reader.Formats)
	for range r.reading.Key {
		formats = append(formats, column.Text)
	}
	r.result = conn.ExecParams(ctx, sql, params, nil, nil, formats)
	came := r.result.FieldDescriptions()
	if len(came) == 0 { // it was refused
		_, err := r.result.Close()
		return database.FromServer(err)
	}
	same := len(came) == len(formats)
	for i := range r.fields {
		f := &r.fields[i]
		same = same && came[i].Name == f.Name && came[i].DataTypeOID == f.DataTypeOID && came[i].TypeModifier == f.TypeModifier
	}
	if !same {
		return database.FromServer(errors.New("its columns have changed meanwhile"))
	}
	return nil
}

// next returns the next row; false after the last.
func (r *rows) next() (*row, bool, error) {
	if r.fault != nil {
		return nil, false, r.fault
	}
	current := r.ahead
	r.ahead = nil
	if current == nil {
		var err error
		if current, err = r.fetch(); err != nil {
			return nil, false, err
		}
	}
	if current == nil {
		r.ended = true
		return nil, false, nil
	}
	if current.parts = true; !r.reading.Exact() {
		r.ahead, r.fault = r.fetch()
		current.parts = r.fault == nil && (r.ahead == nil || r.ahead.at.Timestamp.After(*current.at.Timestamp))
	}
	return current, true, nil
}

// fetch reads a row from the connection; nil after the last.
func (r *rows) fetch() (*row, error) {
	if !r.result.NextRow() {
		_, err := r.result.Close()
		return nil, database.FromServer(err)
	}
	values := r.result.Values()
	one := &row{}
	for _, raw := range values {
		one.bytes += len(raw)
	}
	var err error
	if one.at, err = r.offset(values); err != nil {
		return nil, err
	}
	if one.value, err = r.reader.Read(values[:len(r.fields)]); err != nil {
		return nil, fmt.Errorf("row at %s: %w", describe(one.at), err)
	}
	return one, nil
}

// offset returns how far a table was read with a row.
func (r *rows) offset(values [][]byte) (position.Offset, error) {
	var at position.Offset
	if i := r.incrementing; i >= 0 {
		n, err := column.Integer(r.fields[i].DataTypeOID, values[i])
		if err != nil {
			return at, fmt.Errorf("column %s: %w", r.fields[i].Name, err)
		}
		at.Incrementing = &n
	}
	for _, i := range r.timestamps {
		if values[i] == nil {
			continue
		}
		changed, err := column.Timestamp(r.fields[i].DataTypeOID, values[i], r.reading.Zone)
		if err != nil {
			return at, fmt.Errorf("column %s: %w", r.fields[i].Name, err)
		}
		at.Timestamp = &changed
		break
	}
	if r.reading.Mode.HasTimestamp() && at.Timestamp == nil {
		return at, errors.New("a row came without its time of change")
	}
	if len(r.reading.Key) == 0 {
		return at, nil
	}
	key := make([]string, len(r.reading.Key))
	for i, raw := range values[len(r.fields):] {
		key[i] = string(raw)
	}
	var err error
	at.Key, err = position.JoinKey(key)
	return at, err
}
