package position

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/column"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/ident"
)

// Mode is by which columns new rows are found.
type Mode string

// The modes of the JDBC connectors.
const (
	Bulk                  Mode = "bulk"
	Incrementing          Mode = "incrementing"
	Timestamp             Mode = "timestamp"
	TimestampIncrementing Mode = "timestamp+incrementing"
)

// HasIncrementing says whether the mode has an incrementing column.
func (m Mode) HasIncrementing() bool { return m == Incrementing || m == TimestampIncrementing }

// HasTimestamp says whether the mode has timestamp columns.
func (m Mode) HasTimestamp() bool { return m == Timestamp || m == TimestampIncrementing }

// Column is a column by its name, which is not quoted, and its type in SQL.
type Column struct{ Name, Type string }

// Reading is what is read, and by which columns.
type Reading struct {
	Mode Mode
	// From is a table, or a query in brackets with a name behind it.
	From string
	// Incrementing is the column that grows, if the mode has one.
	Incrementing Column
	// Timestamps are the columns of which the first that is not null says when a row was changed, if the mode has any.
	Timestamps []Column
	// Key is the primary key in mode timestamp, where it orders rows of one point in time. It may be empty.
	Key []Column
	// Local says that all Timestamps are without a zone; they are meant in Zone.
	Local bool
	Zone  *time.Location
	// Delay is how old a row must be.
	Delay time.Duration
	// Suffix is put behind the statement.
	Suffix string
}

// Statement returns the statement for all that comes after an offset, and its parameters as texts. Rows come in an order in
// which the offset of each is after the one before; the texts of the Key are behind their other columns.
func (r *Reading) Statement(at Offset) (sql string, params []string, err error) {
	var b strings.Builder
	b.WriteString("SELECT *")
	for i, c := range r.Key {
		// Under a name of its own: by the column's ORDER BY would be ambiguous.
		fmt.Fprintf(&b, `, %s::text AS "cauce key %d"`, ident.Quote(c.Name), i+1)
	}
	b.WriteString(" FROM " + r.From)
	switch {
	case r.Mode == Incrementing:
		column := ident.Quote(r.Incrementing.Name)
		if at.Incrementing != nil {
			fmt.Fprintf(&b, " WHERE %s > $1::%s", column, r.Incrementing.Type)
			params = append(params, strconv.FormatInt(*at.Incrementing, 10))
		} else {
			fmt.Fprintf(&b, " WHERE %s IS NOT NULL", column)
		}
		fmt.Fprintf(&b, " ORDER BY %s", column)
	case r.Mode.HasTimestamp():
		if params, err = r.byTime(&b, at); err != nil {
			return "", nil, err
		}
	}
	if r.Suffix != "" {
		b.WriteString(" " + r.Suffix)
	}
	return b.String(), params, nil
}

func (r *Reading) byTime(b *strings.Builder, at Offset) (params []string, err error) {
	changed, kind, now := r.Changed(), "timestamptz", "CURRENT_TIMESTAMP"
	if r.Local {
		kind, now = "timestamp", "LOCALTIMESTAMP"
	}
	fmt.Fprintf(b, " WHERE %s < %s - INTERVAL '%d milliseconds'", changed, now, r.Delay.Milliseconds())
	order := r.Key
	if r.Mode == TimestampIncrementing {
		order = []Column{r.Incrementing}
	}
	if at.Timestamp != nil {
		last, operator, err := r.last(at)
		if err != nil {
			return nil, err
		}
		params = append([]string{column.FormatTimestamp(at.Timestamp.In(r.Zone))}, last...)
		left, right := []string{changed}, []string{"$1::" + kind}
		for i := range last {
			left = append(left, ident.Quote(order[i].Name))
			right = append(right, fmt.Sprintf("$%d::%s", i+2, order[i].Type))
		}
		fmt.Fprintf(b, " AND (%s) %s (%s)", strings.Join(left, ", "), operator, strings.Join(right, ", "))
	}
	b.WriteString(" ORDER BY " + changed)
	for _, c := range order {
		b.WriteString(", " + ident.Quote(c.Name))
	}
	return params, nil
}

// last returns what orders rows of the offset's point in time, and how what comes next compares with that.
func (r *Reading) last(at Offset) (values []string, operator string, err error) {
	if r.Mode == TimestampIncrementing {
		if at.Incrementing == nil {
			return nil, ">=", nil // the point in time is one that was configured
		}
		return []string{strconv.FormatInt(*at.Incrementing, 10)}, ">", nil
	}
	key, err := at.key()
	switch {
	case err != nil:
		return nil, "", err
	case len(key) == 0: // all rows of that point in time were read
		return nil, ">", nil
	case len(key) != len(r.Key): // of another key that the table had: rows may come again, and none is left out
		return nil, ">=", nil
	}
	return key, ">", nil
}

// Changed is the expression for when a row was changed.
func (r *Reading) Changed() string {
	if len(r.Timestamps) == 1 {
		return ident.Quote(r.Timestamps[0].Name)
	}
	names := make([]string, len(r.Timestamps))
	for i, c := range r.Timestamps {
		names[i] = ident.Quote(c.Name)
	}
	return "COALESCE(" + strings.Join(names, ", ") + ")"
}

// Exact says whether each row has an offset of its own: what comes after one row of a point in time is then known.
func (r *Reading) Exact() bool { return r.Mode != Timestamp || len(r.Key) > 0 }
