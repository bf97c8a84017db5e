package transform

import (
	"fmt"
	"strings"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/services/connect/internal/expression"
)

// What FilterByExpression does with tombstones.
const (
	keepNulls     = "keep"
	dropNulls     = "drop"
	evaluateNulls = "evaluate"
)

var filterByExpressionDefinition = configdef.Definition{
	{
		Name: "condition", Type: configdef.String, Required: true, Importance: configdef.High,
		Doc: "What is true of the records to keep, like value.amount >= 100 && topic matches 'orders-.*'.",
	},
	{
		Name: "null.handling.mode", Type: configdef.String, Default: new(keepNulls), Importance: configdef.Medium,
		Valid: configdef.Rule{OneOf: []string{keepNulls, dropNulls, evaluateNulls}, IgnoreCase: true}, Doc: "Whether records without a value are kept, dropped, or held against the condition.",
	},
}

// filterByExpression keeps the records that a condition is true of. It is ours: Kafka has none, and those of others take programs.
type filterByExpression struct {
	condition *expression.Condition
	nulls     string
}

func newFilterByExpression(v configdef.Values, _ side) (Transform, error) {
	c, err := expression.Compile(v.String("condition"))
	return filterByExpression{c, strings.ToLower(v.String("null.handling.mode"))}, err
}

func (t filterByExpression) Apply(r data.Record) (data.Record, bool, error) {
	if r.Value.V == nil && t.nulls != evaluateNulls {
		return r, t.nulls == dropNulls, nil
	}
	keep, err := t.condition.True(&r)
	if err != nil {
		return r, false, fmt.Errorf("FilterByExpression: %w", err)
	}
	return r, !keep, nil
}
