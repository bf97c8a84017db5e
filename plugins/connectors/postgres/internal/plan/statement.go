package plan

import (
	"fmt"
	"strings"

	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/ident"
)

// SQLType returns the type of columns that are made for values of a schema.
func SQLType(s *data.Schema) (string, error) {
	switch s.Name {
	case data.DecimalName:
		return "DECIMAL", nil
	case data.DateName:
		return "DATE", nil
	case data.TimeName:
		return "TIME", nil
	case data.TimestampName:
		return "TIMESTAMP", nil
	}
	switch s.Type {
	case data.TypeInt8, data.TypeInt16:
		return "SMALLINT", nil
	case data.TypeInt32:
		return "INT", nil
	case data.TypeInt64:
		return "BIGINT", nil
	case data.TypeFloat32:
		return "REAL", nil
	case data.TypeFloat64:
		return "DOUBLE PRECISION", nil
	case data.TypeBoolean:
		return "BOOLEAN", nil
	case data.TypeString:
		return "TEXT", nil
	case data.TypeBytes:
		return "BYTEA", nil
	case data.TypeArray:
		if s.Value.Type == data.TypeArray {
			break // each of its elements may have another length, which PostgreSQL does not have
		}
		element, err := SQLType(s.Value)
		return element + "[]", err
	}
	return "", fmt.Errorf("a %s is no value of a column", s.Type)
}

// CreateTable returns the statement that makes the table of a plan.
func (p *Plan) CreateTable(table ident.Name) (string, error) {
	columns, err := p.columns(p.Fields)
	if err != nil {
		return "", err
	}
	if p.Keys > 0 {
		columns = append(columns, "PRIMARY KEY ("+names(p.Fields[:p.Keys])+")")
	}
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (%s)", table.SQL(), strings.Join(columns, ", ")), nil
}

// AddColumns returns the statement that adds columns to a table. Rows that are there must have a value for them: those of
// fields that are neither optional nor have a default cannot be added.
func (p *Plan) AddColumns(table ident.Name, fields []Field) (string, error) {
	for i := range fields {
		if s := fields[i].Schema; !s.Optional && s.Default == nil {
			return "", fmt.Errorf("table %s lacks the column %s, which cannot be added: the field is neither optional nor has a default", table, fields[i].Name)
		}
	}
	columns, err := p.columns(fields)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("ALTER TABLE %s ADD COLUMN IF NOT EXISTS %s", table.SQL(), strings.Join(columns, ", ADD COLUMN IF NOT EXISTS ")), nil
}

func (p *Plan) columns(fields []Field) ([]string, error) {
	columns := make([]string, len(fields))
	for i := range fields {
		f := &fields[i]
		kind, err := SQLType(f.Schema)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", f.Name, err)
		}
		columns[i] = ident.Quote(f.Name) + " " + kind
		if f.Schema.Default != nil {
			text, err := appendValue(nil, f.Schema, f.Schema.Default, p.options.Zone)
			if err != nil {
				return nil, fmt.Errorf("default of field %s: %w", f.Name, err)
			}
			columns[i] += " DEFAULT " + strings.TrimSpace(ident.Literal(string(text)))
		}
		if f.Key || !f.Schema.Optional && f.Schema.Default == nil {
			columns[i] += " NOT NULL"
		}
	}
	return columns, nil
}

func names(fields []Field) string {
	quoted := make([]string, len(fields))
	for i := range fields {
		quoted[i] = ident.Quote(fields[i].Name)
	}
	return strings.Join(quoted, ", ")
}

// Write returns the statement that writes a record. Its parameters are the Fields, in order.
func (p *Plan) Write(table ident.Name) string {
	keys, rest := p.Fields[:p.Keys], p.Fields[p.Keys:]
	if p.options.Mode == Update {
		return fmt.Sprintf("UPDATE %s SET %s WHERE %s", table.SQL(), assign(rest, p.Keys, ", "), assign(keys, 0, " AND "))
	}
	places := make([]string, len(p.Fields))
	for i := range places {
		places[i] = fmt.Sprintf("$%d", i+1)
	}
	sql := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table.SQL(), names(p.Fields), strings.Join(places, ", "))
	if p.options.Mode != Upsert {
		return sql
	}
	sql += " ON CONFLICT (" + names(keys) + ") DO "
	if len(rest) == 0 {
		return sql + "NOTHING"
	}
	updates := make([]string, len(rest))
	for i := range rest {
		column := ident.Quote(rest[i].Name)
		updates[i] = column + " = EXCLUDED." + column
	}
	return sql + "UPDATE SET " + strings.Join(updates, ", ")
}

// Delete returns the statement that deletes the row of a record. Its parameters are the Fields of the key, in order.
func (p *Plan) Delete(table ident.Name) string {
	return fmt.Sprintf("DELETE FROM %s WHERE %s", table.SQL(), assign(p.Fields[:p.Keys], 0, " AND "))
}

func assign(fields []Field, before int, between string) string {
	parts := make([]string, len(fields))
	for i := range fields {
		parts[i] = fmt.Sprintf("%s = $%d", ident.Quote(fields[i].Name), before+i+1)
	}
	return strings.Join(parts, between)
}
