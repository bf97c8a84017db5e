package configdef

import "slices"

// Hidden stands in for a password.
const Hidden = "[hidden]"

// Value is what validation finds of one key: what its fields are called in the answer of Kafka Connect's REST API.
type Value struct {
	Name string
	// Value is what the key is set to, or its default; nil for null.
	Value       *string
	Recommended []string
	Errors      []string
	// Visible says whether the key means something beside the others.
	Visible bool
}

// Finding is what somebody who knows more than the definition adds to the Value of a key.
type Finding struct {
	Name string
	// Errors are sentences without the name of the key.
	Errors []string
	// Recommended replaces what the definition recommends, unless it is nil.
	Recommended []string
	// Hidden says that the key means nothing beside the others.
	Hidden bool
}

// Validate returns a Value for each key of the definition, in its order.
func (d Definition) Validate(config map[string]string) []Value {
	values := make([]Value, len(d))
	for i := range d {
		k := &d[i]
		v := Value{Name: k.Name, Value: k.Default, Recommended: k.Recommended, Visible: true}
		if text, ok := config[k.Name]; ok {
			v.Value = &text
			if _, err := k.parse(text); err != nil {
				v.Errors = []string{k.Name + " " + err.Error()}
			}
		} else if k.Required {
			v.Errors = []string{k.Name + " is required"}
		}
		if k.Type == Password && v.Value != nil {
			v.Value = new(Hidden)
		}
		values[i] = v
	}
	return values
}

// Add returns values with findings. A finding of a key without a Value gets one.
func Add(values []Value, findings []Finding) []Value {
	values = slices.Clone(values)
	for _, f := range findings {
		i := slices.IndexFunc(values, func(v Value) bool { return v.Name == f.Name })
		if i < 0 {
			i = len(values)
			values = append(values, Value{Name: f.Name, Visible: true})
		}
		v := &values[i]
		v.Errors = slices.Concat(v.Errors, f.Errors)
		if f.Recommended != nil {
			v.Recommended = f.Recommended
		}
		v.Visible = v.Visible && !f.Hidden
	}
	return values
}
