package database

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/ident"
)

// Kinds of tables, as JDBC calls them.
const (
	KindTable            = "TABLE"
	KindPartitioned      = "PARTITIONED TABLE"
	KindView             = "VIEW"
	KindMaterializedView = "MATERIALIZED VIEW"
	KindForeign          = "FOREIGN TABLE"
)

// relkinds are the kinds as pg_class has them.
var relkinds = map[string]string{KindTable: "r", KindPartitioned: "p", KindView: "v", KindMaterializedView: "m", KindForeign: "f"}

const tablesQuery = `
	SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	WHERE c.relkind = ANY ($1::"char"[]) AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\_t%'
	AND ($2 = '' OR n.nspname LIKE $2) AND NOT (c.relispartition AND 'p' = ANY ($1::"char"[]))
	ORDER BY 1, 2`

// Tables returns schema and name of all tables of some kinds, in order. schemaPattern is one of LIKE; empty for all schemas.
// Partitions count as tables of their own unless partitioned tables are wanted.
func Tables(ctx context.Context, conn *pgconn.PgConn, kinds []string, schemaPattern string) ([]ident.Name, error) {
	letters := make([]string, len(kinds))
	for i, kind := range kinds {
		letters[i] = relkinds[strings.ToUpper(kind)]
	}
	rows, err := query(ctx, conn, tablesQuery, "{"+strings.Join(letters, ",")+"}", schemaPattern)
	if err != nil {
		return nil, fmt.Errorf("listing tables: %w", err)
	}
	names := make([]ident.Name, len(rows))
	for i, row := range rows {
		names[i] = ident.Name{string(row[0]), string(row[1])}
	}
	return names, nil
}

// Column is a column of a table.
type Column struct {
	Name string
	// Type is its type as SQL has it.
	Type string
	// NotNull columns take no null.
	NotNull bool
	// Counts says that the database numbers its values: serial and identity columns.
	Counts bool
	// Key is the place in the primary key, from 1; 0 for a column that is not part of it.
	Key int
}

// Table is a table as the database has it.
type Table struct {
	Name ident.Name
	Kind string
	// Columns are in the table's order.
	Columns []Column
}

// Column returns the column of a name, or nil.
func (t *Table) Column(name string) *Column {
	for i := range t.Columns {
		if t.Columns[i].Name == name {
			return &t.Columns[i]
		}
	}
	return nil
}

// Key returns the columns of the primary key, in its order.
func (t *Table) Key() []Column {
	var key []Column
	for place := 1; ; place++ {
		found := false
		for _, c := range t.Columns {
			if c.Key == place {
				key = append(key, c)
				found = true
			}
		}
		if !found {
			return key
		}
	}
}

const describeQuery = `
	SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
		a.attidentity <> '' OR coalesce(pg_get_expr(d.adbin, d.adrelid), '') LIKE 'nextval(%',
		coalesce((SELECT k.place FROM pg_catalog.pg_index i, unnest(i.indkey::int2[]) WITH ORDINALITY k (attnum, place)
			WHERE i.indrelid = a.attrelid AND i.indisprimary AND k.attnum = a.attnum AND k.place <= i.indnkeyatts), 0), c.relkind
	FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
	LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
	WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
	ORDER BY a.attnum`

// Describe returns a table; nil when there is none of that name.
func Describe(ctx context.Context, conn *pgconn.PgConn, name ident.Name) (*Table, error) {
	rows, err := query(ctx, conn, describeQuery, name.SQL())
	if err != nil {
		return nil, fmt.Errorf("describing table %s: %w", name, err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	t := &Table{Name: name}
	for _, row := range rows {
		key, err := strconv.Atoi(string(row[4]))
		if err != nil {
			return nil, fmt.Errorf("describing table %s: %w", name, err)
		}
		t.Columns = append(t.Columns, Column{Name: string(row[0]), Type: string(row[1]), NotNull: string(row[2]) == "t", Counts: string(row[3]) == "t", Key: key})
		for kind, letter := range relkinds {
			if letter == string(row[5]) {
				t.Kind = kind
			}
		}
	}
	return t, nil
}

const notNullQuery = `
	SELECT attrelid, attnum FROM pg_catalog.pg_attribute
	WHERE attrelid = ANY ($1::oid[]) AND attnotnull AND attnum > 0 AND NOT attisdropped`

// Field is a column of what a statement returns.
type Field struct {
	pgconn.FieldDescription
	NotNull bool
}

// Fields returns the columns that a statement without parameters returns. Those that are a table's are not null if that says so.
func Fields(ctx context.Context, conn *pgconn.PgConn, sql string) ([]Field, error) {
	statement, err := conn.Prepare(ctx, "", sql, nil)
	if err != nil {
		return nil, FromServer(err)
	}
	fields := make([]Field, len(statement.Fields))
	var tables []string
	for i, f := range statement.Fields {
		fields[i].FieldDescription = f
		tables = append(tables, strconv.FormatUint(uint64(f.TableOID), 10))
	}
	rows, err := query(ctx, conn, notNullQuery, "{"+strings.Join(tables, ",")+"}")
	if err != nil {
		return nil, err
	}
	full := map[string]bool{}
	for _, row := range rows {
		full[string(row[0])+"."+string(row[1])] = true
	}
	for i := range fields {
		f := &fields[i]
		f.NotNull = full[fmt.Sprintf("%d.%d", f.TableOID, f.TableAttributeNumber)]
	}
	return fields, nil
}

// Now returns the database's time.
func Now(ctx context.Context, conn *pgconn.PgConn) (time.Time, error) {
	rows, err := query(ctx, conn, "SELECT floor(extract(epoch FROM now()) * 1000000)::bigint")
	if err != nil {
		return time.Time{}, err
	}
	micros, err := strconv.ParseInt(string(rows[0][0]), 10, 64)
	return time.UnixMicro(micros).UTC(), err
}
