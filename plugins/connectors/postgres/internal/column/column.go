// Package column turns rows of PostgreSQL into structs of Kafka Connect, with the schemas that the JDBC connectors give them.
package column

import (
	"fmt"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// What becomes of numeric columns.
const (
	NumericNone        = "none"                  // a Decimal
	NumericPrecision   = "precision_only"        // an integer where there are no digits behind the point
	NumericBestFit     = "best_fit"              // an integer or a FLOAT64 that holds it, otherwise a Decimal
	NumericEagerDouble = "best_fit_eager_double" // as best_fit, and a FLOAT64 for all with digits behind the point
)

// Options say how columns are mapped where there is a choice.
type Options struct {
	Numeric     string
	Granularity string
	// Zone is the one in which timestamps without a zone are meant.
	Zone *time.Location
}

// Field is a column of a result.
type Field struct {
	Name    string
	TypeOID uint32
	// TypeModifier has the precision of a numeric, the length of a bit string; -1 for none.
	TypeModifier int32
	NotNull      bool
}

// The formats of values on the wire.
const (
	Text   int16 = 0
	Binary int16 = 1
)

// decoder returns the value that bytes stand for.
type decoder func(raw []byte) (any, error)

// Reader turns rows of one result into structs.
type Reader struct {
	// Schema is the schema of the structs.
	Schema *data.Schema
	// Formats are those in which the values of each column are wanted.
	Formats  []int16
	decoders []decoder
}

// NewReader returns a reader of rows with some columns. name is the name of their schema; it may be empty. Two columns of one
// name are an error.
func NewReader(name string, fields []Field, o Options) (*Reader, error) {
	r := &Reader{Schema: &data.Schema{Type: data.TypeStruct, Name: name}}
	for i := range fields {
		f := &fields[i]
		m := mappingOf(f, o)
		schema := m.schema
		schema.Optional = !f.NotNull
		r.Schema.Fields = append(r.Schema.Fields, data.Field{Name: f.Name, Schema: &schema})
		r.Formats = append(r.Formats, m.format)
		r.decoders = append(r.decoders, m.decode)
	}
	if err := r.Schema.Check(); err != nil {
		return nil, fmt.Errorf("columns: %w", err)
	}
	return r, nil
}

// Read returns the struct of a row, whose values are in Formats; nil is null. What it returns does not share their memory.
func (r *Reader) Read(row [][]byte) (*data.Struct, error) {
	if len(row) != len(r.decoders) {
		return nil, fmt.Errorf("a row has %d columns, not %d", len(row), len(r.decoders))
	}
	s := data.NewStruct(r.Schema)
	for i, raw := range row {
		if raw == nil {
			if f := &r.Schema.Fields[i]; !f.Schema.Optional {
				return nil, fmt.Errorf("column %s is null, and may not be", f.Name)
			}
			continue
		}
		value, err := r.decoders[i](raw)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", r.Schema.Fields[i].Name, err)
		}
		s.Values[i] = value
	}
	return s, nil
}
