// Package expression says whether a condition is true of a record: comparisons of what the record consists of, joined by && and
// ||, negated by an exclamation mark, grouped by parentheses.
//
//	value.amount >= 100 && (value.currency in ['EUR', "USD"] || !(header.test == true))
//	topic matches 'orders\..*' && value.`shipped.at` != null && value.created < '2026-01-01T00:00:00.000Z'
//
// What can be compared is key and value with the fields within them, header with a name, topic, partition, offset, timestamp in
// milliseconds, and literals: numbers, strings in either quotes, true, false, null. The operators are ==, !=, <, <=, >, >=, in
// with a list of literals, and matches with a regular expression of Java's that the whole text is to match.
//
// Numbers are compared by their value, whatever their types. Values of different kinds are not equal, and to ask which is the
// lesser is an error; so is a field that a struct does not have, whereas in a map it is null. Null equals null alone, and is
// neither less nor greater than anything. Times are compared with texts of ISO 8601's form.
package expression

import (
	"fmt"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// Condition is an expression that is true or false.
type Condition struct {
	text string
	eval eval
}

// eval returns the value of a part of an expression.
type eval func(r *data.Record) (any, error)

// Compile reads an expression. An error tells where it is wrong.
func Compile(text string) (*Condition, error) {
	p := parser{text: text}
	e, err := p.all()
	if err != nil {
		return nil, fmt.Errorf("expression %q, at byte %d: %w", text, p.token.at, err)
	}
	return &Condition{text, e}, nil
}

// True says whether the condition is true of a record. Null is not.
func (c *Condition) True(r *data.Record) (bool, error) {
	b, err := boolean(c.eval, r)
	if err != nil {
		return false, fmt.Errorf("expression %q: %w", c.text, err)
	}
	return b, nil
}

func boolean(e eval, r *data.Record) (bool, error) {
	v, err := e(r)
	if err != nil || v == nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("a condition is true or false, no %s", data.Kind(v))
	}
	return b, nil
}

func or(a, b eval) eval {
	return func(r *data.Record) (any, error) {
		if yes, err := boolean(a, r); yes || err != nil {
			return yes, err
		}
		return boolean(b, r)
	}
}

func and(a, b eval) eval {
	return func(r *data.Record) (any, error) {
		if yes, err := boolean(a, r); !yes || err != nil {
			return false, err
		}
		return boolean(b, r)
	}
}

func not(a eval) eval {
	return func(r *data.Record) (any, error) {
		yes, err := boolean(a, r)
		return !yes, err
	}
}

func literal(v any) eval { return func(*data.Record) (any, error) { return v, nil } }

// roots are what of a record an expression can begin with.
var roots = map[string]eval{
	"key":       func(r *data.Record) (any, error) { return r.Key.V, nil },
	"value":     func(r *data.Record) (any, error) { return r.Value.V, nil },
	"topic":     func(r *data.Record) (any, error) { return r.Topic, nil },
	"partition": func(r *data.Record) (any, error) { return known(int64(r.Partition), data.NoPartition), nil },
	"offset":    func(r *data.Record) (any, error) { return known(r.Offset, data.NoOffset), nil },
	"timestamp": func(r *data.Record) (any, error) { return known(r.TimestampMs, data.NoTimestamp), nil },
}

func known(n, unknown int64) any {
	if n == unknown {
		return nil
	}
	return n
}

// header is the last header of a name, null if there is none.
func header(name string) eval {
	return func(r *data.Record) (any, error) {
		for i := len(r.Headers) - 1; i >= 0; i-- {
			if r.Headers[i].Name == name {
				return r.Headers[i].Value.V, nil
			}
		}
		return nil, nil
	}
}

func field(of eval, name string) eval {
	return func(r *data.Record) (any, error) {
		v, err := of(r)
		if err != nil {
			return nil, err
		}
		switch v := v.(type) {
		case nil:
			return nil, nil
		case map[any]any:
			return v[name], nil
		case *data.Struct:
			value, ok := v.GetDefaulted(name)
			if !ok {
				return nil, fmt.Errorf("there is no field %q", name)
			}
			return value, nil
		}
		return nil, fmt.Errorf("%s has no field %q", data.Kind(v), name)
	}
}
